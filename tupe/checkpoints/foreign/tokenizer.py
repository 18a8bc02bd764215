"""The files of a tokenizer elsewhere: its vocabulary, and what a corpus folder has in their place.

SentencePiece stays as it is. Byte-level BPE and WordPiece become a `tokenizer.json` by the package `tokenizers`, built
from the pieces, merges and options alone: no token is added, so that no text can spell a special symbol. A unigram
model in a `tokenizer.json`, which Transformers 5 saves in place of SentencePiece's, gets our order of the pieces.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tupe.checkpoints.foreign import deberta
from tupe.checkpoints.foreign.vocabulary import NOT_USED, SPECIAL, Source, read_dictionary
from tupe.data.corpus.tokenizers import JSON, MODEL
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, MASK, UNKNOWN_NUMBER
from tupe.data.corpus.vocabulary import symbols as pieces_of
from tupe.util import UserError, read_json

SENTENCE_PIECE, BYTE_LEVEL, WORD_PIECE, UNIGRAM = "SentencePiece", "byte-level BPE", "WordPiece", "unigram"
#: What a text may go through before a unigram model, as SentencePiece has it: types of steps in a `tokenizer.json`.
_BEFORE_UNIGRAM = (
    *("Precompiled", "Replace", "Strip", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Nmt"),
    *("Metaspace", "Punctuation", "WhitespaceSplit"),
)
#: Options of a BPE that GPT-2's does not have.
_NOT_GPT2S = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges")
_UNREACHED = -1e4  # score of a symbol that no text should have
_CONFIG = "tokenizer_config.json"
_OF_DEBERTA = "spm.model"  # what its SentencePiece model is called

#: Classes of Transformers whose files are read as they are; others do something else to a text before.
_CLASSES = ("Bert", "DistilBert", "Electra", "MPNet", "Roberta", "XLMRoberta", "Camembert", "DebertaV2")
_ANY_CLASS = (None, "PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
#: Keys of a tokenizer's configuration that name our symbols, the likelier first.
_ROLES = {
    "<s>": ("cls_token", "bos_token"),
    "<pad>": ("pad_token",),
    "</s>": ("sep_token", "eos_token"),
    "<unk>": ("unk_token",),
    MASK: ("mask_token",),
}
_OF_ROBERTA = dict(zip(SPECIAL, SPECIAL))
_OF_BERT = dict(zip(SPECIAL, ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")))
_OF_MPNET = {**_OF_ROBERTA, "<unk>": "[UNK]"}


@dataclass(frozen=True)
class Found:
    """A vocabulary, and the tokenizer of which it is, if that is wanted.

    kind: one of the above; empty without a tokenizer.
    model: the SentencePiece model.
    build: makes the `tokenizers.Tokenizer` of the symbols in our order.
    notes: sentences that a user should know.
    """

    source: Source
    files: list[Path]
    kind: str = ""
    model: Path | None = None
    build: Callable[[Sequence[str]], Any] | None = None
    notes: list[str] = field(default_factory=list)

    def content(self, symbols: Sequence[str]) -> dict[str, bytes]:
        """Return the file of the tokenizer in a corpus folder, by its name, if there is one."""
        if self.model is not None:
            return {MODEL: self.model.read_bytes()}
        return {} if self.build is None else {JSON: self.build(symbols).to_str(pretty=True).encode()}


def of_fairseq(folder: Path, bpe: Path | None, wanted: bool) -> Found:
    """Read the vocabulary of a folder of fairseq, its `dict.txt`, and the tokenizer in `bpe` or beside it.

    fairseq adds `<mask>` when it loads a dictionary for such a model. Of symbols that a dictionary repeats, as
    CamemBERT's does, text has the last; but the unknown symbol and padding are always fairseq's own.
    """
    path = folder / "dict.txt"
    dictionary = read_dictionary(path)
    symbols: list[str | None] = list(dictionary.symbols)
    roles = {name: dictionary.index(name) for name in ("<s>", "</s>", MASK)}
    roles.update({"<pad>": dictionary.pad(), "<unk>": dictionary.unk()})
    source = Source(symbols, roles, path)
    beside = folder if bpe is None else bpe
    if (beside / MODEL).is_file():
        return _sentence_piece(source, [path], beside / MODEL) if wanted else Found(source, [path])
    files = [beside / "encoder.json", beside / "vocab.bpe"]
    if not wanted and not files[0].is_file():
        return Found(source, [path])
    named = {str(number): piece for piece, number in read_json(files[0]).items()}
    source = source._replace(symbols=[named.get(symbol, symbol) for symbol in symbols])
    if not wanted:
        return Found(source, [path, files[0]])
    more = [piece for number, piece in named.items() if number not in set(symbols)]
    notes = [f"{len(more):,} pieces of {files[0].name} are not in {path.name}: they are unknown"] if more else []
    build = _byte_level(_pairs(files[1]), False, more)
    return Found(source, [path, *files], BYTE_LEVEL, build=build, notes=notes)


def _sentence_piece(source: Source, files: list[Path], model: Path) -> Found:
    pieces = set(pieces_of(model))
    special = {*SPECIAL, *(source.symbols[row] for row in source.roles.values())}
    listed = {symbol for symbol in source.symbols if symbol is not None and symbol not in special}
    unknown = len(pieces - listed - special)
    notes = [f"{unknown:,} pieces of {model.name} are not in {source.path.name}: they are unknown"] if unknown else []
    return Found(source, [*files, model], SENTENCE_PIECE, model=model, notes=notes)


def of_transformers(folder: Path, config: Mapping[str, Any], wanted: bool) -> Found:
    """Read the vocabulary and the tokenizer of a folder of Transformers; `config` is its `config.json`.

    Raises:
        UserError: it does to a text what ours cannot.
    """
    said = _optional(folder / _CONFIG)
    said = {**_optional(folder / "special_tokens_map.json"), **{k: v for k, v in said.items() if v is not None}}
    kind = config["model_type"]
    name = said.get("tokenizer_class") or config.get("tokenizer_class")
    if wanted and name not in _ANY_CLASS and name.removesuffix("Fast").removesuffix("Tokenizer") not in _CLASSES:
        raise UserError(f"{folder / _CONFIG} names {name}, which cannot be imported. Pass --no-tokenizer.")
    if (folder / MODEL).is_file():
        camembert = kind == "camembert" or str(name).startswith("Camembert")
        source = _rows_of_sentence_piece(folder / MODEL, camembert)
        return _sentence_piece(source, [], folder / MODEL) if wanted else Found(source, [folder / MODEL])
    files = [folder / name for name in (_CONFIG, "special_tokens_map.json") if (folder / name).is_file()]
    if kind == deberta.KIND and (folder / _OF_DEBERTA).is_file():
        return _of_deberta(folder, said, files, wanted)
    if (folder / JSON).is_file():
        path = folder / JSON
        content = read_json(path)
        numbers = _vocabulary(content)
        added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
        made = _json(content, said, path) if wanted else ("", None)
    elif (folder / "vocab.txt").is_file():
        path = folder / "vocab.txt"
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        numbers, added = {line: number for number, line in enumerate(lines)}, {}
        made = (WORD_PIECE, _word_piece(_normaliser({}, said), {})) if wanted else ("", None)
    else:
        path, merges = folder / "vocab.json", folder / "merges.txt"
        numbers, added = read_json(path), {}
        made = (
            (BYTE_LEVEL, _byte_level(_pairs(merges), said.get("add_prefix_space", False), [])) if wanted else ("", None)
        )
        files.append(merges)
    files.insert(0, path)
    added.update(_added_tokens(folder, files))
    symbols = _by_number({**numbers, **added})
    roles = _roles(kind, said, symbols)
    apart = [name for name, number in added.items() if number not in roles.values() and name not in numbers]
    notes = _letters(sorted(apart, key=lambda name: added[name]))
    return Found(Source(symbols, roles, path), files, made[0], build=made[1], notes=notes)


def _of_deberta(folder: Path, said: Mapping[str, Any], files: list[Path], wanted: bool) -> Found:
    """Read a DeBERTa's SentencePiece model, whose pieces have the numbers of its rows, and `[MASK]` behind them."""
    path = folder / _OF_DEBERTA
    if wanted and (said.get("do_lower_case") or said.get("split_by_punct")):
        raise UserError(f"{folder / _CONFIG} changes a text before its pieces. Pass --no-tokenizer.")
    pieces = {piece: number for number, piece in enumerate(pieces_of(path))}
    added = {name: number for name, number in _added_tokens(folder, files).items() if name not in pieces}
    symbols = _by_number({_OF_BERT[MASK]: len(pieces), **pieces, **added})
    roles = _roles(deberta.KIND, said, symbols)
    apart = [row for row, name in enumerate(symbols) if name not in pieces and name and row not in roles.values()]
    notes = _letters([symbols[row] or "" for row in apart])
    for row in apart:
        symbols[row] = None
    source = Source(symbols, roles, path)
    if not wanted:
        return Found(source, [path, *files], notes=notes)
    found = _sentence_piece(source, files, path)
    found.notes.extend(notes)
    return found


