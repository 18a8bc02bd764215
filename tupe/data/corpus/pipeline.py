"""Prepare a corpus, step by step; each step has a file beside this one.

    scan        every input is read once: its text is divided into parts, its lines and documents counted and hashed
    plan        which documents and lines came before, and which documents are held out for validation
    clean       what is kept of a part goes through the text stages; its words are counted
    vocabulary  SentencePiece is trained on a sample, or taken from another corpus
    encode      the cleaned text of a part becomes tokens, without lines of rare words
    shards      tokens become fairseq's binary data

A step writes files to `OUT/work`, part by part, and does nothing twice after an interruption. The manifest comes last.

With many languages, each has its own parts and its own folder in the result. A single language is called "", and its
folder is the result itself. Repetitions are looked for across all languages, and all share the vocabulary.
"""

import math
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from tupe.data.binary import index_and_data
from tupe.data.corpus import rare_words, shards, text, vocabulary
from tupe.data.corpus.clean import Planned, clean, processing
from tupe.data.corpus.duplicates import number_of, repeated
from tupe.data.corpus.encode import encode
from tupe.data.corpus.held_out import choose
from tupe.data.corpus.inputs import Identity, Input
from tupe.data.corpus.manifest import DICTIONARY, MODEL, NAME, Content, Counts, Manifest, versions
from tupe.data.corpus.parts import Part, each, progress, total
from tupe.data.corpus.scan import lots, scan
from tupe.data.corpus.settings import Settings
from tupe.data.languages import probabilities
from tupe.data.parallel import Map, pool
from tupe.util import run_folder, sha256


def prepare(
    out: Path, inputs: list[Input], settings: Settings, workers: int, shared: Manifest | None = None
) -> Content:
    """Prepare the corpus `out`, or what is left to do; `shared` is one whose vocabulary is taken.

    Returns:
        The content of the manifest.

    Raises:
        UserError: if there is too little text, or if `out` was begun with other inputs or settings.
    """
    identities = tuple(map(Identity.of, inputs))
    made_of = {**asdict(settings), "inputs": [asdict(identity) for identity in identities]}
    with run_folder(out, made_of):
        if not (out / NAME).exists():
            _Preparation(out, inputs, identities, settings, workers, shared).run()
        shutil.rmtree(out / "work", ignore_errors=True)
    return Content.read(out / NAME)


