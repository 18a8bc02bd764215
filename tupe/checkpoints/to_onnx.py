"""An exported model as one ONNX graph for any batch and length, checked against PyTorch before it is there.

The finished position terms are one buffer of the graph, so none of their arithmetic is done at a call. Needs the extras
`transformers` and `onnx`.
"""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor, nn
from tqdm import tqdm

from tupe.checkpoints.from_transformers import doc_stride, read_weights
from tupe.criterions.metrics import has_entities
from tupe.data.binary import PAD, check_indexed
from tupe.data.words import check_entity_scores, named, word_scores
from tupe.errors import UserError, needing
from tupe.fairseq_patches.checkpoints import read_dictionary, special_symbols
from tupe.files import atomic, read_json
from tupe.position.arguments import check_flags
from tupe.tasks.sentence_prediction import TupeSentencePredictionConfig, TupeSentencePredictionTask
from tupe.tasks.token_classification import TupeTokenClassificationConfig, TupeTokenClassificationTask

FILE, QUANTIZED = "onnx/model.onnx", "onnx/model_quantized.onnx"  # where Transformers.js and Optimum look for them
TOLERANCE = 1e-5  # of the largest output
_OUTPUTS = {"TupeModel": ["last_hidden_state"], "TupeForQuestionAnswering": ["start_logits", "end_logits"]}
_BATCH = 16
_PREPARED_BY = "`tupe prepare-glue`, `prepare-task` or `prepare-corpus`"

Predict = Callable[[np.ndarray, np.ndarray], list[np.ndarray]]


@dataclass(frozen=True)
class Report:
    """Files that were made, and what was measured."""

    files: list[Path]
    # largest difference of an output between onnxruntime and PyTorch, over max(1, the largest output)
    difference: float
    # percent of the development set, by graph and metric: PyTorch's model is `pytorch`
    scores: dict[str, dict[str, float]]


