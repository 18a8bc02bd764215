"""What stays refused, since without it a number is wrong in silence, something is lost or foreign code runs.

The numbers are those of the list in CONTRIBUTING. Pickles (1) and damaged files (2) are refused in `test_hostile.py`,
processes that would each train alone (9) in `test_resume.py`. No test looks at the words of a refusal.
"""

import json
import re
import shutil
import sys

import pytest
import torch

from tests.contract import aliases as cli
from tests.contract.aliases import BucketedRelative, PositionBias, UntiedAbsolute, fails, opened, refused, tupe_command
from tests.contract.conftest import RAW, TEXT


def reordered(folder, copy, *dictionaries):
    """A copy of data in which the symbols of these dictionaries are in another order, which no manifest tells."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("manifest.json"))
    for name in dictionaries:
        lines = (copy / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (copy / name).write_text("".join(reversed(lines)), encoding="utf-8")
    return copy


def test_3_another_dictionary_of_the_same_size(checkpoint, data, glue, finetuned, tmp_path):
    changed = reordered(data, tmp_path / "changed", "dict.txt")
    tasks = reordered(glue, tmp_path / "glue", "CoLA/input0/dict.txt")
    for done in cli.readers(checkpoint, changed, tasks, tmp_path):
        assert done.returncode, done.args
    assert fails(opened, checkpoint, changed)
    refused(tupe_command, "predict", finetuned[0] / "checkpoint_best.pt", tasks / "CoLA", tmp_path / "predicted")


def test_3_another_dictionary_of_a_translation(translator, parallel, tmp_path):
    changed = reordered(parallel, tmp_path / "changed", "dict.txt", "dict.en.txt", "dict.de.txt")
    refused(cli.generate, changed, translator)
    # both dictionaries fit, and the targets would be read as sources
    refused(cli.generate, parallel, translator, "-s", "de", "-t", "en")


@pytest.mark.parametrize(
    ("arch", "flag", "value", "other"),
    [("tupe_r", "--relative-max-distance", 128, 100), ("rope", "--rotary-base", 10_000, 500),
     ("tupe_a", "--content-terms", 2, 1)],
)  # fmt: skip
def test_4_fields_that_change_the_function_and_no_shape(arch, flag, value, other, data, tmp_path):
    """A run does not go on as another model, nor does one begin from it."""
    model, change, run = ("--arch", f"{arch}_tiny", flag, value), (flag, other), tmp_path / "run"
    cli.train("words", data, run, "--max-update", 1, *model)
    refused(cli.train, "words", data, run, "--max-update", 2, *model, *change)
    begins = ("--finetune-from-model", run / "checkpoint_last.pt", "--max-update", 1)
    refused(cli.train, "words", data, tmp_path / "new", *begins, *model, *change)
    cli.train("words", data, run, "--max-update", 2, *model)


def test_5_classes_in_another_order(finetuned, glue, data, tmp_path):
    best, changed = finetuned[0] / "checkpoint_best.pt", reordered(glue / "CoLA", tmp_path / "CoLA", "label/dict.txt")
    refused(tupe_command, "predict", best, changed, tmp_path / "predicted")
    refused(tupe_command, "export", best, changed, tmp_path / "exported", "--corpus", data)
    cli.train("classes", glue / "CoLA", tmp_path / "run", "--max-update", 1)
    refused(cli.train, "classes", changed, tmp_path / "run", "--max-update", 2)
    cli.train("classes", glue / "CoLA", tmp_path / "run", "--max-update", 2)


def test_6_a_head_that_the_checkpoint_does_not_have(checkpoint, finetuned, glue, tmp_path):
    best, other = (torch.load(path, weights_only=True) for path in (finetuned[0] / "checkpoint_best.pt", checkpoint))
    torch.save({**best, "model": other["model"]}, tmp_path / "best.pt")
    refused(tupe_command, "predict", tmp_path / "best.pt", glue / "CoLA", tmp_path / "predicted")


def test_7_padding_on_the_left(parallel, tmp_path):
    """fairseq's default. Masks of Transformers are in `test_end_to_end.py`."""
    refused(cli.train, "translation", parallel, tmp_path, "--max-update", 1)


