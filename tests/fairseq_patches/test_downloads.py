import time

import pytest
import requests
from fairseq import file_utils
from fairseq.data import encoders
from fairseq.data.encoders.gpt2_bpe import DEFAULT_ENCODER_JSON, GPT2BPEConfig
from fairseq.data.encoders.hf_bert_bpe import BertBPEConfig
from omegaconf import OmegaConf

from tupe.errors import UserError
from tupe.fairseq_patches.patching import patched


@pytest.fixture(params=[requests.ConnectionError, requests.ConnectTimeout, requests.ReadTimeout])
def asked(request, monkeypatch, tmp_path):
    """The addresses that were asked for, of a host that does not answer."""
    asked = []

    def ask(url, **kwargs):
        asked.append(url)
        raise request.param("no answer")

    monkeypatch.setattr(requests, "head", ask)
    monkeypatch.setattr(requests, "get", ask)
    monkeypatch.setattr(file_utils, "PYTORCH_FAIRSEQ_CACHE", tmp_path)
    return asked


def test_a_host_is_asked_once(asked, tmp_path):
    said = rf"^--bpe gpt2 cannot be made .*{DEFAULT_ENCODER_JSON} cannot be fetched, and is not in {tmp_path}\): give"
    with patched(), pytest.raises(UserError, match=said):
        encoders.build_bpe(OmegaConf.structured(GPT2BPEConfig("gpt2")))
    assert len(asked) == 2  # what the newest file is called, and the file


def test_what_is_in_the_cache_needs_no_host(asked, tmp_path):
    there = tmp_path / file_utils.url_to_filename(DEFAULT_ENCODER_JSON, "its tag")
    there.touch()
    with patched():
        assert file_utils.cached_path(DEFAULT_ENCODER_JSON) == str(there)
    assert len(asked) == 1


VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ndog\n##s\n"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that does not answer, and an empty cache of it."""
    hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("transformers")
    monkeypatch.setattr(hub, "get_hf_file_metadata", lambda url: (tmp_path / "no answer").read_text())
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("Transformers asks again"))
    return hub


def test_the_hub_is_asked_once(hub):
    """Transformers would make a tokenizer without words."""
    said = r"^--bpe bert cannot be made \(OSError: \S+ does not answer, and bert-base-cased is not in the cache\): give"
    with patched(), pytest.raises(UserError, match=said):
        encoders.build_bpe(OmegaConf.structured(BertBPEConfig("bert", bpe_cased=True)))


def test_what_is_in_the_hubs_cache_needs_no_hub(hub, tmp_path):
    for name, text in (("refs/main", "1"), ("snapshots/1/vocab.txt", VOCABULARY)):
        path = tmp_path / "models--bert-base-uncased" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    with patched():
        assert encoders.build_bpe(OmegaConf.structured(BertBPEConfig("bert"))).encode("Dogs") == "dog ##s"
    assert not hub.constants.HF_HUB_OFFLINE


def test_a_folder_of_the_tokenizers_name_needs_no_hub(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert-base-uncased").mkdir()
    (tmp_path / "bert-base-uncased/vocab.txt").write_text(VOCABULARY)
    with patched():
        assert encoders.build_bpe(OmegaConf.structured(BertBPEConfig("bert"))).encode("Dogs") == "dog ##s"
