"""Load a checkpoint for raw text: fairseq's hub interface with the tokenizer and text processing of its corpus."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import hub_utils, utils
from fairseq.data.data_utils import collate_tokens
from fairseq.models.roberta import RobertaHubInterface
from torch import Tensor
from torch.serialization import safe_globals

from tupe.data.manifest import DICTIONARY, NAME
from tupe.data.text import TextProcessing
from tupe.data.tokenizers import JSON, MASK, MODEL, JsonTokenizer
from tupe.models.config import saved_config
from tupe.models.heads import has_lm_head
from tupe.models.pooling import Pooling, read_pooling
from tupe.patches.checkpoints import special_symbols
from tupe.patches.safe_load import FAIRSEQ_GLOBALS, safe_load
from tupe.util import read_json


class HubInterface(RobertaHubInterface):
    """fairseq's interface for raw text: batches, vectors of texts, and predictions without special symbols."""

    pooling = Pooling()

    def encode(self, sentence: str | Sequence[str], *others: str | Sequence[str]) -> Tensor:
        """Encode a text or a pair to token ids `(n,)`, with the separators that the model was trained with.

        Lists of texts give a padded batch `(B, n)` for `extract_features`.
        """
        if isinstance(sentence, str):
            return super().encode(sentence, *others, no_separator=self.model.args.pair_separators == 1)
        rows = [self.encode(*texts) for texts in zip(sentence, *others, strict=True)]
        return collate_tokens(rows, self.task.source_dictionary.pad())

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Compute the log probabilities of the classes, or the value of a regression."""
        regression = self.model.classification_heads[head].out_proj.out_features == 1
        return super().predict(head, tokens, return_logits or regression)

    @torch.no_grad()
    def sentence_vectors(self, sentences: Sequence[str]) -> Tensor:
        """Return the vectors `(B, d)` of texts, pooled as the data folder specifies, by default by the mean.

        Texts that are too long are cut as sentence-transformers cuts them.
        """
        longest = min(self.pooling.longest, self.model.max_positions())
        texts = [sentences] if isinstance(sentences, str) else sentences
        rows = map(self.encode, map(str.lower, texts) if self.pooling.lower_case else texts)
        rows = [torch.cat([row[: longest - 1], row[-1:]]) if len(row) > longest else row for row in rows]
        pad = self.task.source_dictionary.pad()
        tokens = collate_tokens(rows, pad).to(self.device)
        with utils.model_eval(self.model):
            return self.pooling(self.extract_features(tokens), tokens.ne(pad))

    @torch.no_grad()
    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """Return the `topk` most likely tokens for `<mask>`: the filled text, the probability and the token of each.

        A token is a piece of the vocabulary, never a special symbol. Probabilities are over all symbols.
        """
        dictionary = self.task.source_dictionary
        before, after = (self.bpe.encode(part.rstrip()) for part in masked_input.split(MASK))
        symbols = f"{dictionary.bos_word} {before} {MASK} {after} {dictionary.eos_word}"
        tokens = dictionary.encode_line(symbols, append_eos=False, add_if_not_exist=False).long().to(self.device)
        with utils.model_eval(self.model):
            logits = self.model(tokens.unsqueeze(0))[0][0, tokens == self.task.mask_idx]
        special = torch.tensor(special_symbols(dictionary), device=self.device)
        shares = logits[0].float().softmax(-1).masked_fill(special, 0)
        place, filled = f" {MASK}" if f" {MASK}" in masked_input else MASK, []
        for share, number in zip(*(part.tolist() for part in shares.topk(min(topk, int((~special).sum()))))):
            # decoded after itself, a piece keeps the space that starts a word
            one, two = (self.bpe.decode(" ".join([dictionary[number]] * times)) for times in (1, 2))
            word = two[len(one) :]
            filled.append((masked_input.replace(place, word), share, word))
        return filled

    def decode(self, tokens: Tensor) -> str | list[str]:
        """Decode a text, or the texts between separators. fairseq splits only where two separators are adjacent."""
        if self.model.args.pair_separators == 1:
            repeats = 1 + tokens.eq(self.task.source_dictionary.eos()).long()
            repeats[-1] = 1
            tokens = tokens.repeat_interleave(repeats)
        return super().decode(tokens)


class JsonBpe:
    """The `tokenizer.json` of an imported model, with the methods of fairseq's BPEs."""

    def __init__(self, path: Path) -> None:
        self.tokenizer = JsonTokenizer(path, path.with_name(DICTIONARY))

    def encode(self, text: str) -> str:
        return " ".join(self.tokenizer.symbols[number] for number in self.tokenizer(text))

    def decode(self, symbols: str) -> str:
        return self.tokenizer.decode(symbols.split(" "))


