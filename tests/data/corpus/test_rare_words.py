from tupe.data.corpus.rare_words import RareWords, places, write
from tupe.data.corpus.text import Document


def test_lines_with_too_many_rare_words_go(tmp_path):
    common = Document("train", ["the cat sat"] * 3 + ["the cat sat the cat sat"])
    batches = [[common], [Document("valid", ["the cat ozymandias", "the cat sat ozymandias"])], []]
    write(map(places, batches), tmp_path / "rare.npy")
    rare = RareWords(tmp_path / "rare.npy")
    # 3 + 2 times or more are the words of the first document, 2 times ozymandias
    assert rare.without(["the cat ozymandias", "the cat sat ozymandias", "sat", "xanadu"]) == [
        "the cat sat ozymandias",
        "sat",
    ]
