"""Symbols and rows of imported models: their order, tables that are longer, and what a dictionary cannot hold."""

import json

import pytest
import torch

from tests.checkpoints.foreign.conftest import fairseq_roberta, write_json
from tupe.checkpoints.foreign.importing import import_model
from tupe.checkpoints.foreign.vocabulary import Source, by_role, read_dictionary, write_dictionary
from tupe.cli.main import main
from tupe.data.corpus.manifest import Manifest
from tupe.models import TupeModel
from tupe.safe_load import safe_load
from tupe.util import UserError

safetensors = pytest.importorskip("safetensors.torch")
pytest.importorskip("transformers")


def configure(folder, **fields):
    path = folder / "config.json"
    write_json(path, {**json.loads(path.read_text()), **fields})


def change(folder, **tensors):
    """Some tensors in the place of those, which are functions of what they were."""
    path = folder / "model.safetensors"
    state = safetensors.load_file(path)
    for name, new in tensors.items():
        (name,) = (key for key in state if key.endswith(name.replace("__", ".")))
        state[name] = new(state[name])
    safetensors.save_file({name: tensor.contiguous() for name, tensor in state.items()}, path, {"format": "pt"})


def test_weights_of_no_name_within_a_layer(saved, tmp_path):
    folder, _ = saved("roberta")
    state = safetensors.load_file(folder / "model.safetensors")
    adapter = {"roberta.encoder.layer.0.attention.self.query.lora_A.weight": torch.ones(2, 16)}
    safetensors.save_file({**state, **adapter}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"has roberta\S+\.lora_A\.weight in a layer"):
        import_model(folder, tmp_path / "out")


def test_a_dictionary_of_another_size_names_both_numbers(released, tmp_path):
    """As where `<mask>`, which fairseq adds, was counted in one place and not in the other."""
    folder, _ = released()
    lines = (folder / "dict.txt").read_text().splitlines()
    symbols = len(lines) + 5
    (folder / "dict.txt").write_text("".join(f"{line}\n" for line in lines[:-4]))
    with pytest.raises(UserError, match=rf"<mask> make {symbols - 4} symbols, but .*model.pt has {symbols} rows"):
        import_model(folder, tmp_path / "out")


def test_longer_tables_are_filled_up_and_said(saved, tmp_path, capsys):
    folder, model = saved("bert")
    lines = (folder / "vocab.txt").read_text().splitlines()
    configure(folder, vocab_size=len(lines) + 3)
    more = lambda t: torch.cat([t, torch.ones(3, *t.shape[1:])])  # noqa: E731
    change(folder, bert__embeddings__word_embeddings__weight=more, cls__predictions__bias=more)
    assert main(["import", str(folder), str(tmp_path / "out"), "--verify"]) == 0
    assert f"symbols: {len(lines) + 3}, of which 3 have no symbol" in capsys.readouterr().out
    symbols = (tmp_path / "out/dict.txt").read_text().splitlines()
    assert symbols[-3:] == [f"madeupword{i:04d} 1" for i in range(3)]
    state = safe_load(tmp_path / "out/checkpoint.pt")["model"]
    words = model.bert.embeddings.word_embeddings.weight
    assert torch.equal(state["encoder.sentence_encoder.embed_tokens.weight"][-1], words[lines.index("[MASK]")])


def test_camembert_s_repeated_symbols():
    """Text has the last of a repeated symbol, `<s>` 5 and `</s>` 6; but the unknown one is fairseq's own, 3."""
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "<unk>", "<s>", "</s>", ",", "▁de", "<mask>"]
    roles = {"<s>": 5, "<pad>": 1, "</s>": 6, "<unk>": 3, "<mask>": 9}
    found = by_role(Source(symbols, roles, "dict.txt"), 10)
    assert found.symbols == ["<s>", "<pad>", "</s>", "<unk>", ",", "▁de", "<mask>"]
    assert found.rows == [5, 1, 6, 3, 7, 8, 9]
    assert found.dropped == [0, 2, 4]


@pytest.mark.parametrize("folder", ["fairseq", "Transformers"])
def test_camembert_from_either(folder, saved, pieces, released, tmp_path):
    """The rows of `<s>` and `</s>` that are trained, whose numbers differ from those of fairseq's own."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    names = [model.id_to_piece(number) for number in range(model.get_piece_size())]
    if folder == "Transformers":
        path, original = saved("camembert")
        words = original.roberta.embeddings.word_embeddings.weight
    else:
        path, _ = released()
        original, args = fairseq_roberta(len(names) + 5)
        torch.save({"args": args, "model": original.state_dict()}, path / "model.pt")
        repeated = ("<unk>", "<s>", "</s>")
        lines = [f"{name} 999{' #fairseq:overwrite' * (name in repeated)}\r\n" for name in names]
        (path / "dict.txt").write_bytes("".join(lines).encode())
        for name in ("encoder.json", "vocab.bpe"):
            (path / name).unlink()
        (path / "sentencepiece.bpe.model").write_bytes(pieces.read_bytes())
        words = original.encoder.sentence_encoder.embed_tokens.weight
    import_model(path, tmp_path / "out", compare=True)
    ours = safe_load(tmp_path / "out/checkpoint.pt")["model"]["encoder.sentence_encoder.embed_tokens.weight"]
    assert len(ours) == len(names) + 2
    assert all(torch.equal(ours[i], words[row]) for i, row in enumerate([5, 1, 6, 3, 7, 8]))
    assert torch.equal(ours[-1], words[-1])
    numbers = [number + 1 if number else 3 for number in model.encode("Le camembert")]
    assert Manifest.load(tmp_path / "out").tokenizer()("Le camembert") == numbers
    hub = TupeModel.from_pretrained(str(tmp_path / "out"), "checkpoint.pt", str((tmp_path / "out").resolve()))
    assert hub.encode("Le <mask>").tolist()[-2:] == [len(ours) - 1, 2]


@pytest.mark.parametrize("piece", ["a\u2028b", "\u00a0", "a\u0085", "#fairseq:overwrite", "a b", "-3"])
def test_odd_pieces_come_back(piece, tmp_path):
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a", piece, "b", "<mask>"]
    write_dictionary(tmp_path / "dict.txt", symbols)
    assert read_dictionary(tmp_path / "dict.txt").symbols == symbols


def test_a_piece_that_breaks_the_line_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Incorrect dictionary format"):
        write_dictionary(tmp_path / "dict.txt", ["<s>", "<pad>", "</s>", "<unk>", "a\rb", "<mask>"])
