"""Lines that came before go, on several machines that share a folder, by datatrove: pip install '.[machines]'.

FOLDER/in has JSON lines with a `text`, FOLDER/out gets them, which `tupe prepare-corpus` reads. The work is TASKS tasks
in three steps; on one machine:

    python scripts/deduplicate.py FOLDER 64 --workers 16

On several, each does its tasks of a step, and all end a step before one begins the next:

    python scripts/deduplicate.py FOLDER 64 --workers 16 --step 0 --first 16 --count 16

What is done is not done again. Lines that cannot be read stop it: datatrove by itself would go on without them.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # datatrove may have an environment of its own

from tupe.cli.main import status
from tupe.errors import UserError
from tupe.files import own

MADE_BY = "scripts/deduplicate.py"
STEPS = range(3)
LINES = 0xFFFF  # of a document, as datatrove numbers them


def main(argv: list[str] | None = None) -> int:
    """Run one step, or all, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tasks", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--step", type=int, choices=STEPS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    given = sys.argv[1:] if argv is None else argv

    def work() -> None:
        args = parser.parse_args(given)
        _check(args)
        run(args)

    return status(work, given)


def _check(args: argparse.Namespace) -> None:
    """Raise a `UserError` for numbers that cannot be, and if datatrove or the input is missing."""
    count = args.tasks - args.first if args.count is None else args.count
    if args.tasks < 1 or args.workers < 1 or args.first < 0 or count < 1 or args.first + count > args.tasks:
        raise UserError(
            f"{count} tasks from {args.first} on, of {args.tasks}, by {args.workers} workers cannot be: give at least "
            "one task and one worker, --first from 0 on, and --count tasks that there are."
        )
    if not any(path.is_file() for path in (args.folder / "in").rglob("*")):
        raise UserError(f"there is no file in {args.folder / 'in'}: put the text there, as JSON lines.")
    try:
        import datatrove  # noqa: F401
    except ImportError:
        raise UserError("this needs datatrove: pip install '.[machines]', best in an environment of its own.") from None


def run(args: argparse.Namespace) -> None:
    """Claim the folder, and run the tasks.

    Raises:
        UserError: if the folder holds something else, a step is begun before the one before is done by all, or a line
            cannot be read.
    """
    digest, files = hashlib.sha256(), sorted(path for path in (args.folder / "in").rglob("*") if path.is_file())
    for path in files:
        digest.update(f"{path.relative_to(args.folder)} {path.stat().st_size}\n".encode())
    of = {"tasks": args.tasks, "in": f"{len(files)} files, {digest.hexdigest()[:12]}"}
    with own(args.folder, MADE_BY, of, besides=["in"], wait=True):  # of several machines, so not for the work itself
        pass
    for number in STEPS if args.step is None else [args.step]:
        done = sum(1 for _ in (args.folder / f"log{number - 1}/completions").glob("*")) if number else args.tasks
        if done < args.tasks:
            raise UserError(
                f"{done} of {args.tasks} tasks of step {number - 1} are done: all must be before step {number}."
            )
        _run(number, args)


def _run(number: int, args: argparse.Namespace) -> None:
    from datatrove.executor.local import LocalPipelineExecutor
    from datatrove.pipeline.dedup.sentence_dedup import (
        SentDedupConfig,
        SentenceDedupFilter,
        SentenceDedupSignature,
        SentenceFindDedups,
    )
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.logging import logger
    from datatrove.utils.text import TextNormConfig
    from datatrove.utils.word_tokenizers import WhitespaceTokenizer

    class Reader(JsonlReader):
        """Reader of JSON lines that refuses a line which is none."""

        def read_file(self, filepath: str):
            with self.data_folder.open(filepath, "rb", compression=self.compression) as file:
                for line_number, line in enumerate(file):
                    try:
                        document = self.get_document_from_dict(_record(line), filepath, line_number)
                    except (ValueError, TypeError) as error:
                        logger.configure(patcher=lambda record: record.update(exception=None))  # a sentence says it all
                        name = f"{self.data_folder.path}/{filepath}"
                        raise UserError(f"line {line_number + 1} of {name} {error}: mend it or leave it out.") from None
                    if document:
                        yield document

    norm = TextNormConfig(lowercase=False, remove_punctuation=False, norm_unicode_diacritics=False, norm_numbers=False)
    config = SentDedupConfig(
        n_sentences=1,  # a line, as `deduplicate-lines`
        split_sentences=False,
        min_doc_words=0,
        min_num_sentences=0,
        norm_config=norm,
        hash_config=HashConfig(hash_fc="sha1", precision=64),
    )
    read, hashes, found, out = (f"{args.folder}/{name}" for name in ("in", "hashes", "found", "out"))
    words = WhitespaceTokenizer()  # asked for, but not used for lines
    steps = [
        [Reader(read), SentenceDedupSignature(hashes, args.tasks, config, words)],
        [SentenceFindDedups(hashes, found, config=config)],
        [Reader(read), SentenceDedupFilter(found, config, language=words), JsonlWriter(out, compression=None)],
    ]
    LocalPipelineExecutor(
        steps[number],
        tasks=args.tasks,
        workers=args.workers,
        logging_dir=f"{args.folder}/log{number}",
        local_tasks=args.tasks - args.first if args.count is None else args.count,
        local_rank_offset=args.first,
    ).run()


def _record(line: bytes) -> dict:
    """Return the record of a line. Raise a `ValueError` that says what the line is instead."""
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError("has no `text`")
    if record["text"].count("\n") >= LINES:
        raise ValueError(f"is a document of more than {LINES:,} lines")
    return record


if __name__ == "__main__":
    sys.exit(main())
