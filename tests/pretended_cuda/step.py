"""Updates by fairseq's trainer on a pretended H100, in fake tensors.

python -m tests.pretended_cuda.step GUARD CASE...      # prints a line of JSON for each CASE

GUARD is guard.cpp, compiled. A CASE is `criterion:architecture:precision:layout`; `control` does what has to be seen.
"""

import ctypes
import sys

ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)  # before torch

import contextlib  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
from types import SimpleNamespace  # noqa: E402

import fairseq_cli.train  # noqa: E402, F401  before the plugin, as in fairseq's commands
import torch  # noqa: E402
from fairseq import models, options  # noqa: E402
from fairseq.criterions import build_criterion  # noqa: E402
from fairseq.data import IdDataset, NumelDataset, NumSamplesDataset, RightPadDataset  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from fairseq.tasks import FairseqTask  # noqa: E402
from fairseq.trainer import Trainer  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import tupe.plugin  # noqa: E402, F401
from tests.models.small import small_dictionary  # noqa: E402
from tests.pretended_cuda.watch import Watch  # noqa: E402
from tupe.attention.kernels import launch  # noqa: E402
from tupe.data.batches import Batches, MaskedBatches  # noqa: E402

LENGTHS = (64, 50, 33, 9)
GPU = torch.device("cuda", 0)
H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    total_memory=80 << 30,
    multi_processor_count=132,
    shared_memory_per_block_optin=227 << 10,
)


def pretend() -> None:
    """Make PyTorch say that there is an H100, and let the kernels' launcher look at its tensors alone."""
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": (9, 0),
        "get_device_properties": H100,
        "get_device_name": H100.name,
        "is_bf16_supported": True,
        "max_memory_allocated": 0,
        "manual_seed": None,
        "get_rng_state": None,
        "set_rng_state": None,
        "is_current_stream_capturing": False,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
    }
    os.environ["TUPE_CHECK_KERNELS"] = "0"  # no kernel runs, so none can be checked
    torch.version.cuda = "13.0"
    FakeTensorMode.avoid_device_init = True  # else a constant is really copied to the GPU
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *args, answer=answer, **kwargs: answer)
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "tupe"]:
        if hasattr(module, "is_traced"):  # the watch is a dispatch mode, as tracers are
            module.is_traced = lambda: False
    launch.Launcher.run = launched


def launched(self, kernel, grid, tile, **arguments) -> None:
    """In place of a kernel: all of its tensors are on the GPU, and its grid is not empty."""
    for name, value in {**self.arguments, **arguments}.items():
        if isinstance(value, torch.Tensor) and value.device != GPU:
            raise RuntimeError(f"{kernel.__name__} gets {name} on {value.device}")
    if min(grid) < 1:
        raise RuntimeError(f"{kernel.__name__} has the grid {grid}")


class Task(FairseqTask):
    """The least that a trainer, a model and the criterions ask of a task."""

    source_dictionary = target_dictionary = None

    def __init__(self, dictionary, longest):
        super().__init__(None)
        self.longest = longest
        self.source_dictionary = self.target_dictionary = self.label_dictionary = dictionary
        self.cfg = SimpleNamespace(mask_prob=0.15, seed=1, max_answer=30)

    def max_positions(self):
        return self.longest


class Rows(torch.utils.data.Dataset):
    """Rows of tokens, as a data set of fairseq."""

    supports_prefetch = False

    def __init__(self, rows):
        self.rows, self.sizes = rows, [*map(len, rows)]

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self):
        return len(self.rows)


def batch(criterion, dictionary):
    """A batch of the criterion's task, collated as its task collates it."""
    pad, eos = dictionary.pad(), dictionary.eos()
    rows = [torch.randint(dictionary.nspecial, 40, (length,)) for length in LENGTHS]
    for row in rows:
        row[0], row[-1] = dictionary.bos(), eos
    rows[1][20:22] = eos  # a pair
    padded = RightPadDataset(Rows(rows), pad_idx=pad)
    entries = {
        "id": IdDataset(),
        "net_input": {"src_tokens": padded, "src_lengths": NumelDataset(Rows(rows))},
        "target": padded,
        "nsentences": NumSamplesDataset(),
        "ntokens": NumelDataset(Rows(rows), reduce=True),
    }
    kind = Batches
    if criterion in ("tupe_masked_lm", "tupe_electra"):
        kind, targets = MaskedBatches, [torch.where(torch.arange(len(row)) % 7 == 3, row, pad) for row in rows]
        entries["target"] = RightPadDataset(Rows(targets), pad_idx=pad)
    data = kind(entries, [[*LENGTHS]], dictionary)
    sample = data.collater([data[index] for index in range(len(rows))])
    if criterion == "tupe_sentence_prediction":
        sample["target"] = torch.tensor([0, 1, 0, 1])
    elif criterion == "tupe_question_answering":
        sample["target"] = torch.tensor([[2, 4]] * len(rows))
    elif criterion == "label_smoothed_cross_entropy":
        sample["net_input"]["prev_output_tokens"] = sample["target"].roll(1, 1)
    return sample


