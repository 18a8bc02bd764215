"""Training, resuming and translating, by the commands."""

import io
import shutil
import sys
from argparse import Namespace

import pytest
import sentencepiece
import torch

from tests.commands import run, train_log
from tests.inference.conftest import train
from tupe.checkpoints.average import average
from tupe.cli.main import main
from tupe.data.corpus.manifest import MODEL
from tupe.data.corpus.vocabulary import train as train_vocabulary
from tupe.errors import UserError
from tupe.experiments.settings import model_overrides
from tupe.inference.translate import Search, Translator
from tupe.models.seq2seq.model import Seq2SeqModel


def test_a_resumed_run_is_the_same_bit_for_bit(trained, parallel, tmp_path):
    folder, _ = trained
    (tmp_path / "run").mkdir()
    before = next(folder.glob("checkpoint_*_4.pt"))
    shutil.copy(before, tmp_path / "run/checkpoint_last.pt")
    train(parallel, tmp_path / "run", "--max-update", 6)
    found, expected = (
        torch.load(path / "checkpoint_last.pt", weights_only=True) for path in (tmp_path / "run", folder)
    )
    assert found["model"].keys() == expected["model"].keys()
    for name, tensor in expected["model"].items():
        assert torch.equal(found["model"][name], tensor), name
    assert expected["cfg"]["model"]["dictionary_sha256"]


def test_the_loss_falls(trained):
    losses = [float(record["loss"]) for record in train_log(trained[1].stdout + trained[1].stderr)["train_inner"]]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


@pytest.fixture
def translate(trained, parallel, capsys):
    """`translate("--beam", 2)`: exit status, output, messages of `tupe translate` on the last checkpoint."""

    def translate(*options, checkpoint=None):
        fixed = [checkpoint or trained[0] / "checkpoint_last.pt", "--data", parallel]  # the last --data counts
        status = main(["translate", *map(str, (*fixed, *options))])
        return status, *capsys.readouterr()

    return translate


def test_translations_are_fairseqs(translate, trained, parallel, tmp_path):
    """`fairseq-generate` and `fairseq-interactive` find the same by the same search, sentence for sentence."""
    folder, text = trained[0], parallel / "text/test.en"
    out = tmp_path / "out"
    options = ("--beam", 3, "--normalization", "fairseq", "--max-tokens", 60)
    status, _, message = translate("--input", text, "--output", out, *options)
    assert status == 0, message
    search = ("--user-dir", "tupe", "--left-pad-source", "--path", folder / "checkpoint_last.pt", "--cpu", "--beam", 3,
              "--lenpen", 0.6, "--max-len-a", 1, "--max-len-b", 50, "--bpe", "sentencepiece",
              "--sentencepiece-model", parallel / "sentencepiece.bpe.model")  # fmt: skip
    generated = run("fairseq-generate", parallel, *search, "--batch-size", 5)
    (tmp_path / "generated").write_text(generated.stdout)
    assert main(["bleu", "--hypotheses", str(tmp_path / "generated"), "--reference", str(out)]) == 0
    lines = dict(line[2:].split("\t", 2)[::2] for line in generated.stdout.splitlines() if line.startswith("D-"))
    assert [lines[str(number)] for number in range(20)] == out.read_text().splitlines()
    half = run("fairseq-generate", parallel, *search, "--batch-size", 5, "--num-shards", 2, "--shard-id", 1).stdout
    found = dict(line[2:].split("\t", 2)[::2] for line in half.splitlines() if line.startswith("D-"))
    assert len(found) == 10 and found.items() < lines.items()
    model = sentencepiece.SentencePieceProcessor(model_file=str(parallel / "sentencepiece.bpe.model"))
    pieces = tmp_path / "pieces"
    pieces.write_text(
        "".join(" ".join(model.encode(line, out_type=str)) + "\n" for line in text.read_text().splitlines())
    )
    asked = run("fairseq-interactive", parallel, "--input", pieces, "--buffer-size", 20, "--batch-size", 5,
                *search[:-4], "-s", "en", "-t", "de")  # fmt: skip
    said = [line.split("\t")[2].replace(" ", "").replace("▁", " ").strip() for line in asked.stdout.splitlines()
            if line.startswith("H-")]  # fmt: skip
    assert said == out.read_text().splitlines()


