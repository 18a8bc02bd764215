"""Prepare a corpus in four steps. After an interruption, the same command resumes with the step that did not finish.

    read         the text of all inputs, and a 64-bit hash of each line and document
    clean        the text without repetitions, after the text stages; whole documents are held out for validation
    vocabulary   a SentencePiece model, trained on a sample or copied from another corpus
    encode       fairseq's binary data without lines of rare words, in one folder or several (shards)

Intermediate files are in `OUT/work`, which is deleted after the manifest has been written.

With many languages, each has its own folder in the result. A single language is called "", and its folder is the result
itself. Repetitions are found across all languages, and all languages share the vocabulary.
"""

import hashlib
import itertools
import math
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal
from zlib import crc32

import numpy as np
from tqdm import tqdm
from typer import Argument, Option

from tupe.data import tokenizers
from tupe.data.binary import EOS, writer
from tupe.data.documents import Input, documents_of, find, unchanged
from tupe.data.languages import probabilities
from tupe.data.manifest import NAME, WORK, Manifest, Settings, checksums
from tupe.data.parallel import Map, batches, pool
from tupe.data.text import LANGUAGES, PROFILES, STAGES, kept_processing
from tupe.data.tokenizers import DICTIONARY, MODEL, UNKNOWN_NUMBER, kept_tokenizer, read_symbols
from tupe.util import UserError, atomic, read_json, remove_parts, run_folder, write_json

BATCH = 32  # documents sent to a process at a time
SLICE = 1 << 23  # hashes compared at a time: some 300 MB
SHARD_BYTES = 1 << 30  # of cleaned text
SHORT = 16  # words; a shorter line is joined with the next
RARE, RARE_SHARE = 5, 0.3  # a word that occurs less often is rare; a line with a larger fraction of them is dropped
_BUCKETS = 1 << 25  # for the counts of words
# Intermediate files keep surrogates, which come from escapes in JSON or from bytes that were not UTF-8.
_UTF8 = {"encoding": "utf-8", "errors": "surrogatepass"}
# Thai, Lao, Burmese, Khmer, kana and Chinese characters: no spaces between words, so two characters count as a word.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")

_mapped = cache(partial(np.load, mmap_mode="r"))  # maps a file once per process


def prepare_corpus(
    inputs: list[Path] = Argument([], help="Text files or folders."),
    out: Path = Argument(help="Folder of the corpus."),
    books: list[Path] = Option([], help="Folder whose files are one document each."),
    languages: list[Path] = Option([], help="Folder of files and folders named by language: de.txt.xz, de/."),
    profile: Literal["paper", "sentencepiece"] | None = Option(None, help="Text stages to run."),
    without: str = Option("", metavar="A,B", help="Stages of the profile to leave out."),
    language: str | None = Option(None, help="Language of the rules for sentences and tokens."),
    vocab_size: int = Option(32_768, help="Symbols of the dictionary."),
    model_type: Literal["bpe", "unigram"] | None = Option(None, help="Kind of SentencePiece model."),
    vocab_alpha: float = Option(0.5, help="For the vocabulary, sample each language by its size to this power."),
    vocabulary: Path | None = Option(None, help="Corpus or imported model to take vocabulary and stages from."),
    valid_documents: float = Option(0.01, help="Held-out documents: a number, or a fraction below 1."),
    max_tokens: int | None = Option(None, help="Longer lines are split; 126, or the value of --vocabulary."),
    shards: int | None = Option(None, help="Number of folders of training data; by default one per gigabyte of text."),
    workers: int = Option(0, help="Processes; all cores by default."),
) -> None:
    """Prepare a corpus: cleaned text, a SentencePiece vocabulary, fairseq's binary data and a manifest.

    With --languages, each language gets a folder, all share a vocabulary, and the profile is sentencepiece, not paper.

    tupe prepare-corpus extracted/ data/wiki --profile paper
    """
    found = find(inputs, books, languages)
    many = bool(found[0].language)
    shared = Manifest.load(vocabulary) if vocabulary else None
    name = profile or ("sentencepiece" if many else "paper")
    stages, usual = PROFILES[name], LANGUAGES[name]
    if shared and not profile:  # process text as that corpus was
        name, stages, usual = shared.settings.profile, shared.settings.stages, shared.settings.language
    left_out = set(filter(None, without.split(",")))
    for stage in left_out - {*STAGES}:
        raise UserError(f"'{stage}' is not a stage. Choose from {', '.join(STAGES)}.")
    settings = Settings(
        profile=name,
        stages=tuple(stage for stage in STAGES if stage in {*stages} - left_out),
        language=language or usual,
        vocab_size=vocab_size,
        model_type=model_type or ("unigram" if many else "bpe"),
        valid_documents=valid_documents if valid_documents < 1 else int(valid_documents),
        shards=shards,
        max_tokens=max_tokens or (shared.settings.max_tokens if shared else 126),
        vocab_alpha=vocab_alpha,
    )
    if shared:
        taken = {name: getattr(shared.settings, name) for name in ("vocab_size", "model_type", "vocab_alpha")}
        settings = replace(settings, **taken, vocabulary=shared.checksums[shared.model.name])
    prepare(out, found, settings, workers, shared)
    manifest = Manifest.load(out)
    for code, counts in manifest.counts.items():
        print("\n".join(f"{code:<8}{name:<40}{number:>14,}" for name, number in counts.items()))
    print(f"data: {':'.join(str(out / folder) for folder in manifest.data)}")


