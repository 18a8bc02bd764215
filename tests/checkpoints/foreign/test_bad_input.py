"""What a folder may not be: each is one sentence, and nothing is written."""

import json
import os
import pickle
import re
import sys
import warnings

import pytest
import torch

from tests.checkpoints.foreign.conftest import write_glue, write_json
from tests.commands import finetune
from tupe.checkpoints.foreign.importing import import_model
from tupe.checkpoints.foreign.vocabulary import Source, by_role
from tupe.cli.main import main
from tupe.data.corpus.manifest import Manifest
from tupe.errors import UserError
from tupe.files import sha256
from tupe.models import TupeModel
from tupe.safe_load import safe_load

safetensors = pytest.importorskip("safetensors.torch")
pytest.importorskip("transformers")

SPECIAL = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}


def refused(folder, tmp_path, message, **options):
    with pytest.raises(UserError, match=message) as found:
        import_model(folder, tmp_path / "out", **options)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "out/checkpoint.pt").exists() and not (tmp_path / "out/manifest.json").exists()


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


@pytest.mark.parametrize("kind", ["deberta", "albert", "modernbert", "gpt2", None, ["roberta"]])
def test_other_models(kind, saved, tmp_path):
    folder, _ = saved("roberta")
    configure(folder, model_type=kind)
    shown = re.escape(repr(kind))
    refused(folder, tmp_path, rf"model_type {shown}, .*roberta, xlm-roberta, camembert, .*bert, distilbert, mpnet")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"position_embedding_type": "relative_key_query"}, "position_embedding_type is 'relative_key_query'"),
        ({"position_embedding_type": "relative_key"}, r"lacks '\S*distance_embedding.weight'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"relative_attention_num_buckets": 64}, "relative_attention_num_buckets is 64, and only 32 is imported"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu', and only gelu, "),
        ({"num_hidden_layers": 10**9}, "names 1000000000 layers, but the weights have 2"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers is 'two', not a number"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None, not a number"),
        ({"hidden_size": 10**9}, r"shape \(\d+, 1000000000\), but the weights have \(\d+, 16\)"),
        ({"intermediate_size": 25}, r"fc1.weight has the shape \(25, 16\), but the weights have \(24, 16\)"),
        ({"num_attention_heads": 3}, "3 heads do not divide the width 16"),
        ({"num_attention_heads": 0}, "0 heads do not divide the width 16"),
        ({"layer_norm_eps": -1}, r"config.json: layer_norm_eps is -1.0: give a share"),
        ({"layer_norm_eps": "small"}, r"config.json: layer_norm_eps is not what Transformers writes"),
        ({"hidden_dropout_prob": [0.1]}, r"config.json: hidden_dropout_prob is not what Transformers writes"),
        ({"attention_probs_dropout_prob": 1.5}, r"config.json: attention_probs_dropout_prob is 1.5: give a share"),
        ({"pad_token_id": 5}, "says that padding is 5, but .* has it at 0"),
    ],
)
def test_configurations(fields, message, saved, tmp_path):
    folder, _ = saved("bert")
    configure(folder, **fields)
    refused(folder, tmp_path, message)


def test_another_activation_than_the_head_s(saved, tmp_path):
    refused(saved("roberta", hidden_act="relu")[0], tmp_path, "hidden_act is 'relu', but the language-model head")


def nan(tensor):
    tensor = tensor.clone()
    tensor.view(-1)[0] = float("nan")
    return tensor


@pytest.mark.parametrize(
    ("name", "new", "message"),
    [
        ("layer__1__output__dense__weight", nan, "NaN or infinite"),
        ("layer__1__output__dense__weight", lambda t: t.to(torch.int8), "torch.int8, not floating-point"),
        ("layer__1__output__dense__weight", lambda t: t[:, :3], "do not fit"),
        ("embeddings__word_embeddings__weight", lambda t: t[:-5], r"symbols, but .* has rows for"),
        ("embeddings__word_embeddings__weight", lambda t: t[0], "shape"),
        ("embeddings__position_embeddings__weight", lambda t: t[:, :4], "shapes of its weights do not fit"),
        ("embeddings__position_embeddings__weight", lambda t: t[:0], "positions for no word"),
    ],
)
def test_weights(name, new, message, saved, tmp_path):
    folder, _ = saved("bert")
    change(folder, **{name: new})
    refused(folder, tmp_path, message)


