"""fairseq's commands of translation: padding is where the task says, and what cannot be is one sentence."""

import io
import math
import shutil
import sys
from argparse import Namespace

import pytest
import torch
from fairseq import models, tasks
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli import interactive
from omegaconf import OmegaConf

from tests.commands import run
from tests.samples import FIELDS, dictionary_of
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import compare, load, opened, record_dictionaries, same_direction
from tupe.fairseq_patches.commands import _checked
from tupe.fairseq_patches.patching import patched
from tupe.fairseq_patches.task import put_in_scope
from tupe.models.config import CONFIGS
from tupe.models.seq2seq.config import CONFIGS as SEQ2SEQ_CONFIGS
from tupe.models.seq2seq.model import Seq2SeqModel


@pytest.fixture
def task():
    return TranslationTask(TranslationConfig(left_pad_source=False), Dictionary(), Dictionary())


def test_sentences_that_are_typed_in_are_padded_where_the_task_pads(task):
    sentences = [torch.tensor([5, 6, 2]), torch.tensor([5, 2])]

    def padded():
        data = task.build_dataset_for_inference(sentences, [3, 2])
        return data.collater([data[0], data[1]])["net_input"]["src_tokens"].tolist()

    assert padded() == [[5, 6, 2], [1, 5, 2]]  # a run of fairseq's own stays what it was
    put_in_scope(task)
    assert padded() == [[5, 6, 2], [5, 2, 1]]


def test_a_model_of_language_is_not_ours(task):
    put_in_scope(task)
    config = SEQ2SEQ_CONFIGS["seq2seq_tupe_r_tiny"](**FIELDS)
    model = Seq2SeqModel.build_model(config, task)
    with pytest.raises(UserError, match=r"^--lm-path names a model of TUPE, and none predicts the next word alone"):
        task.build_generator([model], Namespace(), extra_gen_cls_kwargs={"lm_model": model})
    for given in ({"lm_weight": 0.3}, {"lm_path": "lm.pt", "lm_weight": 0.3}):
        with pytest.raises(UserError, match=f"^--{next(iter(given)).replace('_', '-')} needs a language model, which"):
            task.build_generator([model], Namespace(**given), extra_gen_cls_kwargs={"lm_model": None})


def test_an_encoder_is_refused(task):
    with pytest.raises(UserError, match="the model is an encoder, which does not translate"):
        models.build_model(OmegaConf.structured(CONFIGS["tupe_tiny"](_name="tupe_tiny")), task)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"beam": 0}, "generation.beam is 0: give a number from 1"),
        ({"lenpen": math.nan}, "generation.lenpen is nan: give a number from -20 to 20"),
        ({"max_len_b": -1}, "generation.max_len_b is -1: give a number, 0 or more"),
        ({"min_len": 30, "max_len_a": 0, "max_len_b": 20}, "--min-len 30 is above the longest translation, 20 tokens"),
    ],
)
def test_numbers_of_a_search(asked, said, task):
    asked = Namespace(score_reference=True, **asked)
    task.build_generator([], asked)  # fairseq's own
    put_in_scope(task)
    with pytest.raises(UserError, match=said):
        task.build_generator([], asked)


def test_a_split_that_is_not_there(tmp_path):
    config = TranslationConfig(data=str(tmp_path), source_lang="en", target_lang="de")
    task = TranslationTask(config, Dictionary(), Dictionary())
    put_in_scope(task)
    with pytest.raises(UserError, match=rf"there is no split 'nosuch' in {tmp_path} \(Dataset not found"):
        task.load_dataset("nosuch")


@pytest.mark.parametrize("asked", [{"print_alignment": "hard"}, {"replace_unk": "@@ "}])
def test_weights_of_attention_are_refused(asked, task):
    asked = Namespace(**asked, score_reference=True)
    task.build_generator([], asked)  # fairseq's own
    put_in_scope(task)
    with pytest.raises(UserError, match=r"needs weights of attention.*: leave it out"):
        task.build_generator([], asked)
    assert not task.build_generator([], Namespace(score_reference=True)).compute_alignment


def test_diverse_beams_of_any_sentences(task):
    """fairseq takes the number of a sentence in the data, here 7, for its place in the batch."""
    put_in_scope(task)
    for symbol in "abcdefgh":
        task.source_dictionary.add_symbol(symbol), task.target_dictionary.add_symbol(symbol)
    model = Seq2SeqModel.build_model(SEQ2SEQ_CONFIGS["seq2seq_tupe_r_tiny"](**FIELDS), task).eval()
    search = task.build_generator([model], Namespace(beam=4, diverse_beam_groups=2, max_len_b=3))
    words = {"src_tokens": torch.tensor([[5, 6, 2]]), "src_lengths": torch.tensor([3])}
    found = task.inference_step(search, [model], {"id": torch.tensor([7]), "net_input": words})
    assert len(found[0]) == 4