def _added_tokens(folder: Path, files: list[Path]) -> dict[str, int]:
    """Read what `added_tokens.json` adds to a vocabulary; if there is one, it joins the `files` that were read."""
    path = folder / "added_tokens.json"
    if not path.is_file():
        return {}
    files.append(path)
    return read_json(path)


def _letters(added: Sequence[str]) -> list[str]:
    """Tell a user of tokens that were added to a tokenizer and have no role."""
    if not added:
        return []
    return [f"{len(added)} added token(s), such as {added[0]!r:.40}, are letters here: no text is made them"]


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _rows_of_sentence_piece(model: Path, camembert: bool) -> Source:
    """Number the pieces as Transformers' tokenizers do: XLM-R's as fairseq's, CamemBERT's behind four names."""
    pieces = pieces_of(model)
    assert pieces[:3] == ["<unk>", "<s>", "</s>"], f"{model} does not number its pieces as XLM-R's"
    if camembert:
        symbols = [f"<s>{NOT_USED}", "<pad>", f"</s>{NOT_USED}", "<unk>", f"<unk>{NOT_USED}", *pieces[1:], MASK]
        return Source(symbols, {"<s>": 5, "<pad>": 1, "</s>": 6, "<unk>": 3, MASK: len(symbols) - 1}, model)
    symbols = [*FAIRSEQ_SYMBOLS, *pieces[3:], MASK]
    roles = {name: number for number, name in enumerate(FAIRSEQ_SYMBOLS)}
    return Source(symbols, {**roles, MASK: len(symbols) - 1}, model)


