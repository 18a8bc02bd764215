from tests.models.conftest import build, dictionary, pairs, tokens  # noqa: F401
