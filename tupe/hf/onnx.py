"""Write an exported model as one ONNX graph for any batch and length, after checking it against PyTorch.

The graph computes the position terms at each call, because they depend on the length. This needs the extras
`transformers` and `onnx`.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tupe.models.pooling import Pooling, read_pooling
from tupe.util import UserError, atomic, read_json

FILE = "onnx/model.onnx"  # where Transformers.js and Optimum look for it
TOLERANCE = 1e-5  # of the largest output
_FEATURES, _VECTOR = "last_hidden_state", "sentence_embedding"
_OUTPUTS = {"TupeModel": [_FEATURES], "TupeForQuestionAnswering": ["start_logits", "end_logits"]}


class _Traced(nn.Module):
    """The model with positional inputs and outputs, and with the vector of a text if the folder describes it."""

    def __init__(self, model: nn.Module, outputs: list[str], pooling: Pooling | None) -> None:
        super().__init__()
        self.model, self.outputs, self.pooling = model, outputs + [_VECTOR] * bool(pooling), pooling

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        found = self.model(input_ids=input_ids, attention_mask=attention_mask)
        if self.pooling:
            found[_VECTOR] = self.pooling(found[_FEATURES], attention_mask.bool())
        return tuple(found[name] for name in self.outputs)


def export_onnx(folder: Path) -> str:
    """Write an exported model as an ONNX graph for any batch and length, and check it against PyTorch.

    The graph is FOLDER/onnx/model.onnx.

    Args:
        folder: Folder that `tupe export` or save_pretrained wrote.

    Returns:
        The largest difference between onnxruntime and PyTorch over max(1, the largest output), and the file.

    Raises:
        UserError: the outputs of the graph differ from the model's.
    """
    import onnxruntime

    import tupe.hf as ours

    config = read_json(folder / "config.json")
    (name,) = config["architectures"]
    # in a graph, SDPA returns NaN for a token whose keys are all hidden by the window and padding
    backend = {"attention_backend": "reference" if config.get("attention_window") else "auto"}
    model = getattr(ours, name).from_pretrained(folder, dtype=torch.float32, use_safetensors=True, **backend)
    model.base_model.unpad = "never"  # as in the graph, which computes padding too
    pooling = read_pooling(folder) if name == "TupeModel" else None
    traced = _Traced(model.eval(), _OUTPUTS.get(name, ["logits"]), pooling).eval()
    batches = list(_batches(model))
    with torch.no_grad():
        expected = [[x.numpy().copy() for x in traced(*map(torch.from_numpy, batch))] for batch in batches]
    path, differences = folder / FILE, []
    with atomic(path.parent) as made:  # a folder, because weights above 2 GB get a file of their own
        made.mkdir()
        _trace(traced, made / path.name)
        session = onnxruntime.InferenceSession(made / path.name, providers=["CPUExecutionProvider"])
        for (ids, mask), wanted in zip(batches, expected):
            found = session.run(None, {"input_ids": ids, "attention_mask": mask})
            differences += [np.abs(f - w).max() / max(1.0, np.abs(w).max()) for f, w in zip(found, wanted)]
        difference = np.max(differences)  # NaN if one is
        if not difference <= TOLERANCE:
            raise UserError(f"The graph of {folder} differs from the model by {difference:.1e} of its largest output.")
    return f"largest difference from PyTorch: {difference:.1e} of the largest output\nwrote {path}"


def _batches(model: nn.Module) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield tokens and mask of several batches and lengths, up to the longest; with padding, and a pair."""
    longest, symbols, eos = model.config.max_position_embeddings, model.config.vocab_size, model.config.eos_token_id
    random = np.random.default_rng(0)
    for batch, length in ((1, 1), (2, min(5, longest)), (3, min(128, longest)), (1, longest)):
        ids = random.integers(4, symbols, (batch, length))
        mask = np.ones_like(ids)
        if length > 4:
            ids[0, 2:4] = eos
        if batch > 1:
            mask[-1, length // 8 + 1 :] = 0  # a text with more padding than a window reaches
            ids[-1, length // 8 + 1 :] = model.config.pad_token_id
        yield ids, mask


def _trace(traced: _Traced, path: Path) -> None:
    """Write the graph of a model."""
    ids = torch.full((2, min(7, traced.model.config.max_position_embeddings)), 4)
    dynamic = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
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