def prepare(out: Path, inputs: list[Input], settings: Settings, workers: int, shared: Manifest | None) -> None:
    """Prepare the corpus `out`, or finish it. `shared` is the corpus whose vocabulary it takes, if any."""
    identities, work = [one.identity() for one in inputs], out / WORK
    with run_folder(out, {**asdict(settings), "inputs": identities}):
        if not (out / NAME).exists():
            kept_processing(settings.stages, settings.language)  # fails early if a package is missing
            with pool(workers) as map_:
                was_read = read(work, inputs)
                cleaned = clean(work, settings, map_)
                model = vocabulary(out, settings, shared)
                encoded, data = encode(out, settings, model, map_)

                counts = {name: {**was_read[name], **cleaned[name], **encoded[name]} for name in was_read}
                Manifest(out, settings, checksums(out, map_), identities, data, counts).write()
        shutil.rmtree(work, ignore_errors=True)


def read(work: Path, inputs: list[Input]) -> dict[str, dict[str, int]]:
    """Write the text of each language, and hashes.

    `work/read` gets a `text` per language, and `counts.json`. The files `lines` and `documents` hold 64-bit hashes, and
    `lengths` the number of lines per document, for all languages one after the other.

    Returns:
        How many lines and documents each language has.
    """
    folder, counts = work / "read", {}
    if not folder.exists():
        with atomic(folder) as part, unchanged([one.path for one in inputs]), ExitStack() as stack:
            part.mkdir()
            line_hashes, document_hashes, lengths = (
                stack.enter_context((part / name).open("wb")) for name in ("lines", "documents", "lengths")
            )
            for one in tqdm(inputs, "read", disable=None, unit=" files"):
                found = counts.setdefault(one.language, Counter())
                with (part / f"text.{one.language}").open("ab") as text:
                    for lines in documents_of(one.path, one.book):
                        hashes = b"".join(map(_hash, lines))
                        line_hashes.write(hashes)
                        document_hashes.write(hashlib.blake2b(hashes, digest_size=8).digest())
                        lengths.write(np.int64(len(lines)).tobytes())
                        text.write(_as_text(lines))
                        found.update(lines=len(lines), documents=1)
            write_json(part / "counts.json", counts)
    return read_json(folder / "counts.json")


def _hash(line: str) -> bytes:
    """Return the 64-bit hash of a line, in which any white space counts as a single space."""
    return hashlib.blake2b(" ".join(line.split()).encode(**_UTF8), digest_size=8).digest()


