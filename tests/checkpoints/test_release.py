"""The authors' release as checkpoints of ours; tests/contract compares the numbers."""

import json
from argparse import Namespace

import torch

from tests.contract.test_golden import golden, part  # noqa: F401
from tupe.checkpoints.release import load_release


def test_prenorm_release(golden, tmp_path):  # noqa: F811
    """A pre-norm checkpoint has one more layer norm, at the end."""
    args = Namespace(**json.loads(str(golden["args_json"])))
    args.encoder_normalize_before, args.dropout = True, 0.3
    state = part(golden, "state/")
    for name in ("weight", "bias"):
        state[f"decoder.sentence_encoder.emb_out_layer_norm.{name}"] = torch.full((48,), 0.5)
    torch.save({"args": args, "model": state}, tmp_path / "pre.pt")
    model = load_release(tmp_path / "pre.pt")
    assert model.args.dropout == 0.3
    with torch.no_grad():
        features, _ = model(golden["b/src_tokens"], features_only=True)
    # gain and bias 0.5 at the end: mean 0.5, standard deviation 0.5 at every position
    torch.testing.assert_close(features.mean(-1), torch.full(features.shape[:2], 0.5), rtol=0, atol=1e-5)
    torch.testing.assert_close(features.std(-1, correction=0), torch.full(features.shape[:2], 0.5), rtol=0, atol=1e-3)
