"""The model card of an exported checkpoint: what it computes, how it was trained, its scores, its limits."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tupe.data.glue.tasks import TASKS
from tupe.data.manifest import NAME, Manifest
from tupe.data.tokenizers import JSON, MODEL
from tupe.systems import DESCRIPTIONS, SIZES, system_of
from tupe.util import read_json

if TYPE_CHECKING:
    from tupe.hf.export import Loaded

#: Stages of a corpus' text processing that no tokenizer.json does. It does `repair-characters`, and lower case is in
#: the SentencePiece model; the other stages choose or cut lines.
_CLEANING = ("special-tokens", "normalise-punctuation", "tokenise")
#: What the hub calls the heads' tasks; Transformers has no pipeline of the last any more.
_PIPELINES = {
    "MaskedLM": "fill-mask",
    "SequenceClassification": "text-classification",
    "QuestionAnswering": "question-answering",
}
_CITATIONS = {
    "tupe": """@inproceedings{ke2021rethinking,
  title={Rethinking Positional Encoding in Language Pre-training},
  author={Guolin Ke and Di He and Tie-Yan Liu},
  booktitle={International Conference on Learning Representations},
  year={2021}
}""",
    "diet": """@inproceedings{chen2021simple,
  title={A Simple and Effective Positional Encoding for Transformers},
  author={Pu-Chin Chen and Henry Tsai and Srinadh Bhojanapalli and Hyung Won Chung and Yin-Wen Chang and
    Chun-Sung Ferng},
  booktitle={Empirical Methods in Natural Language Processing},
  year={2021}
}""",
}


@dataclass(frozen=True)
class Score:
    """The part of a fine-tuning's `result.json` that a card shows."""

    task: str
    metric: str
    score: float
    seed: int
    lr: float

    @classmethod
    def read(cls, path: Path) -> Score:
        """Read the file."""
        content = read_json(path)
        return cls(**{name: content[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class About:
    """All that a card says."""

    loaded: Loaded
    corpus: Manifest | None  # its manifest, if there is one
    scores: Sequence[Score]  # of this run first, then of others
    tokenizer: bool  # whether there is one
    licence: str | None  # its identifier
    base_model: str | None  # what was fine-tuned

    @classmethod
    def gather(
        cls,
        checkpoint: Path,
        loaded: Loaded,
        corpus: Path,
        tokenizer: bool,
        results: Sequence[Path] = (),
        licence: str | None = None,
        base_model: str | None = None,
    ) -> About:
        """Read the corpus' manifest, and `result.json` beside a fine-tuned checkpoint unless `results` are given."""
        beside = checkpoint.parent / "result.json"
        if loaded.kind != "MaskedLM" and not results and beside.is_file():
            results = [beside]
        scores = [Score.read(path) for path in results]
        # a prepared task has a manifest of its own, but no tokenizer
        known = (corpus / NAME).is_file() and any((corpus / file).is_file() for file in (MODEL, JSON))
        manifest = Manifest.load(corpus) if known else None
        if manifest and (begun := manifest.imported):
            licence, base_model = licence or begun["licence"], base_model or begun["name"]
        return cls(loaded, manifest, scores, tokenizer, licence, base_model)

    @property
    def fields(self) -> dict[str, Any]:
        return vars(self.loaded.model.args)

    @property
    def system(self) -> str | None:
        """The row of `tupe.systems.SYSTEMS` that the fields are, if they are one."""
        return system_of(self.fields)

    @property
    def pipeline(self) -> str:
        """The task of the hub."""
        return "feature-extraction" if self.loaded.untrained else _PIPELINES[self.loaded.kind]

    @property
    def stages(self) -> tuple[str, ...] | None:
        """The stages of the corpus' text processing, if its manifest is there."""
        return self.corpus.settings.stages if self.corpus else None

    @property
    def cleaning(self) -> list[str]:
        """The stages of the text processing that the tokenizer leaves out."""
        return [stage for stage in _CLEANING if stage in (self.stages or ())]

    @property
    def tokenizer_as_imported(self) -> bool:
        """Whether the tokenizer is an imported model's `tokenizer.json`, which the export takes as it is."""
        return self.corpus is not None and JSON in self.corpus.checksums

    @property
    def notes(self) -> list[str]:
        """Sentences that a user has to know."""
        notes = []
        if self.cleaning and self.tokenizer:
            notes.append(
                f"the corpus was cleaned before SentencePiece ({', '.join(self.cleaning)}), which no tokenizer.json "
                "does: feed text that `tupe.data.text` cleaned alike (the card shows how), or other subwords come out"
            )
        if self.corpus is None and self.tokenizer:
            notes.append(
                "there is no manifest.json beside the SentencePiece model, so how the text was cleaned is not known"
            )
        if self.loaded.untrained:
            notes.append(
                "the model had no language-model head (it was a discriminator, or was imported without one): the head "
                "is untrained, take the features (AutoModel)"
            )
        if not self.tokenizer:
            notes.append("there is no tokenizer in the folder: encode text as the corpus was encoded")
        return notes


def card(about: About, name: str) -> str:
    """Write the `README.md` of the folder `name`."""
    fields = about.fields
    size = next((size for size, row in SIZES.items() if all(fields[f] == v for f, v in row.items())), None)
    paper, logit = DESCRIPTIONS.get(about.system, (about.loaded.name, "see the terms below"))
    more = ["rotary_dims"] if fields.get("rotary_dims") else []
    named = ["absolute", "relative", "reset", "segment", "sharing", *more]
    terms = ", ".join(f"{field} `{fields[field]}`" for field in named)
    shape = (
        f"{fields['encoder_layers']} layers, width {fields['encoder_embed_dim']}, "
        f"{fields['encoder_attention_heads']} heads, {fields['max_positions']} positions, "
        f"{'pre' if fields['encoder_normalize_before'] else 'post'}-norm"
    )
    parts = [
        _front_matter(about, name),
        f"# {name}\n\n{paper}{f' ({size})' if size else ''}, an encoder of the family of TUPE: {shape}.\n\n"
        f"    logit = {logit}\n\nPosition terms: {terms}.",
        f"## Use\n\n```python\n{_snippet(about, name)}\n```\n\n`trust_remote_code` runs `modeling_tupe.py` of this "
        "folder; with the plugin installed from its repository and `import tupe.hf` it is not needed. "
        "Transformers >= 5.14. Where torchaudio is installed for CUDA and PyTorch for the CPU, Transformers fails to "
        "import it: `pip uninstall torchaudio`. `LICENSE` is the licence of the code in this folder.",
        f"## Training\n\n{_training(about)}",
    ]
    if about.scores:
        parts.append(f"## Scores\n\n{_scores(about)}")
    diet = (about.system or "").startswith("diet")
    cited = "\n\n".join([_CITATIONS["tupe"], *([_CITATIONS["diet"]] if diet else [])])
    parts += [f"## Limits\n\n{_limits(about)}", f"## Citation\n\n```bibtex\n{cited}\n```"]
    return "\n\n".join(parts) + "\n"


def _front_matter(about: About, name: str) -> str:
    inputs = about.corpus.inputs if about.corpus else []
    languages = sorted({file["language"] for file in inputs} - {""})
    languages = languages or [about.corpus.settings.language] if about.corpus else []
    front: dict[str, Any] = {
        "license": about.licence,
        "language": [language for language in languages if language != "xx"],
        "library_name": "transformers",
        "pipeline_tag": about.pipeline,
        "tags": ["tupe", "fairseq"],
        "base_model": about.base_model,
    }
    if about.scores:
        first = about.scores[0]
        glue = first.task in TASKS and first.task != "XNLI"
        of = f"{'GLUE ' if glue else ''}{first.task}, development set"
        result = {
            "task": {"type": about.pipeline},
            "dataset": {"name": of, "type": "glue" if glue else first.task.lower()},
            "metrics": [{"type": first.metric, "value": float(f"{first.score:.6g}")}],
        }
        front["model-index"] = [{"name": name, "results": [result]}]
    text = yaml.safe_dump({key: value for key, value in front.items() if value}, allow_unicode=True, sort_keys=False)
    return f"---\n{text}---"


def _snippet(about: About, name: str) -> str:
    kind, untrained = about.loaded.kind, about.loaded.untrained
    auto = "AutoModel" if untrained else f"AutoModelFor{kind}"
    loaded = f"from_pretrained({name!r}, trust_remote_code=True)"
    if not about.tokenizer:
        return f"from transformers import {auto}\n\nmodel = {auto}.{loaded}"
    piped = kind != "QuestionAnswering" and not untrained
    lines = [
        f"from transformers import {auto}, AutoTokenizer{', pipeline' if piped else ''}",
        "",
        f"model = {auto}.{loaded}",
        f"tokenizer = AutoTokenizer.{loaded}",
    ]
    if piped:
        asked = "The capital of France is <mask>." if kind == "MaskedLM" else "A sentence."
        lines.append(f'print(pipeline({about.pipeline!r}, model=model, tokenizer=tokenizer)("{asked}"))')
    elif untrained:
        lines += [
            'batch = tokenizer("A sentence.", return_tensors="pt")',
            "print(model(**batch).last_hidden_state.shape)  # (1, tokens, width)",
        ]
    else:
        lines += [
            'batch = tokenizer("Who was it?", "It was Anna.", return_tensors="pt")',
            "scores = model(**batch)",
            "start = scores.start_logits[0].argmax()",
            "end = start + scores.end_logits[0, start:].argmax()",
            'print(tokenizer.decode(batch["input_ids"][0, start : end + 1]))',
        ]
    if about.cleaning:
        lines += [
            "",
            "from tupe.data.text import TextProcessing  # the plugin, with its extra `corpus`",
            "",
            f"clean = TextProcessing({about.corpus.settings.stages!r}, "
            f"{about.corpus.settings.language!r}).around  # before the tokenizer; <mask> stays",
        ]
    return "\n".join(lines)


def _training(about: About) -> str:
    loaded, seed = about.loaded, (about.loaded.cfg.get("common") or {}).get("seed")
    lines = [f"`{loaded.name}` of the fairseq plugin, {loaded.updates:,} updates, seed {seed}."]
    if about.corpus:
        settings, inputs = about.corpus.settings, about.corpus.inputs
        names = sorted({Path(file["name"]).name for file in inputs})
        more = ", ..." if len(names) > 8 else ""
        of = f", of {len(inputs)} input file(s): {', '.join(names[:8])}{more}"
        if (begun := about.corpus.imported) is not None:
            of = f", of {begun['name']}, a {begun['kind']}, whose weights this model began with"
        lines.append(f"Vocabulary: {settings.vocab_size:,} subwords ({settings.model_type}){of}.")
        lines.append(f"Text processing: {', '.join(settings.stages) or 'none'}.")
    if about.scores:
        labels = f", labels {', '.join(loaded.labels)}" if loaded.labels else ""
        lines.append(f"Fine-tuned on {about.scores[0].task}{labels}.")
    return "\n".join(lines)


def _scores(about: About) -> str:
    first, scores = about.scores[0], [score.score for score in about.scores]
    rows = "".join(f"| {s.task} | {s.metric} | {s.score:.2f} | {s.seed} | {s.lr:g} |\n" for s in about.scores)
    head = "| task | metric | score | seed | rate |\n|---|---|---|---|---|\n"
    text = f"Development set; the first row is this model.\n\n{head}{rows}"
    if len(scores) > 1:
        text += (
            f"\n{first.metric} over {len(scores)} runs: median {statistics.median(scores):.2f}, standard deviation "
            f"{statistics.stdev(scores):.2f}."
        )
    return text.rstrip()


def _limits(about: About) -> str:
    lines = [f"Inputs have at most {about.fields['max_positions']} tokens, `<s>` and `</s>` included."]
    lines += [f"{note[0].upper()}{note[1:]}." for note in about.notes]
    if about.tokenizer and not about.tokenizer_as_imported:
        lines.append(
            "The tokenizer joins combining marks to letters (NFC) also where SentencePiece did not, as a tilde to `ê`: "
            "1% of Vietnamese lines of CC-100 get other subwords than in training, fewer than 0.1% of others."
        )
    labels = about.loaded.labels
    if labels and len(labels) == 1:
        lines.append("The output is a score from 0 to 1: the number divided by the task's scale (STS-B's is 5).")
    if about.fields["segment"] != "none":
        separators = " ".join(["</s>"] * about.fields["pair_separators"])
        lines.append(
            f"The second sentence of a pair is told by the `{separators}` before it; no token_type_ids needed."
        )
    if about.tokenizer:
        lines.append("Text that spells `<s>`, `</s>`, `<pad>`, `<unk>` or `<mask>` becomes that symbol.")
    return "\n".join(f"- {line}" for line in lines)
