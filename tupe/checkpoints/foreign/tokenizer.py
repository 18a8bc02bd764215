"""The files of a tokenizer elsewhere: its vocabulary, and what a corpus folder has in their place.

SentencePiece stays as it is. Byte-level BPE and WordPiece become a `tokenizer.json` by the package `tokenizers`, built
from the pieces, merges and options alone: no token is added, so that no text can spell a special symbol. A unigram
model in a `tokenizer.json`, which Transformers 5 saves in place of SentencePiece's, gets our order of the pieces.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tupe.checkpoints.foreign import deberta
from tupe.checkpoints.foreign.vocabulary import FILLER, NOT_USED, SPECIAL, Source
from tupe.data.corpus.tokenizers import JSON, MODEL
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, MASK, UNKNOWN_NUMBER
from tupe.data.corpus.vocabulary import symbols as pieces_of
from tupe.errors import UserError, needing
from tupe.fairseq_patches.checkpoints import read_dictionary
from tupe.files import checked, read, read_text, typed

SENTENCE_PIECE, BYTE_LEVEL, WORD_PIECE, UNIGRAM = "SentencePiece", "byte-level BPE", "WordPiece", "unigram"
#: What a text may go through before a unigram model, as SentencePiece has it: part of a `tokenizer.json` -> its types.
_BEFORE_UNIGRAM = {
    "normalizer": ("Precompiled", "Replace", "Strip", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Nmt"),
    "pre_tokenizer": ("Metaspace", "Punctuation", "WhitespaceSplit"),
}
_UNREACHED = -1e4  # score of a symbol that no text should have
_MOST = 4_000_000  # symbols of a dictionary
_FAIRSEQ, _TRANSFORMERS = "fairseq", "Transformers"
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


@dataclass(frozen=True)
class _WordPiece:
    """Options of a WordPiece in a `tokenizer.json`."""

    continuing_subword_prefix: str = "##"
    max_input_chars_per_word: int = checked(minimum=1, maximum=1 << 31, default=100)


def of_fairseq(folder: Path, bpe: Path | None, wanted: bool) -> Found:
    """Read the vocabulary of a folder of fairseq, its `dict.txt`, and the tokenizer in `bpe` or beside it.

    fairseq adds `<mask>` when it loads a dictionary for such a model. Of symbols that a dictionary repeats, as
    CamemBERT's does, text has the last; but the unknown symbol and padding are always fairseq's own.

    Raises:
        UserError: if a file is missing, damaged or of another vocabulary.
    """
    path = folder / "dict.txt"
    dictionary = read_dictionary(path, _FAIRSEQ)
    symbols: list[str | None] = list(dictionary.symbols)
    roles = {name: dictionary.index(name) for name in ("<s>", "</s>", MASK)}
    roles.update({"<pad>": dictionary.pad(), "<unk>": dictionary.unk()})
    source = Source(symbols, roles, path)
    beside = folder if bpe is None else bpe
    if (beside / MODEL).is_file():
        return _sentence_piece(source, [path], beside / MODEL) if wanted else Found(source, [path])
    files = [beside / "encoder.json", beside / "vocab.bpe"]
    if not all(file.is_file() for file in files):
        if not wanted:
            return Found(source, [path])
        raise UserError(
            f"{beside} has neither {MODEL} nor encoder.json and vocab.bpe: give their folder (--bpe FOLDER; RoBERTa's "
            "two are GPT-2's, which fairseq offers apart), or leave the tokenizer out (--no-tokenizer)"
        )
    numbers = read(files[0], dict[str, int], _FAIRSEQ)
    named = {str(number): piece for number, piece in enumerate(_by_number(numbers, files[0])) if piece is not None}
    known = named.keys() & set(symbols)
    if len(known) < (len(symbols) - len(SPECIAL)) / 2:
        raise UserError(f"the symbols of {path} are not the numbers in {files[0]}: give the files of one model")
    more = [piece for number, piece in named.items() if number not in known]
    merges = read_text(files[1], _FAIRSEQ).split("\n")[1:]
    source = source._replace(symbols=[named.get(symbol, symbol) for symbol in symbols])
    if not wanted:
        return Found(source, [path, files[0]])
    notes = [f"{len(more):,} pieces of {files[0].name} are not in {path.name}: they are unknown"] if more else []
    build = _byte_level(_pairs(merges, files[1]), files[1], False, more)
    return Found(source, [path, *files], BYTE_LEVEL, build=build, notes=notes)


def _sentence_piece(source: Source, files: list[Path], model: Path) -> Found:
    """Check that a model has the pieces of a vocabulary."""
    pieces = set(pieces_of(model))
    special = {*SPECIAL, *(source.symbols[row] for row in source.roles.values())}
    listed = [s for s in source.symbols if s is not None and s not in special and not s.startswith(FILLER)]
    lacking = [symbol for symbol in listed if symbol not in pieces and not symbol.endswith(NOT_USED)]
    if lacking:
        raise UserError(
            f"{model} lacks {len(lacking):,} of the {len(listed):,} symbols of {source.path}, such as "
            f"{lacking[0]!r:.60}: give the files of one model"
        )
    unknown = len(pieces - set(listed) - special)
    notes = [f"{unknown:,} pieces of {model.name} are not in {source.path.name}: they are unknown"] if unknown else []
    return Found(source, [*files, model], SENTENCE_PIECE, model=model, notes=notes)


def of_transformers(folder: Path, config: Mapping[str, Any], wanted: bool) -> Found:
    """Read the vocabulary and the tokenizer of a folder of Transformers; `config` is its `config.json`.

    Raises:
        UserError: if there is none, or one that does more than ours.
    """
    said = _optional(folder / _CONFIG)
    said = {**_optional(folder / "special_tokens_map.json"), **{k: v for k, v in said.items() if v is not None}}
    kind = config["model_type"]
    name = said.get("tokenizer_class") or config.get("tokenizer_class")
    if wanted and name not in _ANY_CLASS:
        stem = str(name).removesuffix("Fast").removesuffix("Tokenizer")
        if stem not in _CLASSES:
            raise UserError(
                f"{folder / _CONFIG} names {name!r:.60}, which does more to a text than its files say: leave the "
                "tokenizer out (--no-tokenizer), and make the pieces with it"
            )
    if (folder / MODEL).is_file():
        camembert = kind == "camembert" or str(name).startswith("Camembert")
        source = _rows_of_sentence_piece(folder / MODEL, camembert)
        return _sentence_piece(source, [], folder / MODEL) if wanted else Found(source, [folder / MODEL])
    files = [folder / name for name in (_CONFIG, "special_tokens_map.json") if (folder / name).is_file()]
    if kind == deberta.KIND and (folder / _OF_DEBERTA).is_file():
        return _of_deberta(folder, said, files, wanted)
    if (folder / JSON).is_file():
        path = folder / JSON
        content = read(path, dict[str, Any], _TRANSFORMERS)
        numbers, added = _vocabulary(content, path), _added(content, path)
        made = _json(content, said, path) if wanted else ("", None)
    elif (folder / "vocab.txt").is_file():
        path = folder / "vocab.txt"
        lines = read_text(path, _TRANSFORMERS).removesuffix("\n").split("\n")
        numbers, added = {line: number for number, line in enumerate(lines)}, {}
        made = (WORD_PIECE, _word_piece(_normaliser({}, said, path), {}, path)) if wanted else ("", None)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        path, merges = folder / "vocab.json", folder / "merges.txt"
        numbers, added = read(path, dict[str, int], _TRANSFORMERS), {}
        lines = [line for line in read_text(merges, _TRANSFORMERS).split("\n") if not line.startswith("#version")]
        build = _byte_level(_pairs(lines, merges), merges, _space(said, path, False), [])
        made = (BYTE_LEVEL, build) if wanted else ("", None)
        files.append(merges)
    else:
        raise UserError(
            f"there is no tokenizer in {folder} that is read here ({MODEL}, {JSON}, vocab.txt, vocab.json and "
            f"merges.txt, or DeBERTa's {_OF_DEBERTA}): get its files, which also name the symbols of the model"
        )
    files.insert(0, path)
    added.update(_added_tokens(folder, files))
    symbols = _by_number({**numbers, **added}, path)
    roles = _roles(kind, said, symbols, path)
    apart = [name for name, number in added.items() if number not in roles.values() and name not in numbers]
    notes = _letters(sorted(apart, key=lambda name: added[name]))
    return Found(Source(symbols, roles, path), files, made[0], build=made[1], notes=notes)


def _of_deberta(folder: Path, said: Mapping[str, Any], files: list[Path], wanted: bool) -> Found:
    """Read a DeBERTa's SentencePiece model, whose pieces have the numbers of its rows, and `[MASK]` behind them."""
    path = folder / _OF_DEBERTA
    option = next((name for name in ("do_lower_case", "split_by_punct") if said.get(name)), None)
    if wanted and option is not None:
        raise UserError(
            f"{folder / _CONFIG} has {option}, which changes a text before {_OF_DEBERTA} gets it: leave the tokenizer "
            "out (--no-tokenizer), and make the pieces with it"
        )
    pieces = {piece: number for number, piece in enumerate(pieces_of(path))}
    added = {name: number for name, number in _added_tokens(folder, files).items() if name not in pieces}
    symbols = _by_number({_OF_BERT[MASK]: len(pieces), **pieces, **added}, path)
    roles = _roles(deberta.KIND, said, symbols, path)
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
    return read(path, dict[str, int], _TRANSFORMERS)


