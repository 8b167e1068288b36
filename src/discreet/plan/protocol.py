"""The port of session protocols: how the answers of a plan travel.

A privacy model names its protocol. What a plan, a claim, a policy and a preview need to
know about it is asked here. The two halves that exchange messages, the coordinator's
and a site's, are in one file of ``discreet.session.protocols``.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.registry import Registry

if TYPE_CHECKING:
    from discreet.plan.plan import Plan


class SessionProtocol(ABC):
    """How answers travel, as far as those who carry no message ask."""

    name: ClassVar[str]
    between_sites: ClassVar[bool] = True
    """Whether answers come from separate sites over a network."""
    masked: ClassVar[bool] = False
    """Whether answers are added under masks, so that only their sum is revealed."""
    counts_alone: ClassVar[bool] = True
    """Whether a site can count before it hears from the others."""
    of_clients: ClassVar[bool] = False
    """Whether every answer is one example's report, sent by a client on its own."""
    titles: ClassVar[Mapping[str, str]] = {}
    """What a site does in each step, for people."""
    instead_of_a_plan: ClassVar[str] = ""
    """What to use where no plan file is written, as a sentence."""

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """Return the names of a round's steps, in order."""
        del plan
        return ()

    def check(self, plan: Plan) -> None:
        """Raise ``PlanError`` for a plan that separate sites cannot carry out."""
        del plan
        raise PlanError(f"separate sites do not carry out a plan by {self.name}")

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """Return what is revealed, and to whom."""
        cells, noisy, further = counted(plan)
        if self.masked:
            seen = f"the sum over {sites} sites of {cells:,} {noisy}counts of examples"
        else:
            seen = (
                f"each of the {sites} sites' own {cells:,} {noisy}counts of examples, "
                "to the coordinator"
            )
        return (seen, *further, "which sites took part")

    def assumptions(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """Return what the promise rests on because answers travel in this way."""
        del plan, sites
        return ()

    def run(self, plan: Plan, sites: Sequence[Examples], *, entropy: Entropy) -> Any:
        """Return the result of a plan that no session carries out; None otherwise."""
        del plan, sites, entropy


def counted(plan: Plan) -> tuple[int, str, tuple[str, ...]]:
    """Return the counts of a plan, whether they are noisy, and its further numbers."""
    beside = [item for r in plan.rounds for item in r.statistic.beside_counts.items()]
    cells = sum(r.statistic.size for r in plan.rounds) - sum(n for _, n in beside)
    noisy = "" if plan.privacy.protects is None else "noisy "
    return cells, noisy, tuple(f"{n} further {noisy}numbers {of}" for of, n in beside)


class InPlace(SessionProtocol):
    """Nothing travels: whoever holds the data publishes."""

    name: ClassVar[str] = "publication in place"
    between_sites: ClassVar[bool] = False

    def disclosures(self, plan: Plan, sites: int) -> tuple[str, ...]:
        """The published counts."""
        del sites
        cells, noisy, _ = counted(plan)
        return (f"{cells:,} {noisy}counts of examples",)


PROTOCOLS: Final[Registry[type[SessionProtocol]]] = Registry(
    "session protocol",
    {
        "secure-sum": "discreet.session.protocols.secure_sum:SecureSum",
        "relay": "discreet.session.protocols.relay:Relay",
        "ranks": "discreet.session.protocols.ranks:Ranks",
        "shares": "discreet.mpc.model:SecretShares",
        "in-place": "discreet.plan.protocol:InPlace",
        "reports": "discreet.models.reports:Reports",
    },
)
"""Every protocol that a privacy model can name, also one from another package."""
