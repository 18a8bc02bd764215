"""Every system learns, in every way of sharing."""

import pytest
import torch
import torch.nn.functional as F

from tupe.systems import SYSTEMS

VARIANTS = [
    *((system, {}) for system in SYSTEMS),
    *((system, {"sharing": sharing}) for system in ("diet_abs", "diet_rel", "tupe_r") for sharing in ("none", "head")),
    ("tupe_a", {"absolute": "free"}),
    ("tupe_r", {"relative": "parametric"}),
    ("shaw", {"shaw_values": True}),
    ("diet_rel", {"reset": "paper"}),
]


@pytest.mark.parametrize(("system", "fields"), VARIANTS)
def test_loss_falls_in_20_updates(build, pairs, system, fields):
    model = build(f"{system}_tiny", **fields)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.05)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(model(pairs)[0].flatten(0, 1), pairs.flatten(), ignore_index=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])