def _letters(added: Sequence[str]) -> list[str]:
    """Tell a user of tokens that were added to a tokenizer and have no role."""
    if not added:
        return []
    return [f"{len(added)} added token(s), such as {added[0]!r:.40}, are letters here: no text is made them"]


def _optional(path: Path) -> dict[str, Any]:
    return read(path, dict[str, Any], _TRANSFORMERS) if path.is_file() else {}


def _rows_of_sentence_piece(model: Path, camembert: bool) -> Source:
    """Number the pieces as Transformers' tokenizers do: XLM-R's as fairseq's, CamemBERT's behind four names."""
    pieces = pieces_of(model)
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        raise UserError(f"{model} does not begin with <unk>, <s> and </s>, as those of XLM-R and CamemBERT do")
    if camembert:
        symbols = [f"<s>{NOT_USED}", "<pad>", f"</s>{NOT_USED}", "<unk>", f"<unk>{NOT_USED}", *pieces[1:], MASK]
        return Source(symbols, {"<s>": 5, "<pad>": 1, "</s>": 6, "<unk>": 3, MASK: len(symbols) - 1}, model)
    symbols = [*FAIRSEQ_SYMBOLS, *pieces[3:], MASK]
    roles = {name: number for number, name in enumerate(FAIRSEQ_SYMBOLS)}
    return Source(symbols, {**roles, MASK: len(symbols) - 1}, model)


