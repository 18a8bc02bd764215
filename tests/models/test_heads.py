"""ELECTRA's classification head: one linear layer, saved, loaded and exported like RoBERTa's two."""

import pytest
import torch

from tupe.models.heads import SpanHead

NAME = "sentence_classification_head"


def with_head(build, linear, classes=3, **fields):
    model = build("tupe_tiny", linear_heads=linear, **fields)
    model.register_classification_head(NAME, num_classes=classes)
    return model.eval()


def test_scores(build, tokens):
    model = with_head(build, True, pooler_dropout=0.5)
    head = model.classification_heads[NAME]
    assert sorted(head.state_dict()) == ["out_proj.bias", "out_proj.weight"]
    bound = (6 / (24 + 3)) ** 0.5  # Xavier's
    assert not head.out_proj.bias.any()
    assert SpanHead(2000).weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert 0.8 * bound < head.out_proj.weight.abs().max() <= bound
    features = model(tokens, features_only=True)[0]
    expected = features[:, 0] @ head.out_proj.weight.T + head.out_proj.bias
    torch.testing.assert_close(model(tokens, features_only=True, classification_head_name=NAME)[0], expected)


@pytest.mark.parametrize("name", ["tupe_tiny", "electra_tupe_tiny"])
def test_saved_and_loaded(build, tokens, name):
    first, second, third = (
        build(name, linear_heads=linear, load_checkpoint_heads=heads)
        for linear, heads in ((True, False), (True, False), (True, True))
    )
    for seed, model in enumerate((first, second)):
        torch.manual_seed(seed)
        model.register_classification_head(NAME, num_classes=3)
    for other in (second, third):
        other.load_state_dict(first.state_dict())
        scores = (m(tokens, features_only=True, classification_head_name=NAME)[0] for m in (first, other))
        assert torch.equal(*scores)


@pytest.mark.parametrize(("saved", "wanted"), [(True, False), (False, True), (True, None), (False, None)])
def test_a_head_of_the_other_kind_stays_as_it_is(build, saved, wanted):
    """Though one layer of both is alike; a model without heads takes none."""
    first = with_head(build, saved)
    model = build("tupe_tiny") if wanted is None else with_head(build, wanted)
    kept = {name: tensor.clone() for name, tensor in model.classification_heads.state_dict().items()}
    model.load_state_dict(first.state_dict())
    found = model.classification_heads.state_dict()
    assert found.keys() == kept.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in kept.items())
