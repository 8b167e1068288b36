r"""What several exact sums show together: sums over sites that nobody asked for.

A coordinator that has exact sums over the sets :math:`S_1, \dots, S_m` has every
combination :math:`\sum_i a_i \mathbf 1_{S_i}` of them too. One that is not zero on
few sites only shows these few alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

_Vector: TypeAlias = list[Fraction]

_MOST_LOOKS: Final = 20_000
"""How many groups of sites are looked at, some seconds, before giving up."""
_TOO_MANY: Final = (
    "this exact sum and the earlier ones can be combined in too many ways to check; "
    "use a plan with noise"
)


def shows_few_sites(
    sites: Collection[str], earlier: Sequence[Collection[str]], fewest: int
) -> str | None:
    """Return why a sum must not be given after earlier ones, None if it may.

    Pairs are looked at more closely: see :func:`few_sites_differ`. Any number of
    sums is looked at for a combination over fewer than ``fewest`` sites.
    """
    if fewest <= 1:
        return None
    for other in earlier:
        reason = few_sites_differ(sites, other, fewest)
        if reason is not None:
            return reason
    try:
        found = combine_to_few([sites, *earlier], fewest)
    except _TooManyError:
        return _TOO_MANY
    if not found:
        return None
    return (
        f"this exact sum and {len(earlier)} earlier ones combine to a sum over fewer "
        f"than {fewest} sites"
    )


def few_sites_differ(
    sites: Collection[str], earlier: Collection[str], fewest: int
) -> str | None:
    r"""Return why two exact sums must not both be given, None if they may.

    The difference of sums over A and B is what :math:`A \setminus B` holds minus
    what :math:`B \setminus A` holds. Each side must be empty or have ``fewest``
    sites: padding one side with sites that the coordinator invented, whose counts
    it knows, hides nothing. An unknown set could be any.
    """
    if not sites or not earlier:
        return (
            "an exact sum over unknown sites cannot be told from an earlier one; use a "
            "plan with a roster, or one with noise"
        )
    for side in (set(sites) - set(earlier), set(earlier) - set(sites)):
        if 0 < len(side) < fewest:
            few = "1 site" if len(side) == 1 else f"{len(side)} sites"
            return (
                f"this exact sum differs from an earlier one by {few}, and the "
                f"difference of the two would show these alone; it takes {fewest} or none"
            )
    return None


class _TooManyError(Exception):
    """There are too many groups of sites to look at."""


def combine_to_few(sums: Sequence[Collection[str]], fewest: int) -> bool:
    r"""Whether a combination of sums is not zero on fewer than ``fewest`` sites only.

    Sites that are in the same sums stay together: they are one column of the 0/1
    matrix M of sums, with their number as its weight. A vector v is a combination
    of the rows of M when it is orthogonal to the kernel of M. So with a basis of the
    kernel as the rows of B, some v that is zero outside the columns T exists exactly
    when the columns T of B are linearly dependent, and what is looked for is a
    dependent set of columns that weighs less than ``fewest``. Exact rationals.

    >>> combine_to_few(["abc", "bcd", "ad"], 2)  # first - second + third = 2 a
    True
    """
    sets = [frozenset(s) for s in sums]
    everybody = sorted(set().union(*sets))
    weights = Counter(tuple(site in s for s in sets) for site in everybody)
    patterns = list(weights)
    rows = [[Fraction(p[i]) for p in patterns] for i in range(len(sets))]
    columns = _kernel_columns(rows, len(patterns))
    small = [
        (weights[p], column)
        for p, column in zip(patterns, columns, strict=True)
        if weights[p] < fewest
    ]
    looks = 0

    def dependent(start: int, room: int, chosen: list[tuple[int, _Vector]]) -> bool:
        nonlocal looks
        for j in range(start, len(small)):
            weight, column = small[j]
            if weight > room:
                continue
            looks += 1
            if looks > _MOST_LOOKS:
                raise _TooManyError
            rest = _reduced(column, chosen)
            lead = next((i for i, x in enumerate(rest) if x), None)
            if lead is None:
                return True
            if dependent(j + 1, room - weight, [*chosen, (lead, rest)]):
                return True
        return False

    return dependent(0, fewest - 1, [])


def _kernel_columns(rows: list[_Vector], width: int) -> list[_Vector]:
    """Return the columns of a basis of the kernel of a matrix, given by its rows."""
    reduced: list[tuple[int, _Vector]] = []  # pivot and row; zero at other pivots
    for row in rows:
        rest = _reduced(row, reduced)
        pivot = next((i for i, x in enumerate(rest) if x), None)
        if pivot is None:
            continue
        rest = [x / rest[pivot] for x in rest]
        reduced = [(p, _reduced(r, [(pivot, rest)])) for p, r in reduced]
        reduced.append((pivot, rest))
    pivots = dict(reduced)
    free = [j for j in range(width) if j not in pivots]
    return [
        [-pivots[j][f] for f in free]
        if j in pivots
        else [Fraction(f == j) for f in free]
        for j in range(width)
    ]


def _reduced(vector: _Vector, basis: Sequence[tuple[int, _Vector]]) -> _Vector:
    """Subtract multiples of vectors so that each one's leading place is zero."""
    rest = vector
    for lead, other in basis:
        if rest[lead]:
            factor = rest[lead] / other[lead]
            rest = [x - factor * y for x, y in zip(rest, other, strict=True)]
    return rest
