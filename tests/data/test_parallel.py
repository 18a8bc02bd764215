import os
import signal

import pytest

from tupe.data.parallel import pool
from tupe.errors import UserError


def square(number):
    return number * number


def kill_at_seven(number):
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


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


def test_a_killed_process_is_told():
    with pytest.raises(UserError, match="use fewer --workers"), pool(2) as map_:
        list(map_(kill_at_seven, range(100)))
