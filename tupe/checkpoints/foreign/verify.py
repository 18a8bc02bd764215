"""Run an imported model and the original on the same tokens, and compare their outputs."""

import torch
from torch import Tensor

from tupe.checkpoints.foreign.model import Foreign
from tupe.models.tupe import TupeModel
from tupe.util import UserError

#: The largest difference that rounding causes, as a fraction of the largest value.
TOLERANCE = 1e-4
_BOS, _PAD, _EOS = 0, 1, 2


@torch.no_grad()
def verify(foreign: Foreign, model: TupeModel, head: str | None = None) -> dict[str, float]:
    """Compare features, logits and the scores of a head on random tokens.

    Returns:
        the largest difference of each, as a fraction of its largest value.

    Raises:
        UserError: they differ by more than rounding does.
    """
    rows, tokens = torch.tensor(foreign.rows), _tokens(len(foreign.rows), model.max_positions())
    words, encoder = tokens != _PAD, model.encoder.sentence_encoder
    segments = None if encoder.input_segments is None else encoder.segments(tokens).long()
    theirs = foreign.run(rows[tokens], words, segments)
    ours = {"features": model(tokens, features_only=True)[0]}
    if "logits" in theirs:
        ours["logits"], theirs["logits"] = model(tokens)[0], theirs["logits"][..., rows]
    found = {name: _difference(ours[name][words], theirs[name][words]) for name in ours}
    if "head" in theirs:  # its classes may be in another order
        scores = model(tokens, features_only=True, classification_head_name=head)[0]
        found["head"] = _difference(scores.sort().values, theirs["head"].sort().values)
    for name, difference in found.items():
        if not difference <= TOLERANCE:
            raise UserError(
                f"The {name} of the import differ from the original's by {difference:.1e} of the largest value. "
                "Something in this model is not supported. Please report its config.json."
            )
    return found


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def _tokens(symbols: int, longest: int) -> Tensor:
    """Draw sequences of three lengths, one of them a pair, `(3, T)`, in this plugin's numbers."""
    length = min(longest, 192)  # more than a window of 64 to each side reaches
    tokens = torch.randint(4, symbols - 1, (3, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = _BOS
    for sequence, end in zip(tokens, (length, length // 2, length // 4)):
        sequence[end - 1], sequence[end:] = _EOS, _PAD
    tokens[0, length // 2] = _EOS
    return tokens
