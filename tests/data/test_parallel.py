import pytest

from tupe.data.parallel import pool
from tupe.util import UserError


def square(number):
    return number * number


def fail_at_seven(number):
    if number == 7:
        raise UserError("seven is wrong")
    return number


@pytest.mark.parametrize("workers", [1, 3])
def test_results_in_order_and_little_read_ahead(workers):
    read = []
    with pool(workers) as map_:
        for number, result in enumerate(map_(square, (read.append(i) or i for i in range(100)))):
            assert result == number**2
            assert len(read) <= number + 2 + 2 * workers


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_through(workers):
    with pytest.raises(UserError, match="seven is wrong"), pool(workers) as map_:
        list(map_(fail_at_seven, range(100)))
