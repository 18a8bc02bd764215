"""The model card of an exported checkpoint: its equation, training, scores and limits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from tupe.data.manifest import Manifest
from tupe.data.tokenizers import JSON
from tupe.models.describe import equation
from tupe.models.tupe import TupeModel
from tupe.systems import PAPER_NAMES, system_of

#: Stages of a corpus' text processing that a tokenizer.json cannot do. It can do `repair-characters`, and lower case is
#: in the SentencePiece model; the other stages choose or cut lines.
_CLEANING = ("special-tokens", "normalise-punctuation", "tokenise")
#: Head -> the hub's name of its task, and an input of its pipeline; Transformers removed that of question answering.
_TASKS = {
    "Model": ("feature-extraction", "A sentence."),
    "ForMaskedLM": ("fill-mask", "The capital of France is <mask>."),
    "ForSequenceClassification": ("text-classification", "A sentence."),
    "ForQuestionAnswering": ("question-answering", ""),
}
#: Papers; the hub links a model to the pages that its card names.
_TUPE = "[Rethinking Positional Encoding in Language Pre-training](https://arxiv.org/abs/2006.15595), 2021"
_OTHERS = {
    "bert": "[BERT](https://arxiv.org/abs/1810.04805), 2019",
    "diet": "[A Simple and Effective Positional Encoding for Transformers](https://arxiv.org/abs/2104.08698), 2021",
}


@dataclass(frozen=True)
class Loaded:
    """A checkpoint with all that an export needs."""

    model: TupeModel  # in evaluation mode, on the CPU, in float32
    symbols: list[str]  # of the dictionary, in order
    cfg: dict[str, Any]  # the checkpoint's configuration
    updates: int  # how many it was trained for
    head: str | None  # the classification head of the task that it was fine-tuned for
    labels: list[str] | None  # its classes; `LABEL_0` alone for a regression
    kind: str  # of Transformers' classes: `Model`, `ForMaskedLM`, `ForSequenceClassification`, `ForQuestionAnswering`

    @property
    def name(self) -> str:
        return self.cfg["model"]["_name"]


@dataclass(frozen=True)
class About:
    """The contents of a model card."""

    loaded: Loaded
    corpus: Manifest | None  # if there is one
    score: dict[str, Any] | None  # content of `result.json`, after a fine-tuning
    tokenizer: bool  # whether there is one
    license: str | None  # its identifier
    base_model: str | None  # the model that was fine-tuned

    @property
    def tokenizer_as_imported(self) -> bool:
        """Whether the tokenizer is an imported model's `tokenizer.json`, which the export copies."""
        return self.corpus is not None and JSON in self.corpus.checksums

    @property
    def notes(self) -> list[str]:
        """Warnings for the user."""
        notes, settings = [], self.corpus.settings if self.corpus and self.tokenizer else None
        cleaning = [stage for stage in _CLEANING if settings and stage in settings.stages]
        if cleaning:
            notes.append(
                f"The corpus was cleaned before SentencePiece ({', '.join(cleaning)}), which tokenizer.json cannot do. "
                f"Call `tupe.data.text.TextProcessing({settings.stages!r}, {settings.language!r}).around` on your text "
                "first, or you get other subwords than in training."
            )
        if self.loaded.kind == "Model":
            notes.append("The model has no language-model head. Use its features (AutoModel).")
        if not self.tokenizer:
            notes.append("The folder does not contain a tokenizer. Encode text as the corpus was encoded.")
        return notes


def card(about: About, name: str) -> str:
    """Write the `README.md` of the folder `name`."""
    args, own = about.loaded.model.args, about.loaded.name.rpartition("_")[0]
    fields, system = vars(args), system_of(vars(args)) or own
    imported = about.corpus.imported if about.corpus else None
    origin = f", made of {imported['name']} ({imported['kind']})" if imported else ""
    cited = [_TUPE, *(paper for prefix, paper in _OTHERS.items() if system.startswith(prefix))]
    parts = [
        f"---\n{_front_matter(about, name)}\n---",
        f"# {name}\n\n{PAPER_NAMES.get(system, about.loaded.name)}{origin}: {fields['encoder_layers']} layers, width "
        f"{fields['encoder_embed_dim']}, {fields['encoder_attention_heads']} heads, {fields['max_positions']} "
        f"positions, {'pre' if fields['encoder_normalize_before'] else 'post'}-norm.\n\n"
        f"    logit = {equation(args)}",
        f"## Use\n\n```python\n{_snippet(about, name)}\n```\n\n`trust_remote_code` runs the code in this folder, whose "
        "license is in `LICENSE`. It needs Transformers 5.14 or later.",
        f"## Training\n\n{_training(about)}",
        f"## Limits\n\n{_limits(about)}",
        f"## Citation\n\n{'; '.join(cited)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(about: About, name: str) -> str:
    corpus, languages, results = about.corpus, set(), None
    if corpus is not None:
        own = corpus.settings.language
        languages = {file["language"] or own for file in corpus.inputs} or {own}
    task, _ = _TASKS[about.loaded.kind]
    if about.score:
        of = about.score["task"]
        results = [EvalResult(task, of.lower(), of, about.score["metric"], about.score["score"])]
    return ModelCardData(
        license=about.license,
        language=sorted(languages - {"xx"}) or None,
        library_name="transformers",
        pipeline_tag=task,
        tags=["tupe", "fairseq"],
        base_model=about.base_model,
        model_name=name if results else None,
        eval_results=results,
    ).to_yaml()


def _snippet(about: About, name: str) -> str:
    task, text = _TASKS[about.loaded.kind]
    options = f'"{name}", trust_remote_code=True'
    if about.tokenizer and text:
        return f'from transformers import pipeline\n\nprint(pipeline("{task}", {options})("{text}"))'
    auto = f"AutoModel{about.loaded.kind.removeprefix('Model')}"
    return f"from transformers import {auto}\n\nmodel = {auto}.from_pretrained({options})"


def _training(about: About) -> str:
    loaded, seed = about.loaded, (about.loaded.cfg.get("common") or {}).get("seed")
    trained = f"{loaded.updates:,} updates, seed {seed}" if loaded.updates else "not trained here"
    lines = [f"`{loaded.name}` of the fairseq plugin, {trained}."]
    if about.corpus and about.corpus.inputs:
        settings = about.corpus.settings
        files = sorted({Path(file["name"]).name for file in about.corpus.inputs})
        lines.append(f"Corpus: {', '.join(files[:8])}.")
        lines.append(f"Vocabulary: {settings.vocab_size:,} subwords ({settings.model_type}).")
        lines.append(f"Text processing: {', '.join(settings.stages) or 'none'}.")
    if about.score:
        own = "Fine-tuned on {task}: {metric} {score:.2f} of the development set, seed {seed}, learning rate {lr:g}."
        lines.append(own.format(**about.score))
    return "\n".join(lines)


def _limits(about: About) -> str:
    longest = about.loaded.model.max_positions()
    lines = [f"Inputs have at most {longest} tokens, `<s>` and `</s>` included.", *about.notes]
    if about.tokenizer and not about.tokenizer_as_imported:
        lines.append(
            "The tokenizer also joins combining marks to letters (NFC) where SentencePiece did not (a tilde to `ê`): "
            "1% of Vietnamese lines of CC-100 get other subwords than in training, fewer than 0.1% of other lines."
        )
    if len(about.loaded.labels or ()) == 1:
        lines.append("The output is a score from 0 to 1: the number divided by the task's scale (STS-B's is 5).")
    return "\n".join(f"- {line}" for line in lines)