def test_8_longer_than_the_table(checkpoint, data, glue, tmp_path):
    hub = opened(checkpoint, data)
    longest = hub.model.max_positions()
    hub.extract_features(torch.full((1, longest), 5))
    assert fails(hub.extract_features, torch.full((1, longest + 1), 5)) and fails(UntiedAbsolute(8, 16, 2), 9)
    refused(cli.finetune, "CoLA", checkpoint, glue, tmp_path, f"task.max_positions={longest + 1}")


def test_10_an_output_that_exists(checkpoint, other, data, tmp_path):
    out, file = tmp_path / "exported", tmp_path / "file.pt"
    tupe_command("export", checkpoint, data, out)
    tupe_command("import", out, file)
    before = [path.read_bytes() for path in (file, out / "model.safetensors")]
    refused(tupe_command, "export", other, data, out)
    refused(tupe_command, "import", out, file)
    refused(tupe_command, "convert", "average", checkpoint, other, file)
    assert before == [path.read_bytes() for path in (file, out / "model.safetensors")]


def test_11_a_folder_of_other_inputs(checkpoint, other, data, glue, finetuned, tmp_path):
    """Else old results would be shown as new."""
    settings = {"names": "CoLA", "lrs": "1e-3"}
    cli.sweep("glue", checkpoint, glue, tmp_path / "sweep", **settings)
    refused(cli.sweep, "glue", other, glue, tmp_path / "sweep", **settings)
    run = shutil.copytree(finetuned[0], tmp_path / "run")
    refused(cli.finetune, "CoLA", other, glue, run, "optimization.lr=[0.01]")
    corpus = shutil.copytree(data, tmp_path / "corpus")
    refused(tupe_command, "prepare-corpus", TEXT, corpus, "--vocab-size", 200, *cli.CORPUS)


def test_12_tokens_that_training_never_uses_are_a_warning(data, tmp_path):
    lines = ("--sample-break-mode", "eos", "--skip-invalid-size-inputs-valid-test", "--max-update", 1)
    short, long = (cli.train("words", data, tmp_path / str(n), *lines, "--tokens-per-sample", n) for n in (30, 32))
    shares = [re.findall(r"WARNING.* (\d+\.\d+) ?% of the tokens", done.stdout + done.stderr) for done in (short, long)]
    assert shares[0] and 0 < float(shares[0][0]) < 100 and not shares[1]


def difference(*arguments):
    """The last number in scientific notation that a command prints."""
    return float(re.findall(r"\d\.\d+e[-+]\d+", tupe_command(*arguments).stdout)[-1])


def test_13_a_model_that_does_not_agree_with_its_original(checkpoint, data, tmp_path):
    """The difference is printed; a BERT that attends only to earlier tokens is not supported."""
    tupe_command("export", checkpoint, data, tmp_path / "exported")
    assert 0 < difference("export-onnx", tmp_path / "exported") < 1e-4
    assert 0 < difference("import", RAW / "bert", tmp_path / "imported") < 1e-4
    changed = shutil.copytree(RAW / "bert", tmp_path / "bert")
    config = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps({**config, "is_decoder": True}))
    refused(tupe_command, "import", changed, tmp_path / "again")


def test_14_terms_in_the_wrong_place():
    absolute = UntiedAbsolute(8, 16, 2)
    assert PositionBias(absolute, BucketedRelative(2))(5).bias.shape == (2, 5, 5)
    assert fails(lambda: PositionBias(relative=absolute)(5)) and fails(lambda: PositionBias(None, absolute)(5))
    assert fails(lambda: PositionBias(absolute, BucketedRelative(4))(5))


#: A fairseq of another version, one function of which names its first parameter otherwise.
ANOTHER = """
import importlib.metadata, sys
import fairseq, fairseq.checkpoint_utils as utils, fairseq.version
fairseq.__version__ = fairseq.version.__version__ = "0.12.2"
version, save = importlib.metadata.version, utils.torch_persistent_save
importlib.metadata.version = lambda name: "0.12.2" if name.startswith("fairseq") else version(name)
utils.torch_persistent_save = lambda state, filename, async_write=False: save(state, filename, async_write)
from fairseq_cli.train import cli_main
sys.argv = {command}
cli_main()
"""


def test_15_another_fairseq(data, tmp_path):
    command = [str(part) for part in cli.train_command("words", data, tmp_path, "--max-update", 1)]
    refused(cli.run, sys.executable, "-c", ANOTHER.format(command=command))
    assert not list(tmp_path.glob("*.pt"))