def test_parts_of_weights(saved, tmp_path):
    folder, _ = saved("bert")
    state = safetensors.load_file(folder / "model.safetensors")
    lacking = {name: tensor for name, tensor in state.items() if "layer.1.attention.self.key" not in name}
    safetensors.save_file(lacking, folder / "model.safetensors")
    refused(folder, tmp_path, r"lacks 'bert.encoder.layer.1.attention.self.key.weight', which a bert has")
    (folder / "model.safetensors").unlink()
    refused(folder, tmp_path, "neither model.safetensors nor pytorch_model.bin")
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": "one.safetensors"}})
    refused(folder, tmp_path, "there is no .*one.safetensors")


def test_weights_of_no_name_within_a_layer(saved, tmp_path):
    folder, _ = saved("roberta")
    state = safetensors.load_file(folder / "model.safetensors")
    adapter = {"roberta.encoder.layer.0.attention.self.query.lora_A.weight": torch.ones(2, 16)}
    safetensors.save_file({**state, **adapter}, folder / "model.safetensors", {"format": "pt"})
    refused(folder, tmp_path, r"has roberta\S+\.lora_A\.weight in a layer, where a roberta has nothing of this name")


def test_an_original_that_transformers_does_not_load(saved, tmp_path):
    folder, _ = saved("bert")
    configure(folder, max_position_embeddings=30)
    refused(folder, tmp_path, "Transformers cannot load .* itself, .*: mend its config.json, .* --verify", compare=True)


def test_an_index_leads_nowhere_else(saved, tmp_path):
    """Names in an index are names of files of the folder."""
    folder, _ = saved("bert")
    os.replace(folder / "model.safetensors", folder.parent / "elsewhere.safetensors")
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": "../elsewhere.safetensors"}})
    refused(folder, tmp_path, f"there is no {re.escape(str(folder))}/elsewhere.safetensors")
    (folder / "model.safetensors.index.json").unlink()
    write_json(folder / "pytorch_model.bin.index.json", {"weight_map": {"a": "../elsewhere.bin"}})
    refused(folder, tmp_path, f"there is no checkpoint {re.escape(str(folder))}/elsewhere.bin")


class Runs:
    """Leaves a trace when it is unpickled as Python does."""

    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("form", ["torch", "pickle"])
def test_code_in_weights(form, saved, released, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, _ = saved("bert")
    (folder / "model.safetensors").unlink()
    theirs, _ = released()
    for path in (folder / "pytorch_model.bin", theirs / "model.pt"):
        if form == "torch":
            torch.save({"model": {"a": Runs()}, "a": Runs()}, path)
        else:
            path.write_bytes(pickle.dumps({"a": Runs()}))
    refused(folder, tmp_path, "could run code|cannot be read")
    refused(theirs, tmp_path, "could run code|cannot be read")
    assert not (tmp_path / "ran").exists()


def test_weights_of_eight_bits_are_read(saved, tmp_path):
    folder, _ = saved("bert")
    change(folder, embeddings__position_embeddings__weight=lambda t: t.to(torch.float8_e4m3fn))
    import_model(folder, tmp_path / "out")


def quantised():
    with warnings.catch_warnings(action="ignore"):  # PyTorch will leave them out
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ({"a": 3}, "'a'"),
        ({7: torch.ones(1)}, "7"),
        ({"a": torch.ones(1, device="meta")}, "'a'"),
        ({"a": torch.qint8}, "'a'"),
    ],
)
def test_pickled_things_that_are_no_tensors(held, shown, saved, tmp_path):
    folder, _ = saved("bert")
    (folder / "model.safetensors").unlink()
    held = {name: quantised() if value is torch.qint8 else value for name, value in held.items()}
    torch.save(held, folder / "pytorch_model.bin")
    refused(folder, tmp_path, f"holds {shown}, which is no tensor")


