"""The plaintext oracle of exact areas: what a program reveals, from the definitions.

It pools all rows and protects nothing. A program is compared with it, and tests whose
subject is not the computation run on it where the ``mpc`` extra is not installed.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from discreet.mpc.engine import RevealedAreas, check_inputs
from discreet.mpc.model import AREAS, ExactMPC
from discreet.mpc.program import SCALE, UNDEFINED, Program
from discreet.mpc.shares import PAD

_GUARD_BITS = 100
ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), st.booleans()),
    min_size=2,
    max_size=12,
).filter(lambda rows: len({label for _, label in rows}) == 2)
"""Scored rows of both classes, some of them tied."""


def program(sizes, metrics=None, **model):
    """A program of a model with these options; without an interval unless one is named."""
    exact = ExactMPC(**({"interval": False} | model))
    return Program(tuple(sizes), exact, metrics or exact.areas)


def decoded(asked, revealed):
    """The areas that revealed integers stand for, the check of the order first."""
    return asked.areas(asked.checked(revealed))


@dataclass(frozen=True)
class Thresholds:
    """Positives and rows at or above each distinct score, as Python integers."""

    positives: list[int]
    rows: list[int]

    @classmethod
    def of(cls, words, *, ties):
        """Sort by descending score; without ties every row is a threshold."""
        words = np.sort(words)
        keys, labels = words >> 1, words & 1
        differs = np.append(np.diff(keys) != 0, True) if keys.size else keys == 0
        last = np.flatnonzero(differs if ties else np.ones(keys.size, dtype=bool))
        return cls(np.cumsum(labels)[last].tolist(), (last + 1).tolist())

    def steps(self):
        """Each threshold's positives and negatives, before it and up to it."""
        negatives = [
            rows - tp for tp, rows in zip(self.positives, self.rows, strict=True)
        ]
        ends = list(zip(self.positives, negatives, strict=True))
        return zip([(0, 0), *ends], ends, strict=False)

    def doubled_wins(self):
        """Twice the pairs of a positive above a negative, ties one half."""
        return sum((fp - fp0) * (tp + tp0) for (tp0, fp0), (tp, fp) in self.steps())

    def squares(self):
        """The sums of squares of DeLong's variance, of negatives, of positives.

        Of each negative the doubled positives before it, of each positive the doubled
        negatives, ties one half.
        """
        steps = list(self.steps())
        negative = sum((fp - fp0) * (tp + tp0) ** 2 for (tp0, fp0), (tp, fp) in steps)
        positive = sum((tp - tp0) * (fp + fp0) ** 2 for (tp0, fp0), (tp, fp) in steps)
        return negative, positive

    def precision_sum(self):
        """The sum of (t_k - t_{k-1}) t_k / r_k, scaled by 2^100."""
        return sum(
            ((tp - tp0) * tp << _GUARD_BITS) // (tp + fp)
            for (tp0, _), (tp, fp) in self.steps()
        )

    def trapezoid_sum(self):
        """Twice the area under precision over positives, scaled by 2^100."""
        total, precision = 0, 1 << _GUARD_BITS
        for (tp0, _), (tp, fp) in self.steps():
            here = (tp << _GUARD_BITS) // (tp + fp)
            total += (tp - tp0) * (precision + here)
            precision = here
        return total


class Reference:
    """Pools the rows and computes with exact integers."""

    def run(self, program, owners, *, noise=(), progress=None):
        """Compute what the parties would reveal."""
        del progress
        check_inputs(program, owners, noise)
        words = np.concatenate([owner.words for owner in owners])
        real = words[(words != PAD) | (not program.model.hide_sizes)]
        counts = Thresholds.of(real, ties=program.model.ties == "exact")
        values = _areas(program, counts)
        if program.noise:
            positives = counts.positives[-1]
            balance = counts.doubled_wins() - positives * (program.rows - positives)
            values = np.array([balance, program.rows * positives]) + sum(noise)
        return RevealedAreas(np.append(np.int64(1), values), 0, 0, 0.0)


def _areas(program, counts):
    positives = counts.positives[-1] if counts.positives else 0
    negatives = (counts.rows[-1] if counts.rows else 0) - positives
    fractions = {
        "auc": (counts.doubled_wins(), 2 * positives * negatives),
        "average_precision": (counts.precision_sum(), positives << _GUARD_BITS),
        "aupr": (counts.trapezoid_sum(), positives << _GUARD_BITS),  # revealed doubled
    }
    assert set(fractions) == set(AREAS)
    values = [
        int(Fraction(up << SCALE, down)) if down else UNDEFINED
        for up, down in (fractions[metric] for metric in program.metrics)
    ]
    if program.interval_sums:
        values += [positives, *counts.squares()]
    return np.array(values, dtype=np.int64)
