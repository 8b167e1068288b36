"""How many examples a property test draws: ``make fuzz`` draws many times as many."""

import os

from hypothesis import settings

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))


def draws(examples: int) -> settings:
    """Return the settings of a property test that draws ``examples`` by default."""
    return settings(max_examples=examples * TIMES)
