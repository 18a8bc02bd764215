"""Translate text line by line: tokenise, batch by length, search with a beam, and restore the order of lines."""

import itertools
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from tupe.checkpoints.average import average, last_checkpoints
from tupe.checkpoints.load import load_models
from tupe.data.corpus.manifest import MODEL, NAME
from tupe.data.corpus.tokenizers import SentencePieceTokenizer
from tupe.data.translation.manifest import Content
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import saved_fields
from tupe.files import typed
from tupe.inference.search import GNMTSequenceGenerator
from tupe.models.checkpoint_config import refuse_old_form
from tupe.safe_load import safe_load
from tupe.systems import SEQ2SEQ_NAMES

_EVALUATED = ("adaptive_softmax_cutoff", "xformers_att_config")  # ends of the names of fields
_KINDS = {"gnmt": GNMTSequenceGenerator, "fairseq": None}  # of normalisation
_WINDOW = 4096  # lines that are sorted by length, so that a batch has little padding


@dataclass(frozen=True)
class Search:
    """Settings of the beam search."""

    beam: int = 10  # hypotheses that are followed at a time
    length_penalty: float = 0.6  # `alpha`; larger ones prefer longer translations
    normalization: str = "gnmt"  # `alpha` is the exponent of `(5 + n) / 6`, or with `fairseq` of `n`
    max_len_a: float = 1.0  # a source of `n_s` tokens gets at most `a n_s + b`
    max_len_b: int = 50

    def __post_init__(self) -> None:
        if not isinstance(self.length_penalty, Real) or not abs(self.length_penalty) <= 20:
            raise UserError(f"--length-penalty is {self.length_penalty!r}: it must be from -20 to 20.")
        if self.normalization not in _KINDS:
            raise UserError(f"--normalization is {self.normalization!r}: it must be one of {', '.join(_KINDS)}.")


