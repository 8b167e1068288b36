"""A site's receipt: its signed word that its ledger was charged for a plan.

A report shows what was opened; that every site was charged for it stands in the sites'
ledgers, which stay where they are. A receipt is what a site may hand out of its own: the
plan, the loss, the unit, when, and the ledger's own name of that joining; nothing about
its data and not its population's name. A reviewer puts the sites' receipts into the
report. A receipt shows that the holder of the roster's key said so. It does not show that
the ledger is whole (``discreet ledger verify``, at the site), nor which of several sessions
of one plan it was for: a ledger names each joining by that joining's fresh keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.codec.documents import canonical, from_table, to_table
from discreet.errors import ReleaseError
from discreet.plan.plan import Plan
from discreet.privacy.account import Use
from discreet.privacy.loss import fraction_of
from discreet.report.record import Sign

SIGNED_RECEIPT: Final = b"discreet receipt 1\n"
MOST_RECEIPTS: Final = 4096
"""Of one report: each has a signature to be checked."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a site says that its ledger was charged, and its signature."""

    site: str
    plan: str
    joining: str
    """What the ledger calls this joining of a session."""
    round: int
    loss: str
    unit: str
    at: str
    """When it was charged, UTC."""
    signature: str = ""

    def __post_init__(self) -> None:
        texts = (value for value in astuple(self) if isinstance(value, str))
        if not all(text.isprintable() for text in texts):
            raise ReleaseError("this is no receipt of a ledger: it was damaged")

    @classmethod
    def of(cls, use: Use, at: str, site: str) -> Self:
        """Return the receipt of a charge, not signed yet."""
        return cls(
            site,
            use.plan.hex(),
            use.session.hex(),
            use.round,
            str(use.loss),
            str(use.unit or ""),
            at,
        )

    def _message(self) -> bytes:
        return SIGNED_RECEIPT + canonical(to_table(replace(self, signature="")))

    def signed(self, sign: Sign) -> Self:
        """Return it with the site's signature."""
        return replace(self, signature=sign(self._message()).hex())

    def check(self, plan: Plan) -> None:
        """Refuse what is not of this plan, or not signed by its site.

        Raises:
            ReleaseError: says what does not fit.
        """
        if self.plan != plan.digest().hex():
            raise ReleaseError("a receipt is for another plan than the report's")
        keys = {} if plan.roster is None else {m.name: m.key for m in plan.roster.sites}
        if self.site not in keys:
            raise ReleaseError(
                "a receipt is of a site that is not in the plan's roster"
            )
        if not 0 <= self.round < len(plan.rounds):
            raise ReleaseError("a receipt is of a round that the plan does not have")
        share = plan.rounds[self.round].budget
        if self.loss != str(fraction_of(plan.privacy.loss, share)):
            raise ReleaseError("a receipt says another loss than the plan")
        if self.unit != str(plan.privacy.protects or ""):
            raise ReleaseError("a receipt says another unit than the plan")
        try:
            key = Ed25519PublicKey.from_public_bytes(keys[self.site])
            signature = bytes.fromhex(self.signature)
            key.verify(signature, self._message())
        except (InvalidSignature, ValueError):
            raise ReleaseError("a receipt's signature does not fit") from None
        if signature.hex() != self.signature:  # fromhex takes spaces and capitals too
            raise ReleaseError("a receipt's signature does not fit")


def read_receipts(tables: Sequence[object], plan: Plan) -> tuple[Receipt, ...]:
    """Return the receipts of a report, each checked, by site and round."""
    if len(tables) > MOST_RECEIPTS:
        raise ReleaseError(f"a report holds at most {MOST_RECEIPTS:,} receipts")
    found = [
        from_table(Receipt, table, "a receipt", error=ReleaseError) for table in tables
    ]
    if len(set(found)) != len(found):
        raise ReleaseError("the report holds a receipt twice")
    for receipt in found:
        receipt.check(plan)
    return tuple(sorted(found, key=lambda r: (r.site, r.round, r.at)))
