"""Write a model that was pre-trained elsewhere as a corpus folder without training data, and its checkpoint.

OUT/checkpoint.pt     for `--restore-file`, fine-tuning and `TupeModel.from_pretrained`
OUT/dict.txt          fairseq's dictionary, in this plugin's order
OUT/tokenizer.json    or `sentencepiece.bpe.model`
OUT/manifest.json     as `tupe prepare-corpus` writes it, so that every command takes the vocabulary from OUT
"""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from fairseq.data import Dictionary

from tupe.checkpoints.foreign import fairseq, head, transformers
from tupe.checkpoints.foreign.model import Foreign
from tupe.checkpoints.foreign.names import HEAD, OUTPUT, POOLER, WORDS
from tupe.checkpoints.foreign.verify import verify
from tupe.checkpoints.foreign.vocabulary import reorder
from tupe.checkpoints.load import model_config, write_weights
from tupe.data.manifest import DICTIONARY, IMPORTED, Manifest, Settings
from tupe.data.text import KEEP_WHITE_SPACE
from tupe.data.tokenizers import FILLER, JSON, MODEL, without_spaces, write_dictionary
from tupe.models.config import named
from tupe.models.pooling import MODULES, copy_pooling, read_pooling
from tupe.models.tupe import TupeModel
from tupe.patches.checkpoints import read_dictionary, symbols_sha256
from tupe.util import atomic, check_new, read_json, sha256

CHECKPOINT = "checkpoint.pt"


def import_model(
    folder: Path,
    out: Path,
    *,
    head_name: str | None = None,
    labels: Sequence[str] | None = None,
    pooler: bool = False,
    with_tokenizer: bool = True,
    bpe: Path | None = None,
    language: str = "xx",
) -> list[str]:
    """Write the model in `folder` to the folder `out`.

    Args:
        folder: a folder of fairseq or of Transformers.
        out: a new folder.
        head_name: name of the classification head to keep: a head of fairseq's model, or a new name for Transformers'.
        labels: names of the head's classes, if the folder lacks them.
        pooler: keep the dense layer of Transformers' classification head, BERT's pooler, to initialize a task's head.
        with_tokenizer: write the tokenizer too.
        bpe: the folder of fairseq's tokenizer, if it is not the model's folder.
        language: language of the text.

    Returns:
        A line per step.

    Raises:
        UserError: `out` exists, or the imported model's outputs differ from the original's.
    """
    check_new(out)
    if fairseq_folder(folder):
        foreign = fairseq.read(folder, head_name, bpe, with_tokenizer)
    else:
        foreign = transformers.read(folder, head_name is not None, pooler, with_tokenizer)
    classes, task, of_task = None, "", ()
    kind, files = foreign.tokenizer or ("none", {})
    imported = {"name": folder.resolve().name, "kind": foreign.kind, "license": _license(folder)}
    reorder(foreign.weights, foreign.rows)
    with atomic(out) as made:
        made.mkdir()
        symbols = foreign.symbols if MODEL in files else map(without_spaces, foreign.symbols)
        write_dictionary(made / DICTIONARY, symbols)
        dictionary = read_dictionary(made / DICTIONARY)
        if head_name is not None:
            classes = labels or foreign.classes
            of_task = head.task_of(head_name, len(foreign.head["out_proj.weight"]), foreign.fields["max_positions"])
        if classes:
            classes, task = head.in_our_order(foreign.head, classes)
            (made / "label").mkdir()
            write_dictionary(made / "label" / DICTIONARY, classes)
        model = build(foreign, dictionary, head_name)
        differences = verify(foreign, model, head_name)
        weights = model.state_dict()
        if pooler:
            weights |= {f"{POOLER}{part}": foreign.head[part] for part in ("dense.weight", "dense.bias")}
        write_weights(made / CHECKPOINT, model_config(model.args, foreign.name), weights, *of_task)
        if read_pooling(folder):
            copy_pooling(folder, made)
        for file, content in files.items():
            (made / file).write_bytes(content)
        settings = Settings(
            profile=IMPORTED,
            stages=(KEEP_WHITE_SPACE,) if JSON in files else (),
            language=language,
            vocab_size=len(foreign.symbols),
            model_type=kind,
            valid_documents=0,
            shards=None,
            max_tokens=max(1, foreign.fields["max_positions"] - 2),
        )
        sums = {name: sha256(made / name) for name in (*files, DICTIONARY)}
        Manifest(made, settings, sums, imported=imported).write()
    filled = sum(name.startswith(FILLER) for name in foreign.symbols)
    lines = [
        f"model: {foreign.kind} as {foreign.name}",
        f"symbols: {len(foreign.symbols):,}, {filled:,} of them without text",
        f"tokenizer: {kind}",
        f"license: {imported['license'] or 'none found in a README.md'}",
    ]
    if not foreign.has_lm_head:
        lines.append("no language-model head")
    if (folder / MODULES).is_file() and not read_pooling(folder):
        lines.append("left behind: the modules of sentence-transformers, which are not supported")
    if foreign.left:
        lines.append(f"left behind: {', '.join(dict.fromkeys('.'.join(n.split('.')[:2]) for n in foreign.left))}")
    if head_name is not None:
        order = f" in the order of {task}" if task else "; pass --labels to map them to those of a task" * (not classes)
        lines.append(f"head: {head_name}, {', '.join(classes or ['classes without names'])}{order}")
    verified = ", ".join(f"{name} {share:.1e}" for name, share in differences.items())
    return [*lines, f"difference from the original, relative to the largest value: {verified}"]


def is_ours(folder: Path) -> bool:
    """Return whether `tupe export` wrote a folder."""
    return not fairseq_folder(folder) and read_json(folder / "config.json")["model_type"] == "tupe"


def fairseq_folder(folder: Path) -> bool:
    return (folder / fairseq.WEIGHTS).is_file()


def build(foreign: Foreign, dictionary: Dictionary, head_name: str | None = None) -> TupeModel:
    """Build the model, and load its weights and those of the head called `head_name`."""
    config = named(foreign.name, **foreign.fields, dictionary_sha256=symbols_sha256(dictionary.symbols))
    model = TupeModel.build_model(config, SimpleNamespace(source_dictionary=dictionary))
    state = dict(foreign.weights)
    if head_name is not None:
        model.register_classification_head(head_name, num_classes=len(foreign.head["out_proj.weight"]))
        state.update({f"{HEAD}{head_name}.{part}": tensor for part, tensor in foreign.head.items()})
    if foreign.has_lm_head:
        state.setdefault(OUTPUT, state[WORDS])
    else:
        model.encoder.lm_head = None
    model.load_state_dict(state)
    return model.eval()


def _license(folder: Path) -> str | None:
    """Return the license in the front matter of the folder's README, where the hub's model cards name it."""
    from huggingface_hub import ModelCard

    path = folder / "README.md"
    return ModelCard.load(path).data.get("license") if path.is_file() else None
