"""The models beside fairseq's, their order, their training, and what they refuse."""

from argparse import Namespace

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from omegaconf import ValidationError

from tests.models.seq2seq.test_decoding import generate, same
from tupe.models.config import named
from tupe.models.seq2seq.model import Seq2SeqModel


def fairseqs(model, task, pre_norm, shared):
    """fairseq's own transformer with the parameters of `model`."""
    size = {"embed_dim": 24, "ffn_embed_dim": 32, "attention_heads": 3, "normalize_before": pre_norm}
    fields = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in size.items()}
    args = Namespace(**fields, encoder_layers=2, decoder_layers=3, share_all_embeddings=shared)
    args.max_source_positions = args.max_target_positions = 64
    base_architecture(args)
    theirs = TransformerModel.build_model(args, task).eval()
    state = {}
    for side in ("encoder", "decoder"):
        stack = getattr(model, side).stack
        state[f"{side}.embed_tokens.weight"] = stack.embed_tokens.weight
        state[f"{side}.version"] = torch.tensor([3.0])  # or fairseq drops the last norm
        for name, tensor in stack.state_dict().items():
            if name.startswith("layers."):
                if "qkv_proj" in name:
                    for letter, part in zip("qkv", tensor.chunk(3)):
                        state[f"{side}.{name.replace('qkv_proj', f'{letter}_proj')}"] = part
                else:
                    state[f"{side}.{name}"] = tensor
            elif name.startswith("layer_norm."):
                state[f"{side}.{name}"] = tensor
    state["decoder.output_projection.weight"] = model.decoder.output.weight
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected
    assert not missing
    return theirs


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_baseline_is_fairseqs_transformer(pre_norm, shared, build, task, source, previous):
    ours = build("sinusoidal", encoder_normalize_before=pre_norm, share_all_embeddings=shared)
    theirs = fairseqs(ours, task, pre_norm, shared)
    with torch.no_grad():
        found, expected = (model(source, source.ne(1).sum(1), previous)[0] for model in (ours, theirs))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    same(generate([ours], source, beam=5), generate([theirs], source, beam=5))


def test_learned_positions_start_as_fairseqs(task):
    stack = Seq2SeqModel.build_model(named("seq2seq_learned_tiny"), task).encoder.stack
    table, weight = stack.input_positions.weight, stack.layers[0].self_attn.qkv_proj.weight
    assert table.std().item() == pytest.approx(table.shape[1] ** -0.5, rel=0.1)
    assert weight.std().item() == pytest.approx((2 / sum(weight.shape)) ** 0.5, rel=0.05)  # Xavier's


def test_padding_on_the_left_is_refused(task):
    with pytest.raises(Exception, match="padding must be on the right"):  # in a task without a dataclass
        Seq2SeqModel.build_model(named("seq2seq_none_tiny"), Namespace(cfg=None, args=Namespace(left_pad_source=True)))


@pytest.mark.parametrize("field", [{"reset": "paper"}, {"segment": "per_head"}, {"relative": "deberta"}])
def test_terms_of_an_encoder_are_not_choices(field, task):
    with pytest.raises(ValidationError, match="Invalid value"):
        Seq2SeqModel.build_model(named("seq2seq_none_tiny", **field), task)