def _by_number(numbers: Mapping[str, int]) -> list[str | None]:
    symbols: list[str | None] = [None] * (max(numbers.values()) + 1)
    for name, number in numbers.items():
        symbols[number] = name
    return symbols


def _roles(kind: str, said: Mapping[str, Any], symbols: Sequence[str | None]) -> dict[str, int]:
    """Find the rows of our symbols, by their names in the tokenizer's configuration or by those that are usual."""
    last = {symbol: number for number, symbol in enumerate(symbols) if symbol is not None}
    usual = {"mpnet": [_OF_MPNET], deberta.KIND: [_OF_BERT]}.get(kind, [_OF_ROBERTA, _OF_BERT])
    names = max(usual, key=lambda names: len(set(names.values()) & last.keys()))
    roles = {}
    for ours, keys in _ROLES.items():
        found = next((said[key] for key in keys if said.get(key)), names[ours])
        roles[ours] = last[found["content"] if isinstance(found, dict) else found]
    return roles


def _vocabulary(content: Mapping[str, Any]) -> dict[str, int]:
    """Read the pieces of the model in a `tokenizer.json`, with their numbers."""
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, list):  # of a unigram model: pieces with their scores
        return {piece: number for number, (piece, _) in enumerate(vocabulary)}
    return vocabulary


