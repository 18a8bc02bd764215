"""`tupe bleu` says what sacrebleu says, of whatever file the translations are in."""

import importlib.util
import random
import re

import pytest
import sacrebleu

from tupe.cli.main import main
from tupe.errors import UserError
from tupe.inference.bleu import read_hypotheses

REFERENCES = ["Der Hund sieht den Mann .", "Ein roter Ball liegt im Gras .", "Zwei Frauen gehen die Straße entlang ."]
SYSTEM = ["Der Hund sieht einen Mann .", "ein roter Ball liegt auf dem Gras .", "Zwei Frauen gehen entlang ."]


@pytest.fixture
def write(tmp_path):
    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def generated(translations, order):
    """The output of `fairseq-generate` for sentences in an order."""
    lines = ["2026-01-01 | INFO | loading"]
    for number in order:
        lines += [f"S-{number}\tsource", f"T-{number}\tref", f"H-{number}\t-0.5\t▁pieces"]
        lines += [f"D-{number}\t-0.5\t{translations[number]}", f"P-{number}\t-0.5"]
    return [*lines, "Generate test with beam=5: BLEU4 = 1.0"]


@pytest.mark.parametrize("lower_case", [False, True])
def test_is_sacrebleu(write, lower_case, capsys):
    order = [2, 0, 1]
    random.Random(0).shuffle(order)
    for lines in (SYSTEM, generated(SYSTEM, order)):
        hypotheses, reference = write("hyp", lines), write("ref", REFERENCES)
        options = ["--lowercase"] if lower_case else []
        assert main(["bleu", "--hypotheses", str(hypotheses), "--reference", str(reference), *options]) == 0
        bleu = sacrebleu.corpus_bleu(SYSTEM, [REFERENCES], lowercase=lower_case)
        chrf = sacrebleu.CHRF(lowercase=lower_case).corpus_score(SYSTEM, [REFERENCES])
        out = capsys.readouterr().out
        assert f"= {bleu.score:.2f} {bleu.prec_str}"[:20] in out
        assert f"= {chrf.score:.2f}" in out
        assert f"|case:{'lc' if lower_case else 'mixed'}|eff:no|tok:13a|smooth:exp|version:" in out


def test_references_against_themselves_are_perfect(write, capsys):
    reference = str(write("ref", REFERENCES))
    main(["bleu", "--hypotheses", reference, "--reference", reference])
    assert "= 100.00 100.0/100.0/100.0/100.0" in capsys.readouterr().out


@pytest.mark.parametrize("lines", [[], ["", " "]])
def test_no_words(lines, write, capsys):
    empty = str(write("ref", lines))
    assert main(["bleu", "--hypotheses", empty, "--reference", empty]) == 1
    assert capsys.readouterr().err == f"error: {empty} has no words: it needs at least one line of them.\n"


def test_a_folder_is_no_translation(write, tmp_path, capsys):
    assert main(["bleu", "--hypotheses", str(tmp_path), "--reference", str(write("ref", REFERENCES))]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path} is a folder: give a file of text.\n"


def test_beside_a_baseline(write, capsys):
    reference, system, worse = write("ref", REFERENCES * 20), write("a", SYSTEM * 20), write("b", ["Hund"] * 60)
    main(["bleu", "--hypotheses", str(system), "--reference", str(reference), "--baseline", str(worse)])
    out = capsys.readouterr().out
    assert out.count("BLEU|") == 2
    assert "BLEU: p = 0.00" in out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda lines: [line for line in lines if not line.startswith("D-")], "has no D- lines"),
        (
            lambda lines: [line.replace("D-2\t-0.5\t", "D-2\t") for line in lines],
            r"no translation in 'D-2\\tZwei.*it is",
        ),
        (lambda lines: lines + [line for line in lines if line.startswith("D-1")], "has sentence 1 twice"),
        (lambda lines: [line for line in lines if not line.startswith("D-1")], r"has no sentence 1 \(1 are missing\)"),
    ],
)
def test_output_of_generate_that_is_not_whole(change, sentence, write):
    with pytest.raises(UserError, match=sentence):
        read_hypotheses(write("hyp", change(generated(SYSTEM, [0, 1, 2]))))


def test_the_lines_of_translations_alone(write):
    """Lines that `grep ^D-` leaves are read by their numbers."""
    lines = [line for line in generated(SYSTEM, [2, 0, 1]) if line.startswith("D-")]
    assert read_hypotheses(write("hyp", lines)) == SYSTEM


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="MeCab is there")
def test_a_tokeniser_that_needs_another_package(write, capsys):
    reference = str(write("ref", REFERENCES))
    assert main(["bleu", "--hypotheses", reference, "--reference", reference, "--tokenize", "ja-mecab"]) == 1
    assert re.fullmatch(
        r"error: the tokeniser ja-mecab cannot be used \(.*\[ja\]\): choose .*\n", capsys.readouterr().err
    )


def test_what_cannot_be_compared(write, capsys):
    hypotheses, reference = str(write("hyp", SYSTEM[:2])), str(write("ref", REFERENCES))
    assert main(["bleu", "--hypotheses", hypotheses, "--reference", reference]) == 1
    assert "hyp has 2 translations and" in capsys.readouterr().err
    assert main(["bleu", "--hypotheses", reference, "--reference", reference, "--tokenize", "mose"]) == 1
    assert "there is no tokeniser mose: choose one of none, zh, 13a" in capsys.readouterr().err
