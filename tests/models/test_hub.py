"""What the hub interface says, and what it keeps to itself."""

from types import SimpleNamespace

import pytest
import torch

from tupe.checkpoints.load import write_checkpoint
from tupe.models import TupeModel


@pytest.fixture
def hub(build, dictionary, tmp_path):
    write_checkpoint(tmp_path / "checkpoint_best.pt", build("tupe_tiny"), "tupe_tiny")
    dictionary.save(str(tmp_path / "dict.txt"))
    # a path of pathlib, and a field of fairseq's
    return TupeModel.from_pretrained(tmp_path, data_name_or_path=tmp_path, bpe=None, load_checkpoint_heads=False)


@pytest.mark.parametrize("separators", [1, 2])
def test_pairs_are_decoded_as_pairs(separators, hub):
    """fairseq joins texts between which one separator is."""
    hub.bpe, hub.model.args.pair_separators = SimpleNamespace(encode=str.strip, decode=str), separators
    assert hub.decode(hub.encode("word1 word2", "word3")) == ["word1 word2", "word3"]
    assert hub.decode(hub.encode("word1 word2")) == "word1 word2"


def test_special_symbols_that_a_dictionary_repeats(build, dictionary, tmp_path):
    """fairseq encodes a text with the rows of the repeated names, which tasks never train."""
    write_checkpoint(tmp_path / "checkpoint_best.pt", build("tupe_tiny"), "tupe_tiny")
    repeated = [f"{name} 0 #fairseq:overwrite" for name in ("<s>", "<pad>", "</s>", "<unk>")]
    words = [f"{name} 1" for name in dictionary.symbols[8:] if name != "<mask>"]
    (tmp_path / "dict.txt").write_text("\n".join([*repeated, *words]) + "\n")
    state = torch.load(tmp_path / "checkpoint_best.pt", weights_only=True)
    state["cfg"]["model"]["dictionary_sha256"] = None
    torch.save(state, tmp_path / "checkpoint_best.pt")
    hub = TupeModel.from_pretrained(str(tmp_path), bpe=None)
    hub.bpe = SimpleNamespace(encode=str.strip, decode=str)
    word = hub.task.source_dictionary.symbols[9]
    assert hub.encode(word, word).tolist() == [0, 9, 2, 2, 9, 2]


def test_a_regression_predicts_its_value(hub):
    """fairseq returns the logarithm of its probability among one class, which is 0."""
    hub.eval()
    tokens = torch.tensor([0, 7, 8, 2])
    for name, classes in (("score", 1), ("class", 3)):
        hub.register_classification_head(name, classes)
        logits = hub.predict(name, tokens, return_logits=True)
        assert torch.equal(hub.predict(name, tokens), logits if classes == 1 else logits.log_softmax(-1))


@pytest.mark.parametrize("topk", [3, 10, 1000])
def test_a_mask_is_filled_with_pieces_alone(topk, hub, dictionary):
    """Even if the model believes in special symbols; the probabilities are those that it has."""
    hub.bpe = SimpleNamespace(encode=str.strip, decode=str)
    hub.eval()
    names = [name for name in dictionary.symbols if name.startswith("word")]
    special = [index for index, name in enumerate(dictionary.symbols) if name not in names]
    with torch.no_grad():
        hub.model.encoder.lm_head.bias[special] = torch.linspace(0, 6, len(special))
    filled = hub.fill_mask("word1 <mask> word2", topk)
    tokens = dictionary.encode_line("<s> word1 <mask> word2 </s>", append_eos=False, add_if_not_exist=False)
    with torch.no_grad():
        probabilities = hub.model(tokens.long()[None])[0][0, 2].softmax(-1)
    expected = sorted(names, key=lambda name: -probabilities[dictionary.index(name)])[:topk]
    assert [word for _, _, word in filled] == [f" {name}" for name in expected]
    wanted = [probabilities[dictionary.index(name)].item() for name in expected]
    assert [p for _, p, _ in filled] == pytest.approx(wanted, rel=1e-4)
