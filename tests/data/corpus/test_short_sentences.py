from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.corpus.short_sentences import SHORT, join

LINES = st.lists(st.integers(1, 2 * SHORT).map(lambda words: " ".join(["w"] * words)))


@settings(deadline=None)
@given(LINES)
def test_short_lines_are_joined_and_no_word_is_lost(lines):
    joined = join(lines)
    assert " ".join(joined) == " ".join(lines)
    assert all(len(line.split()) >= SHORT for line in joined[:-1])
    assert all(len(line.split()) < 3 * SHORT for line in joined)


def test_a_heading_and_its_sentence():
    sentence = " ".join(["word"] * SHORT)
    assert join(["History.", sentence, sentence, "End."]) == [f"History. {sentence}", sentence, "End."]


def test_a_language_without_spaces_has_words_too():
    sentence = "老房子自一八八五年以来一直矗立在城市的河边，安娜和她的朋友从海上看到它。"
    assert join([sentence, sentence, "短。", "短。"]) == [sentence, sentence, "短。 短。"]
    assert join(["บ้านเก่าตั้งอยู่ริมแม่น้ำในเมืองตั้งแต่ปี", "สั้น"]) == ["บ้านเก่าตั้งอยู่ริมแม่น้ำในเมืองตั้งแต่ปี", "สั้น"]
