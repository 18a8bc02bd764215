from tupe.data.text.memo import Memo


def test_asked_once_and_never_more_kept_than_said():
    asked = []
    memo = Memo(lambda key: asked.append(key) or key.upper(), size=3)
    assert list(map(memo.__getitem__, "aabbc")) == [*"AABBC"]
    assert asked == ["a", "b", "c"]
    assert memo["d"] == "D"
    assert memo["e" * 100] == "E" * 100
    assert set(memo) == {"d"}
