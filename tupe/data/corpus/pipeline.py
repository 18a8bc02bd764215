"""Prepare a corpus, step by step; each step has a file beside this one.

    scan        every input is read once: its text is divided into parts, its lines and documents counted and hashed
    plan        which documents and lines came before, and which documents are held out for validation
    clean       what is kept of a part goes through the text stages; its words are counted
    vocabulary  SentencePiece is trained on a sample, or taken from another corpus
    encode      the cleaned text of a part becomes tokens, without lines of rare words
    shards      tokens become fairseq's binary data

A step writes files to `OUT/work`, part by part, and does nothing twice after an interruption. The result is made in
`OUT/work/data` and moved when all of it is there; the manifest comes last.

With many languages, each has its own parts and its own folder in the result. A single language is called "", and its
folder is the result itself. Repetitions are looked for across all languages, and all share the vocabulary.
"""

import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from tupe.data.binary import check_folder, index_and_data
from tupe.data.corpus import rare_words, shards, text, vocabulary
from tupe.data.corpus.clean import Planned, clean, processing
from tupe.data.corpus.duplicates import number_of, repeated
from tupe.data.corpus.encode import encode
from tupe.data.corpus.held_out import choose
from tupe.data.corpus.inputs import Identity, Input
from tupe.data.corpus.manifest import DICTIONARY, MADE_BY, MODEL, NAME, Content, Counts, Manifest, versions
from tupe.data.corpus.parts import Part, each, progress, total
from tupe.data.corpus.scan import lots, scan
from tupe.data.corpus.settings import Settings
from tupe.data.languages import probabilities
from tupe.data.parallel import Map, WorkerKilled, pool
from tupe.errors import UserError
from tupe.files import checksums, move_into, own, read, remove_unfinished, sizes, write, write_bytes


def prepare(
    out: Path, inputs: list[Input], settings: Settings, workers: int, shared: Manifest | None = None
) -> Content:
    """Prepare the corpus `out`, or what is left to do; `shared` is one whose vocabulary is taken.

    Returns:
        The content of the manifest.

    Raises:
        UserError: if an input cannot be read, if there is too little text, or if `out` holds something else.
    """
    check_folder(out)
    identities = tuple(map(Identity.of, inputs))
    made_of = {"settings": asdict(settings), "inputs": _by_name(identities)}
    with own(out, MADE_BY, made_of, is_begun=lambda: (out / NAME).exists() or (out / "work").exists()):
        if not (out / NAME).exists():
            _Preparation(out, inputs, identities, settings, workers, shared).run()
        manifest = Manifest.load(out)
        manifest.check()
        shutil.rmtree(out / "work", ignore_errors=True)
    return manifest.content


def _by_name(identities: Sequence[Identity]) -> dict[str, str]:
    """Describe each input under its name, to notice another; a second input of a name gets its number."""
    named: dict[str, str] = {}
    for number, file in enumerate(identities):
        name = f"{file.name} ({number})" if file.name in named else file.name
        book = ", a book" if file.book else ""
        language = f", in {file.language}" if file.language else ""
        named[name] = f"file {number}, {file.bytes} bytes, modified {file.modified}{book}{language}"
    return named


