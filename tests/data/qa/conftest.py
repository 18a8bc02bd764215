"""A vocabulary of several scripts, and questions in SQuAD's JSON."""

import json
import shutil

import pytest

from tests.samples import write_manifest
from tupe.data.corpus.manifest import DICTIONARY, MODEL, Manifest
from tupe.data.corpus.vocabulary import train, write_dictionary
from tupe.data.text.stages import PROFILES

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
    write_dictionary(folder / MODEL, folder / DICTIONARY)
    write_manifest(folder, stages)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("qa") / "corpus", [*LINES.values()] * 20, 180)


@pytest.fixture
def rewritten(corpus, tmp_path):
    """A corpus whose text processing changed its words."""
    shutil.copytree(corpus, tmp_path / "rewritten")
    write_manifest(tmp_path / "rewritten", PROFILES["paper"])
    return Manifest.load(tmp_path / "rewritten")


def squad(*paragraphs):
    """SQuAD's JSON of `(context, [(id, question, answer, ...), ...])`; an answer stands where it is found first."""
    return {
        "version": "1.1",
        "data": [
            {
                "title": "t",
                "paragraphs": [
                    {
                        "context": context,
                        "qas": [
                            {
                                "id": id_,
                                "question": question,
                                "answers": [{"text": a, "answer_start": context.find(a)} for a in answers],
                            }
                            for id_, question, *answers in questions
                        ],
                    }
                    for context, questions in paragraphs
                ],
            }
        ],
    }


def write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path
