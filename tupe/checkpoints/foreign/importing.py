"""Write a model that was pre-trained elsewhere as a corpus folder without training data, and its checkpoint.

OUT/checkpoint.pt     of the plugin: `--restore-file`, fine-tuning, `TupeModel.from_pretrained`
OUT/dict.txt          fairseq's dictionary, in our order
OUT/tokenizer.json    or `sentencepiece.bpe.model`
OUT/manifest.json     as `tupe prepare-corpus` writes it, so that every command takes the vocabulary from OUT
"""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary

from tupe.checkpoints.fairseq_checkpoint import fill, model_config, write_weights
from tupe.checkpoints.foreign import fairseq, head, tokenizer, transformers
from tupe.checkpoints.foreign.model import Foreign, families
from tupe.checkpoints.foreign.names import HEAD, LM_HEAD, OUTPUT, POOLER, WORDS
from tupe.checkpoints.foreign.verify import verify
from tupe.checkpoints.foreign.vocabulary import Vocabulary, by_role, reorder, write_dictionary
from tupe.data.corpus.manifest import DICTIONARY, NAME, Content, Counts, Imported, versions
from tupe.data.corpus.settings import IMPORTED, Settings
from tupe.data.corpus.tokenizers import JSON, open_tokenizer
from tupe.data.text.stages import KEEP_WHITE_SPACE
from tupe.fairseq_patches.checkpoints import dictionary_sha256
from tupe.models.checkpoint_config import saved_config
from tupe.models.config import TupeConfig
from tupe.models.tupe import TupeModel, as_namespace
from tupe.util import UserError, atomic, check_new, read_json, sha256, write_json

CHECKPOINT = "checkpoint.pt"
_FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license:[ \t]*[\"']?([\w.+-]+)", re.MULTILINE)


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
    compare: bool = False,
) -> list[str]:
    """Write the model in `folder` to the folder `out`.

    Args:
        folder: of fairseq or of Transformers.
        out: a new folder.
        head_name: the classification head to keep, of fairseq by its name; of Transformers, what to call it.
        labels: names of the head's classes, where the folder does not say them.
        pooler: keep BERT's pooler, which begins the head of a task.
        with_tokenizer: write the tokenizer too.
        bpe: the folder of a tokenizer of fairseq's that does not lie beside the model.
        language: of the text.
        compare: run the original too, and compare the outputs.

    Returns:
        What was done, a line each.

    Raises:
        UserError: `out` exists, or the model or its tokenizer computes what ours cannot.
    """
    check_new(out)
    foreign, found = _read(folder, head_name, bpe, with_tokenizer)
    foreign.split_head(head_name, pooler)
    vocabulary = by_role(found.source, foreign.symbols)
    reorder(foreign.weights, vocabulary.rows)
    name = foreign.name
    config = saved_config({"cfg": {"model": {**foreign.fields, "_name": name}}}, foreign.path)
    classes, task = head.in_our_order(foreign.head, labels or foreign.classes) if foreign.head else (None, "")
    files = {path.name: sha256(path) for path in (*foreign.files, *found.files)}
    licence = _licence(folder)
    with atomic(out) as made:
        made.mkdir()
        dictionary = write_dictionary(made / DICTIONARY, vocabulary.symbols)
        model = build(config, dictionary, foreign, head_name)
        of_text = found.content(vocabulary.symbols)
        for file, content in of_text.items():
            (made / file).write_bytes(content)
        named = [*of_text, DICTIONARY]
        if compare:
            text = open_tokenizer(made / named[0]) if with_tokenizer else None
            compared = verify(folder, foreign, model, vocabulary, text, head_name)
        weights = {**model.state_dict(), **{k: v for k, v in foreign.weights.items() if k.startswith(POOLER)}}
        if not foreign.has_lm_head:
            weights = {key: tensor for key, tensor in weights.items() if not key.startswith(LM_HEAD)}
        of_head = ()
        if head_name is not None:
            rows = len(foreign.head["out_proj.weight"])
            of_head = head.task_of(head_name, rows, config.max_positions, foreign.multi_label)
        if classes:
            (made / "label").mkdir()
            (made / "label" / DICTIONARY).write_text("".join(f"{name} 1\n" for name in classes), encoding="utf-8")
        write_weights(made / CHECKPOINT, model_config(model.args, name), weights, config.max_positions, *of_head)
        corpus = Settings(
            profile=IMPORTED,
            stages=(KEEP_WHITE_SPACE,) if JSON in named else (),
            language=language,
            vocab_size=len(vocabulary.symbols),
            model_type=found.kind or "none",
            valid_documents=0,
            shards=None,
            max_tokens=max(1, config.max_positions - 2),
        )
        imported = Imported(folder.resolve().name, foreign.kind, licence, files)
        sizes = {file: (made / file).stat().st_size for file in named}
        sums = {file: sha256(made / file) for file in named}
        content = Content(corpus, (), (), Counts({}, {}, {}), versions(), sizes, sums, imported=imported)
        write_json(made / NAME, {"version": content.version, **asdict(content)})
    lines = _lines(name, foreign, found, vocabulary, licence)
    if head_name is not None:
        order = f" in the order of {task}" if task else "; give --labels to map them to those of a task" * (not classes)
        lines.append(f"head: {head_name}, {', '.join(classes or ['classes without names'])}{order}")
    return [*lines, *([compared] if compare else []), *(f"note: {note}" for note in found.notes)]