@dataclass
class _Preparation:
    out: Path
    inputs: list[Input]
    identities: tuple[Identity, ...]
    settings: Settings
    workers: int
    shared: Manifest | None

    def __post_init__(self) -> None:
        self.work, self.data = self.out / "work", self.out / "work/data"
        self.model = self.data / (self.shared.model.name if self.shared else MODEL)
        self.dictionary = self.data / DICTIONARY
        self.rare = self.work / "rare.npy" if "drop-rare-words" in self.settings.stages else None
        self.lots = lots(self.work, self.inputs)

    def run(self) -> None:
        if not (self.work / NAME).exists():
            processing(self.settings.stages, self.settings.language)  # raises here if a package is missing
            for folder in ("", "scan", "clean", "encode", "data"):
                remove_unfinished(self.work / folder)
            import fairseq.data.indexed_dataset  # noqa: F401  once, before the processes are forked

            try:
                with pool(self.workers) as map_:
                    self.make(map_)
            except WorkerKilled:
                raise
            except UserError:  # nothing comes of these inputs and settings: the folder is free for others
                shutil.rmtree(self.work, ignore_errors=True)
                raise
        move_into(self.out, self.data, read(self.work / NAME, Content, MADE_BY).sizes, MADE_BY)
        os.replace(self.work / NAME, self.out / NAME)  # last: it says that the corpus is whole

    def make(self, map_: Map) -> None:
        self.scan(map_)
        self.plan(map_)
        self.check_left("clean")
        if self.rare is not None and not self.rare.exists():
            rare_words.add_up((part.path("clean", "words") for part in self.parts), self.rare)
        self.vocabulary()
        self.encode(map_)
        self.check_left("encode")
        files = self.binarise(map_)
        write(self.work / NAME, self.content(files, map_))

    def scan(self, map_: Map) -> None:
        with progress("scan", 0) as bar:
            for size in map_(scan, self.lots):
                bar.update(size)
        self.languages: dict[str, list[Part]] = {}
        for lot in self.lots:
            self.languages.setdefault(lot.files[0].language, []).extend(lot.parts())
        self.parts = [part for parts in self.languages.values() for part in parts]
        for language, parts in self.languages.items():
            if not total("scan", parts)["documents"]:
                raise UserError(
                    f"there is no text in the inputs{_of(language)}: give text, or JSON lines with a `text`."
                )

    def plan(self, map_: Map) -> None:
        """Decide what is kept of each part, and run that through the stages."""
        documents, lines = self._repeated("documents"), self._repeated("lines")
        valid, self.planned = {}, {}
        for language, parts in self.languages.items():
            again = np.concatenate([documents[part] for part in parts])
            hashes = np.concatenate([np.fromfile(part.path("scan", "documents"), dtype="<u8") for part in parts])
            lengths = np.concatenate([np.fromfile(part.path("scan", "lengths"), dtype=np.int64) for part in parts])
            held = choose(hashes, again, self.settings.valid_documents, f"the inputs{_of(language)}")
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

    def check_left(self, step: str) -> None:
        for language, parts in self.languages.items():
            if not total(step, parts)["train lines"]:
                raise UserError(
                    f"the stages leave no line{_of(language)} for training: use more text, or fewer stages "
                    "(--no-STAGE)."
                )

    def vocabulary(self) -> None:
        s = self.settings
        if self.shared:
            for ours, theirs in ((self.model, self.shared.model), (self.dictionary, self.shared.dictionary)):
                write_bytes(ours, theirs.read_bytes())
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
        documents = (part.note("clean").counts.get("train documents", 0) for part in self.parts)
        before = dict(zip(self.parts, accumulate(documents, initial=0)))
        each("encode", self.parts, map_, encoding, lambda part: (part, before[part]))

    def shards(self) -> int:
        number = self.settings.shards or -(-_cleaned_bytes(self.parts) // shards.SHARD_BYTES)
        for language, parts in self.languages.items():
            left = total("clean", parts)["train documents"]
            if number > left:
                raise UserError(
                    f"{left} training documents{_of(language)} do not fill {number} shards: fewer --shards."
                )
        return number

    def binarise(self, map_: Map) -> list[str]:
        """Make all files of the result but the manifest, and return their names."""
        names = shards.folders(self.shards())
        splits = [("train", shard, name) for shard, name in enumerate(names)]
        symbols = len(vocabulary.read_symbols(self.dictionary))
        tasks = [
            shards.Shard(self.data / name / language / split, split, shard, tuple(parts), symbols)
            for language, parts in self.languages.items()
            for split, shard, name in (*splits, ("valid", 0, "."))
            if split == "train" or total("encode", parts)["valid documents"]
        ]
        with progress("shards", 0) as bar:
            for size in map_(shards.assemble, tasks):
                bar.update(size)
        for name in names[1:]:
            write_bytes(self.data / name / DICTIONARY, self.dictionary.read_bytes())
        files = [file for task in tasks for file in index_and_data(task.prefix)]
        files += [self.model, *(self.data / name / DICTIONARY for name in names)]
        return sorted(str(file.relative_to(self.data)) for file in files)

    def content(self, files: list[str], map_: Map) -> Content:
        sums = map_(partial(checksums, self.data), [[file] for file in files])
        return Content(
            settings=self.settings,
            inputs=self.identities,
            data=tuple(shards.folders(self.shards())),
            counts=self.counts(self.languages),
            languages={language: self.counts([language]) for language in self.languages if language},
            versions=versions(),
            sizes=sizes(self.data, files),
            checksums={name: checksum for found in sums for name, checksum in found.items()},
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


def _of(language: str) -> str:
    return f" in {language}" if language else ""
