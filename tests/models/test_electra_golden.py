"""ELECTRA-BERT-A against ELECTRA as Transformers has it, another implementation, with the same weights."""

import contextlib

import pytest
import torch

with contextlib.suppress(ImportError):  # before Transformers, which would import a torchaudio that does not load
    import tupe.transformers  # noqa: F401

transformers = pytest.importorskip("transformers")

#: Names in a network of ours -> in one of Transformers'; of the layers, behind `layers.<l>.` and `layer.<l>.`.
EMBEDDINGS = {
    "embed_tokens.weight": "embeddings.word_embeddings.weight",
    "input_positions.weight": "embeddings.position_embeddings.weight",
    "layernorm_embedding": "embeddings.LayerNorm",
    "embedding_projection": "embeddings_project",
}
LAYER = {
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
GENERATOR_HEAD = {
    "dense": "generator_predictions.dense",
    "layer_norm": "generator_predictions.LayerNorm",
    "weight": "generator_lm_head.weight",
    "bias": "generator_lm_head.bias",
}
DISCRIMINATOR_HEAD = {
    "dense": "discriminator_predictions.dense",
    "out_proj": "discriminator_predictions.dense_prediction",
}


def renamed(module, names, prefix=""):
    """The tensors of `module` whose names begin as one of `names`, called as there."""
    state = module.state_dict()
    pairs = ((name, ours, theirs) for name in state for ours, theirs in names.items() if name.startswith(ours))
    return {prefix + theirs + name[len(ours) :]: state[name] for name, ours, theirs in pairs}


def theirs(kind, encoder, args, head):
    """Transformers' model of `kind` with the weights of our `encoder`, and of its head, which it has named."""
    config = transformers.ElectraConfig(
        vocab_size=len(encoder.embed_tokens.weight),
        embedding_size=encoder.embed_tokens.weight.shape[1],
        hidden_size=args.encoder_embed_dim,
        num_hidden_layers=args.encoder_layers,
        num_attention_heads=args.encoder_attention_heads,
        intermediate_size=args.encoder_ffn_embed_dim,
        max_position_embeddings=args.max_positions,
        layer_norm_eps=1e-5,
        pad_token_id=encoder.embed_tokens.padding_idx,
    )
    state = renamed(encoder, EMBEDDINGS, "electra.")
    state["electra.embeddings.token_type_embeddings.weight"] = torch.zeros(2, config.embedding_size)
    for number, layer in enumerate(encoder.layers):
        prefix = f"electra.encoder.layer.{number}."
        state.update(renamed(layer, LAYER, prefix))
        for kind_of in ("weight", "bias"):
            parts = getattr(layer.self_attn.qkv_proj, kind_of).chunk(3)
            for name, part in zip(("query", "key", "value"), parts):
                state[f"{prefix}attention.self.{name}.{kind_of}"] = part
    model = kind(config).eval()
    model.load_state_dict({**state, **head})
    return model


@pytest.mark.parametrize("embedding_dim", [0, 8])
def test_logits_of_both_heads(build, tokens, embedding_dim):
    model = build("electra_bert_a_tiny", embedding_dim=embedding_dim)
    generator, mask = model.generator, tokens.ne(1).long()
    filler = theirs(
        transformers.ElectraForMaskedLM,
        generator.sentence_encoder,
        generator.args,
        renamed(generator.lm_head, GENERATOR_HEAD),
    )
    detector = theirs(
        transformers.ElectraForPreTraining,
        model.encoder.sentence_encoder,
        model.args,
        renamed(model.discriminator_head, DISCRIMINATOR_HEAD),
    )
    with torch.no_grad():
        words, found = (other(input_ids=tokens, attention_mask=mask).logits for other in (filler, detector))
        own_words = model(tokens)[0]
        own_found = model.discriminator_head(model(tokens, features_only=True)[0])
    kept = mask.bool()
    torch.testing.assert_close(own_words[kept], words[kept], rtol=0, atol=1e-5)
    torch.testing.assert_close(own_found[kept], found[kept], rtol=0, atol=1e-5)
    assert own_words[kept].std() > 0.1 and own_found[kept].std() > 0.1