@pytest.mark.parametrize(
    ("tensors", "options", "message"),
    [
        ({"classifier.bias": None}, {"head_name": "x"}, r"out_proj.bias has the shape \(2,\), but .* none"),
        ({"classifier.bias": torch.ones(3)}, {"head_name": "x"}, r"out_proj.bias has the shape \(2,\), but .* \(3,\)"),
        (
            {"classifier.weight": torch.ones(2, 9)},
            {"head_name": "x"},
            r"shape \(2, 16\), but the weights have \(2, 9\)",
        ),
        ({"bert.pooler.dense.weight": torch.ones(9, 16)}, {"head_name": "x"}, r"dense.weight has the shape \(16, 16\)"),
        ({"bert.pooler.dense.bias": None}, {"pooler": True}, r"pooler.dense.bias has the shape \(16,\), but .* none"),
        ({}, {"head_name": "x", "labels": ["a"]}, "has 2 classes, but its names are a: give so many different ones"),
        ({}, {"head_name": "x", "labels": ["a", "a"]}, "has 2 classes, but its names are a, a: give so many"),
        ({}, {"head_name": "x", "labels": ["a", "<s>"]}, "'<s>' cannot be the name of a class"),
        ({}, {"head_name": "x", "labels": ["a", "b\nc"]}, "cannot be the name of a class"),
        ({}, {"head_name": "x.y"}, "cannot be called 'x.y': give a name without a dot"),
        ({}, {"head_name": "x\ny"}, r"no head can be called 'x\\ny'"),
    ],
)
def test_heads(tensors, options, message, saved, tmp_path):
    """A head that does not fit is not one of random weights in its place."""
    folder, _ = saved("bert")
    path = folder / "model.safetensors"
    head = {"bert.pooler.dense.weight": torch.ones(16, 16), "bert.pooler.dense.bias": torch.ones(16)}
    head |= {"classifier.weight": torch.ones(2, 16), "classifier.bias": torch.ones(2), **tensors}
    state = {**safetensors.load_file(path), **head}
    safetensors.save_file(
        {name: tensor for name, tensor in state.items() if tensor is not None}, path, {"format": "pt"}
    )
    refused(folder, tmp_path, message, **options)


def test_weights_of_more_numbers_than_the_file_has(saved, released, tmp_path):
    """Strides of 0 claim any size: 10^12 numbers would be made of two bytes."""
    (folder, _), (fairseq, _) = saved("bert"), released()
    huge = torch.zeros(1, dtype=torch.float16).expand(10**6, 10**6)
    state = safetensors.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    name = next(name for name in state if name.endswith("layer.0.attention.self.query.weight"))
    torch.save({**state, name: huge}, folder / "pytorch_model.bin")
    refused(folder, tmp_path, "claims more numbers than it has, first in .*query")
    state = safe_load(fairseq / "model.pt")
    name = next(name for name in state["model"] if name.endswith("layers.0.fc1.weight"))
    torch.save({**state, "model": {**state["model"], name: huge}}, fairseq / "model.pt")
    refused(fairseq, tmp_path, "claims more numbers than it has, first in .*fc1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {**state, "args": None}, "needs `args` or `cfg`, and `model` of tensors"),
        (lambda state: {**state, "model": [1]}, "needs `args` or `cfg`, and `model` of tensors"),
        (lambda state: {**state, "model": {5: torch.ones(1)}}, "needs `args` or `cfg`, and `model` of tensors"),
        (lambda state: {**state, "model": {"decoder.embed.weight": torch.ones(2, 2)}}, "is no RoBERTa of fairseq"),
    ],
)
def test_other_checkpoints_of_fairseq(change, message, released, tmp_path):
    folder, _ = released()
    torch.save(change(safe_load(folder / "model.pt")), folder / "model.pt")
    refused(folder, tmp_path, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quant_noise_pq": 0.1}, "quant_noise_pq"),
        ({"spectral_norm_classification_head": True}, "spectral norm"),
        ({"encoder_layers": "2"}, r"args.encoder_layers"),
        ({"encoder_layers": None}, "has no encoder_layers"),
        ({"encoder_attention_heads": 5}, "5 heads do not divide the width 16"),
        ({"activation_fn": "__import__('os')"}, "activation_fn"),
    ],
)
def test_options_of_fairseq(options, message, released, tmp_path):
    folder, _ = released()
    state = safe_load(folder / "model.pt")
    vars(state["args"]).update(options)
    torch.save(state, folder / "model.pt")
    refused(folder, tmp_path, message)


def test_a_dictionary_of_another_size_names_both_numbers(released, tmp_path):
    """As where `<mask>`, which fairseq adds, was counted in one place and not in the other."""
    folder, _ = released()
    lines = (folder / "dict.txt").read_text().splitlines()
    symbols = len(lines) + 5
    (folder / "dict.txt").write_text("".join(f"{line}\n" for line in lines[:-4]))
    refused(folder, tmp_path, rf"dict.txt and <mask> make {symbols - 4} symbols, but .*model.pt has rows for {symbols}")


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
    found = by_role(Source(symbols, roles, "dict.txt"), 10, "model.pt")
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
        from tests.checkpoints.foreign.conftest import fairseq_roberta

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


@pytest.mark.parametrize(
    ("roles", "rows", "message"),
    [
        (SPECIAL, 9, "no symbol for <mask>"),
        ({**SPECIAL, "<mask>": 3}, 9, "one symbol for several"),
        ({**SPECIAL, "<mask>": 8}, 8, "has 9 symbols, but model.pt has rows for 8"),
    ],
)
def test_roles(roles, rows, message):
    with pytest.raises(UserError, match=message):
        by_role(Source([f"s{i}" for i in range(9)], roles, "dict.txt"), rows, "model.pt")


