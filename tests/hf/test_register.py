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
torch.set_grad_enabled(False)
for folder, auto in zip(sys.argv[1::2], sys.argv[2::2]):
    model = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True).eval()
    torch.save(model(torch.tensor([[0, 5, 6, 2]]))[0], folder + "/outputs.pt")
"""


def test_saved_models_load_without_the_package(tmp_path):
    from transformers import Trainer, TrainingArguments  # after ours, which hides a torchaudio that does not load

    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = ours.TupeConfig(vocab_size=20, max_position_embeddings=8, **small, num_labels=3)
    base = ours.TupeForMaskedLM(config).eval()
    base.save_pretrained(tmp_path / "base")
    (tmp_path / "base/README.md").write_text("the card")
    (tmp_path / "base/LICENSE").write_text("the licence")
    wanted, arguments = {}, []
    for name in ("TupeForMaskedLM", "TupeForSequenceClassification", "TupeForTokenClassification", "TupeModel"):
        model = getattr(ours, name).from_pretrained(tmp_path / "base").eval()
        folder = tmp_path / name
        if name == "TupeForTokenClassification":
            trainer = Trainer(model, TrainingArguments(output_dir=folder, report_to="none", use_cpu=True))
            trainer.save_model()
            trainer.create_model_card()
            assert "the card" not in (folder / "README.md").read_text()
        else:
            model.save_pretrained(folder)
        assert (folder / "BASE_MODEL.md").read_text() == "the card"
        assert (folder / "LICENSE").read_text() == "the licence"
        with torch.no_grad():
            wanted[folder] = model(torch.tensor([[0, 5, 6, 2]]))[0]
        arguments += [folder, f"Auto{name.replace('Tupe', 'Model', 1).replace('ModelModel', 'Model')}"]
    getattr(ours, name).from_pretrained(folder).save_pretrained(tmp_path / "third")
    assert (tmp_path / "third/BASE_MODEL.md").read_text() == "the card"
    environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    command = [sys.executable, "-c", LOAD, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for folder, outputs in wanted.items():
        assert torch.equal(torch.load(folder / "outputs.pt"), outputs), folder.name