def repeated(path: Path, stages: tuple[str, ...]) -> np.ndarray:
    """Mark each 64-bit hash in a file of `read` that repeats an earlier one: bool `(N,)`, all false without the stage.

    The first bits of a hash assign it to a range that fits in memory. The memory-mapped file is read once per range, so
    memory grows by only a few bytes per hash. Two different lines rarely have the same hash: it happens in one of 1,600
    corpora of 150 million lines (16 GB).
    """
    hashes = np.memmap(path, dtype="<u8", mode="r")
    found = np.zeros(len(hashes), dtype=bool)
    ranges = -(-len(hashes) // SLICE) if f"deduplicate-{path.name}" in stages else 0
    for number in range(ranges):
        blocks = (hashes[start : start + SLICE] >> np.uint64(32) for start in range(0, len(hashes), SLICE))
        chosen = np.concatenate([(block * np.uint64(ranges)) >> np.uint64(32) == number for block in blocks])
        places = np.flatnonzero(chosen)
        of_range = hashes[places]
        order = np.argsort(of_range, kind="stable")
        again = order[1:][of_range[order[1:]] == of_range[order[:-1]]]
        found[places[again]] = True
    return found


def clean(work: Path, settings: Settings, map_: Map) -> dict[str, dict[str, int]]:
    """Run the kept text through the text stages, and count words.

    `work/clean` gets the text of each split and language; `rare.npy`, which marks the buckets whose words are rare;
    and `counts.json`.

    Returns:
        Counts of changes, removals and additions by stage and language.
    """
    folder, counts = work / "clean", {}
    if not folder.exists():
        words = np.zeros(_BUCKETS, dtype=np.uint32)
        again, lines_again = (repeated(work / "read" / kind, settings.stages) for kind in ("documents", "lines"))
        hashes = np.fromfile(work / "read/documents", dtype="<u8")
        lengths = np.fromfile(work / "read/lengths", dtype=np.int64)
        begins = lengths.cumsum() - lengths

        first = 0
        with atomic(folder) as part:
            part.mkdir()
            for language, was_read in read_json(work / "read/counts.json").items():
                own = slice(first, first := first + was_read["documents"])
                held = held_out(hashes[own], again[own], settings.valid_documents)
                counts[language] = did = Counter()

                texts = tqdm(_documents(work / f"read/text.{language}"), "clean", len(held), disable=None)
                kept = _kept(zip(texts, begins[own], again[own], held), lines_again, did)
                with (part / f"train.{language}").open("wb") as train, (part / f"valid.{language}").open("wb") as valid:
                    for cleaned, buckets, numbers, more in map_(partial(_clean, settings), batches(kept, BATCH)):
                        np.add.at(words, buckets, numbers)
                        did.update(more)
                        for is_held, lines in cleaned:
                            (valid if is_held else train).write(_as_text(lines))

            np.save(part / "rare.npy", words < RARE)
            write_json(part / "counts.json", counts)
    return read_json(folder / "counts.json")


def held_out(hashes: np.ndarray, again: np.ndarray, number: int | float) -> np.ndarray:
    """Mark the documents to hold out: those with the smallest hashes, so their order in the inputs does not matter.

    `hashes` has one per document, and `again` marks repeated documents. `number` is the number to hold out, or, as
    a float, the fraction. A fraction above 0 holds out at least one document.

    Raises:
        UserError: nothing would be left for training.
    """
    new = np.unique(hashes[~again])
    held = max(round(number * len(new)), int(number > 0)) if isinstance(number, float) else number
    if held >= len(new):
        raise UserError(
            f"Holding out {held} of {len(new)} distinct documents leaves none for training. Lower --valid-documents, "
            "or separate documents by empty lines (or use --books)."
        )
    return np.isin(hashes, new[:held]) & ~again  # all copies of a document, if they are kept


def _kept(documents: Iterable[tuple], again: np.ndarray, counts: Counter) -> Iterator[tuple[bool, list[str]]]:
    """Yield for each document without an earlier copy whether it is held out, and its lines that are new."""
    for lines, begin, came_before, is_held in documents:
        marks = again[begin : begin + len(lines)]
        if came_before:
            counts["deduplicate-documents: removed"] += len(lines)
        else:
            counts["deduplicate-lines: removed"] += int(marks.sum())
            yield is_held, [line for line, mark in zip(lines, marks) if not mark]


def _clean(settings: Settings, batch: list[tuple[bool, list[str]]]) -> tuple:
    """Return the cleaned documents, the bucket and the number of occurrences of each word, and the stages' counts."""
    processing, counts = kept_processing(settings.stages, settings.language), Counter()
    cleaned = [(is_held, processing.document(lines, counts)) for is_held, lines in batch]
    words = Counter(word for _, lines in cleaned for line in lines for word in line.split())
    return [one for one in cleaned if one[1]], [*map(_bucket, words)], [*words.values()], counts


def _bucket(word: str) -> int:
    """Return the bucket that counts a word. Rare words that share a bucket may count as frequent."""
    return crc32(word.encode()) % _BUCKETS


def vocabulary(out: Path, settings: Settings, shared: Manifest | None) -> Path:
    """Write a new tokenizer and fairseq's dictionary, or copy those of `shared`; return the tokenizer's file."""
    if shared:
        shutil.copyfile(shared.dictionary, out / DICTIONARY)
        return shutil.copyfile(shared.model, out / shared.model.name)

    if not (out / MODEL).exists():
        files = {path: path.stat().st_size for path in sorted((out / WORK / "clean").glob("train.*"))}
        size = sum(files.values())
        most = min(size, tokenizers.SAMPLE_BYTES[settings.model_type])
        print(f"vocabulary: SentencePiece is trained on {most:,} of {size:,} bytes", file=sys.stderr, flush=True)

        shares = most * probabilities([*files.values()], settings.vocab_alpha) / [*files.values()]
        sample = (line for path, share in zip(files, shares.tolist()) for line in _sample(path, share))
        lower_case = "lower-case" in settings.stages
        tokenizers.train(sample, out / MODEL, settings.vocab_size, settings.model_type, lower_case)

    tokenizers.write_dictionary(out / DICTIONARY, tokenizers.symbols(out / MODEL))
    return out / MODEL


def _sample(path: Path, share: float) -> Iterator[str]:
    """Yield a fraction of the lines of a file; if it is above 1, some lines are repeated."""
    lines = (line for document in _documents(path) for line in document)
    for number, line in enumerate(lines):
        for _ in range(math.ceil(number * share), math.ceil((number + 1) * share)):
            yield line


def encode(out: Path, settings: Settings, model: Path, map_: Map) -> tuple[dict[str, Counter], list[str]]:
    """Write fairseq's binary data. Training documents go to the shards in turn.

    Returns:
        For each language, documents, lines and tokens of a split; and the folders of the shards.
    """
    cleaned, counts = out / WORK / "clean", {}
    size = sum(path.stat().st_size for path in cleaned.glob("train.*"))
    shards = [".", *(f"shard{shard}" for shard in range(1, settings.shards or -(-size // SHARD_BYTES)))]
    symbols = len(read_symbols(out / DICTIONARY))

    turns = {"train": itertools.cycle(range(len(shards))), "valid": itertools.repeat(0)}
    for language, split in itertools.product(read_json(cleaned / "counts.json"), turns):
        did, text = counts.setdefault(language, Counter()), cleaned / f"{split}.{language}"
        if not text.stat().st_size:
            continue
        folders = [out / shard / language for shard in (shards if split == "train" else shards[:1])]
        with ExitStack() as stack:
            for folder in folders:
                remove_parts(folder)  # left by a process that was killed
            add = [stack.enter_context(writer(folder / split, symbols)) for folder in folders]

            documents = tqdm(_documents(text), "encode", disable=None)
            for encoded, more in map_(partial(_encode, settings, model, split), batches(documents, BATCH)):
                did.update(more)
                for document, shard in zip(encoded, turns[split]):
                    for sequence in document:
                        add[shard](sequence)

    for shard in shards[1:]:
        shutil.copyfile(out / DICTIONARY, out / shard / DICTIONARY)
    return counts, shards


def _encode(settings: Settings, model: Path, split: str, batch: list[list[str]]) -> tuple[list, Counter]:
    """Encode documents as sequences that end in `</s>`: lines of at most `max_tokens` tokens, then an empty line."""
    tokenizer, counts, documents = kept_tokenizer(model), Counter(), []
    rare = _mapped(model.parent / WORK / "clean/rare.npy")

    for lines in batch:
        if "drop-rare-words" in settings.stages:
            buckets = ([_bucket(word) for word in line.split()] for line in lines)
            common = [line for line, of in zip(lines, buckets) if rare[of].sum() <= RARE_SHARE * len(of)]
            counts["drop-rare-words: removed"] += len(lines) - len(common)
            lines = common

        if "join-short-sentences" in settings.stages:
            joined = join(lines)
            counts["join-short-sentences: removed"] += len(lines) - len(joined)
            lines = joined

        sequences = []
        for tokens in map(tokenizer, lines):
            starts = range(0, len(tokens), settings.max_tokens)
            sequences += ([*tokens[start : start + settings.max_tokens], EOS] for start in starts)
            counts[f"{split} tokens"] += len(tokens)
            counts[f"{split} unknown tokens"] += tokens.count(UNKNOWN_NUMBER)
        counts["cut-long-lines: added"] += len(sequences) - len(lines)

        counts[f"{split} documents"] += bool(sequences)
        counts[f"{split} lines"] += len(sequences)
        documents.append([*sequences, [EOS]] if sequences else [])
    return documents, counts


def join(lines: list[str]) -> list[str]:
    """Join a line of fewer than `SHORT` words with the next lines of its document, until it is long enough.

    Each line of the data ends in `</s>`, so a heading would consist of little else.
    """
    joined: list[str] = []
    words = SHORT
    for line in lines:
        if words < SHORT:
            joined[-1] += " " + line
            words += _words(line)
        else:
            joined.append(line)
            words = _words(line)
    return joined


def _words(line: str) -> int:
    """Count words, two characters per word where a script has no spaces."""
    words = len(line.split())
    return words if line.isascii() else words + len(_UNSPACED.findall(line)) // 2


def _as_text(lines: list[str]) -> bytes:
    """Return a document in the form of intermediate files: its lines, then an empty line."""
    return ("\n".join(lines) + "\n\n").encode(**_UTF8)


def _documents(path: Path) -> Iterator[list[str]]:
    """Yield the documents in an intermediate file."""
    lines: list[str] = []
    with path.open(newline="\n", **_UTF8) as file:
        for line in file:
            if line != "\n":
                lines.append(line[:-1])
            else:
                yield lines
                lines = []
