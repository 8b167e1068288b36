"""How many sites' noise a sum can be sure of."""

from __future__ import annotations

from discreet.errors import PlanError, ReleaseError


def check_honest(honest: int) -> None:
    """Refuse a plan in which nobody is sure to add noise.

    ``honest`` is min_survivors - colluders: the shares that are in every opened
    sum and that no colluding site knows. It comes from the plan, never from a
    count that a coordinator reports.
    """
    if honest < 1:
        raise PlanError(
            "noise is sized by min_survivors - colluders, which must be at least "
            "1; ask for more survivors or tolerate fewer colluders"
        )


def check_contributors(contributors: int, honest: int) -> None:
    """Refuse a sum that holds fewer shares than its noise was sized for."""
    if contributors < honest:
        raise ReleaseError(
            f"{contributors} sites contributed, but the noise was sized for at "
            f"least {honest}; this sum must not be opened"
        )
