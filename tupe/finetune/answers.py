"""Answer the questions of a split: write the files that SQuAD's and XTREME's scripts take, and score them."""

from collections.abc import Sequence
from pathlib import Path

import torch
from fairseq.tasks import FairseqTask
from torch import nn
from tqdm import tqdm

from tupe.checkpoints.load import Checkpoint, open_checkpoint
from tupe.data.questions import score
from tupe.data.windows import QuestionWindows, Span, best_span
from tupe.util import check_new, write_json

BATCH = 32


def predict_answers(
    checkpoint: Path | Checkpoint, data: Path, out: Path, splits: Sequence[str] = (), **settings: int
) -> dict[Path, dict[str, float]]:
    """Write `SPLIT.json`, a text for each question.

    By default the splits are all test sets of `data`, or, without test sets, the development sets. `settings` replace
    those of the fine-tuning: `doc_stride`, `max_answer` and so on.

    Returns:
        By file `exact_match` and `f1`, percent, by the rules that it was prepared for; none if its answers are secret.
    """
    there = sorted(path.parent.name for path in data.glob("*/report.json") if path.parent.name != "train")
    splits = list(splits) or [name for name in there if name.startswith("test")] or there
    files = {out / f"{split}.json": split for split in splits}
    for path in files:
        check_new(path)
    model, task = load(open_checkpoint(checkpoint), data, **settings)
    result = {}
    for path, split in files.items():
        windows = task.load_dataset(split)
        predictions = answers(model, windows, task.cfg.max_answer)
        write_json(path, predictions)
        result[path] = score(windows.paragraphs, predictions, windows.tokens)
    return result


@torch.no_grad()
def answers(model: nn.Module, windows: QuestionWindows, longest: int) -> dict[str, str]:
    """Return the best answer, of at most `longest` tokens, to every question by its id; of equal ones the first."""
    device, order = next(model.parameters()).device, windows.ordered_indices()
    found: dict[int, Span] = {}
    for start in tqdm(range(0, len(order), BATCH), windows.name, disable=None, unit="batch"):
        sample = windows.collater([windows[index] for index in order[start : start + BATCH]])
        net_input = {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
        scores, _ = model(**net_input, spans=True, num_tokens=sample["ntokens"])
        sides = [side.cpu().numpy() for side in (*scores, sample["may_begin"], sample["may_end"])]
        for window, *of_window in zip(sample["id"].tolist(), *sides):
            if span := best_span(*of_window, longest):
                found[window] = span

    texts = {question.id: "" for question in windows.questions}
    for window in sorted(found, key=lambda window: (found[window].score, -window)):  # the best comes last, and stays
        question = windows.questions[int(windows.question_of([window])[0])]
        texts[question.id] = windows.text(window, *found[window][1:])
    return texts


def load(checkpoint: Checkpoint, data: Path, **settings: int) -> tuple[nn.Module, FairseqTask]:
    """Load the model for evaluation, on the GPU if there is one, and its task with other data and settings."""
    model, task = checkpoint.model(data, **settings)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), task