def on_gpu(model, dtype):
    """The model with fake tensors on the GPU, shared where they were; the trainer's own moves then change nothing."""
    moved = {}
    for module in model.modules():
        for store in (module._parameters, module._buffers):
            for name, tensor in store.items():
                if tensor is not None and tensor not in moved:
                    fake = torch.empty_like(tensor, device=GPU, dtype=dtype if tensor.is_floating_point() else None)
                    moved[tensor] = torch.nn.Parameter(fake) if isinstance(tensor, torch.nn.Parameter) else fake
                store[name] = moved.get(tensor)
    model.half = model.to = lambda *args, **kwargs: model  # PyTorch cannot convert fake parameters in place
    return model


PRECISIONS = {
    "fp16": ["--fp16"],
    "bf16": ["--bf16"],
    "amp": ["--amp"],
    "memory_efficient_fp16": ["--memory-efficient-fp16"],
    "memory_efficient_bf16": ["--memory-efficient-bf16"],
    "fp32": [],
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}  # of the parameters


def update(criterion, architecture, precision, layout) -> dict[str, int]:
    """One update by the trainer; what the watch found."""
    translation = criterion == "label_smoothed_cross_entropy"
    arguments = [
        *("data", "--task", "translation" if translation else "masked_lm", "--arch", architecture),
        *("--criterion", criterion, "--optimizer", "fused_adamw", "--lr", "1e-3", "--clip-norm", "1"),
        *(["--unpad", layout] if not translation else []),
        *PRECISIONS[precision],
    ]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
    dictionary = small_dictionary()
    task = Task(dictionary, (max(LENGTHS), max(LENGTHS)) if translation else max(LENGTHS))
    model = models.build_model(cfg.model, task)
    loss = build_criterion(cfg.criterion, task)
    if criterion == "tupe_sentence_prediction":
        model.register_classification_head("sentence_classification_head", 2)
    elif criterion == "tupe_question_answering":
        model.register_span_head()
    sample = batch(criterion, dictionary)
    watch = Watch(positions=20)
    with FakeTensorMode(allow_non_fake_inputs=True):
        dtype = next((kind for name, kind in DTYPES.items() if precision.endswith(name)), torch.float32)
        trainer = Trainer(cfg, task, on_gpu(model, dtype), loss)
        trainer.save_checkpoint = lambda *args, **kwargs: None  # of an error, which fake tensors hide by another
        trainer.optimizer  # noqa: B018  builds it, which waits as it likes
        with watch:
            trainer.train_step([sample])
    if trainer.get_num_updates() != 1:
        raise RuntimeError("there was no update")
    trained = [name for name, p in trainer.model.named_parameters() if p.requires_grad and p.device != GPU]
    if trained:
        raise RuntimeError(f"parameters left the GPU: {trained}")
    return dict(watch.found)


def control() -> dict[str, int]:
    """Do everything that the watch is there to see."""
    with FakeTensorMode(allow_non_fake_inputs=True), (watch := Watch(positions=2)):
        x = torch.zeros(4, device=GPU)
        x[-1] = 3
        x.nonzero()
        x[x > 0] = 1
        float(x.sum())
        x.cpu()
        with contextlib.suppress(RuntimeError):
            x + torch.ones(4, device="cpu")
    return dict(watch.found)


def main(cases: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    pretend()
    for case in cases:
        found, error = {}, None
        try:
            found = control() if case == "control" else update(*case.split(":"))
        except Exception as problem:
            import traceback

            error = "".join(traceback.format_exception(problem)[-6:])
        print(json.dumps({"case": case, "found": found, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[2:])