@pytest.mark.parametrize("piece", ["a\u2028b", "\u00a0", "a\u0085", "#fairseq:overwrite", "a b", "-3"])
def test_odd_pieces_come_back(piece, tmp_path):
    from tupe.checkpoints.foreign.vocabulary import write_dictionary
    from tupe.fairseq_patches.checkpoints import read_dictionary

    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a", piece, "b", "<mask>"]
    write_dictionary(tmp_path / "dict.txt", symbols)
    assert read_dictionary(tmp_path / "dict.txt", "a test").symbols == symbols


def test_a_piece_that_breaks_the_line_is_refused(tmp_path):
    from tupe.checkpoints.foreign.vocabulary import write_dictionary

    with pytest.raises(UserError, match="cannot stand in a dictionary"):
        write_dictionary(tmp_path / "dict.txt", ["<s>", "<pad>", "</s>", "<unk>", "a\rb", "<mask>"])
    assert not (tmp_path / "dict.txt").exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vocab.txt", None, "there is no tokenizer in"),
        ("vocab.txt", "[PAD]\na\nb\n", r"has no '\[CLS\]', which is its cls_token"),
        ("tokenizer_config.json", "[1", "tokenizer_config.json"),
        ("tokenizer.json", '{"model": 3}', "tokenizer.json"),
        ("tokenizer.json", '{"model": {"type": "BPE", "vocab": {"a": -1}}}', "pre_tokenizer|numbers its"),
        ("tokenizer_config.json", '{"do_lower_case": true, "cls_token": ["[CLS]"]}', "which is its cls_token"),
        ("tokenizer_config.json", '{"do_lower_case": "true"}', "config.json: do_lower_case is not .*'true', not"),
        ("added_tokens.json", '{"a": 5}', "gives the number 5 to .* and to 'a': it is damaged"),
        ("added_tokens.json", '{"a": 4000000000}', "numbers its .* up to 4,000,000,000"),
    ],
)
def test_files_of_a_tokenizer(name, text, message, saved, tmp_path):
    folder, _ = saved("bert")
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    refused(folder, tmp_path, message)


@pytest.mark.parametrize(
    ("normaliser", "model", "message"),
    [
        ({"lowercase": "true"}, {}, r"/tokenizer.json: lowercase is not what .*, not true or false\)"),
        ({"strip_accents": "no"}, {}, r"/tokenizer.json: strip_accents is not what .*, not true or false\)"),
        ({}, {"max_input_chars_per_word": -1}, "max_input_chars_per_word is -1, not 1 or more"),
        ({}, {"max_input_chars_per_word": 10**30}, "max_input_chars_per_word is 10+, not 2147483648 or less"),
        ({}, {"continuing_subword_prefix": 5}, "tokenizer.json: model is not .*continuing_subword_prefix is 5, not te"),
    ],
)
def test_options_of_a_word_piece(normaliser, model, message, saved, words, tmp_path):
    folder, _ = saved("bert")
    write_json(folder / "tokenizer_config.json", {})
    vocabulary = {word: number for number, word in enumerate(words)}
    parts = {
        "model": {"type": "WordPiece", "vocab": vocabulary, **model},
        "normalizer": {"type": "BertNormalizer", "lowercase": True, **normaliser},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
    }
    write_json(folder / "tokenizer.json", parts)
    refused(folder, tmp_path, message)


def test_a_space_that_is_neither_true_nor_false(saved, tmp_path):
    folder, _ = saved("roberta")
    write_json(folder / "tokenizer_config.json", {"add_prefix_space": "true"})
    refused(folder, tmp_path, "/tokenizer_config.json: add_prefix_space is not what .* 'true', not true or false")


def test_no_merges(saved, tmp_path):
    folder, _ = saved("roberta")
    (folder / "merges.txt").write_text("#version: 0.2\n")
    refused(folder, tmp_path, "merges.txt has no merges")


def test_a_tokenizer_beside_is_of_fairseq(saved, tmp_path):
    folder, _ = saved("bert")
    refused(folder, tmp_path, "^--bpe is for models of fairseq", bpe=tmp_path)


def test_files_of_two_models(released, pieces, tmp_path):
    folder, _ = released()
    (folder / "sentencepiece.bpe.model").write_bytes(pieces.read_bytes())
    refused(folder, tmp_path, r"lacks .* of the .* symbols of")
    (folder / "sentencepiece.bpe.model").write_bytes(b"no model")
    refused(folder, tmp_path, "no SentencePiece model")
    (folder / "sentencepiece.bpe.model").unlink()
    write_json(folder / "encoder.json", {"a": 1000, "b": 1001})
    refused(folder, tmp_path, "are not the numbers in")
    (folder / "encoder.json").write_text("{")
    refused(folder, tmp_path, "encoder.json")


