"""Makes a trained model into another system, which begins with its words, layers and positions.

Exact, with the outputs of the old model: a relative term, segments or DIET's factors on top, another scale of the
words, layers that no longer share.

Example: tupe warm-start models/roberta_base/checkpoint.pt bert_r.pt bert_r
         tupe warm-start checkpoints/bert_a_base/checkpoint_best.pt own.pt bert_a relative=shaw sharing=none
"""

import argparse
from pathlib import Path

from tupe.cli._types import new_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="a masked language model, trained here or imported")
    add("out", type=new_file, metavar="OUT", help="file to write, a new one")
    add("system", metavar="SYSTEM", help="what it is to become: `tupe systems` lists them; the size stays")
    add("fields", nargs="*", metavar="FIELD=VALUE", help="of the position encoding, over the system's")


def run(args: argparse.Namespace) -> None:
    from tupe.analysis.checkpoint import open_encoder
    from tupe.checkpoints.fairseq_checkpoint import write_weights
    from tupe.checkpoints.load import open_checkpoint
    from tupe.checkpoints.warm_start.start import difference, warm_start
    from tupe.checkpoints.warm_start.target import target_fields
    from tupe.models.config import TupeConfig
    from tupe.models.describe import full_name

    opened = open_checkpoint(args.checkpoint)
    old = open_encoder(opened)
    started = warm_start(old, target_fields(old, args.system, args.fields))
    new = started.encoder
    weights = {f"encoder.{name}": tensor for name, tensor in new.state_dict().items()}
    others = {name: tensor for name, tensor in opened.weights.items() if not name.startswith("encoder.")}
    weights.update({name: tensor for name, tensor in others.items() if name.startswith("pooler.")})
    left = sorted({".".join(name.split(".")[:2]) for name in others if not name.startswith("pooler.")})
    fields = {name: value for name, value in vars(new.args).items() if name in TupeConfig.__dataclass_fields__}
    write_weights(args.out, fields, weights, new.sentence_encoder.max_positions)

    print(f"{old.shown_as} to {full_name(new.args)}: {args.out}")
    apart, largest = difference(old, new)
    print(f"exact: the logits of both differ by at most {apart:.1e}, the largest being {largest:.2f}")
    if left:
        print(f"left behind, as what a task taught: {', '.join(left)}")
    print("the optimizer's state does not go along; to train on:")
    print(
        f"  CONFIG=continue bash scripts/pretrain.sh DATA $(tupe model-overrides {args.out} | grep -v '^task') "
        f"checkpoint.finetune_from_model={args.out} task.tokens_per_sample={new.sentence_encoder.max_positions}"
    )