def typed(text):
    """As standard input."""
    return io.TextIOWrapper(io.BytesIO(text), encoding="utf-8")


def test_standard_input_empty_lines_and_averages(translate, trained, monkeypatch):
    monkeypatch.setattr(sys, "stdin", typed(b"the dog\n\na man sees\n"))
    status, out, messages = translate("--beam", 2, "--average", 2, checkpoint=trained[0])
    assert status == 0, messages
    lines = out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    assert lines[0]
    assert "3 lines translated, 1 of them empty" in messages
    paths = [next(trained[0].glob(f"checkpoint_*_{updates}.pt")) for updates in (4, 6)]
    mean, states = average(paths)["model"], [torch.load(path, weights_only=True)["model"] for path in paths]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (states[0][name] + states[1][name]) / 2)


def test_in_python_text_is_encoded_as_the_data(trained, parallel, tmp_path):
    hub = Seq2SeqModel.from_pretrained(trained[0], "checkpoint_last.pt", data_name_or_path=parallel)
    line = (parallel / "text/test.en").read_text().splitlines()[0]
    assert hub.decode(hub.encode(line)) == line
    one, (several,) = hub.translate(line, beam=2), hub.translate((text for text in [line]), beam=2)
    assert one == several == hub.decode(hub.generate(hub.encode(line), beam=2)[0]["tokens"])
    for wrong, said in (
        (None, "sentences are None"),
        ([None], "a sentence is None"),
        (b"a dog", "sentences are b'a dog'"),
    ):
        with pytest.raises(UserError, match=rf"^{said}, but must be a (list, or one sentence|str)$"):
            hub.translate(wrong)
    with pytest.raises(UserError, match=r"^beam is '5', but must be a whole number, 1 or more$"):
        hub.translate([line], beam="5")
    with pytest.raises(UserError, match=r"^translate has no beem \(did you mean beam\?\): nothing would read it$"):
        hub.translate([line], beem=2)
    with pytest.raises(UserError, match=r"^tokens are 1, but must be a tensor \(n,\): give what encode\(text\) gives$"):
        hub.generate([1, 2])
    with pytest.raises(UserError, match=rf"^there is no dict\.txt in {tmp_path}/none: give data_name_or"):
        Seq2SeqModel.from_pretrained(trained[0], "checkpoint_last.pt", data_name_or_path=tmp_path / "none")
    with pytest.raises(UserError, match=r"^tokens are \(1, 3\) of torch\.float32, but must be whole numbers"):
        hub.models[0](torch.ones(1, 3), None, torch.tensor([[2]]))


def test_arguments_of_a_translator():
    for wrong in ("a.pt", []):
        with pytest.raises(UserError, match=r"^checkpoints are .*, but must be a list of paths, such as \[path\]$"):
            Translator(wrong)
    with pytest.raises(UserError, match=r"^--beam is '5', but must be a whole number, 1 or more$"):
        Search(beam="5")
    for fields in ({"length_penalty": "0.6"}, {"normalization": "google"}):
        with pytest.raises(
            UserError, match=r"^--(length-penalty is '0.6': it must be from|normalization is 'google': it)"
        ):
            Search(**fields)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a man", r"^lines are 'a man', but must be a list of lines, such as \[line\]$"),
        (["a man", None], "^line 2 is None, but must be a str$"),
    ],
)
def test_what_is_no_list_of_lines(lines, said, trained, parallel):
    with pytest.raises(UserError, match=said):
        list(Translator([trained[0] / "checkpoint_last.pt"], parallel)(lines))


