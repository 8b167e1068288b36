r"""Adding losses up, also those that are about different units.

A loss is about a unit: two data sets that differ in one example, one subject, one
label. Losses about one unit add up. A loss about a unit S says something about
another unit T when every T-step from one data set to its neighbour is at most k
S-steps (:func:`steps_between`); then k-fold group privacy holds,

.. math::
    (\varepsilon, \delta) \to
    \Big(k\varepsilon, \ \delta \sum_{i<k} e^{i\varepsilon}\Big)

(Vadhan 2017, lemma 2.2, with the sum of its proof). The steps are proven in docs/ledger.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from discreet.optional import missing
from discreet.privacy.loss import ApproxDP, Loss, PureDP, Unbounded
from discreet.privacy.unit import Unit

About: TypeAlias = tuple[Unit | None, Loss]
"""A loss and whose; None for an exact sum, or where the unit was not recorded."""


_ROUNDING: Final = 1e-14
"""More than floats lose in the probabilities of a composed privacy loss."""
_HOPELESS: Final = 1000
"""An epsilon above which no delta is worth converting."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The total of some releases under basic composition."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    exact_sums: int = 0


def compose(losses: Iterable[Loss]) -> Spent:
    """Add losses about one unit up, kind by kind: basic composition, always valid."""
    epsilon = delta = Fraction(0)
    exact_sums = 0
    for loss in losses:
        match loss:
            case PureDP(e):
                epsilon += e
            case ApproxDP(e, d):
                epsilon, delta = epsilon + e, delta + d
            case Unbounded():
                exact_sums += 1
    return Spent(epsilon, delta, exact_sums)


_TARGETS: Final = (
    *(("client", "replace"), ("subject", "add_remove"), ("subject", "replace")),
    *(("example", "add_remove"), ("row", "replace")),
    *(("label", "flip"), ("score", "replace")),
)
_STEPS: Final = {
    ("example", "add_remove"): (None, None, None, None, 2, 2, 2),
    ("row", "replace"): (None, None, None, None, None, 1, 1),
    ("subject", "add_remove"): (None, None, 2, 2, 4, 2, 2),
    ("subject", "replace"): (None, None, None, None, None, 1, 1),
    ("client", "add_remove"): (2, 2, 2, 2, 2, 2, 2),
    ("client", "replace"): (None, 1, 1, 1, 1, 1, 1),
}
"""By source, the steps to each target; None where no number is enough."""


def _change(unit: Unit) -> tuple[str, str]:
    """Return how neighbours differ: bounds on examples belong to the mechanism.

    A subject is all its rows, however many of them a plan keeps. Replacing an
    example is replacing a row.
    """
    if (unit.kind, unit.relation) == ("example", "replace"):
        return "row", "replace"
    return unit.kind, unit.relation


def steps_between(source: Unit | None, target: Unit | None) -> int | None:
    """Return how many steps of the source one step of the target is at most.

    None: no number of steps is enough for all data. A loss about one example says
    nothing certain about a subject, who may have any number of them. A unit that was
    not recorded is like no other.

    >>> steps_between(Unit("example", "add_remove"), Unit("label", "flip"))
    2
    """
    if source is None or target is None:
        return 1 if source is target else None
    here, there = _change(source), _change(target)
    if here == there:
        return 1
    return dict(zip(_TARGETS, _STEPS.get(here, ()), strict=False)).get(there)


def in_steps(loss: Loss, steps: int) -> Loss:
    """Return what a loss about one step is about several: group privacy.

    Rounded up, to nine digits. A delta of 1 or more promises nothing.

    >>> print(in_steps(ApproxDP(Fraction(1), Fraction(1, 10**6)), 2))
    (2, 0.00000371828184)-DP
    """
    if steps == 1:
        return loss
    match loss:
        case PureDP(epsilon):
            return PureDP(steps * epsilon)
        case ApproxDP(epsilon, delta):
            if steps * epsilon > _HOPELESS:
                return Unbounded()
            grown = delta * sum(_exp_above(i * epsilon) for i in range(steps))
            return ApproxDP(steps * epsilon, grown) if grown < 1 else Unbounded()
        case Unbounded():
            return loss