class ProcessedText:
    """A BPE that first applies a corpus' text processing to all but `<mask>`.

    Byte-level pieces depend on a space before them, so a space before a text or after a mask is kept.
    """

    def __init__(self, bpe: Any, processing: TextProcessing) -> None:
        self.bpe, self.decode, self.processing = bpe, bpe.decode, processing

    def encode(self, text: str) -> str:
        lines = (" " * part[:1].isspace() + self.processing.line(part) for part in text.split(MASK))
        return f" {MASK} ".join(map(self.bpe.encode, lines)).strip()


def data_folder(folder: Path, data: str | os.PathLike) -> Path:
    """Return the folder of the dictionary; a name that starts with a dot is relative to the checkpoint's folder."""
    return (folder if os.fspath(data).startswith(".") else Path()) / data


def text_processing(folder: Path) -> TextProcessing | None:
    """Return the text processing of a folder from `tupe prepare-corpus` or `prepare-glue`; `None` for others."""
    if not (folder / NAME).is_file():
        return None
    content = read_json(folder / NAME)
    text = content["made_of"]["text"] if "made_of" in content else content["settings"]
    return TextProcessing(tuple(text["stages"]), text["language"])


def from_pretrained(  # fairseq's default is GPT-2's BPE, which it fetches from the network
    model_name_or_path: str,
    checkpoint_file: str = "checkpoint_best.pt",
    data_name_or_path: str = ".",
    bpe: str | None = "sentencepiece",
    process_text: bool = True,
    **fields: Any,
) -> HubInterface:
    """Load a checkpoint as a `RobertaHubInterface` (`encode`, `fill_mask`, `extract_features`, `predict`).

    Texts first go through the processing of the corpus, which the manifest of the data describes.

    Args:
        model_name_or_path: folder of the checkpoint.
        checkpoint_file: its name there.
        data_name_or_path: folder with `dict.txt`; one that starts with `.` is relative to the checkpoint's.
        bpe: a fairseq BPE. For `sentencepiece`, `sentencepiece.bpe.model` in the checkpoint's folder comes first, then
            `sentencepiece_model=PATH`, by default the data's. An imported model's `tokenizer.json` replaces both if
            PATH names it. Without PATH, it replaces both if one of the folders has it and the data has no model.
        process_text: false if texts are processed already.
    """
    folder, data = Path(model_name_or_path), data_folder(Path(model_name_or_path), data_name_or_path)
    state = safe_load(folder / checkpoint_file)
    saved_config(state, folder / checkpoint_file)  # checks the class, because fairseq would build any
    options = {"load_checkpoint_heads": True, "sentencepiece_model": str(data / MODEL), **fields}
    named = fields.get("sentencepiece_model")
    places = [Path(named)] if named else [data / MODEL, data / JSON, folder / JSON]
    found = next((path for path in places if path.is_file()), None)
    imported = found if bpe == "sentencepiece" and found is not None and found.name == JSON else None
    with safe_globals(FAIRSEQ_GLOBALS):
        loaded = hub_utils.from_pretrained(  # as fairseq's `from_pretrained`, which logs the whole configuration
            str(folder), str(checkpoint_file), str(data_name_or_path), bpe=None if imported else bpe, **options
        )
        hub = HubInterface(loaded["args"], loaded["task"], loaded["models"][0])
    # tasks put the first rows around a text, even if later rows repeat their names (`#fairseq:overwrite`)
    dictionary = hub.task.source_dictionary
    dictionary.indices.update({name: row for row, name in enumerate(dictionary.symbols[: dictionary.nspecial])})
    if not has_lm_head(state["model"]):
        hub.model.encoder.lm_head = None
    hub.pooling = read_pooling(data) or hub.pooling
    if imported:
        hub.bpe = JsonBpe(imported)
    processing = text_processing(data) if process_text else None
    if processing is not None and hub.bpe is not None:
        hub.bpe = ProcessedText(hub.bpe, processing)
    return hub