def test_what_cannot_be_translated(translate, trained, parallel, tmp_path, monkeypatch, capsys):
    long = tmp_path / "long"
    long.write_text("a man\n" + "the dog " * 30 + "\n")
    status, out, message = translate("--input", long, "--output", tmp_path / "out")
    assert (status, out) == (1, "")
    assert "line 2 has 61 tokens, but the model takes 32" in message
    assert not (tmp_path / "out").exists()
    status, _, message = translate("--data", tmp_path, "--input", long)
    assert f"there is no {tmp_path}/sentencepiece.bpe.model: give the data" in message
    other = tmp_path / "other"
    shutil.copytree(parallel, other)
    model = (other / MODEL).read_bytes()
    (other / MODEL).write_bytes(model[:-1] + bytes([model[-1] ^ 1]))
    status, _, message = translate("--data", other, "--input", parallel / "text/test.en")
    assert f"{other / MODEL} is not the one that tupe prepare-translation wrote" in message
    (other / "manifest.json").unlink()
    text = ["a dog sees the red man", *(f"{a}{b}" for a in "abcdefgh" for b in "ijklmnop")]
    for pieces in (50, 60):
        train_vocabulary(text, other / MODEL, pieces, "bpe", False, ())
        status, _, message = translate("--data", other, "--input", parallel / "text/test.en")
        assert f"{other / MODEL} does not have the symbols of the dictionaries beside it" in message
    for language in ("en", "de"):
        symbols = (other / f"dict.{language}.txt").read_text().splitlines(keepends=True)
        (other / f"dict.{language}.txt").write_text("".join(reversed(symbols)))
    status, _, message = translate("--data", other, "--input", long)
    assert "trained with another dictionary (other symbols or order)" in message
    monkeypatch.setattr(sys, "stdin", typed(b"the dog\nthe \xff\n"))
    assert "line 2 of standard input is no UTF-8 (invalid start byte)" in translate()[2]
    for option in (("--max-tokens", 0), ("--beam", -5), ("--length-penalty", "nan"), ("--length-penalty", "1e30")):
        with pytest.raises(SystemExit):
            translate("--input", parallel / "text/test.en", *option)
        assert f"argument {option[0]}: {option[1]} is not a" in capsys.readouterr().err
    state = torch.load(trained[0] / "checkpoint_last.pt", weights_only=True)
    state["cfg"]["task"]["_name"], state["cfg"]["model"]["_name"] = "masked_lm", "tupe_r_base"
    torch.save(state, tmp_path / "encoder.pt")
    status, _, message = translate("--input", long, checkpoint=tmp_path / "encoder.pt")
    assert "encoder.pt is no translation model, but tupe_r_base" in message
    good = torch.load(trained[0] / "checkpoint_last.pt", weights_only=True)
    task, model = (dict(good["cfg"][part]) for part in ("task", "model"))
    for args, task_fields, model_fields, said in (
        (None, {}, {"_name": "fconv", "encoder_layers": "print()"}, "is no translation model, but fconv"),
        (None, {}, {"_name": "transformer", "encoder": {"xformers_att_config": "print()"}}, "fairseq runs as Python"),
        (None, {"task": "multilingual_translation", "left_pad_source": "print()"}, {}, "fairseq runs as Python"),
        (Namespace(arch="fconv", encoder_layers="print()"), {}, {}, "fairseq runs as Python"),
        (None, {"source_lang": None}, {}, "source_lang"),
    ):
        changed = {"task": {**task, **task_fields}, "model": Namespace(**{**model, **model_fields})}
        torch.save({**good, "args": args, "cfg": {**good["cfg"], **changed}}, tmp_path / "bad.pt")
        status, _, message = translate("--input", long, checkpoint=tmp_path / "bad.pt")
        assert status == 1
        assert message.count("error: ") == 1
        assert said in message, message
    assert translate("--average", 9, checkpoint=trained[0])[2].count("\n") == 1
    assert "there is no checkpoint" in translate(checkpoint=tmp_path / "none.pt")[2]
    with pytest.raises(UserError, match="is a translation model"):
        model_overrides(trained[0] / "checkpoint_last.pt")


def test_training_that_does_not_fit(parallel, trained, tmp_path):
    done = train(parallel, tmp_path, "--max-update", 1, "--restore-file", trained[0] / "checkpoint_last.pt",
                 "--cross-position", "low_rank", check=False)  # fmt: skip
    assert "is of another system (cross_position: checkpoint none, here low_rank)" in done.stderr
    assert "Traceback" not in done.stderr.splitlines()[-1]
