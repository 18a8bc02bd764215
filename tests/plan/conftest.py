"""The tests of a translation need data of two languages."""

from tests.inference.conftest import parallel  # noqa: F401
