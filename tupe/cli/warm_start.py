"""Makes a trained model into another system, which starts with its words, its layers and the effect of its positions.

The outputs stay the same if the system only adds a relative term, segments or DIET's factors, scales the words
otherwise, or no longer shares terms among layers. For any other system, the positions of a BERT-A are taken out of the
input, and the new terms are fitted on text: --data. docs/warm_start.md says what is lost.

Example: tupe warm-start models/roberta_base/checkpoint.pt bert_r.pt bert_r
         tupe warm-start models/roberta_base/checkpoint.pt tupe_r.pt tupe_r sharing=none --data DATA
"""

import argparse
from pathlib import Path

from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="a masked language model, trained here or imported")
    add("out", type=Path, metavar="OUT", help="file to write, a new one")
    add("system", metavar="SYSTEM", help="the new system: `tupe systems` lists them; the size stays")
    add(
        "fields",
        nargs="*",
        default=[],
        metavar="FIELD=VALUE",
        help="fields of the position encoding that replace the system's",
    )
    add("--data", type=Path, help="a corpus in the model's vocabulary; also measures the losses before and after")
    help_ = "fit them to text, guess them by the first layer's weights, or draw new ones (default: calibrate)"
    add("--positions", choices=["calibrate", "weights", "new"], default="calibrate", help=help_)
    help_ = "number of sequences to calibrate with, and to measure the losses on (default: 384)"
    add("--sequences", type=int, metavar="N", help=help_)
    add("--seed", type=int, default=1, help="seed of the masks and of new parameters (default: %(default)s)")


def run(args: argparse.Namespace) -> None:
    import time

    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.text import read_stream
    from tupe.analysis.warm_start import losses, masked_training_text
    from tupe.checkpoints.load import model_config, open_checkpoint, write_weights
    from tupe.checkpoints.warm_start.start import checkpoint_weights, difference, warm_start
    from tupe.checkpoints.warm_start.target import target_fields, why_not_exact
    from tupe.models.describe import full_name

    check_new(args.out)
    sequences = args.sequences or 384
    opened = open_checkpoint(args.checkpoint)
    old = open_encoder(opened)
    target = target_fields(old, args.system, args.fields)
    text, begin = None, time.process_time()
    if args.data is not None and why_not_exact(old.args, target) is None:
        read_stream(old, args.data, split="train", most=1)  # nothing is fitted to it, but it must be the model's
    elif args.data is not None:
        text = masked_training_text(old, args.data, sequences, args.seed)
    started = warm_start(old, target, text, args.positions, args.seed)
    seconds = time.process_time() - begin
    new = started.encoder
    weights, left = checkpoint_weights(new, opened.weights)
    length = new.sentence_encoder.max_positions

    print(f"{old.shown_as} to {full_name(new.args)}")
    if started.exact:
        apart, largest = difference(old, new)
        print(f"exact: the logits of both differ by at most {apart:.1e}, the largest being {largest:.2f}")
    elif args.positions == "new":
        print("the words and layers of the old model; its positions are lost, and the new ones are drawn")
    else:
        how = f"calibrated on {len(text)} sequences" if args.positions == "calibrate" else "guessed from the weights"
        print(f"not exact: the positions are taken out of the input and {how}")
        shares = ", ".join(f"{share:.1%}" for share in started.held)
        layers = "each layer" if len(started.held) > 1 else "the first layer"
        print(f"what positions did to the logits of {layers} is in the new terms to {shares}")
    print(f"it took {seconds:.2f} s of the processor")
    if target.rotary_dims and not old.args.rotary_dims:
        print("rotary positions turn the words' queries and keys, which were not trained for it")
    if args.data is not None and not started.exact:
        print(losses(old, new, args.data, sequences, args.seed))
    write_weights(args.out, model_config(new.args, new.args._name), weights)
    print(f"wrote {args.out}, without the optimizer's state")
    if left:
        print(f"left behind, as what a task taught: {', '.join(left)}")
    print(
        f"train on: CONFIG=continue bash scripts/pretrain.sh DATA $(tupe model-overrides {args.out} | grep -v '^task') "
        f"checkpoint.finetune_from_model={args.out} task.tokens_per_sample={length}"
    )
