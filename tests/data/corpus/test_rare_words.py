from collections import Counter

from tupe.data.corpus.rare_words import RareWords, add_up, save_counts


def test_lines_with_too_many_rare_words_go(tmp_path):
    texts = [["the cat sat"] * 3 + ["the cat sat the cat sat"], ["the cat ozymandias", "the cat sat ozymandias"], []]
    for number, lines in enumerate(texts):
        save_counts(Counter(" ".join(lines).split()), tmp_path / str(number))
    add_up((tmp_path / str(number) for number in range(3)), tmp_path / "rare.npy")
    rare = RareWords(tmp_path / "rare.npy")
    # 3 + 2 times or more are the words of the first text, 2 times ozymandias
    assert rare.without(["the cat ozymandias", "the cat sat ozymandias", "sat", "xanadu"]) == [
        "the cat sat ozymandias",
        "sat",
    ]
