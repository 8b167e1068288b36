"""One row per site beside the pooled one: of one's own frame, or released and charged.

A site's row is its own class histogram: the plan's groups are the sites' names, and every
row of a site is in the group of its name. The pooled row is their sum. So there is one
release: an example is in one cell of one row (L1 = 1 when it is added or removed, 2 when
it is replaced), and the pooled row is computed from the rows. Its noise is that of as many
cells as there are sites; releasing it by itself as well would cost a second loss.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from discreet.data.examples import Examples
from discreet.data.sources import read
from discreet.errors import IgnoredWarning, InputError
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.protocol import PROTOCOLS
from discreet.transport.inputs import (
    ColumnNames,
    Scorer,
    Sources,
    is_one_source,
    sites_of,
)

OWN_BINS: Final = 512
"""Of one's own data, which no bin has to hide: binning errors far below the others."""

MOST_SITES: Final = 300
"""Every site sends every row's bins: memory grows with the square of their number."""


class Rows(NamedTuple):
    """The sites, and the groups whose rows are wanted, None for none."""

    sites: list[Examples]
    groups: Sequence[str] | None


def sites_and_rows(  # noqa: PLR0913 - what evaluate was given
    sources: Sources | Any,
    private: PrivacyModel,
    *,
    named: bool,
    site: str | None,
    per_site: bool | None,
    groups: Sequence[str] | None,
    classes: Sequence[str] | None,
    columns: ColumnNames,
    weight: str | None,
    scorer: Scorer | None = None,
) -> Rows:
    """Return the sites that are counted, and whose rows are released.

    Args:
        sources: what the caller gave.
        private: the privacy model.
        named: whether the caller named it. If not, one source is the caller's own data.
        site: the column of one source that says which site a row belongs to.
        per_site: whether every site has a row; by default where ``site`` is given and no
            privacy model is named.
        groups: the groups that the caller declared.
        classes: as for ``discreet.read``.
        columns: likewise.
        weight: likewise.
        scorer: what scores rows of features, where they have no scores yet.
    """
    if site is None:
        sites = sites_of(
            sources, classes=classes, columns=columns, weight=weight, scorer=scorer
        )
        if per_site:
            _check_rows(private, named=named, groups=groups)
            return _each_its_row(sites)
        own = is_one_source(sources) and not named
        return Rows(sites, own_groups(sites[0]) if own and groups is None else groups)
    rows = not named if per_site is None else per_site
    if rows:
        _check_rows(private, named=named, groups=groups)
    elif per_site is None:
        warnings.warn(
            "only the pooled result is released: one row per site tells more, and is "
            "charged for when you ask with per_site=True",
            IgnoredWarning,
            stacklevel=3,
        )
    whole = _whole(
        sources, site, classes=classes, columns=columns, weight=weight, scorer=scorer
    )
    split = whole.by_group()
    if not split:
        raise InputError("the frame has no rows")
    if not PROTOCOLS[private.carried_by].between_sites:  # one holder: sites are groups
        return Rows([whole], tuple(split) if rows else groups or [])
    sites = list(split.values())
    return _each_its_row(sites) if rows else Rows(sites, groups)


def _whole(
    source: Any,
    site: str,
    *,
    classes: Sequence[str] | None,
    columns: ColumnNames,
    weight: str | None,
    scorer: Scorer | None,
) -> Examples:
    if not is_one_source(source):
        raise InputError(
            "site= names a column of one frame or file: give that frame itself; in a "
            "list every entry is a site already"
        )
    if isinstance(source, Examples):
        raise InputError(
            "site= names a column of a frame or file: Examples have no columns; make a "
            "list with one Examples per site"
        )
    if columns.get("group") is not None:
        raise InputError(
            "site= and group= both tell rows apart: evaluate once by site and once by "
            "group"
        )
    named: ColumnNames = {**columns, "group": site}
    if scorer is not None:
        return scorer.read(source, name=None, classes=classes, weight=weight, **named)
    return read(source, classes=classes, weight=weight, **named)


def own_groups(examples: Examples) -> tuple[str, ...] | None:
    """Return the groups of one's own data: there they may be read from the rows."""
    return tuple(examples.by_group()) if examples.grouped else None


def _check_rows(
    private: PrivacyModel, *, named: bool, groups: Sequence[str] | None
) -> None:
    """Refuse rows that would give away what the privacy model hides."""
    if groups:
        raise InputError(
            "one row per site and one per group are two evaluations: leave out groups=, "
            "or say per_site=False"
        )
    if named and private.protects is None:
        raise InputError(
            "one row per site would reveal every site's own exact counts, which "
            f"{private.name} exists to hide: choose a model with noise, such as "
            "privacy='distributed', or leave out privacy= for data that are your own"
        )


def _each_its_row(sites: Sequence[Examples]) -> Rows:
    if len(sites) > MOST_SITES:
        raise InputError(
            f"{len(sites)} sites are too many for one row each, at most {MOST_SITES}: "
            "name the column of hospitals, not of patients, join sites, or leave out "
            "site= for the pooled result alone"
        )
    named = []
    for place, site in enumerate(sites, 1):
        if site.grouped:
            raise InputError(
                "one row per site and one per group are two evaluations: read the sites "
                "without group="
            )
        name = site.name or f"site {place}"
        own = site.in_group(name)
        own.name = name
        named.append(own)
    return Rows(named, tuple(site.name for site in named))