@dataclass
class _Preparation:
    out: Path
    inputs: list[Input]
    identities: tuple[Identity, ...]
    settings: Settings
    workers: int
    shared: Manifest | None

    def __post_init__(self) -> None:
        self.work = self.out / "work"
        self.model = self.out / (self.shared.model.name if self.shared else MODEL)
        self.dictionary = self.out / DICTIONARY
        self.rare = self.work / "rare.npy" if "drop-rare-words" in self.settings.stages else None
        self.lots = lots(self.work, self.inputs)

    def run(self) -> None:
        processing(self.settings.stages, self.settings.language)  # raises here if a package is missing
        import fairseq.data.indexed_dataset  # noqa: F401  once, before the processes are forked

        with pool(self.workers) as map_:
            self.scan(map_)
            self.plan(map_)
            if self.rare is not None and not self.rare.exists():
                rare_words.add_up((part.path("clean", "words") for part in self.parts), self.rare)
            self.vocabulary()
            self.encode(map_)
            files = self.binarise(map_)
            self.content(files, map_).write(self.out / NAME)

    def scan(self, map_: Map) -> None:
        with progress("scan", 0) as bar:
            for size in map_(scan, self.lots):
                bar.update(size)
        self.languages: dict[str, list[Part]] = {}
        for lot in self.lots:
            self.languages.setdefault(lot.files[0].language, []).extend(lot.parts())
        self.parts = [part for parts in self.languages.values() for part in parts]

    def plan(self, map_: Map) -> None:
        """Decide what is kept of each part, and run that through the stages."""
        documents, lines = self._repeated("documents"), self._repeated("lines")
        valid, self.planned = {}, {}
        for language, parts in self.languages.items():
            again = np.concatenate([documents[part] for part in parts])
            hashes = np.concatenate([np.fromfile(part.path("scan", "documents"), dtype="<u8") for part in parts])
            lengths = np.concatenate([np.fromfile(part.path("scan", "lengths"), dtype=np.int64) for part in parts])
            held = choose(hashes, again, self.settings.valid_documents)
            valid.update(_divided(held, parts, "documents"))
            in_repeated = int(lengths[again].sum())
            counts = self.planned[language] = Counter({"deduplicate-documents: removed": in_repeated})
            if "deduplicate-lines" in self.settings.stages:  # those of a repeated document are repeated too
                counts["deduplicate-lines: removed"] = sum(int(lines[part].sum()) for part in parts) - in_repeated

        def planned(part: Part) -> Planned:
            return Planned(part, *map(np.array, (documents[part], lines[part], valid[part])))

        function = partial(clean, self.settings.stages, self.settings.language)
        each("clean", self.parts, map_, function, planned)

    def _repeated(self, kind: str) -> dict[Part, np.ndarray]:
        files = [part.path("scan", kind) for part in self.parts]
        if f"deduplicate-{kind}" in self.settings.stages:
            marks = repeated(files, self.work / f"repeated.{kind}.npy")
        else:
            marks = np.zeros(number_of(files), dtype=bool)
        return _divided(marks, self.parts, kind)

    def vocabulary(self) -> None:
        s = self.settings
        if self.shared:
            for ours, theirs in ((self.model, self.shared.model), (self.dictionary, self.shared.dictionary)):
                shutil.copyfile(theirs, ours)
            return
        if not self.model.exists():
            print(f"vocabulary: SentencePiece learns {s.vocab_size} subwords", file=sys.stderr, flush=True)
            vocabulary.train(self._sample(), self.model, s.vocab_size, s.model_type, "lower-case" in s.stages)
        vocabulary.write_dictionary(self.model, self.dictionary)

    def _sample(self) -> Iterator[str]:
        """Yield lines of each language by its smoothed share of the bytes, some of them twice or more if need be."""
        sizes = [_cleaned_bytes(parts) for parts in self.languages.values()]
        most = min(sum(sizes), vocabulary.SAMPLE_BYTES[self.settings.model_type])
        shares = (most * probabilities(sizes, self.settings.vocab_alpha) / sizes).tolist()
        for share, parts in zip(shares, self.languages.values()):
            files = (part.path("clean", "train.txt") for part in parts)
            lines = (line for file in files for document in text.read(file) for line in document)
            for number, line in enumerate(lines):
                for _ in range(math.ceil(number * share), math.ceil((number + 1) * share)):
                    yield line

    def encode(self, map_: Map) -> None:
        encoding = partial(encode, self.settings, self.model, self.rare, self.shards())
        documents = (part.counts("clean")["train documents"] for part in self.parts)
        before = dict(zip(self.parts, accumulate(documents, initial=0)))
        each("encode", self.parts, map_, encoding, lambda part: (part, before[part]))

    def shards(self) -> int:
        return self.settings.shards or -(-_cleaned_bytes(self.parts) // shards.SHARD_BYTES)

    def binarise(self, map_: Map) -> list[str]:
        """Make all files of the result but the manifest, and return their names."""
        names = shards.folders(self.shards())
        splits = [("train", shard, name) for shard, name in enumerate(names)]
        symbols = len(vocabulary.read_symbols(self.dictionary))
        tasks = [
            shards.Shard(self.out / name / language / split, split, shard, tuple(parts), symbols)
            for language, parts in self.languages.items()
            for split, shard, name in (*splits, ("valid", 0, "."))
            if split == "train" or total("encode", parts)["valid documents"]
        ]
        with progress("shards", 0) as bar:
            for size in map_(shards.assemble, tasks):
                bar.update(size)
        for name in names[1:]:
            shutil.copyfile(self.dictionary, self.out / name / DICTIONARY)
        files = [file for task in tasks for file in index_and_data(task.prefix)]
        files += [self.model, *(self.out / name / DICTIONARY for name in names)]
        return sorted(str(file.relative_to(self.out)) for file in files)

    def content(self, files: list[str], map_: Map) -> Content:
        sums = map_(sha256, (self.out / file for file in files))
        return Content(
            settings=self.settings,
            inputs=self.identities,
            data=tuple(shards.folders(self.shards())),
            counts=self.counts(self.languages),
            languages={language: self.counts([language]) for language in self.languages if language},
            versions=versions(),
            sizes={file: (self.out / file).stat().st_size for file in files},
            checksums=dict(zip(files, sums)),
        )

    def counts(self, languages: Collection[str]) -> Counts:
        parts = [part for language in languages for part in self.languages[language]]
        encoded = total("encode", parts)
        counts = sum((self.planned[language] for language in languages), total("clean", parts) + encoded)
        return Counts(
            read=dict(total("scan", parts)),
            stages={name: number for name, number in counts.items() if ": " in name},
            left={name: number for name, number in encoded.items() if name.startswith(text.SPLITS)},
        )


def _divided(marks: np.ndarray, parts: Sequence[Part], kind: str) -> dict[Part, np.ndarray]:
    """Return which of the marks are of each part's lines or documents."""
    ends = np.cumsum([number_of([part.path("scan", kind)]) for part in parts])
    return dict(zip(parts, np.split(marks, ends[:-1])))


def _cleaned_bytes(parts: Sequence[Part]) -> int:
    return sum(part.path("clean", "train.txt").stat().st_size for part in parts)
