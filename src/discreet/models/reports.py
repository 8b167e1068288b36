r"""Reports that clients send on their own: what a plan of them discloses and assumes.

**Amplification by shuffling.** If somebody whom clients and analyst trust removes ids,
addresses and order before anybody else sees the n reports, what is seen is their multiset,
and that is (epsilon, delta)-DP with a smaller epsilon. :func:`shuffled_epsilon` is the
numerical bound of Feldman, McMillan and Talwar (2021), "Hiding among the clones": with
:math:`\varepsilon_0` the loss of a report,

.. math::
    C \sim \mathrm{Bin}(n - 1, e^{-\varepsilon_0}),\quad A \sim \mathrm{Bin}(C, 1/2),\quad
    \Delta \sim \mathrm{Ber}\Bigl(\tfrac{e^{\varepsilon_0}}{e^{\varepsilon_0} + 1}\Bigr),

the multisets of two neighbouring inputs are post-processings of
:math:`P = (A + \Delta, C - A + 1 - \Delta)` and :math:`Q = (A + 1 - \Delta, C - A + \Delta)`
(their theorem 3.2), so that the hockey-stick divergence of P and Q bounds delta. Given C = c,
P/Q rises with the first number, and the divergence is two binomial tails.
:func:`shuffled_epsilon_closed` is their theorem 3.1, a formula that is never smaller.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from discreet.codec.parsing import exact
from discreet.errors import PlanError
from discreet.phone import REPORT_SIZE
from discreet.plan.protocol import SessionProtocol
from discreet.privacy.loss import PureDP

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

HONEST: Final = Fraction(99, 100)
"""Share of the reports that the shuffled claim counts on: false ones hide nobody."""
_STEPS: Final = 60
_SDS: Final = 9.0
"""Fewer clones than the mean less so many deviations count as if they hid nobody."""
_BLOCKS: Final = 4096


class Reports(SessionProtocol):
    """Every client sends its own report, when it likes; somebody counts them."""

    name: ClassVar[str] = "reports of single clients"
    between_sites: ClassVar[bool] = False
    of_clients: ClassVar[bool] = True

    def check(self, plan: Plan) -> None:
        """Refuse: no session carries out such a plan."""
        del plan
        raise PlanError(
            "clients send the reports of this plan on their own: discreet collect counts "
            "them, and no session is run"
        )

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """The private symbols, one per report."""
        symbols = 2 * len(plan.statistic.binnings[0])
        each = (
            f"each of {sites:,} reports, a private symbol below {symbols} with a random "
            f"id ({REPORT_SIZE} bytes), to whoever receives it"
        )
        return (each, "how many reports there are")

    def assumptions(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """A client keeps its own budget; with a shuffler, more can be said."""
        privacy: Any = plan.privacy
        reports, days = privacy.reports_per_person, privacy.period_days
        total = PureDP(reports * exact(privacy.epsilon))
        noun = "report" if reports == 1 else "reports"
        when = "under this plan" if days is None else f"in each period of {days} days"
        cost = f"which cost a person {total} in all"
        if days is not None:
            cost = f"which cost a person {total} per period, and periods add up"
        budget = (
            f"each client keeps its own budget: at most {reports} {noun} of a person "
            f"{when}, {cost}; a client whose storage is lost may send again"
        )
        if privacy.shuffle_delta is None:
            return (budget,)
        return (budget, _shuffled(privacy, sites))


def _shuffled(privacy: Any, reports: int) -> str:
    local, delta = float(exact(privacy.epsilon)), float(privacy.shuffle_delta)
    honest = max(int(reports * HONEST), 1)
    epsilon = shuffled_epsilon(local, honest, delta)
    assumed = (
        "only if a shuffler whom clients and analyst both trust removes ids, addresses "
        "and order before anybody else sees a report, and at least 99% of the reports "
        "are honest"
    )
    if epsilon >= local:
        return f"{assumed}: {reports:,} reports are too few for a smaller epsilon"
    shown = math.ceil(epsilon * 1e4) / 1e4
    return (
        f"{assumed}: then what is seen of all reports is ({shown:.4f}, {delta:g})-DP for "
        "one report replaced (Feldman, McMillan and Talwar 2021); without such a shuffler "
        "the loss is that of each report"
    )


def shuffled_epsilon(local: float, reports: int, delta: float) -> float:
    """Return the central epsilon of shuffled reports; never above the local one.

    Args:
        local: epsilon of one report.
        reports: how many honest reports are shuffled.
        delta: of the central promise.

    >>> round(shuffled_epsilon(1.0, 100_000, 1e-8), 3)
    0.021
    """
    if not (0 < local <= 16 and 0 < delta < 1 and reports >= 1):
        raise PlanError("a shuffled promise needs 0 < epsilon <= 16 and 0 < delta < 1")
    low, high = 0.0, local
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if shuffled_delta(local, reports, middle) <= delta:
            high = middle
        else:
            low = middle
        if high - low <= 1e-6 * high:
            break
    return high


def shuffled_delta(local: float, reports: int, epsilon: float) -> float:
    """Return a bound on the delta of shuffled reports at a central epsilon."""
    from scipy.special import bdtrc  # noqa: PLC0415 - seldom asked for
    from scipy.stats import binom  # noqa: PLC0415 - likewise

    if epsilon >= local:
        return 0.0
    q = math.exp(local) / (math.exp(local) + 1)
    up, down = q - math.exp(epsilon) * (1 - q), math.exp(epsilon) * q - (1 - q)
    clones = binom(reports - 1, math.exp(-local))
    reach = _SDS * float(clones.std()) + _SDS**2
    least = max(int(clones.mean() - reach), 0)
    most = min(int(clones.mean() + reach) + 1, reports - 1)
    # One more clone is post-processing, so that more clones never make delta larger: each
    # block counts as its least number, all below as no protection.
    starts = np.unique(np.linspace(least, most, _BLOCKS, dtype=np.int64))
    below = clones.cdf(starts - 1)
    weights = np.diff(np.append(below, 1.0))
    c = starts
    # P/Q exceeds e^epsilon where the first number does a share of the c + 1.
    first = np.floor(down / (up + down) * (c + 1)) + 1

    def at_least(k: Any) -> Any:
        """Return the chance that a fair binomial of c is k or more."""
        tail = bdtrc(np.clip(k, 1, c + 1) - 1.0, np.maximum(c, 1), 0.5)
        return np.where(k <= 0, 1.0, np.where(k > c, 0.0, tail))

    each = np.maximum(up * at_least(first - 1) - down * at_least(first), 0.0)
    return float(weights @ each) + float(below[0])


def shuffled_epsilon_closed(local: float, reports: int, delta: float) -> float | None:
    r"""Return theorem 3.1 of Feldman et al.; None where it says nothing.

    .. math:: \log\Bigl(1 + \frac{e^{\varepsilon_0} - 1}{e^{\varepsilon_0} + 1}\Bigl(
        \frac{8\sqrt{e^{\varepsilon_0}\log(4/\delta)}}{\sqrt n}
        + \frac{8 e^{\varepsilon_0}}{n}\Bigr)\Bigr)
    """
    if local > math.log(reports / (16 * math.log(2 / delta))):
        return None
    odds = math.exp(local)
    inner = 8 * math.sqrt(odds * math.log(4 / delta) / reports) + 8 * odds / reports
    return math.log1p((odds - 1) / (odds + 1) * inner)