def _json(content: Mapping[str, Any], said: Mapping[str, Any], path: Path) -> tuple[str, Callable]:
    """Read the kind of a `tokenizer.json` whose parts are all known, and what builds it; `said` comes first.

    Raises:
        UserError: a part is not known.
    """
    parts = [content.get(name) or {} for name in ("model", "pre_tokenizer", "normalizer")]
    model, splits, normaliser = parts
    kinds = tuple(part.get("type") for part in parts)
    if kinds == ("WordPiece", "BertPreTokenizer", "BertNormalizer"):
        return WORD_PIECE, _word_piece(_normaliser(normaliser, said), model)
    if kinds == ("BPE", "ByteLevel", None) and splits.get("use_regex", True) and not any(map(model.get, _NOT_GPT2S)):
        merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
        return BYTE_LEVEL, _byte_level(merges, said.get("add_prefix_space", splits.get("add_prefix_space", True)), [])
    if kinds[0] == "Unigram" and not model.get("byte_fallback"):
        before = {*_steps(normaliser, "normalizers"), *_steps(splits, "pretokenizers")}
        if before <= {*_BEFORE_UNIGRAM}:
            return UNIGRAM, _unigram(content)
    raise UserError(f"{path} has {', '.join(map(str, kinds))}, which cannot be imported. Pass --no-tokenizer.")


def _steps(part: Mapping[str, Any], name: str) -> list[str]:
    """Return the types of the steps of a part of a `tokenizer.json`."""
    return [step["type"] for step in (part[name] if part.get("type") == "Sequence" else [part]) if step]


def _normaliser(normaliser: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, bool | None]:
    """Read the options of BERT's normaliser from the tokenizer's configuration, else from `tokenizer.json`."""
    return {
        ours: said.get(theirs, normaliser.get(ours, usual))
        for ours, theirs, usual in (
            ("lowercase", "do_lower_case", None),
            ("strip_accents", "strip_accents", None),
            ("handle_chinese_chars", "tokenize_chinese_chars", True),
            ("clean_text", "clean_text", True),
        )
    }


def _pairs(path: Path) -> list[tuple[str, ...]]:
    """Read the merges of a byte-level BPE, behind a first line of its version."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]


def _byte_level(
    merges: list[tuple[str, ...]], add_prefix_space: bool, more: Sequence[str]
) -> Callable[[Sequence[str]], Any]:
    """Return what builds a byte-level BPE like GPT-2's; `more` are pieces that the vocabulary lacks."""

    def build(symbols: Sequence[str]) -> Any:
        import tokenizers

        vocabulary = {piece: number for number, piece in enumerate([*symbols, *more])}
        model = tokenizers.models.BPE(vocabulary, merges, unk_token=FAIRSEQ_SYMBOLS[3])
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        return tokenizer

    return build


def _word_piece(normaliser: dict[str, bool | None], model: Mapping[str, Any]) -> Callable:
    """Return what builds a WordPiece with BERT's normaliser; `model` is that of a `tokenizer.json`."""
    prefix, longest = model.get("continuing_subword_prefix", "##"), model.get("max_input_chars_per_word", 100)

    def build(symbols: Sequence[str]) -> Any:
        import tokenizers

        numbers = {piece: number for number, piece in enumerate(symbols)}
        options = {"continuing_subword_prefix": prefix, "max_input_chars_per_word": longest}
        pieces = tokenizers.models.WordPiece(numbers, unk_token=FAIRSEQ_SYMBOLS[3], **options)
        tokenizer = tokenizers.Tokenizer(pieces)
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(**normaliser)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = tokenizers.decoders.WordPiece(prefix=prefix)
        return tokenizer

    return build


def _unigram(content: Mapping[str, Any]) -> Callable:
    """Return what builds a unigram model; the steps around it stay as in the `content` of a `tokenizer.json`."""
    scores = dict(content["model"]["vocab"])

    def build(symbols: Sequence[str]) -> Any:
        import tokenizers

        table = [(s, _UNREACHED if s in SPECIAL else scores.get(s, _UNREACHED)) for s in symbols]
        made = {name: content.get(name) for name in ("version", "normalizer", "pre_tokenizer", "decoder")}
        made |= {"truncation": None, "padding": None, "added_tokens": [], "post_processor": None}
        made["model"] = {"type": "Unigram", "unk_id": UNKNOWN_NUMBER, "vocab": table, "byte_fallback": False}
        return tokenizers.Tokenizer.from_str(json.dumps(made))

    return build
