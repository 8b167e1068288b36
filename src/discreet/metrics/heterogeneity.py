r"""How much sites differ: a random-effects model from a few sums over the sites.

Site i has an effect :math:`\theta_i` (a logit AUC, a log O:E) with its own variance
:math:`v_i`, and :math:`\theta_i \sim N(\mu, v_i + \tau^2)`. With weights
:math:`a_i = 1/(v_i + t)`, t the *anchor* that a plan fixes, the number of sites k and
four sums suffice:

.. math::
    A = \sum a_i, \quad B = \sum a_i^2, \quad C = \sum a_i\theta_i, \quad
    D = \sum a_i\theta_i^2, \qquad
    \hat\mu = C/A, \quad Q = D - C^2/A .

Because :math:`a_i v_i = 1 - t a_i`, the mean of Q follows from the same sums,

.. math::
    E\,Q = (k - tA) - (A - tB)/A + \tau^2 (A - B/A),

and solving it for :math:`\tau^2` is the generalised method of moments (DerSimonian and
Kacker 2007; ``metafor``'s ``GENQ`` with ``weights=``). The mean has the variance
:math:`(A + (\tau^2 - t)B)/A^2`. Anchor 0 gives DerSimonian and Laird's (1986) Q,
:math:`\tau^2` and :math:`I^2`. No site can use a textbook's weights
:math:`1/(v_i + \hat\tau^2)` before anybody knows :math:`\hat\tau^2`: the anchor stands
for it. At an anchor that equals their estimate, mean, standard error and Hartung and
Knapp's interval are the textbook's.

**Clusters.** With g the slopes of a metric and :math:`h_j` the counts of cluster j, the
variance over clusters is :math:`\sum_j (g^T h_j)^2` (Liang and Zeger 1986; Obuchowski 1997
for the AUC); independent rows give :math:`\sum_k c_k g_k^2`. Sites add up products of sums
of a few functions x of a row (:mod:`discreet.statistic.site_sums`); with c the
coefficients of g on x, the *design effect*

.. math::
    \frac{c^T M c}{c^T R c}, \qquad M = \sum_j z_j z_j^T, \quad R = \sum_k c_k\, x_k x_k^T,

multiplies the plain variance. Sites as clusters are few and of all sizes: they count
as :math:`k = \min_c (\sum_j n_{cj})^2 / \sum_j n_{cj}^2` equal ones (Kish 1965; c the
class), the variance has the factor k/(k - 1), and Student's t of k - 1 degrees of freedom
takes the normal's place.

What it does not cover: people with rows at two sites, and clusters of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np
from scipy.special import chdtrc, ndtr, stdtrit

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError, ReleaseError
from discreet.estimate.estimate import Clustered, Estimate, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import numeric_slopes
from discreet.metrics.errors import Measured
from discreet.metrics.table import METRICS
from discreet.statistic.effect_terms import EffectTerms
from discreet.statistic.site_sums import TERMS, Clusters, features

_FEWEST: Final = 2
_PLACES: Final = (np.arange(128) + 0.5) / 128
"""Where the confidence distribution of the variance between sites is tabulated."""
_GRID: Final = 256
_LEAST_SITES: Final = 1.5
"""One site that holds nearly everything still gives an interval: a very wide one."""


@dataclass(frozen=True, slots=True)
class AnchoredSums:
    """Sums over sites with the weights 1/(v + anchor)."""

    sites: float
    weight: float
    weight_squared: float
    effect: float
    effect_squared: float
    anchor: float = 0.0

    @classmethod
    def of_sites(
        cls, effects: FloatVector, variances: FloatVector, anchor: float = 0.0
    ) -> Self:
        """Add up known effects and variances: what sites do without showing them.

        >>> sums = AnchoredSums.of_sites(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
        >>> sums.q, sums.mean
        (0.5, 0.5)
        """
        a = 1.0 / (variances + anchor)
        sums = [a.size, a.sum(), a @ a, a @ effects, a @ effects**2]
        return cls.of_numbers(np.array(sums), anchor)

    @classmethod
    def of_numbers(cls, numbers: FloatVector, anchor: float) -> Self:
        """Name the five numbers, in the fields' order."""
        sites, weight, squared, effect, effect_squared = numbers.tolist()
        return cls(sites, weight, squared, effect, effect_squared, anchor)

    @property
    def mean(self) -> float:
        """The weighted mean of the effects."""
        return self.effect / self.weight

    @property
    def q(self) -> float:
        """Cochran's Q with these weights."""
        return max(self.noisy_q, 0.0)

    @property
    def noisy_q(self) -> float:
        """The same where noise may make it less than 0."""
        return self.effect_squared - self.effect * self.effect / self.weight

    def expected_q(self, tau2: FloatVector | float) -> FloatVector | float:
        """Return the mean of Q when sites differ by this variance."""
        within = self.sites - self.anchor * self.weight
        mean = (self.weight - self.anchor * self.weight_squared) / self.weight
        return within - mean + tau2 * self.leverage

    @property
    def leverage(self) -> float:
        """By how much Q grows with the variance between sites."""
        return self.weight - self.weight_squared / self.weight

    @property
    def tau2(self) -> float:
        """The variance between sites by the method of moments, at least 0."""
        if not self.leverage > 0:
            return math.nan
        return max((self.q - float(self.expected_q(0.0))) / self.leverage, 0.0)

    @property
    def i2(self) -> float:
        """Share of Q that is more than chance; at anchor 0 Higgins and Thompson's (2002)."""
        if not self.q > 0:
            return 0.0
        return max(0.0, 1.0 - float(self.expected_q(0.0)) / self.q)

    def variance(self, tau2: FloatVector | float) -> FloatVector | float:
        """Return the variance of the mean when sites differ by this variance."""
        excess = (tau2 - self.anchor) * self.weight_squared
        return np.maximum(self.weight + excess, 0.0) / self.weight**2

    def hartung_knapp(self, tau2: float) -> float:
        r"""Return Hartung and Knapp's variance of the mean.

        The variance at :math:`\tau^2` times :math:`Q/E\,Q`; at the anchor itself E Q is
        k - 1 and this is their :math:`Q / ((k-1) A)`.
        """
        expected = float(self.expected_q(tau2))
        return float(self.variance(tau2)) * (self.q / expected if expected > 0 else 1.0)


@dataclass(frozen=True)
class RandomEffects:
    r"""What sums over sites say: mean, spread, and what a new site can expect.

    Args:
        sums: at the anchor that a plan fixed.
        noise: covariance of the noise in the sums' five numbers; None without noise.
    """

    sums: AnchoredSums
    noise: FloatArray | None = None

    @property
    def refusal(self) -> str | None:
        """Why nothing can be said, None when it can."""
        if not (self.sums.sites > _FEWEST and self.sums.weight > 0):
            return "fewer than three sites have an effect to compare"
        if not self.sums.weight_squared > 0 or not self.sums.leverage > 0:
            return "the noise hides the sites' weights"
        return None

    @property
    def sites(self) -> float:
        """How many sites had an effect."""
        return self.sums.sites

    @property
    def mean(self) -> float:
        """The mean of the sites' effects."""
        return self.sums.mean

    @property
    def tau2(self) -> float:
        """The variance between sites."""
        return self.sums.tau2

    def interval(self, level: float = 0.95) -> Interval:
        """Return Hartung and Knapp's interval of the mean: Student's t of k - 1.

        The factor Q/E Q is at least 1 (Knapp and Hartung 2003): a smaller one would
        make sites that agree by chance look surer than equal sites are.
        """
        self._check(level)
        tau2 = self.tau2
        variance = max(self.sums.hartung_knapp(tau2), float(self.sums.variance(tau2)))
        spread = math.sqrt(variance + self._mean_noise)
        reach = spread * float(stdtrit(self.sites - 1, 0.5 + level / 2))
        return Interval(self.mean - reach, self.mean + reach)

    def prediction(self, level: float = 0.95) -> Interval:
        r"""Return where a new site's own effect is expected.

        .. math::
            \theta_{new} - \hat\mu \mid \tau^2 \sim N(0, \tau^2 + \mathrm{Var}\,\hat\mu),

        averaged over the confidence distribution of :math:`\tau^2` that Q gives
        (Nagashima, Noma and Furukawa 2019), with Q's distribution matched by two moments to a
        scaled chi-squared. A :math:`\tau^2` that is small or zero by chance does not
        make the interval narrow. See :meth:`textbook_prediction` for the usual one.
        """
        from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

        self._check(level)
        drawn = self._confidence
        spread = np.sqrt(drawn + self.sums.variance(drawn) + self._mean_noise)

        def outside(reach: float) -> float:
            return 2.0 * float(ndtr(-reach / spread).mean()) - (1.0 - level)

        most = float(spread.max())
        if most == 0:
            return Interval(self.mean, self.mean)
        inner = self.interval(level)
        # Sites that agree by chance: where the mean may be, a new site may be too.
        reach = max(float(brentq(outside, 0.0, 40.0 * most)), inner.high - self.mean)
        return Interval(self.mean - reach, self.mean + reach)

    def textbook_prediction(self, level: float = 0.95) -> Interval:
        r"""Return Higgins, Thompson and Spiegelhalter's (2009) prediction interval.

        :math:`\hat\mu \pm t_{k-2} \sqrt{\hat\tau^2 + SE^2}` with Hartung and Knapp's SE.
        It covers too little where :math:`\tau` is small beside the sites' own errors.
        """
        self._check(level)
        tau2 = self.tau2
        spread = math.sqrt(tau2 + self.sums.hartung_knapp(tau2))
        reach = spread * float(stdtrit(self.sites - 2, 0.5 + level / 2))
        return Interval(self.mean - reach, self.mean + reach)

    def _check(self, level: float) -> None:
        if not 0 < level < 1:
            raise InputError("the level of an interval lies strictly between 0 and 1")
        if self.refusal is not None:
            raise ReleaseError(self.refusal)

    @cached_property
    def _confidence(self) -> FloatVector:
        """Read the confidence distribution of the variance between sites.

        Var Q is 2 sum c^2 (k-1)/k to first order, c = a (v + tau^2) = 1 + (tau^2 - t) a.
        """
        s = self.sums
        unit = max(s.tau2, self.sites / s.weight, 1e-300)
        tau2 = np.append(0.0, np.geomspace(1e-5, 1e3, _GRID - 1) * unit)
        away = tau2 - s.anchor
        squares = self.sites + 2 * away * s.weight + away**2 * s.weight_squared
        expected = np.maximum(s.expected_q(tau2), 1e-12)
        variance = 2.0 * np.maximum(squares, 1e-12) * (1 - 1 / self.sites)
        if self.noise is None:
            scale, freedom = variance / (2 * expected), 2 * expected**2 / variance
            below = chdtrc(freedom, s.q / scale)
        else:  # noise is near symmetric, and Q may be less than 0
            variance += self._q_noise
            below = ndtr((expected - s.noisy_q) / np.sqrt(variance))
        rising = np.maximum.accumulate(below)
        if self.noise is not None and rising[0] < 1.0:
            # Noise may put most of it below 0, where no variance is: taken as sites that
            # are all alike, that would promise a new site too narrow a range.
            rising = (rising - rising[0]) / (1.0 - rising[0])
        quantiles: FloatVector = np.interp(_PLACES, rising, tau2, left=0.0)
        return quantiles

    @cached_property
    def _mean_noise(self) -> float:
        return self._noise_of(lambda s: s.mean)

    @cached_property
    def _q_noise(self) -> float:
        """The noise's variance in Q less its mean at the estimated variance."""
        tau2 = self.tau2
        return self._noise_of(lambda s: s.noisy_q - float(s.expected_q(tau2)))

    def noise_of_tau2(self) -> float:
        """Return the standard deviation that the noise gives the variance."""
        return math.sqrt(self._q_noise) / self.sums.leverage

    def _noise_of(self, function: Callable[[AnchoredSums], float]) -> float:
        if self.noise is None:
            return 0.0
        *numbers, anchor = astuple(self.sums)
        squares = numbers[2] > 0 and self.noise[2, 2] == 0  # not a number of its own

        def moved(values: FloatVector) -> float:
            if squares:
                values = values.copy()
                values[2] = numbers[2] * (values[1] / numbers[1]) ** 2
                values[2] *= numbers[0] / values[0]
            return function(AnchoredSums.of_numbers(values, anchor))

        slopes = numeric_slopes(moved, np.array(numbers))
        return max(float(slopes @ self.noise @ slopes), 0.0)


def lost_in_noise(terms: EffectTerms, effects: RandomEffects) -> str | None:
    """Say that the noise hides how sites differ, if it does.

    It does when the variance between sites is unsure by so much that sites all over the
    effect's range, two deviations to either side of its middle, could not be excluded.
    """
    if effects.noise_of_tau2() <= ((terms.high - terms.low) / 4) ** 2:
        return None
    return (
        "the noise is larger than any difference between sites: it takes more sites or a "
        "larger epsilon"
    )


@dataclass(frozen=True, eq=False)
class ClusterProducts:
    """The revealed products over clusters of one kind."""

    kind: Clusters
    products: FloatArray
    sites: int

    def over(self, metrics: Mapping[str, Estimate], fit: Fit) -> Mapping[str, Estimate]:
        """Return the metrics, each with what clusters do to its interval."""

        def clustered(name: str) -> Estimate:
            estimate = metrics[name]
            if math.isnan(estimate.value):
                return estimate
            return replace(estimate, clustered=self._of(name, fit))

        return Measured(metrics, clustered, known=METRICS)

    def _of(self, name: str, fit: Fit) -> Clustered:
        x, counts = features(len(fit.counts.edges)), fit.counts.vector[:, None]
        slopes = np.concatenate(METRICS[name].measure.slopes(fit.bins))
        rows = (x * counts).T @ x
        c = np.linalg.lstsq(rows, (x * counts).T @ slopes, rcond=1e-10)[0]
        alone, together = float(c @ rows @ c), float(c @ self.products @ c)
        design_effect = max(together, 0.0) / alone if alone > 0 else 1.0
        if self.kind == "subject":
            return Clustered(self.kind, math.sqrt(design_effect))
        # So many sites of one size would say as much, by the rarer spread.
        squares = self.products[[0, TERMS], [0, TERMS]]
        totals = np.array([fit.counts.total_negatives, fit.counts.total_positives])
        each = totals[squares > 0] ** 2 / squares[squares > 0]
        sites = max(min([*each.tolist(), float(self.sites)]), _LEAST_SITES)
        factor = math.sqrt(design_effect * sites / (sites - 1))
        return Clustered(self.kind, factor, sites - 1)
