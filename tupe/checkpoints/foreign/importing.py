"""Write a model that was pre-trained elsewhere as a corpus folder without training data, and its checkpoint.

OUT/checkpoint.pt     of the plugin: `--restore-file`, fine-tuning, `TupeModel.from_pretrained`
OUT/dict.txt          fairseq's dictionary, in our order
OUT/tokenizer.json    or `sentencepiece.bpe.model`
OUT/manifest.json     as `tupe prepare-corpus` writes it, so that every command takes the vocabulary from OUT
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
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
from tupe.data.binary import check_folder
from tupe.data.corpus.manifest import DICTIONARY, NAME, Content, Counts, Imported, versions
from tupe.data.corpus.settings import IMPORTED, Settings
from tupe.data.corpus.tokenizers import JSON, open_tokenizer
from tupe.data.languages import is_language
from tupe.data.text.stages import KEEP_WHITE_SPACE
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import dictionary_sha256, read_dictionary
from tupe.files import checksums, own, read_json, sha256, sizes, write, write_bytes
from tupe.models.checkpoint_config import saved_config
from tupe.models.config import TupeConfig
from tupe.models.tupe import TupeModel, as_namespace

MADE_BY = "tupe import"
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
        out: new, empty, or an earlier import of the same files, whose place this one takes.
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
        UserError: for anything that is missing, damaged or has no counterpart here.
    """
    check_folder(out)
    if head_name is not None and not head_name.isprintable():
        raise UserError(f"no head can be called {head_name!r:.60}: give another name")
    if not is_language(language):
        raise UserError(f"--language is {language!r:.60}, which is no language: give its code, such as en or zh-Hant")
    if labels and head_name is None:
        raise UserError("--labels names the classes of a head: give --head NAME too")
    foreign, found = _read(folder, head_name, bpe, with_tokenizer)
    foreign.split_head(head_name, pooler)
    foreign.check()
    vocabulary = by_role(found.source, foreign.symbols, foreign.files[-1])
    reorder(foreign.weights, vocabulary.rows)
    name = foreign.name
    fields = {**foreign.fields, "_name": name}
    config = saved_config({"cfg": {"model": fields}, "model": foreign.weights}, foreign.path)
    classes, task = head.in_our_order(foreign.head, labels or foreign.classes) if foreign.head else (None, "")
    of_text = found.content(vocabulary.symbols)
    files = {path.name: sha256(path) for path in (*foreign.files, *found.files)}
    settings = {"head": head_name, "labels": labels, "pooler": pooler, "language": language}
    of = {"files": files, "settings": settings, "tokenizer": found.kind}
    with own(out, MADE_BY, of, is_begun=(out / NAME).is_file), _unfinished(out) as made:
        write_dictionary(made / DICTIONARY, vocabulary.symbols)
        dictionary = read_dictionary(made / DICTIONARY, MADE_BY)
        model = build(config, dictionary, foreign, head_name)
        for file, content in of_text.items():
            write_bytes(made / file, content)
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
            write_bytes(made / "label" / DICTIONARY, "".join(f"{name} 1\n" for name in classes).encode())
        write_weights(made / CHECKPOINT, model_config(model.args, name), weights, config.max_positions, *of_head)
        licence = _licence(folder)
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
        held = sizes(made, named), checksums(made, named)
        write(made / NAME, Content(corpus, (), (), Counts({}, {}, {}), versions(), *held, imported=imported))
        (out / NAME).unlink(missing_ok=True)  # of an earlier import, until the new one is whole
        for file in (*named, *([f"label/{DICTIONARY}"] if classes else []), CHECKPOINT, NAME):
            (out / file).parent.mkdir(exist_ok=True)
            (made / file).replace(out / file)
    lines = _lines(name, foreign, found, vocabulary, licence)
    if head_name is not None:
        order = f" in the order of {task}" if task else "; give --labels to map them to those of a task" * (not classes)
        lines.append(f"head: {head_name}, {', '.join(classes or ['classes without names'])}{order}")
    return [*lines, *([compared] if compare else []), *(f"note: {note}" for note in found.notes)]


@contextlib.contextmanager
def _unfinished(out: Path) -> Iterator[Path]:
    """Yield an empty folder in `out`, of a name that is the owner's (`tupe.files.own`), and remove it."""
    folder = out / ".tupe.import"
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_ours(folder: Path) -> bool:
    """Tell whether `tupe export` wrote a folder. Raises `UserError` for one that holds no model at all."""
    if fairseq_folder(folder):
        return False
    config = folder / transformers.CONFIG
    if not folder.is_dir():
        said = f"{folder} is a file" if folder.exists() else f"there is no folder {folder}"
        raise UserError(f"{said}: give the folder of a model")
    if not os.path.lexists(config):
        raise UserError(
            f"there is neither {fairseq.WEIGHTS}, as fairseq calls it, nor {transformers.CONFIG}, of Transformers or "
            f"tupe export, in {folder}: give the folder of a model"
        )
    content = read_json(config, f"{transformers.MADE_BY} or tupe export")
    return isinstance(content, dict) and content.get("model_type") == "tupe"


def fairseq_folder(folder: Path) -> bool:
    return (folder / fairseq.WEIGHTS).is_file()


def _read(folder: Path, head_name: str | None, bpe: Path | None, wanted: bool) -> tuple[Foreign, tokenizer.Found]:
    if fairseq_folder(folder):
        foreign, found = fairseq.read(folder, head_name), tokenizer.of_fairseq(folder, bpe, wanted)
        symbols = len(found.source.symbols)
        if symbols != foreign.symbols:  # fairseq's tables have a row for each symbol and for <mask>, and no more
            raise UserError(
                f"{found.source.path} and <mask> make {symbols:,} symbols, but {foreign.path} has rows for "
                f"{foreign.symbols:,}: one is of another model, or lines of dict.txt are missing"
            )
        return foreign, found
    if bpe is not None:
        raise UserError(f"--bpe is for models of fairseq, and {folder} has its own tokenizer: leave it out")
    foreign, config = transformers.read(folder)
    found = tokenizer.of_transformers(folder, config, wanted)
    padding, said = found.source.roles["<pad>"], config.get("pad_token_id")
    if said not in (None, padding):
        raise UserError(
            f"{foreign.path} says that padding is {said!r:.20}, but {found.source.path} has it at {padding}: give the "
            "files of one model"
        )
    return foreign, found


def build(config: TupeConfig, dictionary: Dictionary, foreign: Foreign, head_name: str | None = None) -> TupeModel:
    """Build the model of a checked configuration and give it the weights, those of a head by its name among them.

    Raises:
        UserError: if they do not fit.
    """
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
    fill(model, state, foreign.path, may_lack=() if foreign.has_lm_head else LM_HEAD)
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
