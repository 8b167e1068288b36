"""An attacker at the port of a session: clean refusals, bounded memory, a right end."""

import pytest

from bench import hostile_requests

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    "size",
    [
        ("--requests", "120", "--idle", "40", "--slow", "0"),
        pytest.param(("--requests", "3000", "--seed", "1"), marks=pytest.mark.slow),
    ],
    ids=["short", "long"],
)
def test_an_attacker_is_refused_and_stops_nobody(size, capfd):
    assert hostile_requests.main(size) == 0, capfd.readouterr().out