def _by_number(numbers: Mapping[str, int], path: Path) -> list[str | None]:
    most = max(numbers.values(), default=-1)
    if not numbers or min(numbers.values()) < 0 or most >= min(_MOST, 2 * len(numbers) + 1000):
        raise UserError(f"{path} numbers its {len(numbers):,} symbols up to {most:,}: it is damaged, so get it again")
    symbols: list[str | None] = [None] * (most + 1)
    for name, number in numbers.items():
        if symbols[number] is not None:
            raise UserError(
                f"{path} gives the number {number} to {symbols[number]!r:.40} and to {name!r:.40}: it is damaged, so "
                "get it again"
            )
        symbols[number] = name
    return symbols


def _roles(kind: str, said: Mapping[str, Any], symbols: Sequence[str | None], path: Path) -> dict[str, int]:
    """Find the rows of our symbols, by their names in the tokenizer's configuration or by those that are usual."""
    last = {symbol: number for number, symbol in enumerate(symbols) if symbol is not None}
    usual = {"mpnet": [_OF_MPNET], deberta.KIND: [_OF_BERT]}.get(kind, [_OF_ROBERTA, _OF_BERT])
    names = max(usual, key=lambda names: len(set(names.values()) & last.keys()))
    roles = {}
    for ours, keys in _ROLES.items():
        found = next((said[key] for key in keys if said.get(key)), names[ours])
        name = found.get("content") if isinstance(found, dict) else found
        if not isinstance(name, str) or name not in last:
            raise UserError(f"{path} has no {name!r:.40}, which is its {keys[0]}: get the files of one model")
        roles[ours] = last[name]
    return roles


