from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.text.stages import LANGUAGES, PROFILES, STAGES, TextProcessing

pytest.importorskip("spacy")
pytest.importorskip("sacremoses")


@pytest.fixture(scope="module", params=PROFILES)
def processing(request):
    return TextProcessing(PROFILES[request.param], LANGUAGES[request.param])


def test_paper_profile():
    processing = TextProcessing(PROFILES["paper"], "en")
    counts = Counter()
    lines = ["“Don’t!” said Mr. X – see www.a.org/b.  Bye…", "\x00\ufffd", "It ends"]
    assert processing.document(lines, counts) == ['" don \'t ! "', "said mr. x - see <url> .", "bye ...", "it ends"]
    assert counts["repair-characters: removed"] == 1
    assert counts["split-sentences: added"] == 2
    assert counts["special-tokens: changed"] == 1


def test_sentencepiece_profile_leaves_text_as_it_is():
    processing = TextProcessing(PROFILES["sentencepiece"], "xx")
    assert processing.line("“Don’t!” see www.a.org/b") == "“Don’t!” see www.a.org/b"
    assert processing.document(["One two. Three Four."], Counter()) == ["One two.", "Three Four."]


def test_a_stage_that_is_off_does_nothing():
    for stage in STAGES:
        without = [name for name in PROFILES["paper"] if name != stage]
        counts = Counter()
        TextProcessing(without, "en").document(["“A” www.a.org. B c"], counts)
        assert counts[f"{stage}: changed"] == counts[f"{stage}: added"] == 0


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1)))
def test_lines_in_are_lines_out_and_lines_counted(processing, raw):
    lines = [line.decode("utf-8", "surrogateescape") for line in raw]
    counts = Counter()
    out = processing.document(lines, counts)
    added = sum(number for name, number in counts.items() if name.endswith(": added"))
    removed = sum(number for name, number in counts.items() if name.endswith(": removed"))
    assert len(out) == len(lines) + added - removed
    for line in out:
        assert line.strip()
        assert "\n" not in line
        assert line.encode("utf-8")


def test_a_mask_stays():
    processing = TextProcessing(PROFILES["paper"], "en")
    assert processing.around("Don’t stop! The <mask> is.") == "don 't stop ! the <mask> is ."
    assert processing.around("<mask>") == "<mask>"