class Translator:
    """A model, or an ensemble, with its vocabulary.

    Args:
        checkpoints: one or several models of the same data.
        data: the prepared data, where it is no longer where the model was trained.
        last: average the last `last` checkpoints of a run; `checkpoints` is then its folder, or one of its files.
        search: see `Search`.
        max_tokens: tokens in a batch times the beam, padding included.

    Raises:
        UserError: for a checkpoint of another kind, and for data that is missing or not the model's.
    """

    def __init__(
        self,
        checkpoints: Sequence[str | Path],
        data: str | Path | None = None,
        last: int | None = None,
        search: Search = Search(),
        max_tokens: int = 40960,
    ) -> None:
        if max_tokens < 1:
            raise UserError(f"--max-tokens is {max_tokens}: it must be at least 1.")
        if isinstance(checkpoints, (str, Path)) or not checkpoints:
            raise UserError(f"checkpoints are {checkpoints!r:.60}, but must be a list of paths, such as [path]")
        checkpoints, data = [Path(path) for path in checkpoints], None if data is None else Path(data)
        if last is None:  # the optimizers' states are dropped, as they take more memory than the models
            states = {path: {**safe_load(path), "last_optimizer_state": None} for path in checkpoints}
        elif len(checkpoints) == 1:
            paths = last_checkpoints(checkpoints[0] if checkpoints[0].is_dir() else checkpoints[0].parent, last)
            states = {paths[-1]: average(paths)}
        else:
            raise UserError("an average is of one run: give one checkpoint or folder with --average.")
        trained, *_ = [_check(path, state) for path, state in states.items()]
        data = data or Path(trained["data"].split(":")[0])
        for name in (MODEL, *(f"dict.{trained[side]}.txt" for side in ("source_lang", "target_lang"))):
            if not (data / name).is_file():
                raise UserError(f"there is no {data / name}: give the data that the model was trained on with --data.")
        if (data / NAME).is_file():
            Content.with_vocabulary(data)
        models, self.task = load_models(states, data)
        self.encode, self.max_tokens = SentencePieceTokenizer(data / MODEL), max_tokens
        if not self.encode.symbols == self.task.source_dictionary.symbols == self.task.target_dictionary.symbols:
            raise UserError(
                f"{data / MODEL} does not have the symbols of the dictionaries beside it: give the data that the model "
                "was trained on with --data."
            )
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.models = [model.to(self.device).eval() for model in models]
        self.longest = int(min(model.max_positions()[0] for model in models))
        options = Namespace(
            beam=search.beam, lenpen=search.length_penalty, max_len_a=search.max_len_a, max_len_b=search.max_len_b
        )
        self.generator = self.task.build_generator(self.models, options, seq_gen_cls=_KINDS[search.normalization])

    def __call__(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the translation of each line; an empty line stays empty.

        Raises:
            UserError: for a line longer than the model's positions.
        """
        if isinstance(lines, str):
            raise UserError(f"lines are {lines!r:.60}, but must be a list of lines, such as [line]")
        lines, first = iter(lines), 0
        while window := list(itertools.islice(lines, _WINDOW)):
            yield from self._window(window, first)
            first += len(window)

    def _window(self, window: list[str], first: int) -> list[str]:
        end, sentences = self.task.source_dictionary.eos(), []
        for number, line in enumerate(window, first + 1):
            if not isinstance(line, str):
                raise UserError(f"line {number} is {line!r:.60}, but must be a str")
            sentences.append(torch.tensor([*self.encode(line), end]))
            if len(sentences[-1]) > self.longest:
                raise UserError(
                    f"line {number} has {len(sentences[-1])} tokens, but the model takes {self.longest}: cut it, "
                    "or leave it out."
                )
        out, lengths = [""] * len(window), np.array([len(tokens) for tokens in sentences])
        order = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths == 1) :]  # an empty line is `</s>` alone
        most = max(self.max_tokens // self.generator.beam_size, lengths.max())
        for batch in data_utils.batch_by_size(order, lengths.__getitem__, max_tokens=most):
            for number, hypothesis in zip(batch, self._translate([sentences[number] for number in batch])):
                out[number] = hypothesis
        return out

    def _translate(self, sentences: list[Tensor]) -> Iterator[str]:
        dictionary = self.task.source_dictionary
        tokens = data_utils.collate_tokens(sentences, dictionary.pad(), dictionary.eos()).to(self.device)
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(dictionary.pad()).sum(1)}}
        for hypotheses in self.task.inference_step(self.generator, self.models, sample):
            best = utils.strip_pad(hypotheses[0]["tokens"].int().cpu(), dictionary.pad())
            yield self.task.target_dictionary.string(best, "sentencepiece")


def _check(path: Path, state: dict[str, Any]) -> dict[str, str]:
    """Return the languages and the data on which the model was trained; `state` was read from `path`.

    Raises:
        UserError: for a model that is neither ours nor fairseq's `transformer`, and for text that fairseq would run as
            Python.
    """
    cfg = saved_fields(state.get("cfg"))
    task, model = saved_fields(cfg.get("task")), saved_fields(cfg.get("model"))
    refuse_old_form(state, path)
    name = str(model.get("_name") or "something else")
    known = name in SEQ2SEQ_NAMES or ARCH_MODEL_REGISTRY.get(name) is TransformerModel
    if task.get("_name") != "translation" or not known:
        raise UserError(
            f"{path} is no translation model, but {name:.60}: give a checkpoint of scripts/translate_train.sh."
        )
    if _evaluated(model):
        raise UserError(f"{path} has settings whose text fairseq runs as Python: give one from a source you trust.")
    wanted = {field: task.get(field) for field in ("source_lang", "target_lang", "data")}
    return typed(dict[str, str], wanted, f"{path}: cfg.task", "training")


def _evaluated(fields: dict[str, Any]) -> bool:
    """Tell whether there is text in a field that fairseq's `transformer` evaluates."""
    return any(
        (isinstance(value, str) and str(name).endswith(_EVALUATED)) or _evaluated(saved_fields(value))
        for name, value in fields.items()
    )