def _vocabulary(content: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Read the pieces of the model in a `tokenizer.json`, with their numbers."""
    model = typed(dict[str, Any], content.get("model"), f"{path}: model", _TRANSFORMERS)
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, list):  # of a unigram model: pieces with their scores
        pieces = typed(list[tuple[str, float]], vocabulary, f"{path}: model.vocab", _TRANSFORMERS)
        return {piece: number for number, (piece, _) in enumerate(pieces)}
    return typed(dict[str, int], vocabulary, f"{path}: model.vocab", _TRANSFORMERS)


def _added(content: Mapping[str, Any], path: Path) -> dict[str, int]:
    tokens = typed(list[dict[str, Any]], content.get("added_tokens") or [], f"{path}: added_tokens", _TRANSFORMERS)
    pairs = {token.get("content"): token.get("id") for token in tokens}
    return typed(dict[str, int], pairs, f"{path}: added_tokens", _TRANSFORMERS)


def _json(content: Mapping[str, Any], said: Mapping[str, Any], path: Path) -> tuple[str, Callable]:
    """Read the kind of a `tokenizer.json` whose parts are all known, and what builds it; `said` comes first."""
    parts = {
        name: typed(dict[str, Any], content.get(name) or {}, f"{path}: {name}", _TRANSFORMERS)
        for name in ("model", "normalizer", "pre_tokenizer")
    }
    kinds = {name: part.get("type") for name, part in parts.items()}
    model, splits = parts["model"], parts["pre_tokenizer"]
    if (kinds["model"], kinds["pre_tokenizer"]) == ("WordPiece", "BertPreTokenizer"):
        if kinds["normalizer"] != "BertNormalizer":
            raise UserError(_unknown(path, "normalizer", kinds["normalizer"]))
        return WORD_PIECE, _word_piece(_normaliser(parts["normalizer"], said, path), model, path)
    if (kinds["model"], kinds["pre_tokenizer"]) == ("BPE", "ByteLevel"):
        if kinds["normalizer"] is not None:
            raise UserError(_unknown(path, "normalizer", kinds["normalizer"]))
        options = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges")
        other = next((option for option in options if model.get(option)), None)
        if other or splits.get("use_regex", True) is not True:
            raise UserError(_unknown(path, "model", f"BPE with {other or 'use_regex: false'}"))
        merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model.get("merges") or []]
        pairs = typed(list[tuple[str, str]], merges, f"{path}: model.merges", _TRANSFORMERS)
        return BYTE_LEVEL, _byte_level(pairs, path, _space(said, path, splits.get("add_prefix_space", True)), [])
    if kinds["model"] == "Unigram":
        return UNIGRAM, _unigram(content, parts, path)
    name = "pre_tokenizer" if kinds["model"] in ("WordPiece", "BPE") else "model"
    raise UserError(_unknown(path, name, kinds[name]))


def _unknown(path: Path, part: str, kind: Any) -> str:
    return (
        f"{path} has the {part} {kind!r:.60}, which is not read here (byte-level BPE, WordPiece with BERT's "
        f"normaliser, unigram models, and SentencePiece by {MODEL} or {_OF_DEBERTA} are): leave the tokenizer out "
        "(--no-tokenizer), and make the pieces with it"
    )


def _normaliser(normaliser: Mapping[str, Any], said: Mapping[str, Any], path: Path) -> dict[str, bool | None]:
    """Read the options of BERT's normaliser from the tokenizer's configuration, else from `tokenizer.json`."""
    options: dict[str, bool | None] = {}
    for ours, theirs, usual in (
        ("lowercase", "do_lower_case", None),
        ("strip_accents", "strip_accents", None),
        ("handle_chinese_chars", "tokenize_chinese_chars", True),
        ("clean_text", "clean_text", True),
    ):
        name, file = (theirs, path.with_name(_CONFIG)) if theirs in said else (ours, path)
        value = said.get(theirs, normaliser.get(ours, usual))
        options[ours] = typed(bool | None, value, f"{file}: {name}", _TRANSFORMERS)
    if options["lowercase"] is None:
        raise UserError(
            f"neither {_CONFIG} nor {JSON} beside {path} says whether the tokenizer lower-cases (do_lower_case): get "
            "one of them too"
        )
    return options


def _space(said: Mapping[str, Any], path: Path, usual: Any) -> bool:
    """Read whether a text gets a space before its first word, from the tokenizer's configuration, else as in `path`."""
    file = path.with_name(_CONFIG) if "add_prefix_space" in said else path
    value = said.get("add_prefix_space", usual)
    return typed(bool, value, f"{file}: add_prefix_space", _TRANSFORMERS)


def _pairs(lines: Sequence[str], path: Path) -> list[tuple[str, str]]:
    pairs = [tuple(line.split(" ")) for line in lines if line.strip()]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise UserError(f"{path} has {' '.join(wrong)!r:.60}, which is no pair of pieces: get it again")
    return pairs


def _byte_level(
    merges: list[tuple[str, str]], path: Path, add_prefix_space: bool, more: Sequence[str]
) -> Callable[[Sequence[str]], Any]:
    """Return what builds a byte-level BPE like GPT-2's, of the merges in `path`.

    `more` are pieces that the vocabulary lacks.
    """

    if not merges:
        raise UserError(f"{path} has no merges, without which a text is bytes: get it again")

    def build(symbols: Sequence[str]) -> Any:
        tokenizers = _package()
        vocabulary = {piece: number for number, piece in enumerate([*symbols, *more])}
        try:
            model = tokenizers.models.BPE(vocabulary, merges, unk_token=FAIRSEQ_SYMBOLS[3])
        except Exception as error:  # the package raises none of its own
            reason = str(error)[:200]
            raise UserError(f"the merges in {path} do not fit the vocabulary ({reason}): get both again") from None
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        return tokenizer

    return build


def _word_piece(normaliser: dict[str, bool | None], model: Mapping[str, Any], path: Path) -> Callable:
    """Return what builds a WordPiece with BERT's normaliser; `model` is that of a `tokenizer.json`, `path` its file."""
    options = {name: model[name] for name in ("continuing_subword_prefix", "max_input_chars_per_word") if name in model}
    word_piece = typed(_WordPiece, options, f"{path}: model", _TRANSFORMERS)

    def build(symbols: Sequence[str]) -> Any:
        tokenizers = _package()
        numbers = {piece: number for number, piece in enumerate(symbols)}
        unknown = FAIRSEQ_SYMBOLS[3]
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token=unknown, **asdict(word_piece)))
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(**normaliser)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = tokenizers.decoders.WordPiece(prefix=word_piece.continuing_subword_prefix)
        return tokenizer

    return build


