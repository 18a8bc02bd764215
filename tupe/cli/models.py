"""Describe and convert models."""

import shlex
import time
from pathlib import Path
from typing import Literal

from typer import Argument, Option

from tupe.util import UserError, check_new


def describe(
    model: str = Argument(metavar="CHECKPOINT|MODEL", help="A checkpoint, or a name such as tupe_a_base."),
    fields: list[str] = Argument([], metavar="FIELD=VALUE", help="Changes of a named model."),
    vocab_size: int = Option(32_768, help="Symbols of a named model."),
    max_positions: int = Option(512, help="Positions of a named model."),
) -> None:
    """Print a model's equation, parameters, cost and the fields of its position encoding.

    tupe describe checkpoints/tupe_a_base/checkpoint_last.pt
    """
    from tupe.analysis.checkpoint import open_encoder
    from tupe.models.describe import describe, with_fields

    if Path(model).exists():
        if fields:
            raise UserError(f"{model} has its own fields. {' '.join(fields)} is only for a model's name.")
        encoder = open_encoder(model)
        args, vocab_size = encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings
    else:
        args = with_fields(model, fields)
        args.max_positions = getattr(args, "max_positions", None) or max_positions
    print("\n".join(describe(args, vocab_size)))


def import_(
    folder: Path = Argument(help="Released by fairseq, or written by save_pretrained or `tupe export`."),
    out: Path = Argument(help="New folder; for an export of ours a new file."),
    head: str | None = Option(None, help="Keep the classification head; of fairseq's model the one so named."),
    labels: str = Option("", metavar="A,B", help="Names of the head's classes, in its order."),
    pooler: bool = Option(False, "--pooler", help="Keep BERT's pooler, to start the head of a task with."),
    no_tokenizer: bool = Option(False, "--no-tokenizer", help="Write no tokenizer."),
    bpe: Path | None = Option(None, help="Folder of encoder.json and vocab.bpe of a fairseq model."),
    language: str = Option("xx", help="Language of the text, for the manifest; xx: any."),
) -> None:
    """Import a model that was pre-trained by fairseq or Transformers, or that `tupe export` wrote.

    RoBERTa, XLM-R and CamemBERT of fairseq; of Transformers also BERT, DistilBERT, MPNet, ELECTRA, data2vec and
    DeBERTa's second and third version. OUT is then a folder with checkpoint, dictionary, tokenizer and manifest, which
    other commands take as a corpus; the original is run too, and the difference of the outputs is printed. Of our own
    exports OUT is a checkpoint.

    tupe import roberta.base/ models/roberta_base --bpe gpt2_bpe/
    """
    from tupe.checkpoints.foreign.importing import import_model, is_ours
    from tupe.hf.load import import_transformers

    if is_ours(folder):
        check_new(out)
        if import_transformers(folder, out):
            print("note: the folder has no language-model head, so the checkpoint's is untrained")
        print(f"wrote {out}; train on from it with --restore-file, or load it by TupeModel.from_pretrained")
        return
    head_of = {"head_name": head, "labels": labels.split(",") if labels else [], "pooler": pooler}
    print("\n".join(import_model(folder, out, **head_of, with_tokenizer=not no_tokenizer, bpe=bpe, language=language)))
    print(f"wrote {out}: checkpoint.pt, and what prepare-glue and prepare-qa take as CORPUS")


def warm_start(
    checkpoint: Path = Argument(help="Masked language model, trained here or imported."),
    system: str = Argument(help="New system, which `tupe systems` lists; the size stays."),
    fields: list[str] = Argument([], metavar="FIELD=VALUE", help="Changes of the system."),
    out: Path = Argument(help="New file."),
    data: Path | None = Option(None, help="Corpus in the model's vocabulary; also to measure the losses."),
    positions: Literal["calibrate", "weights", "new"] = Option(
        "calibrate", help="Fit to text, guess from the weights, or draw."
    ),
    sequences: int = Option(384, help="Sequences to calibrate on, and to measure the losses on."),
    seed: int = Option(1, help="Seed of the masks and of new parameters."),
) -> None:
    """Convert a trained model to another position encoding; its content and layers are copied.

    The outputs stay the same if the system only adds a relative term, segments or DIET's factors, scales the content
    otherwise, or no longer shares terms among layers. For any other system, the positions of a BERT-A are taken out of
    the input, and the new terms are fitted on the text of --data.

    tupe warm-start models/roberta_base/checkpoint.pt bert_r bert_r.pt
    """

    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.text import read_stream
    from tupe.analysis.warm_start import losses, masked_training_text
    from tupe.checkpoints.load import model_config, open_checkpoint, write_weights
    from tupe.checkpoints.warm_start.start import checkpoint_weights, difference, warm_start
    from tupe.checkpoints.warm_start.target import target_fields, why_not_exact
    from tupe.models.describe import full_name

    check_new(out)
    opened = open_checkpoint(checkpoint)
    old = open_encoder(opened)
    target = target_fields(old, system, fields)
    sample, begin = None, time.process_time()
    if data is not None and why_not_exact(old.args, target) is None:
        read_stream(old, data, split="train", most=1)  # nothing is fitted to it, but it must be the model's
    elif data is not None:
        sample = masked_training_text(old, data, sequences, seed)
    started = warm_start(old, target, sample, positions, seed)
    seconds = time.process_time() - begin
    new = started.encoder
    weights, left = checkpoint_weights(new, opened.weights)

    print(f"{old.shown_as} to {full_name(new.args)}")
    if started.exact:
        apart, largest = difference(old, new)
        print(f"exact: the logits of both differ by at most {apart:.1e}, the largest being {largest:.2f}")
    elif positions == "new":
        print("the content and layers of the old model; its positions are lost, and the new ones are drawn")
    else:
        how = f"calibrated on {len(sample)} sequences" if positions == "calibrate" else "guessed from the weights"
        print(f"not exact: the positions are taken out of the input and {how}")
        shares = ", ".join(f"{share:.1%}" for share in started.held)
        print(f"the effect of positions on the logits of the layers is in the new terms to {shares}")
    print(f"it took {seconds:.2f} s of the processor")
    if target.rotary_dims and not old.args.rotary_dims:
        print("rotary positions rotate queries and keys, which were not trained for it")
    if data is not None and not started.exact:
        print(losses(old, new, data, sequences, seed))
    write_weights(out, model_config(new.args, new.args._name), weights)
    print(f"wrote {out}, without the optimizer's state")
    if left:
        print(f"left behind, as what a task taught: {', '.join(left)}")
    print(f"train on: tupe pretrain DATA --config continue --init-from {shlex.quote(str(out))}")
