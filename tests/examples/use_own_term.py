"""What a user does with examples/own_term, in a process of its own: `python -m tests.examples.use_own_term CORPUS OUT`.

This process registers the term before the flags are made, as `--user-dir` does. Prints what came out, as JSON.
"""

import json
import sys

import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
import pytest
import torch

from tests.commands import ROOT

sys.path.insert(0, str(ROOT / "examples"))

from own_term import Tisa

from tests.patches.conftest import trainer
from tests.position.contract import check_term
from tupe.analysis.checkpoint import open_encoder
from tupe.cli.main import main
from tupe.util import UserError

corpus, out = sys.argv[1:]
OWN = str(ROOT / "examples/own_term")
flags = ("--user-dir", OWN, "--relative", "tisa", "--criterion", "tupe_masked_lm", "--lr-scheduler", "linear_decay")
flags = (*flags, "--warmup-updates", 1)
seen = {}
with pytest.MonkeyPatch.context() as patch:
    train = trainer(corpus, patch)
    train(out, *flags, "--tisa-kernels", 3, "--max-update", 3)
    with pytest.raises(UserError) as refused:
        train(out, *flags, "--max-update", 4)  # five kernels
    seen["refused"] = str(refused.value)
    patch.setenv("TUPE_USER_DIR", OWN)
    seen["described"] = main(["describe", f"{out}/checkpoint_last.pt"])
    seen["exported"] = main(["export", f"{out}/checkpoint_last.pt", corpus, f"{out}/exported", "--no-tokenizer"])

check_term("relative", lambda: Tisa(3, tisa_kernels=2))
position = open_encoder(f"{out}/checkpoint_last.pt").sentence_encoder.position_bias
with torch.no_grad():
    seen["kept"] = position(9).query.data_ptr() == position(7).query.data_ptr()
    seen["values"] = position(9).relative.shape[1]
    torch.save(position(9).relative, f"{out}/values.pt")
print(json.dumps(seen))
