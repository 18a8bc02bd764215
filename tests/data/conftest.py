"""Made text that survives the cleaning, corpora, and questions in SQuAD's JSON."""

import json
import random

import pytest

from tests.samples import write_checkpoint, write_manifest
from tupe.cli.main import main
from tupe.data.manifest import DICTIONARY, MODEL, Manifest
from tupe.data.text import PROFILES
from tupe.data.tokenizers import symbols, train, write_dictionary

NAMES, VERBS = ["Anna", "Bob", "Carl", "Dora", "Emil", "Frida"], ["sees", "likes", "hears", "finds", "calls"]
THINGS = ["the house", "a red car", "the old dog", "a small bird", "the blue sea", "an apple", "his long letter"]


def made_documents(seed, number, lines=6):
    """Documents of lines of one or two sentences; hardly any line comes twice."""
    rng = random.Random(seed)

    def sentence():
        half = [f"{rng.choice(NAMES)} {rng.choice(VERBS)} {rng.choice(THINGS)}" for _ in range(3)]
        return f"{half[0]}, {half[1]} and {half[2]} {rng.randint(1, 9)} times."

    return [[" ".join(sentence() for _ in range(rng.randint(1, 2))) for _ in range(lines)] for _ in range(number)]


def as_text(documents):
    """Documents as a plain text file has them."""
    return "\n\n".join("\n".join(lines) for lines in documents) + "\n"


def prepare_made(folder, documents, options):
    """Prepare so many made documents by the command, with options in one text; return the corpus."""
    (folder / "text.txt").write_text(as_text(made_documents(0, documents)))
    command = ["prepare-corpus", str(folder / "text.txt"), str(folder / "corpus"), *options.split(), "--workers", "1"]
    assert main(command) == 0
    return folder / "corpus"


def prepare_untaught(folder):
    """Make a corpus of unchanged texts, and `pretrained.pt` in its folder, an untrained encoder."""
    corpus = prepare_made(folder, 60, "--profile sentencepiece --vocab-size 120 --valid-documents 5")
    pieces = [piece for piece in symbols(Manifest.load(corpus).model)[4:] if piece != "<mask>"]
    write_checkpoint(folder / "pretrained.pt", corpus, symbols=pieces)
    return corpus


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A corpus of two shards, prepared by the command as the paper does."""
    options = "--vocab-size 150 --shards 2 --valid-documents 10 --max-tokens 30"
    return prepare_made(tmp_path_factory.mktemp("prepared"), 120, options)


LINES = {
    "en": "The old house stands beside the river in New York since 1885 and Anna sees it from the sea.",
    "ar": "يقع البيت القديم بجانب النهر في المدينة منذ عام ١٨٨٥ وتراه آنا من البحر.",
    "hi": "पुराना घर नदी के किनारे शहर में खड़ा है और अन्ना उसे समुद्र से देखती है।",
    "th": "บ้านเก่าตั้งอยู่ริมแม่น้ำในเมืองตั้งแต่ปี ๒๔๒๘ และแอนนามองเห็นจากทะเล",
    "zh": "老房子自1885年以来一直矗立在城市的河边，安娜从海上看到它。",
    "vi": "Ngôi nhà cổ nằm bên dòng sông trong thành phố từ năm 1885 và Anna nhìn thấy nó từ biển.",
}


def write_corpus(folder, lines, vocab_size, stages=PROFILES["sentencepiece"], lower_case=False):
    """What other commands read of a prepared corpus: the model, the dictionary and the manifest."""
    folder.mkdir()
    train(lines, folder / MODEL, vocab_size, "unigram", lower_case)
    write_dictionary(folder / DICTIONARY, symbols(folder / MODEL))
    write_manifest(folder, stages)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("qa") / "corpus", [*LINES.values()] * 20, 180)


def squad(*paragraphs):
    """SQuAD's JSON of `(context, [(id, question, answer, ...), ...])`; an answer stands where it is found first."""
    made = []
    for context, questions in paragraphs:
        qas = []
        for id_, question, *answers in questions:
            answers = [{"text": answer, "answer_start": context.find(answer)} for answer in answers]
            qas.append({"id": id_, "question": question, "answers": answers})
        made.append({"context": context, "qas": qas})
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": made}]}


def write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path