def _exp_above(x: Fraction) -> Fraction:
    """Return a decimal that is at least e to the x, and little more."""
    if not x:
        return Fraction(1)
    up = Context(prec=9, rounding=ROUND_CEILING)
    power = up.divide(Decimal(x.numerator), Decimal(x.denominator))
    return Fraction(up.exp(power).next_plus(up))  # exp rounds to the nearest


def losses_about(unit: Unit | None, charges: Iterable[About]) -> tuple[list[Loss], int]:
    """Return what charges cost this unit, and how many promise it nothing."""
    about: list[Loss] = []
    silent = 0
    for source, loss in charges:
        steps = steps_between(source, unit)
        if isinstance(loss, Unbounded) or steps is None:
            silent += 1
        else:
            about.append(in_steps(loss, steps))
    return about, silent


def charged_total(charges: Iterable[About]) -> Spent:
    """Return what is compared with a cap: the worst total over the units.

    For each unit that occurs, all losses are converted to it and added; those that
    promise it nothing count as they are, so that no mixture of units costs less than
    the plain sum. With one unit this is basic composition.
    """
    known = list(charges)
    units = {unit for unit, loss in known if not isinstance(loss, Unbounded)}
    totals = [
        compose(
            in_steps(loss, steps_between(source, unit) or 1) for source, loss in known
        )
        for unit in units
    ] or [compose(loss for _, loss in known)]
    return Spent(
        max(t.epsilon for t in totals),
        max(t.delta for t in totals),
        max(t.exact_sums for t in totals),
    )


def units_of(charges: Iterable[About]) -> list[Unit | None]:
    """Return the units that losses are about, in order of appearance."""
    bounded = [unit for unit, loss in charges if not isinstance(loss, Unbounded)]
    return list(dict.fromkeys(bounded))


def tighter_epsilon(losses: Iterable[Loss], *, delta: float) -> float:
    r"""Return an epsilon at which all losses together hold with this delta.

    By privacy loss distributions, each release as the worst mechanism of its
    :math:`(\varepsilon, \delta)` (Sommer, Meiser and Mohammadi 2019; dp-accounting
    computes a rigorous upper bound). Never above basic composition at the same
    delta, and infinite when there is an exact sum.

    Raises:
        MissingExtraError: dp-accounting is not installed (extra ``accounting``).

    >>> tenths = [PureDP(Fraction(1, 10))] * 100
    >>> compose(tenths).epsilon, round(tighter_epsilon(tenths, delta=1e-6), 1)
    (Fraction(10, 1), 4.8)
    """
    pairs = Counter(_worst_case(loss) for loss in losses)
    if None in pairs:
        return math.inf
    known = [(pair, count) for pair, count in pairs.items() if pair is not None]
    if not known:
        return 0.0
    try:  # slow to import, and needed by reports only
        from dp_accounting.pld import (  # type: ignore[import-untyped]  # noqa: PLC0415
            common,
            privacy_loss_distribution,
        )
    except ImportError as error:
        raise missing("accounting") from error

    composed = privacy_loss_distribution.identity()
    for (epsilon, slack), count in known:
        one = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(float(epsilon), float(slack))
        )
        composed = composed.compose(one.self_compose(count))
    # Sums of floats may come out too small: what rounding may hide is taken off delta.
    kept = max(delta - _ROUNDING, delta / 2)
    tighter = float(composed.get_epsilon_for_delta(kept))
    if sum(slack * count for (_, slack), count in known) <= delta:
        return min(tighter, float(sum(e * count for (e, _), count in known)))
    return tighter


def _worst_case(loss: Loss) -> tuple[Fraction, Fraction] | None:
    match loss:
        case PureDP(epsilon):
            return epsilon, Fraction(0)
        case ApproxDP(epsilon, delta):
            return epsilon, delta
        case Unbounded():
            return None
