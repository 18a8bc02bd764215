"""Convert a SentencePiece model to a tokenizer of Transformers, whose ids are the numbers of fairseq's dictionary.

Transformers' own conversions change the numbers (fairseq's order is `<s> <pad> </s> <unk>`, the pieces, `<mask>`) or
do not accept BPE models, so the tokenizer is built by hand.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tupe.data.tokenizers import FAIRSEQ_SYMBOLS, MASK, is_piece, without_spaces
from tupe.util import UserError, import_transformers

BOS, PAD, EOS, UNK = SPECIAL = FAIRSEQ_SYMBOLS
_NORMAL, _USER_DEFINED, _BYTE = 1, 4, 6  # kinds of pieces, of sentencepiece_model.proto
_UNIGRAM = 1  # a kind of model there
_UNREACHED = -1e4  # score of a symbol that no text has
#: Oniguruma's patterns for the white space of `str.split`, and below for what `tupe.data.text.repair` removes.
_WHITE_SPACE = r"[\s\x{1c}-\x{1f}]+"
_VOWEL_AFTER_SHADDA, _NONE = r"(?<=\x{651})(?=[\x{64b}-\x{650}])", "\ufdd0"
_NO_TEXT = r"[\p{C}\x{fffd}&&[^\x{200c}\x{200d}]]"


def build_tokenizer(
    model: Path, symbols: Sequence[str], stages: Collection[str] | None = None, pair_separators: int = 2
):
    """Build the `tokenizers.Tokenizer` of a SentencePiece model.

    The symbols are those of fairseq's dictionary, in order, `<mask>` included if the task has one. If the `stages` of
    the corpus' text processing (`tupe.data.text`) are known, the tokenizer collapses white space, and does
    `repair-characters` if it is one of them; `tupe.hf.card` lists the stages that it cannot do.

    Raises:
        UserError: the dictionary is not made of the model's pieces.
    """
    from sentencepiece.sentencepiece_model_pb2 import ModelProto
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    proto = ModelProto.FromString(model.read_bytes())
    pieces = {piece.piece: piece for piece in proto.pieces}
    normal = [piece.piece for piece in proto.pieces if piece.type == _NORMAL]
    own = [piece.piece for piece in proto.pieces if piece.type == _USER_DEFINED and piece.piece not in (*SPECIAL, MASK)]
    of_bytes = [piece.piece for piece in proto.pieces if piece.type == _BYTE]  # of characters that no piece has
    _check_symbols(model, {*normal, *own, *of_bytes}, symbols)

    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    if proto.trainer_spec.model_type == _UNIGRAM:
        scores = [
            (s, pieces[s].score if s in pieces and pieces[s].type == _NORMAL else 0.0 if s in SPECIAL else _UNREACHED)
            for s in symbols
        ]
        tokenizer = Tokenizer(models.Unigram(scores, numbers[UNK], bool(of_bytes)))
    else:
        import_transformers()
        from transformers.convert_slow_tokenizer import generate_merges

        # all cuts of each piece into two; pieces are in the order of their scores, in which SentencePiece prefers them
        merges = generate_merges({piece: place for place, piece in enumerate(normal)}, None)
        fallback = bool(of_bytes)
        tokenizer = Tokenizer(models.BPE(numbers, merges, unk_token=UNK, fuse_unk=True, byte_fallback=fallback))
    spec = proto.normalizer_spec
    steps = [normalizers.Replace(Regex(pattern), content) for pattern, content in cleaning(stages)]
    if spec.precompiled_charsmap:
        # NFC comes first, because Precompiled maps only whole graphemes, so a letter and a separate accent would stay
        # apart. NFC also moves an Arabic vowel before the shadda that it follows, which SentencePiece does not do, so a
        # placeholder separates the two until then
        steps += [normalizers.Replace(Regex(_VOWEL_AFTER_SHADDA), _NONE), normalizers.NFC()]
        steps += [normalizers.Replace(_NONE, ""), normalizers.Precompiled(spec.precompiled_charsmap)]
    steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r" \z"), "")]
    # SentencePiece adds a space mark before a symbol at the start or after a space; _NONE ends a symbol before text
    symbol = "|".join(map(re.escape, own or [_NONE]))
    steps += [normalizers.Replace(Regex(rf"(?<= )(?={symbol})|\A(?=(?:{symbol}).)"), "\u2581")]
    steps += [normalizers.Replace(Regex(rf"(?<={symbol})(?=[^ ])"), _NONE)]
    tokenizer.normalizer = normalizers.Sequence(steps)
    whole_words = proto.trainer_spec.split_by_whitespace
    # words lose the space before them, so that their offsets begin with their letters
    words = [pre_tokenizers.Split(" ", "removed")] if whole_words else []
    words += [pre_tokenizers.Metaspace(prepend_scheme="always", split=whole_words)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*words, pre_tokenizers.Split(f"\u2581{_NONE}", "removed")])
    spaces = decoders.Metaspace(prepend_scheme="first", split=whole_words)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), spaces]) if of_bytes else spaces
    _register(tokenizer, symbols, pair_separators)
    tokenizer.add_tokens([AddedToken(symbol, normalized=True, special=False) for symbol in own])
    return tokenizer


def _register(tokenizer: Any, symbols: Sequence[str], pair_separators: int) -> None:
    """Put the special symbols around a text and between the texts of a pair, and find them in text that spells them."""
    from tokenizers import AddedToken, pre_tokenizers, processors

    around = processors.TemplateProcessing(
        single=f"{BOS} $A {EOS}",
        pair=f"{BOS} $A {EOS} {f'{EOS}:1 ' * (pair_separators - 1)}$B:1 {EOS}:1",
        special_tokens=[(BOS, symbols.index(BOS)), (EOS, symbols.index(EOS))],
    )
    if isinstance(split := tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        # the offsets exclude the space before a word
        trimmed = processors.ByteLevel(add_prefix_space=split.add_prefix_space, trim_offsets=True)
        around = processors.Sequence([trimmed, around])
    tokenizer.post_processor = around
    tokenizer.add_special_tokens([AddedToken(symbol, normalized=False, special=True) for symbol in SPECIAL])
    if MASK in symbols:
        tokenizer.add_special_tokens([AddedToken(MASK, lstrip=True, normalized=False, special=True)])


def imported_tokenizer(path: Path, symbols: Sequence[str], pair_separators: int) -> Any:
    """Open the `tokenizer.json` that `tupe import` wrote, and add the special symbols.

    Raises:
        UserError: its pieces are not the dictionary's, in its order.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    numbers = tokenizer.get_vocab(with_added_tokens=False)
    if [*map(without_spaces, sorted(numbers, key=numbers.get))] != [*map(without_spaces, symbols)]:
        raise UserError(f"The pieces of {path} or their order differ from the dictionary's. Pass --no-tokenizer.")
    _register(tokenizer, symbols, pair_separators)
    return tokenizer


