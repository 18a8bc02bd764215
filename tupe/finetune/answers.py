"""Answer the questions of a split: write the files that SQuAD's and XTREME's scripts take, and score them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.tasks import FairseqTask
from torch import nn
from tqdm import tqdm

from tupe.checkpoints.load import Checkpoint, open_checkpoint
from tupe.data.answers import Candidate, best_spans, n_best, probabilities
from tupe.data.questions import score
from tupe.data.windows import QuestionWindows
from tupe.util import check_new, write_json

N_BEST = 20
BATCH = 32


def predict_answers(
    checkpoint: Path | Checkpoint, data: Path, out: Path, splits: Sequence[str] = (), **settings: int
) -> dict[Path, dict[str, float]]:
    """Write `SPLIT.json`, a text for each question, and `SPLIT.nbest.json`, the best `N_BEST` with probabilities.

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
        best = answers(model, windows, task.cfg.max_answer)
        predictions = {name: candidates[0].text if candidates else "" for name, candidates in best.items()}
        described = {
            name: [{**one._asdict(), "probability": share} for one, share in zip(found, probabilities(found))]
            for name, found in best.items()
        }
        write_json(out / f"{split}.nbest.json", described)
        write_json(path, predictions)
        result[path] = score(windows.paragraphs, predictions, windows.tokens)
    return result


@torch.no_grad()
def answers(model: nn.Module, windows: QuestionWindows, longest: int) -> dict[str, list[Candidate]]:
    """Return the best answers, of at most `longest` tokens, to every question, by its id, best first."""
    of_window: dict[int, list[Candidate]] = {}
    device = next(model.parameters()).device
    order = windows.ordered_indices()
    batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
    for batch in tqdm(batches, windows.name, disable=None, unit="batch"):
        sample = windows.collater([windows[index] for index in batch])
        net_input = {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
        scores, _ = model(**net_input, spans=True, num_tokens=sample["ntokens"])
        sides = [side.cpu().numpy() for side in (*scores, sample["may_begin"], sample["may_end"])]
        for window, *of_sides in zip(sample["id"].tolist(), *sides):
            of_window[window] = _of_window(windows, window, of_sides, longest)
    of_question: list[list[Candidate]] = [[] for _ in windows.questions]
    for window in sorted(of_window):
        of_question[int(windows.question_of([window])[0])] += of_window[window]
    return {question.id: n_best(found, N_BEST) for question, found in zip(windows.questions, of_question)}


def _of_window(windows: QuestionWindows, window: int, sides: list[np.ndarray], longest: int) -> list[Candidate]:
    """Return the best answers of a window, with `N_BEST` different texts if it has that many."""
    number = N_BEST
    while True:
        spans = best_spans(*sides, longest, number)
        found = [Candidate(windows.text(window, span.first, span.last), span.score) for span in spans]
        if len(spans) < number or len({candidate.text for candidate in found} - {""}) >= N_BEST:
            return found
        number *= 2


def load(checkpoint: Checkpoint, data: Path, **settings: int) -> tuple[nn.Module, FairseqTask]:
    """Load the model for evaluation, on the GPU if there is one, and its task with other data and settings."""
    model, task = checkpoint.model(data, **settings)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), task