def test_a_checkpoint_of_the_other_direction(tmp_path):
    (tmp_path / "x.pt").touch()
    state = {"cfg": {"model": {}, "task": {"source_lang": "en", "target_lang": "de"}}, "extra_state": {}, "model": {}}
    state["optimizer_history"] = [{"best_loss": 0}]
    for pair in (("en", "de"), ("xx", "de"), (None, None)):
        read(tmp_path / "x.pt", state, *pair)
    with pytest.raises(UserError, match=r"x\.pt translates from en to de: give it these languages, -s en -t de"):
        read(tmp_path / "x.pt", state, "de", "en")


def read(path, state, source, target):
    task = Namespace(source_lang=source, target_lang=target)
    with same_direction(task), opened({str(path): state}), path.open("rb") as file:
        load(file)


@pytest.mark.parametrize("given", [{"source_lang": "de"}, {"target_lang": "xx"}])
def test_one_language_that_the_data_lack(given, tmp_path):
    (tmp_path / "train.en-de.en.idx").touch()
    with pytest.raises(UserError, match=r"are en to de, and only one language is given, (de|xx): give both"):
        tasks.setup_task(TranslationConfig(_name="translation", data=str(tmp_path), **given))


def test_the_format_of_data_is_not_another(corpus, task, tmp_path):
    """A text of the same name may stand beside binary data, and is what `--dataset-impl raw` asks for."""
    put_in_scope(task)
    with pytest.raises(UserError, match=r"train\.idx is of the format mmap, not cached: leave out --dataset-impl"):
        put_in_scope(task.source_dictionary)
        with patched():
            data_utils.load_indexed_dataset(str(corpus / "train"), task.source_dictionary, "cached")
    for name in ("train.idx", "train.bin"):
        shutil.copy(corpus / name, tmp_path)
    (tmp_path / "train").write_text("one line\n")
    with patched():
        assert len(data_utils.load_indexed_dataset(str(tmp_path / "train"), task.source_dictionary, "raw")) == 1


def test_data_without_a_pair_of_languages(corpus):
    with pytest.raises(UserError, match=f"{corpus} has no data of a translation"):
        tasks.setup_task(TranslationConfig(_name="translation", data=str(corpus)))


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("generate", (), "no checkpoint is given: set --path"),
        ("validate", ("--task", "translation", "--batch-size", "2"), "no checkpoint is given: set --path"),
        (
            "validate",
            ("--task", "masked_lm", "--batch-size", "2", "--path", "/none.pt"),
            "there is no checkpoint /none.pt",
        ),
        ("generate", ("--task", "masked_lm", "--path", "/none.pt"), "there is no checkpoint /none.pt"),
        ("generate", ("--path", "x.pt", "--replace-unk"), "--replace-unk needs --dataset-impl raw, and weights"),
    ],
)
def test_what_evaluates_a_checkpoint(command, options, said, corpus):
    done = run(f"fairseq-{command}", corpus, "--user-dir", "tupe", "--cpu", *options, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: {said}"), done.stderr
    assert "Traceback" not in done.stderr


def test_text_to_translate_that_is_not_utf_8(monkeypatch):
    cfg = OmegaConf.create(
        {"common_eval": {"path": "x.pt", "model_overrides": "{}"}, "interactive": {"input": "-", "buffer_size": 1}}
    )
    cfg.dataset = {"batch_size": 1, "num_shards": 1}
    cfg.generation = {"score_reference": False}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="latin-1"))
    said = r"^the text to translate \(-\) is not UTF-8: convert it\.$"
    with pytest.raises(UserError, match=said), _checked(cfg, interactive.main):
        sys.stdin.read()


def test_another_target_dictionary_of_the_same_size():
    """The source's is the same: its checksum says nothing of the target's."""
    words, others = dictionary_of("word"), dictionary_of("other")
    config = SEQ2SEQ_CONFIGS["seq2seq_tupe_r_tiny"](**FIELDS)
    task = TranslationTask(TranslationConfig(left_pad_source=False), words, words)
    record_dictionaries(Namespace(model=config, task={}), task)
    assert Seq2SeqModel.build_model(config, task)
    task.tgt_dict = others
    with pytest.raises(UserError, match=r"trained with another target dictionary \(other symbols or order\)"):
        Seq2SeqModel.build_model(config, task)
    with pytest.raises(UserError, match=r"checkpoint last\.pt was trained with another target dictionary"):
        compare("last.pt", {"cfg": {"model": vars(config)}, "model": {}}, config, task)
