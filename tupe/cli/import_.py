"""Imports a model that was pre-trained by fairseq or Transformers, or that `tupe export` wrote.

RoBERTa, XLM-R and CamemBERT of fairseq; of Transformers also BERT, DistilBERT, MPNet, ELECTRA, data2vec, DeBERTa's
second and third version, and RoBERTa with the norms before the layers. OUT is then a folder: checkpoint, dictionary,
tokenizer and manifest, a corpus to the other commands. The original is run too, and the difference of the outputs is
printed. Of our own exports OUT is a checkpoint, of the model as it is now, whether or not it was trained on.
Example: tupe import roberta.base/ models/roberta_base --bpe gpt2_bpe/
         tupe import camembert-base/ models/camembert --language fr
         tupe import tupe-base checkpoints/tupe_base.pt
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="released by fairseq, or written by save_pretrained or tupe export")
    add("out", type=Path, metavar="OUT", help="folder to write; of our own exports a new file")
    add("--head", metavar="NAME", help="keep the classification head, of fairseq the one of this name")
    help_ = "names of the head's classes in its order, to put them in the order of the prepared task"
    add("--labels", metavar="A,B,C", help=help_)
    add("--pooler", action="store_true", help="keep BERT's pooler, to begin the head of a task with")
    add("--no-tokenizer", action="store_true", help="write none")
    add("--bpe", type=Path, metavar="FOLDER", help="where encoder.json and vocab.bpe of a fairseq model lie")
    add("--language", help="language of its text, for the manifest (default: xx, any)")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.foreign.importing import import_model, is_ours
    from tupe.checkpoints.from_transformers import import_transformers
    from tupe.util import check_new

    if is_ours(args.folder):
        check_new(args.out)
        new = import_transformers(args.folder, args.out)
        if new:
            print("note: the folder has no language-model head, so the checkpoint's is untrained")
        print(f"wrote {args.out}; train on from it with --restore-file, or load it by TupeModel.from_pretrained")
        return
    lines = import_model(
        args.folder,
        args.out,
        head_name=args.head,
        labels=[label.strip() for label in args.labels.split(",")] if args.labels else None,
        pooler=args.pooler,
        with_tokenizer=not args.no_tokenizer,
        bpe=args.bpe,
        language=args.language or "xx",
    )
    print("\n".join(lines))
    print(f"wrote {args.out}: checkpoint.pt, and what prepare-glue and prepare-qa take as CORPUS")
