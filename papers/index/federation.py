"""Twelve sites with one model and different patients: a real set, split by case mix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import expit, logit

from discreet.estimate.curves import Polyline
from papers.data import Data, Scored

DATA: Final = "adult-xgb-oof"
SITES: Final = 12
MIX: Final = 4.0
"""Standard deviation of what else decides where an example ends up, in logits."""


@dataclass(frozen=True, eq=False)
class Federation:
    """The pooled examples, which nobody may see, and the sites' parts of them."""

    pooled: Scored
    sites: tuple[Scored, ...]

    @classmethod
    def split(cls, data: Data) -> Federation:
        """Send high scores to some sites more often than to others."""
        pooled = data.scored(DATA)
        rng = np.random.default_rng(12)
        inside = np.clip(pooled.scores, expit(-12.0), expit(12.0))
        drift = logit(inside) + rng.normal(0.0, MIX, pooled.scores.size)
        parts = np.array_split(np.argsort(drift), SITES)
        return cls(
            pooled,
            tuple(
                Scored(f"site {k + 1}", pooled.scores[part], pooled.labels[part])
                for k, part in enumerate(parts)
            ),
        )

    @cached_property
    def with_both_classes(self) -> tuple[Scored, ...]:
        """The sites that have an AUC at all."""
        return tuple(s for s in self.sites if 0 < s.labels.sum() < s.labels.size)

    @property
    def rows_per_site(self) -> int:
        """Examples a site, on average."""
        return self.pooled.labels.size // SITES

    @cached_property
    def averaged_curve(self) -> Polyline:
        """The sites' ROC curves averaged at equal FPR (Fawcett 2006)."""
        grid = np.linspace(0.0, 1.0, 201)
        each = [np.interp(grid, s.roc.x, s.roc.y) for s in self.with_both_classes]
        return Polyline(grid, np.mean(each, axis=0))
