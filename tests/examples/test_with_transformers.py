"""The examples with Transformers' Trainer learn labels of texts and of words, from an exported folder."""

import ast
import random
import re
import runpy

import pytest

from tests.commands import run, tupe
from tests.data.conftest import prepare_untaught

pytest.importorskip("accelerate")
NAMES, VERBS, THINGS = ["Anna", "Bob", "Carl"], ["sees", "hears"], ["the house", "a red car"]
WORDS = {"Anna": "B-PER", "Bob": "B-PER", "Carl": "B-PER", "the": "B-THING", "house": "I-THING"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    corpus = prepare_untaught(folder)
    assert tupe("export", folder / "pretrained.pt", corpus, folder / "hub") == 0
    return folder / "hub"


def texts(number, seed):
    draw = random.Random(seed)
    return [(draw.choice(NAMES), draw.choice(VERBS), draw.choice(THINGS)) for _ in range(number)]


def learnt(example, folder, out, *files):
    done = run("python", f"examples/{example}.py", folder, *files, out, "20", "0.01", HF_HUB_OFFLINE="1")
    (last,) = re.findall(r"^\{'eval_loss.*\}$", done.stdout, re.MULTILINE)[-1:]
    return float(ast.literal_eval(last)["eval_accuracy"])


def test_labels_of_texts(exported, tmp_path):
    from transformers import pipeline

    files = [tmp_path / "train.csv", tmp_path / "dev.csv"]
    for seed, path in enumerate(files):
        lines = [f'"{" ".join(parts)}, {parts[0]}",{parts[0]}' for parts in texts(256, seed)]
        path.write_text("\n".join(["text,label", *lines]))
    assert learnt("finetune_with_transformers", exported, tmp_path / "out", *files) > 0.5  # chance is a third
    classify = pipeline("text-classification", str(tmp_path / "out"), trust_remote_code=True)
    assert classify("Bob hears the house, Bob")[0]["label"] in NAMES


def test_labels_of_words(exported, tmp_path):
    from transformers import pipeline

    files = [tmp_path / "train.conll", tmp_path / "dev.conll"]
    for seed, path in enumerate(files):
        sentences = [[f"{word}\t{WORDS.get(word, 'O')}" for word in " ".join(p).split()] for p in texts(256, seed)]
        path.write_text("\n\n".join("\n".join(lines) for lines in sentences))
    assert learnt("ner_with_transformers", exported, tmp_path / "out", *files) > 0.9
    find = pipeline("token-classification", str(tmp_path / "out"), trust_remote_code=True)
    assert find("Anna sees the house")[0]["entity"] == "B-PER"
    files[0].write_text("1 0\tB\n\t\n\u00a0\tO\n", encoding="utf-8")
    assert runpy.run_path("examples/ner_with_transformers.py")["read"](files[0]) == [[["1 0", "B"]], [["\u00a0", "O"]]]
