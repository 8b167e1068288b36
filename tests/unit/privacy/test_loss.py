"""Amounts and losses as they were written."""

from fractions import Fraction

import pytest

from discreet import PlanError
from discreet.codec.parsing import amount_from_text, decimal_text, exact
from discreet.privacy.loss import ApproxDP, PureDP, fraction_of

HALF = PureDP(Fraction(1, 2))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (0.1, Fraction(1, 10)),
        ("1.0", Fraction(1)),
        (3, Fraction(3)),
        ("1e-6", Fraction(1, 10**6)),
    ],
)
def test_amounts_are_the_decimal_that_was_written(written, value):
    assert exact(written) == value
    assert amount_from_text(decimal_text(value)) == value


@pytest.mark.parametrize("bad", ["many", "nan", float("inf"), "0x1"])
def test_amounts_that_are_no_numbers_are_refused(bad):
    with pytest.raises(PlanError, match="epsilon must be"):
        exact(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PureDP(Fraction(0)),
        lambda: ApproxDP(Fraction(1), Fraction(0)),
        lambda: ApproxDP(Fraction(1), Fraction(1)),
        lambda: ApproxDP(Fraction(0), Fraction(1, 2)),
        lambda: fraction_of(HALF, Fraction(0)),
        lambda: fraction_of(HALF, Fraction(2)),
    ],
)
def test_losses_that_make_no_sense_are_refused(make):
    with pytest.raises(PlanError):
        make()
