r"""Intervals for rows that are alike: the design effect from clusters' products.

With g the slopes of a metric and :math:`h_j` the counts of cluster j, the variance over
clusters is :math:`\sum_j (g^T h_j)^2` (Liang and Zeger 1986; Obuchowski 1997 for the
AUC), while independent rows give :math:`\sum_k c_k g_k^2`. Sites add up products of sums
of a few functions x of a row (:mod:`discreet.statistic.cluster_products`); with c the
coefficients of g on x, the *design effect* is

.. math::
    \frac{c^T M c}{c^T R c}, \qquad M = \sum_j z_j z_j^T, \quad R = \sum_k c_k\, x_k x_k^T,

and multiplies the plain variance. Sites as clusters are few and of all sizes: they count
as :math:`k = \min_c (\sum_j n_{cj})^2 / \sum_j n_{cj}^2` equal ones (Kish 1965; c the
class, whose sums of squares stand in M), the variance has the factor k/(k - 1), and
Student's t of k - 1 degrees of freedom takes the normal's place.

What it does not cover: people with rows at two sites, and clusters of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Clustered, Estimate
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import Slopes
from discreet.metrics.measured import Measured
from discreet.metrics.table import METRICS
from discreet.statistic.cluster_products import TERMS, Clusters, features

_LEAST_SITES: Final = 1.5
"""One site that holds nearly everything still gives an interval: a very wide one."""


@dataclass(frozen=True, eq=False)
class ClusterProducts:
    """The opened products, and of whom they are."""

    kind: Clusters
    products: FloatArray
    sites: int

    def over(self, metrics: Mapping[str, Estimate], fit: Fit) -> Mapping[str, Estimate]:
        """Return the metrics, each with what clusters do to its interval."""

        def clustered(name: str) -> Estimate:
            found = metrics[name]
            if math.isnan(found.value):
                return found
            return replace(found, clustered=self._of(name, fit))

        return Measured(metrics, clustered, known=METRICS)

    def _of(self, name: str, fit: Fit) -> Clustered:
        cells = fit.bins
        counts = cells.negatives, cells.positives
        effect = self.design_effect(METRICS[name].slopes(cells), *counts)
        if self.kind == "subject":
            return Clustered(self.kind, math.sqrt(effect))
        many = self.equal_sites(*counts)
        factor = math.sqrt(effect * many / (many - 1))
        return Clustered(self.kind, factor, many - 1)

    def equal_sites(self, negatives: FloatVector, positives: FloatVector) -> float:
        """Return how many sites of one size would say as much, by the rarer spread."""
        squares = self.products[0, 0], self.products[TERMS, TERMS]
        found = [
            float(counts.sum()) ** 2 / float(square)
            for counts, square in zip((negatives, positives), squares, strict=True)
            if square > 0
        ]
        return max(min([*found, float(self.sites)]), _LEAST_SITES)

    def design_effect(
        self, slopes: Slopes, negatives: FloatVector, positives: FloatVector
    ) -> float:
        """Return by how much clusters multiply a variance."""
        x = features(negatives.size)
        counts = np.concatenate([negatives, positives])
        rows = (x * counts[:, None]).T @ x
        moved = (x * counts[:, None]).T @ np.concatenate(slopes)
        c = np.linalg.lstsq(rows, moved, rcond=1e-10)[0]
        alone, together = float(c @ rows @ c), float(c @ self.products @ c)
        if not alone > 0:
            return 1.0
        return max(together, 0.0) / alone
