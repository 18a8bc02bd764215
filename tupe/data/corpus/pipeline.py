"""The preparation of a corpus, step by step, each in a file beside this one.

    scan        every input is read once: its lines and documents are counted and hashed
    plan        which documents and lines came before, and which documents are held out for validation
    clean       every input is read again, and what is kept of it goes through the text stages
    count       which words are rare
    vocabulary  SentencePiece is trained on a sample
    encode      cleaned text becomes pieces
    shards      pieces become fairseq's binary data

A step leaves files in `OUT/work`, and what it left is not done again after an interruption. The manifest comes last.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tupe.data.binarise import check_folder
from tupe.data.corpus import rare_words, shards, text, vocabulary
from tupe.data.corpus.clean import Kept, clean, processing
from tupe.data.corpus.duplicates import number_of, repeated
from tupe.data.corpus.encode import encode
from tupe.data.corpus.held_out import choose
from tupe.data.corpus.inputs import Input
from tupe.data.corpus.manifest import DICTIONARY, MODEL, NAME, Manifest, versions
from tupe.data.corpus.scan import scan
from tupe.data.corpus.settings import Settings
from tupe.data.corpus.text import SPLITS, Document
from tupe.data.corpus.work import Work, check_same, progress
from tupe.data.parallel import Map, pool
from tupe.errors import UserError
from tupe.files import remove_unfinished, sha256, write_json

# Of text that SentencePiece is trained on: some 1 GB of memory.
SAMPLE_BYTES = {"bpe": 100 << 20, "unigram": 48 << 20}


def prepare(out: Path, inputs: list[Input], settings: Settings, workers: int) -> dict[str, Any]:
    """Prepares a corpus, or what is left to do of it.

    Args:
        out: folder of the prepared corpus.
        inputs: files, in order.
        settings: all that the result depends on beside them.
        workers: processes.

    Returns:
        The content of the manifest.

    Raises:
        UserError: if an input cannot be read, if there is too little text, or if `out` holds something else.
    """
    check_folder(out)
    task = {"settings": dataclasses.asdict(settings), "inputs": [file.identity() for file in inputs]}
    if (out / NAME).exists():
        content = Manifest.load(out).content
        check_same(content, task, out)
        return content
    preparation = _Preparation(out, inputs, settings, workers)
    with preparation.work.begin(task):
        remove_unfinished(out)
        preparation.run()
        content = {**task, **preparation.outcome()}
        write_json(out / NAME, content)
        shutil.rmtree(preparation.work.folder)
    return content


class _Preparation:
    def __init__(self, out: Path, inputs: list[Input], settings: Settings, workers: int) -> None:
        self.out, self.inputs, self.settings, self.workers = out, inputs, settings, workers
        self.work = Work(out / "work", len(inputs))
        self.model, self.dictionary = out / MODEL, out / DICTIONARY
        self.rare = self.work.folder / "rare.npy" if "drop-rare-words" in settings.stages else None

    def run(self) -> None:
        processing(self.settings.stages, self.settings.language)  # a package that is missing is missed here
        with pool(self.workers) as map_:
            self.scan(map_)
            kept = self.plan()
            if self.work.todo("encode"):
                self.clean(kept, map_)
                self.check_left("clean")
                self.count(map_)
                self.vocabulary()
                self.encode(map_)
        self.check_left("encode")
        self.work.drop_texts("clean")
        shards.binarise_all(shards.split(self.work, self.shards()), self.out, self.dictionary, self.workers)

    def scan(self, map_: Map) -> None:
        todo = self.work.todo("scan")
        files = ((self.inputs[int(name)], *self._scanned(name)) for name in todo)
        with progress("scan", 0) as bar:
            for name, counts in zip(todo, map_(scan, files)):
                self.work.finish("scan", name, counts)
                bar.update(counts["bytes"])

    def _scanned(self, name: str) -> list[Path]:
        return [self.work.path("scan", name, kind) for kind in ("lines", "documents", "lengths")]

    def plan(self) -> Kept:
        if not self.work.total("scan")["documents"]:
            raise UserError("there is no text in the inputs.")
        line_files, document_files, length_files = zip(*map(self._scanned, self.work.names))
        documents, lines = self._repeated("documents", document_files), self._repeated("lines", line_files)
        hashes = np.concatenate([np.fromfile(path, dtype="<u8") for path in document_files])
        lengths = [np.fromfile(path, dtype=np.int64) for path in length_files]
        in_repeated = int(np.concatenate(lengths)[documents].sum())
        self.planned = Counter({"deduplicate-documents: removed": in_repeated})
        if "deduplicate-lines" in self.settings.stages:  # those of a repeated document are repeated too
            self.planned["deduplicate-lines: removed"] = int(lines.sum()) - in_repeated
        return Kept(lengths, documents, lines, choose(hashes, documents, self.settings.valid_documents))

    def _repeated(self, kind: str, files: Sequence[Path]) -> np.ndarray:
        if f"deduplicate-{kind}" in self.settings.stages:
            return repeated(files, self.work.folder / f"repeated.{kind}.npy")
        return np.zeros(number_of(files), dtype=bool)

    def clean(self, kept: Kept, map_: Map) -> None:
        function = partial(clean, self.settings.stages, self.settings.language)
        size = self.work.total("scan")["bytes"]
        self.work.each("clean", map_, function, lambda name: kept.documents(int(name), self.inputs[int(name)]), size)

    def _cleaned(self, name: str) -> Iterator[Document]:
        for split in SPLITS:
            for lines in text.read(self.work.path("clean", name, f"{split}.txt")):
                yield Document(split, lines)

    def _cleaned_bytes(self, split: str) -> int:
        return sum(self.work.path("clean", name, f"{split}.txt").stat().st_size for name in self.work.names)

    def check_left(self, step: str) -> None:
        if not self.work.total(step)["train lines"]:
            raise UserError("the stages leave no line for training: use more text, or fewer stages (--no-STAGE).")

    def count(self, map_: Map) -> None:
        if self.rare is not None and not self.rare.exists():
            documents = (document for name in self.work.names for document in self._cleaned(name))
            with progress("count", sum(map(self._cleaned_bytes, SPLITS))) as bar:
                batches = text.told(text.batches(documents), bar.update)
                rare_words.write(map_(rare_words.places, batches), self.rare)

    def vocabulary(self) -> None:
        s = self.settings
        if not self.model.exists():
            every = max(1, -(-self._cleaned_bytes("train") // SAMPLE_BYTES[s.model_type]))
            files = (self.work.path("clean", name, "train.txt") for name in self.work.names)
            lines = (line for file in files for document in text.read(file) for line in document)
            sample = (line for number, line in enumerate(lines) if number % every == 0)
            print(f"vocabulary: SentencePiece learns {s.vocab_size} pieces", file=sys.stderr, flush=True)
            vocabulary.train(sample, self.model, s.vocab_size, s.model_type, "lower-case" in s.stages)
        vocabulary.write_dictionary(self.model, self.dictionary)

    def encode(self, map_: Map) -> None:
        joined = "join-short-sentences" in self.settings.stages
        function = partial(encode, self.model, self.rare, joined, self.settings.max_tokens)
        size = sum(map(self._cleaned_bytes, SPLITS))
        self.work.each("encode", map_, function, self._cleaned, size)

    def shards(self) -> int:
        left = self.work.total("encode")
        number = self.settings.shards or -(-left["train tokens"] // shards.SHARD_TOKENS)
        if number > left["train documents"]:
            raise UserError(
                f"{left['train documents']} training documents do not fill {number} shards: fewer --shards."
            )
        return number

    def outcome(self) -> dict[str, Any]:
        """What the manifest says beside the task."""
        encoded = self.work.total("encode")
        counts = self.planned + self.work.total("clean") + encoded
        folders = shards.folders(self.shards())
        files = [MODEL, *(str(file.relative_to(self.out)) for folder in folders for file in _data(self.out / folder))]
        return {
            "data": folders,
            "counts": {
                "read": self.work.total("scan"),
                "stages": {name: number for name, number in counts.items() if ": " in name},
                "left": {name: number for name, number in encoded.items() if name.startswith(SPLITS)},
            },
            "versions": versions(),
            "checksums": {file: sha256(self.out / file) for file in files},
        }


def _data(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.suffix in (".bin", ".idx") or path.name == DICTIONARY]
