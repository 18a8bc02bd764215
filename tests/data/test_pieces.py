from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from tupe.data.pieces import PieceDictionary

LINES = st.lists(st.sampled_from(["a", "b", "▁a", "new", "<unk>", "</s>", " ", "\n", "\t"])).map(" ".join)


def encoded(kind, line, append_eos):
    dictionary = kind()
    for symbol in ("a", "b", "▁a"):
        dictionary.add_symbol(symbol)
    unknown = []

    def consumer(word, number):
        if number == dictionary.unk() and word != dictionary.unk_word:
            unknown.append(word)

    ids = dictionary.encode_line(line, add_if_not_exist=False, consumer=consumer, append_eos=append_eos)
    return ids.dtype, ids.tolist(), unknown


@given(LINES, st.booleans())
def test_the_same_as_fairseqs_dictionary(line, append_eos):
    assert encoded(PieceDictionary, line, append_eos) == encoded(Dictionary, line, append_eos)


def test_symbols_can_still_be_added():
    dictionary = PieceDictionary()
    assert dictionary.encode_line("new").tolist() == [4, dictionary.eos()]
