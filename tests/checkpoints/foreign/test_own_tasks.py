"""Labels of words with an imported model: its tokenizer's words, and Transformers' pipeline on the export."""

import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.commands import finetune, tupe
from tupe.data.corpus.manifest import Manifest

transformers = pytest.importorskip("transformers")
SENTENCES = ["Anna sees the house .", "Bob hears Anna and Bob", "the house", "Anna délicieux sees Bob ."]
LABELS = {"Anna": "B-PER", "Bob": "B-PER", "house": "B-THING"}


@pytest.mark.parametrize("kind", ["roberta", "bert", "camembert"])
def test_labels_of_words(kind, saved, tmp_path):
    out, task, run = tmp_path / kind, tmp_path / "words", tmp_path / "run"
    assert tupe("import", saved(kind)[0], out, "--language", "en") == 0
    path = tmp_path / "words.conll"
    rows = [[(word, LABELS.get(word, "O")) for word in sentence.split()] for sentence in SENTENCES]
    path.write_text("\n".join("".join(f"{word}\t{label}\n" for word, label in row) for row in rows))
    assert tupe("prepare-task", path, out, task, "--valid", path, "--workers", 1) == 0
    numbers, labels = (
        [item.tolist() for item in MMapIndexedDataset(str(task / side / "valid"))] for side in ("input0", "label")
    )
    tokenizer = Manifest.load(out).tokenizer()
    assert numbers == [[*tokenizer(sentence), 2] for sentence in SENTENCES]  # each word has a token
    assert [sum(label > 3 for label in row) for row in labels] == [len(row) for row in rows]
    if kind == "camembert":
        return
    done = finetune("words", out / "checkpoint.pt", task, "optimization.max_epoch=1", f"checkpoint.save_dir={run}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert tupe("predict", run / "checkpoint_best.pt", task, tmp_path / "said") == 0
    assert tupe("export", run / "checkpoint_best.pt", task, tmp_path / "exported", "--corpus", out) == 0
    piped = transformers.pipeline(
        "token-classification", str(tmp_path / "exported"), trust_remote_code=True, ignore_labels=[]
    )
    parts = (tmp_path / "said/valid.conll").read_text().split("\n\n")[:-1]
    for sentence, part in zip(SENTENCES, parts):
        tokens, begin = piped(sentence), 0
        for line in part.split("\n"):
            word, label = line.split("\t")
            assert next(token for token in tokens if token["end"] >= begin)["entity"] == label
            begin += len(word) + 1
