import pytest

from tupe.cli.main import parser_of
from tupe.cli.plot import FIGURES


@pytest.mark.parametrize("figure", FIGURES)
def test_the_help_says_what_it_shows(figure):
    text = parser_of("plot").format_help()
    assert FIGURES[figure] in text
