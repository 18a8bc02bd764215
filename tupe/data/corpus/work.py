"""The folder of unfinished work: what a step has done for a file stays done when the command is started again."""

from __future__ import annotations

import contextlib
import fcntl
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, Callable

from tqdm import tqdm

from tupe.data.corpus.text import SPLITS, Document, Result, batches
from tupe.data.parallel import Map
from tupe.errors import UserError
from tupe.files import atomic, write_json


class Work:
    """The work on a corpus.

    Args:
        folder: where it is kept.
        files: how many input files there are. Each has a name here, its number.
    """

    def __init__(self, folder: Path, files: int) -> None:
        self.folder = folder
        self.names = [f"{number:06d}" for number in range(files)]

    @contextlib.contextmanager
    def begin(self, task: dict[str, Any]) -> Iterator[None]:
        """Holds the folder, which nobody else may do meanwhile.

        Raises:
            UserError: if another process works there, or if the work that is there is of another task.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"another process is at work in {self.folder}: wait for it, or end it.") from None
            path = self.folder / "task.json"
            if not path.exists():
                write_json(path, task)
            check_same(json.loads(path.read_text(encoding="utf-8")), task, self.folder)
            yield

    def path(self, step: str, name: str, kind: str) -> Path:
        """A file of a step; `kind` is the end of its name."""
        return self.folder / step / f"{name}.{kind}"

    def todo(self, step: str) -> list[str]:
        """The files that a step is not done with."""
        return [name for name in self.names if not self.path(step, name, "json").exists()]

    def finish(self, step: str, name: str, counts: Counter) -> None:
        """Notes that a step is done with a file."""
        write_json(self.path(step, name, "json"), counts)

    def drop_texts(self, step: str) -> None:
        """Removes the texts of a step that no other step needs any more."""
        for path in (self.folder / step).glob("*.txt"):
            path.unlink()

    def counts(self, step: str, name: str) -> Counter:
        """What a step counted in a file."""
        return Counter(json.loads(self.path(step, name, "json").read_text(encoding="utf-8")))

    def total(self, step: str) -> Counter:
        """What a step counted in all files."""
        return sum((self.counts(step, name) for name in self.names), Counter())

    def each(
        self,
        step: str,
        map_: Map,
        function: Callable[[list[Document]], Result],
        documents: Callable[[str], Iterable[Document]],
        size: int,
    ) -> None:
        """Runs a step over the documents of all files: batches go to processes, what comes back to one text a split.

        Args:
            step: its name.
            map_: from `tupe.data.parallel.pool`.
            function: what is done to a batch. Its counts hold `bytes`.
            documents: the documents of a file by its name.
            size: bytes of all files, for the progress bar.
        """
        done = sum(self.counts(step, name)["bytes"] for name in set(self.names) - set(self.todo(step)))
        work = ((name, batch) for name in self.todo(step) for batch in batches(documents(name)))
        with progress(step, size, done) as bar:
            for name, results in groupby(map_(_Named(function), work), key=lambda result: result[0]):
                counts: Counter = Counter()
                with ExitStack() as stack:
                    files = {}
                    for split in SPLITS:
                        path = stack.enter_context(atomic(self.path(step, name, f"{split}.txt")))
                        files[split] = stack.enter_context(path.open("wb"))
                    for _, result in results:
                        for split, file in files.items():
                            file.write(result.text[split])
                        counts += result.counts
                        bar.update(result.counts["bytes"])
                self.finish(step, name, counts)


class _Named:
    """A function of a batch that hands the name of the file through."""

    def __init__(self, function: Callable[[list[Document]], Result]) -> None:
        self.function = function

    def __call__(self, item: tuple[str, list[Document]]) -> tuple[str, Result]:
        return item[0], self.function(item[1])


def check_same(found: dict[str, Any], asked: dict[str, Any], folder: Path) -> None:
    """Compares what a corpus was made of with what is asked.

    Raises:
        UserError: at the first difference.
    """
    asked = json.loads(json.dumps(asked))
    if found["inputs"] != asked["inputs"]:
        raise UserError(f"{folder} was begun with other input files, or they have changed: use another folder.")
    for name, value in asked["settings"].items():
        if found["settings"][name] != value:
            before = found["settings"][name]
            raise UserError(f"{folder} was begun with {name} = {before}, not {value}: use another folder.")


def progress(step: str, size: int, done: int = 0) -> tqdm:
    """A bar with MB/s and the time left; in a log, a line a minute."""
    interval = 0.2 if sys.stderr.isatty() else 60
    return tqdm(desc=f"{step:<10}", total=size, initial=done, unit="B", unit_scale=True, mininterval=interval)
