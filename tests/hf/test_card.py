"""What a model card prints, and docs/export.md, runs as printed on small models that were exported."""

import os
import re
import subprocess
import sys

import pytest

from tests.commands import ROOT
from tests.conftest import write
from tupe.cli.main import main

pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")

RUN = """
import runpy, sys

sys.modules["torchaudio"] = None  # as where it is uninstalled
for path in sys.argv[1:]:
    print(f"== {path}")
    runpy.run_path(path)
"""


def snippets(path):
    return "\n".join(re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL))


def test_snippets_run_as_printed(make_checkpoint, cleaned_corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rte/input0/dict.txt", (cleaned_corpus / "dict.txt").read_text().splitlines())
    write(tmp_path / "rte/label/dict.txt", ["entailment 1", "not_entailment 1"])
    corpus = ["--corpus", str(cleaned_corpus)]
    for name, head, data, options in (
        ("tupe-a-base", {}, cleaned_corpus, []),
        ("tupe-a-base-rte", {"num_classes": 2}, "rte", corpus),
        ("tupe-a-base-squad", {"spans": True}, cleaned_corpus, []),
        ("words", {}, cleaned_corpus, ["--no-tokenizer"]),
    ):
        make_checkpoint(tmp_path / f"{name}.pt", max_positions=64, **head)
        assert main(["export", f"{name}.pt", str(data), name, *options]) == 0
        write(tmp_path / f"{name}.py", [snippets(tmp_path / name / "README.md")])
    make_checkpoint(tmp_path / "electra.pt", "electra_tupe_r_tiny", max_positions=64)
    assert main(["convert", "electra", "electra.pt", "discriminator.pt"]) == 0
    assert main(["export", "discriminator.pt", str(cleaned_corpus), "discriminator"]) == 0
    write(tmp_path / "discriminator.py", [snippets(tmp_path / "discriminator/README.md")])
    assert main(["export-onnx", "tupe-a-base-rte"]) == 0
    write(tmp_path / "docs.py", [snippets(ROOT / "docs/export.md")])

    told = [name for name in ("tupe-a-base", "words") if "(NFC)" in (tmp_path / name / "README.md").read_text()]
    assert told == ["tupe-a-base"]
    card = (tmp_path / "tupe-a-base/README.md").read_text()
    assert "TextProcessing(('tokenise', 'lower-case'), 'en').around" in card and "/home/me" not in card
    files = ["tupe-a-base.py", "tupe-a-base-rte.py", "tupe-a-base-squad.py", "words.py", "discriminator.py", "docs.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", RUN, *files], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    for name in ("tupe-a-base.py", "docs.py"):
        assert "'token_str': " in printed[name]
    for name in ("tupe-a-base-rte.py", "docs.py"):
        assert re.search("'label': '(not_)?entailment'", printed[name])
    assert printed["tupe-a-base-squad.py"] == printed["words.py"] == ""
    assert printed["docs.py"].splitlines()[-1] and printed["discriminator.py"].startswith("[[[")
    assert "pipeline_tag: feature-extraction\n" in (tmp_path / "discriminator/README.md").read_text()