def _unigram(content: Mapping[str, Any], parts: Mapping[str, dict[str, Any]], path: Path) -> Callable:
    """Return what builds a unigram model; the steps around it stay as in the `content` of a `tokenizer.json`."""
    for name, known in _BEFORE_UNIGRAM.items():
        part = parts[name]
        steps = part.get("normalizers") or part.get("pretokenizers") if part.get("type") == "Sequence" else [part]
        steps = typed(list[dict[str, Any]], steps or [], f"{path}: {name}", _TRANSFORMERS)
        other = next((step.get("type") for step in steps if step and step.get("type") not in known), None)
        if other is not None:
            raise UserError(_unknown(path, name, other))
    if parts["model"].get("byte_fallback"):
        raise UserError(_unknown(path, "model", "Unigram with byte_fallback"))
    scores = dict(typed(list[tuple[str, float]], parts["model"].get("vocab"), f"{path}: model.vocab", _TRANSFORMERS))

    def build(symbols: Sequence[str]) -> Any:
        tokenizers = _package()
        table = [(s, _UNREACHED if s in SPECIAL else scores.get(s, _UNREACHED)) for s in symbols]
        made = {name: content.get(name) for name in ("version", "normalizer", "pre_tokenizer", "decoder")}
        made |= {"truncation": None, "padding": None, "added_tokens": [], "post_processor": None}
        made["model"] = {"type": "Unigram", "unk_id": UNKNOWN_NUMBER, "vocab": table, "byte_fallback": False}
        try:
            return tokenizers.Tokenizer.from_str(json.dumps(made))
        except Exception as error:  # the package raises none of its own
            raise UserError(f"{path} is no tokenizer ({str(error)[:200]}): get it again") from None

    return build


def _package() -> Any:
    with needing("the tokenizer", "transformers"):
        import tokenizers
    return tokenizers