def is_ours(folder: Path) -> bool:
    """Tell whether `tupe export` wrote a folder."""
    return not fairseq_folder(folder) and read_json(folder / transformers.CONFIG)["model_type"] == "tupe"


def fairseq_folder(folder: Path) -> bool:
    return (folder / fairseq.WEIGHTS).is_file()


def _read(folder: Path, head_name: str | None, bpe: Path | None, wanted: bool) -> tuple[Foreign, tokenizer.Found]:
    if fairseq_folder(folder):
        foreign, found = fairseq.read(folder, head_name), tokenizer.of_fairseq(folder, bpe, wanted)
        symbols = len(found.source.symbols)
        if symbols != foreign.symbols:  # fairseq's tables have a row for each symbol and for <mask>, and no more
            raise UserError(
                f"{found.source.path} and <mask> make {symbols:,} symbols, but {foreign.path} has {foreign.symbols:,} "
                "rows, so its dictionary is another."
            )
        return foreign, found
    foreign, config = transformers.read(folder)
    return foreign, tokenizer.of_transformers(folder, config, wanted)


def build(config: TupeConfig, dictionary: Dictionary, foreign: Foreign, head_name: str | None = None) -> TupeModel:
    """Build the model of a configuration and give it the weights, those of a head by its name among them."""
    args = as_namespace(config)
    args.dictionary_sha256 = dictionary_sha256(dictionary)
    torch.manual_seed(1)
    model = TupeModel.build_model(args, SimpleNamespace(source_dictionary=dictionary))
    state = {name: tensor for name, tensor in foreign.weights.items() if not name.startswith(POOLER)}
    if head_name is not None:
        model.register_classification_head(head_name, num_classes=len(foreign.head["out_proj.weight"]))
        state.update({f"{HEAD}{head_name}.{part}": tensor for part, tensor in foreign.head.items()})
    if foreign.has_lm_head:
        state.setdefault(OUTPUT, state[WORDS])
    fill(model, state, may_lack=() if foreign.has_lm_head else LM_HEAD)
    return model.eval()


def _licence(folder: Path) -> str | None:
    """The licence that the folder's README names in its front matter, as those of the hub do."""
    path = folder / "README.md"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        front = _FRONT.search(file.read(1 << 16))
    found = _LICENCE.search(front[1]) if front else None
    return found[1] if found else None


def _lines(
    name: str, foreign: Foreign, found: tokenizer.Found, vocabulary: Vocabulary, licence: str | None
) -> list[str]:
    f, positions = foreign.fields, foreign.fields["max_positions"]
    unused = f" (a table of {foreign.rows} rows, of which {foreign.rows - positions} are never used)"
    filled = f", of which {vocabulary.filled} have no symbol" if vocabulary.filled else ""
    lines = [
        f"model: {foreign.kind} as {name}, {f['encoder_layers']} layers of width {f['encoder_embed_dim']}, "
        f"{f['encoder_attention_heads']} heads, {positions} positions{unused * (foreign.rows > positions)}",
        f"symbols: {len(vocabulary.symbols):,}{filled}; {vocabulary.moved:,} rows moved by role, "
        f"{len(vocabulary.dropped)} dropped",
        f"tokenizer: {found.kind or 'none'}",
    ]
    if not foreign.has_lm_head:
        lines.append("untrained: the language-model head, which the folder lacks")
    if foreign.left:
        lines.append(f"left behind: {', '.join(families(foreign.left))}")
    lines.append(f"licence: {licence or 'none found in a README.md'}")
    return lines
