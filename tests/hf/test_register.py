"""Models saved after `import tupe.hf` load in a process that has neither fairseq nor tupe."""

import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("transformers")
from tupe import hf as ours

LOAD = """
import sys
sys.modules.update(dict.fromkeys(("fairseq", "hydra", "omegaconf", "tupe", "torchaudio")))
import torch, transformers
folder = sys.argv[1]
for auto in (transformers.AutoModel, transformers.AutoModelForTokenClassification):
    model = auto.from_pretrained(folder, trust_remote_code=True).eval()
torch.save(model(torch.tensor([[0, 5, 6, 2]]))[0], folder + "/outputs.pt")
"""


def test_the_code_is_uploaded(tmp_path, monkeypatch):
    upload = "transformers.utils.hub.PushToHubMixin._upload_modified_files"
    monkeypatch.setattr(upload, lambda model, folder, *_: (tmp_path / "position_bias.py").is_file())
    config = ours.TupeConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    assert ours.TupeForMaskedLM(config)._upload_modified_files(tmp_path, "repository", {})


def test_saved_models_load_without_the_package(tmp_path):
    from transformers import Trainer, TrainingArguments  # after ours, which hides a torchaudio that does not load

    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = ours.TupeConfig(vocab_size=20, max_position_embeddings=8, **small, num_labels=3)
    folder, model = tmp_path / "saved", ours.TupeForTokenClassification(config)
    Trainer(model, TrainingArguments(output_dir=folder, report_to="none", use_cpu=True)).save_model()
    environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    command = [sys.executable, "-c", LOAD, folder]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with torch.no_grad():
        assert torch.equal(torch.load(folder / "outputs.pt"), model.eval()(torch.tensor([[0, 5, 6, 2]]))[0])
