r"""A noisy tree of counts made consistent: every node the sum of its children.

A :class:`~discreet.statistic.hierarchy.Hierarchy` counts each example once a
level, so the levels tell the same story several times, each with noise of its
own. Hay, Rastogi, Miklau and Suciu (2010) combine them by weighted averaging (from
the leaves up) and mean consistency (from the top down): two linear passes that
give the least-squares solution. Here in the general form: any branching, a
different one a level if need be, and any variance a level; the root is not
counted, because the papers do not count it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.arrays import FloatVector
from discreet.errors import ReleaseError


def consistent_levels(
    levels: Sequence[FloatVector], variances: Sequence[float]
) -> list[FloatVector]:
    r"""Return the generalised least-squares estimate of every level.

    ``levels`` run from the top to the leaves; a level's length is a multiple of
    the length above it. ``variances`` are those of one count at each level.

    *Weighted averaging*, upwards: with b children of variance :math:`v_{l+1}`,

    .. math::
        z_l = w\,y_l + (1 - w) \sum_{\text{children}} z_{l+1}, \qquad
        w = \frac{b\,v_{l+1}}{\sigma_l^2 + b\,v_{l+1}}, \qquad
        v_l = \frac{\sigma_l^2\,b\,v_{l+1}}{\sigma_l^2 + b\,v_{l+1}}.

    *Mean consistency*, downwards: what a parent has more than its children is
    shared among them equally. With one variance for all levels, w at i levels
    above the ground is :math:`(b^i - b^{i-1})/(b^i - 1)`, as Hay prints it.

    A variance of zero at every level (exact counts) leaves the counts alone; at
    some of the levels it means that these are known exactly.

    >>> import numpy as np
    >>> top, leaves = consistent_levels(
    ...     [np.array([10.0]), np.array([3.0, 4.0])], [1.0, 1.0]
    ... )
    >>> top.tolist(), leaves.tolist()
    ([9.0], [4.0, 5.0])
    """
    check_levels(levels, variances)
    averaged, own = [levels[-1]], variances[-1]
    for level, variance in zip(levels[-2::-1], variances[-2::-1], strict=True):
        below = averaged[0].reshape(level.size, -1)
        summed = below.shape[1] * own
        total = variance + summed
        weight = summed / total if total else 1.0
        own = variance * weight
        averaged.insert(0, weight * level + (1.0 - weight) * below.sum(axis=1))
    found = averaged[:1]
    for level in averaged[1:]:
        children = level.reshape(found[-1].size, -1)
        missing = (found[-1] - children.sum(axis=1)) / children.shape[1]
        found.append((children + missing[:, None]).ravel())
    return found


def check_levels(levels: Sequence[FloatVector], variances: Sequence[float]) -> None:
    """Refuse levels that are not a tree, or variances that are not one a level."""
    if not levels or len(levels) != len(variances):
        raise ReleaseError(
            f"a tree needs one variance a level, got {len(levels)} levels and "
            f"{len(variances)} variances"
        )
    if not all(math.isfinite(v) and v >= 0 for v in variances):
        raise ReleaseError("the variance of a level must be finite and not negative")
    above = 1
    for level in levels:
        if level.ndim != 1 or level.size < above or level.size % above:
            raise ReleaseError(
                f"a level of {level.size} counts cannot hang below one of {above}"
            )
        above = level.size