def save_tokenizer(tokenizer: Any, folder: Path, max_length: int) -> None:
    """Write `tokenizer.json`, and `tokenizer_config.json`, by which Transformers loads it."""
    tokens = {"bos": BOS, "cls": BOS, "pad": PAD, "eos": EOS, "sep": EOS, "unk": UNK, "mask": MASK}
    import_transformers().PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in tokens.items() if tokenizer.token_to_id(token) is not None},
    ).save_pretrained(folder)


def cleaning(stages: Collection[str] | None) -> list[tuple[str, str]]:
    """Return the patterns of a corpus' text processing that a tokenizer can replace, each with its replacement."""
    if stages is None:
        return []
    return [(_WHITE_SPACE, " "), *([(_NO_TEXT, "")] if "repair-characters" in stages else [])]


def _check_symbols(model: Path, pieces: set[str], symbols: Sequence[str]) -> None:
    """Raise `UserError` unless the dictionary consists of fairseq's symbols, the pieces, and fillers."""
    here = set(filter(is_piece, symbols))
    if tuple(symbols[:4]) != SPECIAL or here != pieces:
        example = min((here ^ pieces) or set(symbols[:4]), key=lambda s: (len(s), s))
        raise UserError(
            f"The dictionary has {len(here)} pieces and {model} {len(pieces)}, and they differ, e.g. in {example!r}. "
            "Use the SentencePiece model that the corpus was encoded with, or pass --no-tokenizer."
        )
