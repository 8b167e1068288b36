r"""Intervals for rows that are alike: the design effect from clusters' products.

With g the slopes of a metric and :math:`h_j` the counts of cluster j, the variance over
clusters is :math:`\sum_j (g^T h_j)^2` (Liang and Zeger 1986; Obuchowski 1997 for the
AUC), while independent rows give :math:`\sum_k c_k g_k^2`. Sites add up products of sums
of a few functions x of a row (:mod:`discreet.statistic.cluster_products`); with c the
coefficients of g on x, the *design effect* is

.. math::
    \frac{c^T M c}{c^T R c}, \qquad M = \sum_j z_j z_j^T, \quad R = \sum_k c_k\, x_k x_k^T,

and multiplies the plain variance. Sites as clusters are few: their variance has the
factor k/(k - 1), and Student's t of k - 1 degrees of freedom takes the normal's place.

What it does not cover: people with rows at two sites, and clusters of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Clustered, Estimate
from discreet.estimate.reading import Reading
from discreet.estimate.slopes import Slopes
from discreet.metrics.measured import Measured
from discreet.metrics.table import METRICS
from discreet.statistic.cluster_products import Clusters, features


@dataclass(frozen=True, eq=False)
class ClusterProducts:
    """The opened products, and of whom they are."""

    kind: Clusters
    products: FloatArray
    sites: int

    def over(
        self, metrics: Mapping[str, Estimate], reading: Reading
    ) -> Mapping[str, Estimate]:
        """Return the metrics, each with what clusters do to its interval."""

        def clustered(name: str) -> Estimate:
            found = metrics[name]
            if math.isnan(found.value):
                return found
            return replace(found, clustered=self._of(name, reading))

        return Measured(metrics, clustered, known=METRICS)

    def _of(self, name: str, reading: Reading) -> Clustered:
        cells = reading.bins
        effect = self.design_effect(
            METRICS[name].slopes(cells), cells.negatives, cells.positives
        )
        freedom = self.sites - 1 if self.kind == "site" else None
        return Clustered(self.kind, math.sqrt(effect), freedom)

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
        if self.kind == "site":
            together *= self.sites / max(self.sites - 1, 1)
        return max(together, 0.0) / alone
