"""Remove repeated lines by datatrove, on one machine or on several that share a folder: pip install '.[machines]'.

FOLDER/in has JSON lines with a `text`. FOLDER/out gets them without repetitions, for `tupe prepare-corpus`. The work is
TASKS tasks in each of three steps. On one machine:

    python scripts/deduplicate.py FOLDER 64 --workers 16

On several machines, each does its tasks of a step, and all must end a step before one starts the next:

    python scripts/deduplicate.py FOLDER 64 --workers 16 --step 0 --first 16 --count 16

Finished tasks are skipped. A line that cannot be read stops the script, where datatrove would skip it.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # datatrove may have an environment of its own

from tupe.util import UserError, run_folder

STEPS = range(3)
LINES = 0xFFFF  # lines of a document that datatrove can number


def main() -> None:
    """Run one step or all, and record the input and the number of tasks in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tasks", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--step", type=int, choices=STEPS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    args = parser.parse_args()
    digest, files = hashlib.sha256(), sorted(path for path in (args.folder / "in").rglob("*") if path.is_file())
    for path in files:
        digest.update(f"{path.relative_to(args.folder)} {path.stat().st_size}\n".encode())
    settings = {"tasks": args.tasks, "in": f"{len(files)} files, {digest.hexdigest()[:12]}"}
    with run_folder(args.folder, settings, wait=True):  # not for the work itself, which several machines share
        pass
    for number in STEPS if args.step is None else [args.step]:
        done = sum(1 for _ in (args.folder / f"log{number - 1}/completions").glob("*")) if number else args.tasks
        if done < args.tasks:
            raise UserError(f"Step {number} needs all {args.tasks} tasks of step {number - 1}, but {done} are done.")
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
    from datatrove.utils.text import TextNormConfig
    from datatrove.utils.word_tokenizers import WhitespaceTokenizer

    class Reader(JsonlReader):
        """Reader of JSON lines that raises an error at a wrong one, which datatrove would skip."""

        def read_file(self, filepath: str):
            with self.data_folder.open(filepath, "rb", compression=self.compression) as file:
                for line_number, line in enumerate(file, 1):
                    record = json.loads(line)
                    if record["text"].count("\n") >= LINES:
                        raise ValueError(f"line {line_number} of {filepath} is a document of more than {LINES:,} lines")
                    if document := self.get_document_from_dict(record, filepath, line_number - 1):
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
    words = WhitespaceTokenizer()  # required, but not used for lines
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


if __name__ == "__main__":
    main()
