from tupe.data.text.memo import Memo


def test_asked_once_and_never_more_kept_than_said():
    asked = []
    memo = Memo(lambda key: asked.append(key) or key * 2, size=3)
    assert list(map(memo.__getitem__, [1, 1, 2, 2, 3])) == [2, 2, 4, 4, 6]
    assert asked == [1, 2, 3]
    assert memo[4] == 8
    assert set(memo) == {4}
