"""What stays refused, since without it a number is wrong in silence, something is lost or foreign code runs.

The numbers are those of the list in CONTRIBUTING. Pickles (1) and damaged files (2) are refused in `test_hostile.py`,
processes that would each train alone (9) in `test_resume.py`. No test looks at the words of a refusal.
"""

import json
import re
import shutil

import pytest
import torch

from tests.contract import commands as cli
from tests.contract.commands import LIKE_PRETRAINED, BucketedRelative, PositionBias, UntiedAbsolute, fails, opened


def refused(done):
    assert done.returncode, f"{done.args}\n{done.stdout[-2000:]}"


def reordered(folder, copy, *dictionaries):
    """A copy of data in which the symbols of these dictionaries are in another order."""
    shutil.copytree(folder, copy)
    for name in dictionaries:
        lines = (copy / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (copy / name).write_text("".join(reversed(lines)), encoding="utf-8")
    return copy


def test_3_another_dictionary_of_the_same_size(checkpoint, data, glue, finetuned, tmp_path):
    changed = reordered(data, tmp_path / "changed", "dict.txt")
    goes_on = ("--restore-file", checkpoint, "--max-update", 41, *LIKE_PRETRAINED)
    refused(cli.train("words", changed, tmp_path / "1", *goes_on, check=False))
    begins = ("--finetune-from-model", checkpoint, "--max-update", 1)
    refused(cli.train("words", changed, tmp_path / "2", *begins, check=False))
    refused(cli.validate(changed, checkpoint, check=False))
    refused(cli.tupe("export", checkpoint, changed, out=tmp_path / "3", options=("--corpus", data), check=False))
    assert fails(opened, checkpoint, changed)
    tasks = reordered(glue, tmp_path / "glue", "CoLA/input0/dict.txt")
    refused(cli.finetune("CoLA", checkpoint, tasks, tmp_path / "4", check=False))
    best = finetuned[0] / "checkpoint_best.pt"
    refused(cli.tupe("predict", best, tasks / "CoLA", out=tmp_path / "5", options=["--partial"], check=False))


def test_3_another_dictionary_of_a_translation(translator, parallel, tmp_path):
    changed = reordered(parallel, tmp_path / "changed", "dict.txt", "dict.en.txt", "dict.de.txt")
    refused(cli.generate(changed, translator, check=False))
    # both dictionaries fit, and the targets would be read as sources
    refused(cli.generate(parallel, translator, "-s", "de", "-t", "en", check=False))


OTHER_FUNCTIONS = [
    ("tupe_r_tiny", (), ("--relative-max-distance", 100)),
    ("rope_tiny", (), ("--rotary-base", 500)),
    ("tupe_a_tiny", ("--content-terms", 2), ("--content-terms", 1)),
]


@pytest.mark.parametrize(("arch", "flags", "change"), OTHER_FUNCTIONS)
def test_4_fields_that_change_the_function_and_no_shape(arch, flags, change, data, tmp_path):
    """A run does not go on as another model, nor does one begin from it."""
    model, run = ("--arch", arch, *flags), tmp_path / "run"
    cli.train("words", data, run, "--max-update", 1, *model)
    refused(cli.train("words", data, run, "--max-update", 2, *model, *change, check=False))
    begins = ("--finetune-from-model", run / "checkpoint_last.pt", "--max-update", 1)
    refused(cli.train("words", data, tmp_path / "new", *begins, *model, *change, check=False))
    cli.train("words", data, run, "--max-update", 2, *model)


def test_5_classes_in_another_order(finetuned, glue, data, tmp_path):
    best, changed = finetuned[0] / "checkpoint_best.pt", reordered(glue / "CoLA", tmp_path / "CoLA", "label/dict.txt")
    refused(cli.tupe("predict", best, changed, out=tmp_path / "1", options=["--partial"], check=False))
    refused(cli.tupe("export", best, changed, out=tmp_path / "2", options=("--corpus", data), check=False))
    cli.train("classes", glue / "CoLA", tmp_path / "run", "--max-update", 1)
    refused(cli.train("classes", changed, tmp_path / "run", "--max-update", 2, check=False))
    cli.train("classes", glue / "CoLA", tmp_path / "run", "--max-update", 2)


def test_6_a_head_that_the_checkpoint_does_not_have(checkpoint, glue, tmp_path):
    refused(cli.tupe("predict", checkpoint, glue / "CoLA", out=tmp_path / "1", options=["--partial"], check=False))


def test_7_padding_on_the_left(translator, parallel, tmp_path):
    """fairseq's default. Masks of Transformers are in `test_end_to_end.py`."""
    refused(cli.train("translation", parallel, tmp_path, "--max-update", 1, check=False))


def test_8_longer_than_the_table(checkpoint, data, glue, tmp_path):
    hub = opened(checkpoint, data)
    longest = hub.model.max_positions()
    hub.extract_features(torch.full((1, longest), 5))
    assert fails(hub.extract_features, torch.full((1, longest + 1), 5)) and fails(UntiedAbsolute(8, 16, 2), 9)
    longer = f"task.max_positions={longest + 1}"
    refused(cli.finetune("CoLA", checkpoint, glue, tmp_path, longer, check=False))


def test_10_an_output_that_exists(checkpoint, other, data, tmp_path):
    out, file = tmp_path / "exported", tmp_path / "file.pt"
    cli.tupe("export", checkpoint, data, out=out)
    cli.tupe("import", out, out=file)
    before = [path.read_bytes() for path in (file, out / "model.safetensors")]
    refused(cli.tupe("export", other, data, out=out, check=False))
    refused(cli.tupe("import", out, out=file, check=False))
    refused(cli.tupe("average", checkpoint, other, out=file, check=False))
    assert before == [path.read_bytes() for path in (file, out / "model.safetensors")]


def test_11_a_folder_of_other_inputs(checkpoint, other, data, text, glue, finetuned, tmp_path):
    """Else old results would be shown as new."""
    settings = {"names": "CoLA", "lrs": "1e-3"}
    cli.sweep("glue", checkpoint, glue, tmp_path / "sweep", **settings)
    refused(cli.sweep("glue", other, glue, tmp_path / "sweep", **settings, check=False))
    run = shutil.copytree(finetuned[0], tmp_path / "run")
    refused(cli.finetune("CoLA", other, glue, run, "optimization.lr=[0.01]", check=False))
    corpus = shutil.copytree(data, tmp_path / "corpus")
    refused(cli.tupe("prepare-corpus", text, out=corpus, options=("--vocab-size", 200, *cli.CORPUS), check=False))


def test_12_tokens_that_training_never_uses_are_a_warning(data, tmp_path):
    """The share of tokens is said, as 2.31%."""
    lines = ("--sample-break-mode", "eos", "--skip-invalid-size-inputs-valid-test", "--max-update", 1)
    short, long = (cli.train("words", data, tmp_path / str(n), *lines, "--tokens-per-sample", n) for n in (30, 32))
    shares = [re.findall(r"WARNING.* (\d+\.\d+) ?% of the tokens", done.stdout + done.stderr) for done in (short, long)]
    assert shares[0] and 0 < float(shares[0][0]) < 100 and not shares[1]


def difference(done):
    """The last number in scientific notation that a command printed."""
    return float(re.findall(r"\d\.\d+e[-+]\d+", done.stdout)[-1])


def test_13_a_model_that_does_not_agree_with_its_original(checkpoint, data, bert, tmp_path):
    """The difference is printed; a BERT that sees no later words has no counterpart here."""
    cli.tupe("export", checkpoint, data, out=tmp_path / "exported")
    assert 0 < difference(cli.tupe("export-onnx", tmp_path / "exported")) < 1e-4
    assert 0 < difference(cli.tupe("import", bert[0], out=tmp_path / "1", options=cli.VERIFY)) < 1e-4
    changed = shutil.copytree(bert[0], tmp_path / "bert")
    config = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps({**config, "is_decoder": True}))
    refused(cli.tupe("import", changed, out=tmp_path / "2", options=cli.VERIFY, check=False))


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
    refused(cli.python(ANOTHER.format(command=command), check=False))
    assert not list(tmp_path.glob("*.pt"))
