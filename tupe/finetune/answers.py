"""Answer questions with a fine-tuned model."""

import torch
from torch import nn
from tqdm import tqdm

from tupe.data.windows import QuestionWindows, Span, best_span

BATCH = 32


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