class _Traced(nn.Module):
    """The model with positional inputs and outputs."""

    def __init__(self, model: nn.Module, outputs: list[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        found = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return tuple(found[name] for name in self.outputs)


def export_onnx(folder: str | Path, int8: bool = False, data: str | Path | None = None) -> Report:
    """Write `onnx/model.onnx`, and with `int8` `onnx/model_quantized.onnx`, into the folder of an exported model.

    `int8` has weights and products of 8 bits (dynamic quantization). `data`, a prepared task or corpus with the split
    `valid`, is what the graphs are scored on.

    Raises:
        UserError: a package is missing, the folder is none, a graph is not equal to the model, or `data` does not fit.
    """
    with needing("an ONNX graph", "transformers,onnx"):
        import onnx  # noqa: F401
        import onnxruntime
    try:
        import tupe.transformers as ours
    except ImportError as error:  # Transformers is missing, or too old
        raise UserError(f"an ONNX graph needs Transformers ({error}): pip install '.[transformers,onnx]'") from None
    check_flags(int8=int8)
    folder, data = Path(folder), None if data is None else Path(data)
    config = read_json(folder / "config.json", "`tupe export`")
    name = (config.get("architectures") or [None])[0] if isinstance(config, dict) else None
    if name not in ours.__all__ or name == "TupeConfig":
        raise UserError(
            f"{folder}/config.json names the model {name!r}, which is none of ours: give a folder of `tupe export`"
        )
    read_weights(folder)  # raises UserError for damaged weights, of which Transformers says nothing
    try:
        with _no_progress_bars():
            options = {"use_safetensors": True, "ignore_mismatched_sizes": True, "output_loading_info": True}
            model, found = getattr(ours, name).from_pretrained(folder, dtype=torch.float32, **options)
    except Exception as error:  # Transformers', of files; its configurations', of types; safetensors' own
        raise UserError(f"{folder} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
    wrong = {*found["missing_keys"], *found["unexpected_keys"], *(name for name, *_ in found["mismatched_keys"])}
    if wrong:
        raise UserError(
            f"the weights in {folder} are not of the model in its config.json, first {min(wrong)}: give files that "
            "belong together"
        )
    model.eval()
    examples = None if data is None else development(model, name, data)
    traced = _Traced(model, _OUTPUTS.get(name, ["logits"])).eval()

    @torch.no_grad()
    def pytorch(ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        return [output.numpy().copy() for output in traced(torch.from_numpy(ids), torch.from_numpy(mask))]

    batches = list(_batches(model))
    expected = [pytorch(*batch) for batch in batches]
    scores = {} if examples is None else {"pytorch": examples.score(pytorch, "PyTorch")}

    def runner(path: Path) -> Predict:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})

    files = [folder / FILE]
    with atomic(files[0]) as unfinished:
        _trace(traced, unfinished)
        run = runner(unfinished)
        difference = max(_difference(run(*batch), wanted) for batch, wanted in zip(batches, expected))
        if not difference <= TOLERANCE:
            raise UserError(
                f"the graph of {folder} differs from the model by {difference:.1e} of its largest output, more than "
                f"{TOLERANCE:g}: nothing was written"
            )
        if examples is not None:
            scores["onnx"] = examples.score(run, "onnxruntime")
    if int8:
        files.append(folder / QUANTIZED)
        with atomic(files[1]) as unfinished:
            _quantize(files[0], unfinished)
            if examples is not None:
                scores["int8"] = examples.score(runner(unfinished), "int8")
    return Report(files, difference, scores)


@contextlib.contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Keep Transformers from drawing one over a load of milliseconds."""
    from transformers.utils import logging as transformers_logging

    drawn = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            transformers_logging.enable_progress_bar()


def _batches(model: nn.Module) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield tokens and mask of several batches and lengths, up to the longest; with padding, and a pair."""
    longest, symbols, eos = model.config.max_position_embeddings, model.config.vocab_size, model.config.eos_token_id
    random = np.random.default_rng(0)
    for batch, length in ((1, 1), (2, min(5, longest)), (3, min(128, longest)), (1, longest)):
        ids = random.integers(min(4, symbols - 1), symbols, (batch, length))
        mask = np.ones_like(ids)
        if length > 4:
            ids[0, 2:4] = eos
        if batch > 1:
            mask[-1, length // 2 :] = 0
            ids[-1, length // 2 :] = model.config.pad_token_id
        yield ids, mask


def _difference(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max(float(np.abs(f - w).max() / max(1.0, np.abs(w).max())) for f, w in zip(found, wanted))


def _trace(traced: _Traced, path: Path) -> None:
    """Freeze the positions of a model and write its graph."""
    model = traced.model
    getattr(model, "tupe", model).freeze_positions()
    model.set_attn_implementation("eager")  # the exporter's sdpa does not know the layout of its result
    ids = torch.full((2, min(7, model.config.max_position_embeddings)), 4 % model.config.vocab_size)
    dynamic = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    with _quiet():
        program = torch.onnx.export(
            traced,
            (ids, torch.ones_like(ids)),
            dynamo=True,
            dynamic_shapes={"input_ids": dynamic, "attention_mask": dynamic},
            input_names=["input_ids", "attention_mask"],
            output_names=traced.outputs,
            verbose=False,
        )
        program.save(path)


def _quantize(source: Path, target: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source)
    del model.graph.value_info[:]  # shapes of the tracer, some of them of matrices before they were transposed
    with _quiet():
        quantize_dynamic(model, target, weight_type=QuantType.QInt8, per_channel=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class Development:
    """Examples to score a graph on."""

    tokens: list[np.ndarray]  # of each example, `(n,)`
    masks: list[np.ndarray] | None  # where the masks are, or the first tokens of words, `(m,)`; None for whole texts
    # of each example the scores of the classes `(C,)`, or with `masks` the best ones `(m,)`: to metrics, 1 at the most
    metrics: Callable[[list[np.ndarray]], dict[str, float]]

    def score(self, predict: Predict, name: str) -> dict[str, float]:
        """Return the metrics of the whole set, in percent; the progress bar is called `name`."""
        order = sorted(range(len(self.tokens)), key=lambda i: len(self.tokens[i]))
        predicted: list[Any] = [None] * len(order)
        for start in tqdm(range(0, len(order), _BATCH), name, disable=None):
            chosen = order[start : start + _BATCH]
            texts = [torch.from_numpy(self.tokens[i]) for i in chosen]
            ids = data_utils.collate_tokens(texts, PAD).numpy()
            mask = data_utils.collate_tokens([torch.ones_like(text) for text in texts], 0).numpy()
            for row, i in zip(predict(ids, mask)[0], chosen):
                predicted[i] = row if self.masks is None else row[self.masks[i]].argmax(-1)
        return {metric: 100 * value for metric, value in self.metrics(predicted).items()}


def development(model: nn.Module, name: str, data: Path) -> Development:
    """Open the split `valid` of a prepared task, or for a language model that of a corpus.

    Texts are cut to the longest input of the model; those whose words have labels are read in windows, as in training.
    """
    longest, number = model.config.max_position_embeddings, model.config.vocab_size

    def split(folder: Path, symbols: int = number) -> Any:
        path = folder / "valid"
        if not path.with_name("valid.bin").is_file() or not check_indexed(path, _PREPARED_BY, symbols=symbols):
            raise UserError(f"there is no split valid in {folder}: give with --data what the model was trained on")
        return data_utils.load_indexed_dataset(str(path), None)

    if name == "TupeForMaskedLM":
        return _masked([np.asarray(text)[: longest - 1] for text in split(data) if len(text) > 2], number)
    if name == "TupeForTokenClassification":
        split(data / "input0")  # raises UserError for symbols that the model lacks
        return _words(model, data)
    if name != "TupeForSequenceClassification":
        raise UserError(f"a development set of {name} cannot be scored: leave --data out")
    sides = [split(data / side) for side in ("input0", "input1") if (data / side).is_dir() or side == "input0"]
    kind, classes = model.config.problem_type, 1
    if kind != "regression":
        classes = len(_class_names(model, data))
        split(data / "label", Dictionary().nspecial + classes)  # raises UserError for damaged files
    cfg = TupeSentencePredictionConfig(data=str(data), num_classes=classes, max_positions=longest, seed=1)
    cfg.regression_target, cfg.multi_label = kind == "regression", kind == "multi_label_classification"
    task = TupeSentencePredictionTask.setup_task(cfg)
    task.pair_separators = model.config.pair_separators
    joined, targets = task.joined(sides), task.targets("valid")
    tokens = [joined[i].numpy() for i in range(len(joined))]
    return Development(tokens, None, lambda rows: task.metrics(torch.from_numpy(np.stack(rows)), targets))


def _class_names(model: nn.Module, data: Path) -> list[str]:
    """Return the names of the classes of a prepared task, in their order.

    Raises:
        UserError: unless the model has as many, of the same names where it has names.
    """
    labels = read_dictionary(data / "label/dict.txt", _PREPARED_BY)
    number = model.config.num_labels
    names = [name for name, special in zip(labels.symbols, special_symbols(labels)) if not special]
    known = [model.config.id2label[i] for i in range(number)]
    if len(names) != number or names != known != [f"LABEL_{i}" for i in range(number)]:
        raise UserError(
            f"{data} has the classes {', '.join(names)}, but the model {', '.join(map(str, known))}: give its own task"
        )
    return names


def _words(model: nn.Module, data: Path) -> Development:
    """Read the words and labels of the split `valid`, in the windows that `tupe predict` has."""
    names = _class_names(model, data)
    entities = has_entities(names)
    if entities:
        check_entity_scores()
    stride = doc_stride(model.config.to_dict(), "config.json")
    lengths = {"max_positions": model.config.max_position_embeddings, "doc_stride": stride}
    cfg = TupeTokenClassificationConfig(data=str(data), num_classes=len(names), **lengths, seed=1)
    words = TupeTokenClassificationTask.setup_task(cfg).load_dataset("valid")
    windows = [words[i] for i in range(len(words))]
    masks = [np.flatnonzero(window["word"]) for window in windows]
    places = np.concatenate([window["place"][mask] for window, mask in zip(windows, masks)]).tolist()
    sentences = words.sentences()

    def metrics(predicted: list[np.ndarray]) -> dict[str, float]:
        classes = dict(zip(places, np.concatenate(predicted).tolist()))
        return word_scores(*named(sentences, classes, names), entities)

    return Development([window["source"].numpy() for window in windows], masks, metrics)


def _masked(texts: list[np.ndarray], symbols: int) -> Development:
    """Mask 15% of the words, the same at every call; the mask is the last symbol."""
    random = np.random.default_rng(0)
    tokens, targets, masks = [], [], []
    for text in texts:
        words = np.concatenate([[0], text])
        chosen = np.flatnonzero((words > 3) & (random.random(len(words)) < 0.15))
        if len(chosen):
            targets.append(words[chosen].copy())
            words[chosen] = symbols - 1
            tokens.append(words)
            masks.append(chosen)
    words = np.concatenate(targets)
    return Development(tokens, masks, lambda best: {"accuracy of masked words": np.mean(np.concatenate(best) == words)})
