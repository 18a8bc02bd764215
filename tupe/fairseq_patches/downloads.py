"""Files that fairseq's tokenizers download: a host that does not answer is asked once, and then the cache."""

import contextlib
import os

from fairseq import file_utils

from tupe.fairseq_patches.patching import patches, replaced

_TIMEOUT = (10, 60)  # seconds until a host is reached, and until it sends something
_VOCABULARIES = ("vocab.txt", "tokenizer.json")  # of BERT


class _NoAnswer(RuntimeError, OSError):
    """What fairseq takes for an absent network, where it looks into its cache, and for an absent file."""


@patches(file_utils, "request_wrap_timeout", "func url")
def asked_once(original):
    """fairseq asks a silent host five times, for 190 s, and then for the file as long again.

    Where no connection is made, it does not look into its cache.
    """

    def request_wrap_timeout(func, url):
        try:
            return func(timeout=_TIMEOUT)
        except OSError as error:  # those of requests are
            raise _NoAnswer(f"{url} cannot be fetched, and is not in {file_utils.PYTORCH_FAIRSEQ_CACHE}") from error

    return request_wrap_timeout


def hub_or_cache(model: str) -> contextlib.AbstractContextManager:
    """Let the block take the files of a tokenizer from the cache alone where the hub does not answer.

    Transformers asks minutes for each of six files, and then makes a tokenizer that knows no word.

    Raises:
        OSError: if they are not in the cache either.
    """
    if os.path.isdir(model):  # Transformers takes a folder of that name before it asks the hub
        return contextlib.nullcontext()
    try:
        from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

        get_hf_file_metadata(hf_hub_url(model, "config.json"))
    except ImportError:  # fairseq says what to install
        pass
    except Exception as error:  # of the library that sends requests, which differs by version
        if getattr(error, "response", None) is None:
            if not any(isinstance(try_to_load_from_cache(model, name), str) for name in _VOCABULARIES):
                raise OSError(f"{constants.ENDPOINT} does not answer, and {model} is not in the cache") from error
            return replaced(constants, "HF_HUB_OFFLINE", True)
    return contextlib.nullcontext()
