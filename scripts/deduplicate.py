"""Lines that came before go, on several machines that share a folder, by datatrove: pip install '.[machines]'.

FOLDER/in has JSON lines with a `text`, FOLDER/out gets them, which `tupe prepare-corpus` reads. The work is TASKS tasks
in three steps; on one machine:

    python scripts/deduplicate.py FOLDER 64 --workers 16

On several, each does its tasks of a step, and all end a step before one begins the next:

    python scripts/deduplicate.py FOLDER 64 --workers 16 --step 0 --first 16 --count 16
"""

import argparse

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


def main() -> None:
    """Runs one step, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("tasks", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--step", type=int, choices=range(3))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=-1)
    args = parser.parse_args()
    norm = TextNormConfig(lowercase=False, remove_punctuation=False, norm_unicode_diacritics=False, norm_numbers=False)
    config = SentDedupConfig(
        n_sentences=1,  # a line, as `deduplicate-lines`
        split_sentences=False,
        min_doc_words=0,
        min_num_sentences=0,
        norm_config=norm,
        hash_config=HashConfig(hash_fc="sha1", precision=64),
    )
    read, hashes, found = (f"{args.folder}/{name}" for name in ("in", "hashes", "found"))
    words = WhitespaceTokenizer()  # asked for, but not used for lines
    steps = [
        [JsonlReader(read), SentenceDedupSignature(hashes, args.tasks, config, words)],
        [SentenceFindDedups(hashes, found, config=config)],
        [
            JsonlReader(read),
            SentenceDedupFilter(found, config, language=words),
            JsonlWriter(f"{args.folder}/out", compression=None),
        ],
    ]
    for number in range(3) if args.step is None else [args.step]:
        LocalPipelineExecutor(
            steps[number],
            tasks=args.tasks,
            workers=args.workers,
            logging_dir=f"{args.folder}/log{number}",
            local_tasks=args.count,
            local_rank_offset=args.first,
        ).run()


if __name__ == "__main__":
    main()
