"""On real text too (TUPE_CORPUS_DIR says where) the fast ways to sentences and tokens are spaCy's and Moses' own."""

import os
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tupe.data.corpus.inputs import find
from tupe.data.corpus.reader import documents_of
from tupe.data.text.characters import repair
from tupe.data.text.sentences import splitter
from tupe.data.text.tokens import by_words

spacy = pytest.importorskip("spacy")
sacremoses = pytest.importorskip("sacremoses")


@pytest.mark.skipif("TUPE_CORPUS_DIR" not in os.environ, reason="TUPE_CORPUS_DIR, a folder of text files, is not set")
def test_sentences_and_tokens():
    rules = spacy.blank("en")
    rules.add_pipe("sentencizer")
    split, tokenise, moses = splitter("en"), by_words("en"), sacremoses.MosesTokenizer("en")
    for file in find([Path(os.environ["TUPE_CORPUS_DIR"])], []):
        lines = (line for document in documents_of(file.path, False, Counter()) for line in document)
        for line in map(repair, islice(lines, 2000)):
            sentences = split([line])
            assert sentences == [sentence.text.strip() for sentence in rules(line).sents]
            for sentence in sentences:
                assert tokenise(sentence).split() == moses.tokenize(sentence, escape=False)