def test_another_vocabulary_of_the_same_size_is_noticed(saved, words, tmp_path, capsys):
    folder, _ = saved("bert")
    import_model(folder, tmp_path / "one")
    other = words[:7] + words[7:][::-1]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in other))
    import_model(folder, tmp_path / "other")
    model = str(tmp_path / "one/checkpoint.pt")
    assert main(["export", model, str(tmp_path / "other"), str(tmp_path / "exported")]) == 1
    assert "other symbols or order" in capsys.readouterr().err


def test_a_folder_of_nothing(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["import", str(tmp_path / "empty"), str(tmp_path / "out")]) == 1
    assert "there is neither model.pt, as fairseq calls it, nor config.json" in capsys.readouterr().err
    (tmp_path / "model.pt").touch()
    for name, said in (("nothere", "there is no folder {}"), ("model.pt", "{} is a file")):
        assert main(["import", str(tmp_path / name), str(tmp_path / "out")]) == 1
        assert f"{said.format(tmp_path / name)}: give the folder of a model" in capsys.readouterr().err


def test_after_a_failure_other_options_are_taken(saved, tmp_path, monkeypatch):
    from tupe.checkpoints.foreign import importing

    def fails(*_):
        raise UserError("the two differ")

    folder, _ = saved("bert")
    with monkeypatch.context() as patch:
        patch.setattr(importing, "verify", fails)
        refused(folder, tmp_path, "the two differ", compare=True)
        assert not (tmp_path / "out").exists()
        import_model(folder, tmp_path / "out", language="en")
        before = sorted((path, path.read_bytes()) for path in (tmp_path / "out").rglob("*.*") if path.is_file())
        with pytest.raises(UserError, match="the two differ"):
            import_model(folder, tmp_path / "out", language="en", compare=True)
    assert before == sorted((path, path.read_bytes()) for path in (tmp_path / "out").rglob("*.*") if path.is_file())


@pytest.mark.parametrize("language", ["../x", "", "English", "de/fr"])
def test_a_language_is_a_code(language, saved, tmp_path):
    refused(saved("bert")[0], tmp_path, f"--language is {language!r}, which is no language", language=language)


def test_labels_are_of_a_head(saved, tmp_path):
    refused(saved("bert")[0], tmp_path, "give --head NAME too", labels=["a", "b"])


def test_a_library_is_not_imported_for_a_folder(saved, tmp_path, monkeypatch):
    folder, _ = saved("bert")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)
        import_model(folder, tmp_path / "out")
        with pytest.raises(UserError, match="--verify runs the original, which needs transformers"):
            import_model(folder, tmp_path / "verified", compare=True)


def test_another_eps_on_loading_is_refused(saved, tmp_path):
    """As every field that changes the function of the weights."""
    import_model(saved("bert")[0], tmp_path / "out")
    write_glue(tmp_path / "download")
    options = ["CoLA", "--partial", "--workers", "1"]
    assert (
        main(["prepare-glue", str(tmp_path / "download"), str(tmp_path / "out"), str(tmp_path / "glue"), *options]) == 0
    )
    keys = ("optimization.max_epoch=1", f"checkpoint.save_dir={tmp_path / 'run'}", "model.layer_norm_eps=1e-5")
    done = finetune("CoLA", tmp_path / "out/checkpoint.pt", tmp_path / "glue", *keys)
    assert done.returncode
    assert "layer_norm_eps: checkpoint 1e-12, here 1e-05" in done.stderr + done.stdout


def test_options_that_are_not_for_our_own(tmp_path, capsys):
    (tmp_path / "ours").mkdir()
    write_json(tmp_path / "ours/config.json", {"model_type": "tupe"})
    assert main(["import", str(tmp_path / "ours"), str(tmp_path / "out"), "--pooler"]) == 1
    assert "--pooler is of models of other libraries" in capsys.readouterr().err


def test_a_corpus_is_not_taken_over(saved, tmp_path):
    """OUT is new, empty, or an earlier import of the same files."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "dict.txt").write_text("mine")
    before = sha256(out / "dict.txt")
    with pytest.raises(UserError, match="holds what is not of tupe import"):
        import_model(saved("bert")[0], out)
    assert sha256(out / "dict.txt") == before and sorted(os.listdir(out)) == ["dict.txt"]
