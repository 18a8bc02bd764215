"""Writes a checkpoint as a folder that Hugging Face Transformers loads.

With model code, tokenizer, and a model card; pre-trained or fine-tuned, any encoder that `tupe systems` lists.
Example: tupe export checkpoints/tupe_base/checkpoint_best.pt DATA tupe-base
         tupe export RUN/checkpoint_best.pt data/glue/RTE tupe-base-rte --corpus DATA
docs/transformers.md says what can be done with it; `tupe import` is the way back.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="one of ours")
    add("data", metavar="DATA", type=Path, help="with its dict.txt: its corpus, or the task it was fine-tuned on")
    add("out", type=Path, metavar="OUT", help="folder to write, a new one")
    add("--corpus", type=Path, help="the folder of the tokenizer and the manifest (default: DATA)")
    add("--no-tokenizer", action="store_true", help="write none, where the text was not encoded by SentencePiece")
    add("--result", type=Path, action="append", default=[], help="result.json of this run, then of other seeds")
    add("--license", help="its identifier, for the card")
    add("--base-model", help="the exported model that was fine-tuned, for the card")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.to_transformers import export
    from tupe.util import read_json

    about = {"results": args.result, "licence": args.license, "base_model": args.base_model}
    for note in export(args.checkpoint, args.data, args.out, args.corpus, not args.no_tokenizer, **about):
        print(f"note: {note}")
    architecture = read_json(args.out / "config.json")["architectures"][0]
    auto = "AutoModel" + architecture.removeprefix("Tupe").replace("ForMaskedLM", "")  # without a task, the features
    print(f'wrote {args.out}; load it with: {auto}.from_pretrained("{args.out}", trust_remote_code=True)')
