"""Describe and convert models."""

import shlex
import time
from pathlib import Path

from typer import Argument, Option

from tupe.util import UserError, check_new


def describe(
    model: str = Argument(metavar="CHECKPOINT|MODEL", help="A checkpoint, or a name such as tupe_a_base."),
    fields: list[str] = Argument([], metavar="FIELD=VALUE", help="Overrides for a named model."),
    vocab_size: int = Option(32_768, help="Vocabulary size of a named model."),
    max_positions: int = Option(512, help="Maximum positions of a named model."),
) -> None:
    """Print a model's equation, parameters, cost and the fields of its position encoding.

    tupe describe checkpoints/tupe_a_base/checkpoint_last.pt
    """
    from tupe.analysis.checkpoint import open_encoder
    from tupe.models.describe import describe, with_fields

    if Path(model).exists():
        if fields:
            raise UserError(f"{model} has its own fields. Remove {' '.join(fields)}, or pass a model's name.")
        encoder = open_encoder(model)
        args, vocab_size = encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings
    else:
        args = with_fields(model, fields)
        args.max_positions = getattr(args, "max_positions", None) or max_positions
    print("\n".join(describe(args, vocab_size)))
    if Path(model).exists() and encoder.lm_head is None and not hasattr(args, "generator_size"):
        print("head: the checkpoint has no language-model head, but the numbers above include one")


def import_(
    folder: Path = Argument(help="Folder released by fairseq, or written by save_pretrained or `tupe export`."),
    out: Path = Argument(help="New folder; a new file if `tupe export` wrote FOLDER."),
    head: str | None = Option(None, help="Name of the classification head to keep; for fairseq, its name there."),
    labels: str = Option("", metavar="A,B", help="Names of the head's classes, in order."),
    pooler: bool = Option(False, "--pooler", help="Keep BERT's pooler, to initialize the head of a task."),
    no_tokenizer: bool = Option(False, "--no-tokenizer", help="Do not write the tokenizer."),
    bpe: Path | None = Option(None, help="Folder with encoder.json and vocab.bpe, for a fairseq model."),
    language: str = Option("xx", help="Language of the text, for the manifest; xx: any."),
) -> None:
    """Import a model that was pre-trained with fairseq or Transformers, or that `tupe export` wrote.

    RoBERTa, XLM-R and CamemBERT are supported, and from Transformers also BERT, DistilBERT, MPNet, ELECTRA, data2vec,
    DeBERTa v2 and v3, and ModernBERT. OUT is a folder with a checkpoint, dictionary, tokenizer and manifest, which
    other commands take as a corpus. The command also runs the original, and prints how far the outputs differ. If
    `tupe export` wrote FOLDER, OUT is a checkpoint.

    tupe import roberta.base/ models/roberta_base --bpe gpt2_bpe/
    """
    from tupe.checkpoints.foreign.importing import import_model, is_ours
    from tupe.hf.load import import_folder

    if is_ours(folder):
        check_new(out)
        import_folder(folder, out)
        print(f"wrote {out}; continue training with --init-from, or load it by TupeModel.from_pretrained")
        return
    head_of = {"head_name": head, "labels": labels.split(",") if labels else [], "pooler": pooler}
    print("\n".join(import_model(folder, out, **head_of, with_tokenizer=not no_tokenizer, bpe=bpe, language=language)))
    print(f"wrote {out}: checkpoint.pt, and a vocabulary for prepare-corpus --vocabulary, prepare-glue and prepare-qa")


def warm_start(
    checkpoint: Path = Argument(help="Masked language model, trained here or imported."),
    system: str = Argument(help="New system, which `tupe systems` lists; the size stays the same."),
    fields: list[str] = Argument([], metavar="FIELD=VALUE", help="Overrides of the system's fields."),
    out: Path = Argument(help="New file."),
    data: Path | None = Option(None, help="Corpus in the model's vocabulary to fit to; without it, nothing is fitted."),
    sequences: int = Option(192, help="Number of sequences to fit to, each as long as the model takes."),
    seed: int = Option(1, help="Seed of new parameters."),
) -> None:
    """Convert a trained model to another position encoding; its content and layers are copied.

    The outputs stay the same if the system only adds a relative term, segments or DIET's factors, scales the content
    differently, or no longer shares terms among layers. If only the old system has positions at the input, they are
    removed, and the terms of TUPE, DIET and T5 are fitted on the text of --data. The command then compares the features
    on held-out text. Other terms are initialized at random.

    tupe warm-start models/roberta_base/checkpoint.pt bert_r bert_r.pt
    """
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.text import read_stream, windows
    from tupe.checkpoints.load import model_config, open_checkpoint, write_weights
    from tupe.checkpoints.warm_start import start
    from tupe.models.describe import full_name

    check_new(out)
    opened = open_checkpoint(checkpoint)
    old = open_encoder(opened)
    target, longest, text = start.target_fields(old, system, fields), old.sentence_encoder.max_positions, None
    if data is not None:
        stream = read_stream(old, data, split="train", most=sequences * (longest - 1))
        text = windows(stream, longest - 1, longest - 1, old.dictionary.bos())[:sequences]
    begin = time.process_time()
    started = start.warm_start(old, target, text, seed)
    new, seconds = started.encoder, time.process_time() - begin
    print(f"{old.shown_as} to {full_name(new.args)}")
    if started.exact:
        print(f"exact: the features of both differ by at most {started.apart:.1e} of the largest")
    elif not started.fitted:
        print("not exact: terms that both models have are copied, other old terms are lost, new ones are random")
    else:
        print(f"not exact: the positions are taken out of the input and fitted on {len(text)} sequences")
        held_out, lengths = read_stream(old, data), [n for n in (16, 128) if n < longest] + [longest]
        fresh = start.warm_start(old, target, seed=seed).encoder
        rows = {"this": new, "no positions": start.without_order(old), "new positions": fresh}
        cosines = {name: [start.closeness(old, model, held_out, n) for n in lengths] for name, model in rows.items()}
        print(f"cosine to the original's features, held-out text of {', '.join(map(str, lengths))} tokens:")
        for name, values in cosines.items():
            print(f"  {name:<14}" + "".join(f"{value:8.3f}" for value in values))
        better = all(best > max(others) for best, *others in zip(*cosines.values()))
        advice = "train it further before use" if target.sharing == "none" else "sharing=none keeps more"
        print("better than both at every length" if better else f"warning: not better than both: {advice}")
    print(f"CPU time: {seconds:.2f} s")  # lab/study.py parses this line
    weights, left = start.checkpoint_weights(new, opened.weights)
    write_weights(out, model_config(new.args, new.args._name), weights)
    print(f"wrote {out}, without the optimizer's state")
    if left:
        print(f"left behind, as parts of a task: {', '.join(left)}")
    print(f"continue training: tupe pretrain DATA --config continue --init-from {shlex.quote(str(out))}")
