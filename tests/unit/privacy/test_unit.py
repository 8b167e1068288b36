"""Units of protection."""

import pytest

from discreet import PlanError
from discreet.privacy.unit import Unit


@pytest.mark.parametrize(
    ("kind", "relation", "most"),
    [
        ("row", "add_remove", None),
        ("label", "replace", None),
        ("client", "add_remove", None),
        ("subject", "flip", 3),
        ("example", "add_remove", 2),
        ("subject", "add_remove", 1.01),  # two rows, and noise for 1.01
        ("client", "add_remove", 0),
        ("site", "replace", None),
    ],
)
def test_units_that_make_no_sense_are_refused(kind, relation, most):
    with pytest.raises(PlanError):
        Unit(kind, relation, most)
