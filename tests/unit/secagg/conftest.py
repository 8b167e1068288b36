import pytest

from secagg_federation import Federation


@pytest.fixture
def federation():
    return Federation


@pytest.fixture(scope="session")
def sparse_federation():
    """230 signed sites, of which 26 may go silent: none holds for all others."""

    def build():
        return Federation(n=230, min_survivors=204, length=1, signed=True)

    return build


@pytest.fixture
def malformed():
    """Give a message cut short, prolonged, and of another version or kind."""
    return lambda raw: (
        b"",
        raw[:1],
        raw[:-1],
        raw + b"\0",
        b"\3" + raw[1:],
        b"\1\x7f" + raw[2:],
    )
