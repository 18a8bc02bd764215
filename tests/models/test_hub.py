"""What the hub interface says, and what it keeps to itself."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tupe.checkpoints.fairseq_checkpoint import write_checkpoint
from tupe.data.glue.prepare import Content
from tupe.errors import UserError
from tupe.files import write
from tupe.models import TupeModel
from tupe.models.pretrained import refuse_other_pieces, text_processing
from tupe.models.seq2seq.model import Seq2SeqModel


@pytest.fixture
def hub(build, dictionary, tmp_path):
    write_checkpoint(tmp_path / "checkpoint_best.pt", build("tupe_tiny"), "tupe_tiny")
    dictionary.save(str(tmp_path / "dict.txt"))
    return TupeModel.from_pretrained(str(tmp_path), bpe=None)


def test_half_precision(hub):
    tokens = torch.tensor([0, 7, 8, 2])
    exact = hub.eval().extract_features(tokens)
    half = hub.bfloat16().extract_features(tokens)
    assert half.dtype == torch.bfloat16 and torch.allclose(half.float(), exact, atol=0.1)


def test_a_dictionary_of_another_size(hub, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/dict.txt").write_text("word1 1\n")
    with pytest.raises(UserError, match=r"trained with another dictionary \(45 symbols, the data's has 6\)"):
        TupeModel.from_pretrained(str(tmp_path), data_name_or_path=str(tmp_path / "other"), bpe=None)


def test_the_configuration_is_not_printed(caplog, request):
    caplog.set_level(logging.INFO)
    request.getfixturevalue("hub")
    assert "dictionary: " in caplog.text  # fairseq's other words are heard
    assert "encoder_embed_dim" not in caplog.text


def test_the_pieces_of_another_vocabulary(hub):
    def bpe(words):
        return SimpleNamespace(sp=SimpleNamespace(id_to_piece=words.__getitem__, get_piece_size=lambda: len(words)))

    dictionary = hub.task.source_dictionary
    for none in (None, hub.bpe, bpe([*dictionary.symbols, *(f"more{i}" for i in range(len(dictionary)))])):
        refuse_other_pieces(none, dictionary)
    for words in (dictionary.symbols[:20], [*dictionary.symbols, *(f"more{i}" for i in range(100))]):
        with pytest.raises(
            UserError, match=rf"^sentencepiece_model has {len(words)} pieces, and only .* of the corpus'"
        ):
            refuse_other_pieces(bpe(words), dictionary)


def test_pairs_are_separated_as_in_training(hub):
    hub.bpe = SimpleNamespace(encode=str.strip, decode=str)
    two = hub.encode("word1", "word2").tolist()
    assert two[2:4] == [2, 2] and len(two) == 6
    hub.model.args.pair_separators = 1
    assert hub.encode("word1", "word2").tolist() == [*two[:3], *two[4:]]


@pytest.mark.parametrize(("text", "masks"), [("no mask here", "none"), ("<mask> and <mask>", "2")])
def test_one_mask_is_filled(hub, text, masks):
    with pytest.raises(UserError, match=f"^fill_mask fills one <mask>, but this text has {masks}: '{text}'$"):
        hub.fill_mask(text)


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
    assert [word for _, _, word in filled] == expected
    wanted = [probabilities[dictionary.index(name)].item() for name in expected]
    assert [p for _, p, _ in filled] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("made_of", [{}, {"text": 3}, {"text": {"stages": "all", "language": "en"}}])
def test_a_manifest_that_says_nothing_of_its_text_is_damaged(made_of, tmp_path):
    write(tmp_path / "manifest.json", Content("CoLA", (), None, made_of, {}, {}, {}))
    with pytest.raises(UserError, match=r"text processing in .*manifest\.json.* is not what tupe prepare-glue writes"):
        text_processing(tmp_path)


def test_a_name_that_nothing_reads():
    with pytest.raises(UserError, match=r"no sentencepice_model \(did you mean sentencepiece_model\?\): nothing would"):
        TupeModel.from_pretrained("run", sentencepice_model="a")
    with pytest.raises(UserError, match="no beams"):
        Seq2SeqModel.from_pretrained("run", checkpoint_file="a.pt", beams=3)
    for model in (TupeModel, Seq2SeqModel):
        with pytest.raises(UserError, match=r"^from_pretrained has no archive_map: nothing would read it"):
            model.from_pretrained("run", archive_map=3)
    with pytest.raises(UserError, match=r"^from_pretrained has 'generation_args': 3, but generation_args is no field"):
        Seq2SeqModel.from_pretrained("run", generation_args=3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"relative": "none"}, "the weights of .* do not fit the model that relative makes of it: leave out"),
        ({"encoder_layers": 5}, "the weights of .* do not fit the model that encoder_layers makes of it: leave out"),
        ({"task": "x"}, "from_pretrained has 'task': 'x', but task is no field: give"),
        ({"tokenizer": "moses"}, "from_pretrained has no tokenizer.*: nothing would read it"),
        ({"beam": 3}, "from_pretrained has no beam"),
        ({"fp16": True}, r"from_pretrained has no fp16, .*: call half\(\) or bfloat16\(\) of its result"),
        ({"model": {"encoder_layer": 3}}, "from_pretrained has no encoder_layer"),
        ({"sentencepiece_model": 3}, "sentencepiece_model is 3, but must be a path"),
        ({"user_dir": 3}, "user_dir is 3, but must be a path"),
        ({"tokens_per_sample": "x"}, "masked_lm cannot have this tokens_per_sample: Value 'x' of type"),
        ({"compile": 2}, "tupe_tiny cannot have this compile: '2' is neither true nor"),
        ({"relative": "x"}, "tupe_tiny cannot have this relative: Invalid value 'x'"),
    ],
)
def test_a_value_that_makes_another_model(hub, change, said, tmp_path):
    with pytest.raises(UserError, match=f"^{said}"):
        TupeModel.from_pretrained(str(tmp_path), bpe=None, **change)


@pytest.mark.parametrize("ask", [lambda hub: hub.encode("word1"), lambda hub: hub.fill_mask("word1 <mask>")])
def test_text_without_a_tokenizer(hub, ask):
    with pytest.raises(UserError, match=r"^this model was loaded without a tokenizer \(bpe=None\): load it with bpe="):
        ask(hub)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ("word1", "tokens are a str, but must be a tensor"),
        (torch.zeros(3, dtype=torch.long, device="meta"), "tokens are on the device meta, which holds no numbers"),
        (torch.zeros(2, 0, dtype=torch.long), r"tokens are \(2, 0\) of torch.int64, but must be whole numbers"),
        (torch.zeros(1, 2, dtype=torch.bool), r"tokens are \(1, 2\) of torch.bool, but must be whole numbers"),
        (torch.tensor([0, 2]).to_sparse(), r"tokens are \(2,\) of torch.sparse_coo, but must be whole numbers"),
        (torch.tensor([[1, 0, 5, 2]]), "tokens begin with padding, but positions count from the first: pad on the"),
        (torch.zeros(1, 2), r"tokens are \(1, 2\) of torch.float32, but must be whole numbers"),
        (torch.tensor([0, 5, 5000, 2]), "tokens are numbers from 0 to 5000, but the dictionary has 45 symbols"),
        (torch.zeros(5000, dtype=torch.long), "a sequence of 5000 tokens is longer than the 24 positions"),
    ],
)
def test_tokens_that_are_none(hub, tokens, said):
    with pytest.raises(UserError, match=f"^{said}"):
        hub.extract_features(tokens)


@pytest.mark.parametrize("number", [-3, 5000])
def test_numbers_of_no_symbol_are_no_text(hub, number):
    hub.bpe = SimpleNamespace(encode=str.strip, decode=str)
    with pytest.raises(UserError, match=f"^tokens are numbers from {number} to {number}, but the dictionary has 45"):
        hub.decode(torch.tensor([number]))
    for tokens in (torch.tensor([0.5]), torch.tensor([], dtype=torch.long), torch.tensor([[0, 2]])):
        with pytest.raises(UserError, match=r"^tokens are \(.*\) of torch.*, but must be whole numbers \(T,\), T at"):
            hub.decode(tokens)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([[0, 2]], "tokens are a list, but must be a tensor"),
        (torch.tensor([0, 2]), r"tokens are \(2,\) of torch.int64, but must be whole numbers \(B, T\), T at least 1"),
        (torch.tensor([[0.0, 2]]), r"tokens are \(1, 2\) of torch.float32, but must be"),
        (torch.tensor([[0, 500]]), "tokens are numbers from 0 to 500, but the dictionary has 45 symbols"),
    ],
)
def test_tokens_that_no_model_reads(hub, tokens, said):
    with pytest.raises(UserError, match=f"^{said}"):
        hub.model(tokens)


def test_flags_are_booleans(hub, tmp_path):
    hub.bpe = SimpleNamespace(encode=str.strip, decode=str)
    tokens = torch.tensor([0, 2])
    for name, ask in {
        "no_separator": lambda: hub.encode("word1", no_separator="no"),
        "return_all_hiddens": lambda: hub.extract_features(tokens, "no"),
        "return_logits": lambda: hub.predict("mine", tokens, 1),
        "process_text": lambda: TupeModel.from_pretrained(str(tmp_path), bpe=None, process_text="no"),
    }.items():
        with pytest.raises(UserError, match=f"^{name} is .*, but must be True or False$"):
            ask()


def test_paths_may_be_of_pathlib(hub, tmp_path):
    """And what fairseq passes on may be given."""
    TupeModel.from_pretrained(tmp_path, data_name_or_path=tmp_path, bpe=None, load_checkpoint_heads=False)


def test_what_is_no_text_and_a_head_that_is_none(hub):
    hub.bpe = SimpleNamespace(encode=str.strip, decode=str)
    for texts in ((["word1", "word2"],), ("word1", 3)):
        with pytest.raises(UserError, match=r"^a text is .*, but must be a str: give the texts of a pair one by one"):
            hub.encode(*texts)
    with pytest.raises(UserError, match=r"^topk is 0, but must be a whole number, 1 or more$"):
        hub.fill_mask("word1 <mask>", 0)
    del hub.task.mask_idx  # as the tasks of fine-tuning
    with pytest.raises(UserError, match=r"^fill_mask needs a model of words, but this one was fine-tuned: load"):
        hub.fill_mask("word1 <mask>")
    tokens = torch.tensor([[0, 2]])
    said = r"^the model has no classification head 'mine' \(it has none\): give one of these, or add it by"
    with pytest.raises(UserError, match=said):
        hub.predict("mine", tokens)
    with pytest.raises(UserError, match=r"^the model has no classification head \['a'\]"):
        hub.predict(["a"], tokens)
    with pytest.raises(UserError, match=said):
        hub.model(tokens, classification_head_name="mine")
    with pytest.raises(UserError, match=r"^the model has no span_head: call register_span_head first"):
        hub.model(tokens, spans=True)
    with pytest.raises(UserError, match=r"^a classification head cannot be called 3: give a name"):
        hub.register_classification_head(3, 2)
    with pytest.raises(UserError, match=r"^frozen_layers is True, but must be a whole number"):
        hub.model.freeze_layers(True)
    hub.model.freeze_layers(np.int64(1))
    with pytest.raises(UserError, match=r"^frozen_layers is .*-1.*, but the model has [0-9]+ layers: give a number up"):
        hub.model.freeze_layers(np.int64(-1))
    with pytest.raises(UserError, match=r"^num_classes is None, but must be a whole number, 1 or more$"):
        hub.register_classification_head("mine")
    with pytest.raises(UserError, match=r"^inner_dim is -1, but must be a whole number, 1 or more$"):
        hub.register_classification_head("mine", 2, inner_dim=-1)
    with pytest.raises(UserError, match=r"^register_classification_head has no embedding_size: nothing would read it$"):
        hub.register_classification_head("mine", num_classes=2, embedding_size=-1)
    hub.model.args.linear_heads = True
    with pytest.raises(UserError, match=r"^a head of one layer has no inner_dim: nothing would read it$"):
        hub.register_classification_head("mine", 2, inner_dim=8)


def test_a_model_of_the_other_kind_and_paths_that_are_none(hub, tmp_path):
    """The reverse is refused by `saved_config`, as every command refuses it."""
    with pytest.raises(UserError, match=r"is no translation model but an encoder \(tupe_tiny\): load it by TupeModel"):
        Seq2SeqModel.from_pretrained(str(tmp_path), "checkpoint_best.pt")
    with pytest.raises(UserError, match=r"^there is no checkpoint .*none\.pt: give its folder and name$"):
        Seq2SeqModel.from_pretrained(str(tmp_path), "none.pt")
    for kind in (TupeModel, Seq2SeqModel):
        with pytest.raises(UserError, match=r"^model_name_or_path is None, but must be a path$"):
            kind.from_pretrained(None)
    for bpe in ("pieces", 3, {}):
        with pytest.raises(UserError, match=r"^bpe is .*, but must be one of .*sentencepiece.*, or None for"):
            TupeModel.from_pretrained(str(tmp_path), bpe=bpe)
    with pytest.raises(
        UserError, match=rf"^there is no sentencepiece\.bpe\.model in {tmp_path}: give sentencepiece_mod"
    ):
        TupeModel.from_pretrained(str(tmp_path))
    with pytest.raises(UserError, match=r"^state_dict is 'checkpoint\.pt', but must be parameters by name: give safe_"):
        hub.model.load_state_dict("checkpoint.pt")
    with pytest.raises(UserError, match=r"^there is no sentencepiece_model /none: give the file"):
        TupeModel.from_pretrained(str(tmp_path), sentencepiece_model="/none")
