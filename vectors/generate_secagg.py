# ruff: noqa: INP001 - a script beside its data, not a package
"""Write the test vectors of secure aggregation into ``vectors/secagg``.

    python vectors/generate_secagg.py

All randomness is seeded, so that the files come out the same each time. A change
in them is a change of the protocol on the wire and needs a new version byte.

    shamir.json, masks.json     the primitives
    session_*.json              whole sessions: every message, every site's saved state
    bad_*.json                  a site's state, or the rounds that a coordinator has
                                closed; a message; and the error that must come
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from discreet.entropy import Entropy, Seeded
from discreet.secagg import keys, shamir
from discreet.secagg import site as steps
from discreet.secagg.coordinator import CoordinatorState, RevealedSum, invite
from discreet.secagg.keys import Purpose
from discreet.secagg.masks import expand
from discreet.secagg.messages import (
    Advert,
    BoxDelivery,
    Confirmation,
    KeyRoster,
    MaskedVector,
    RevealedShares,
    RevealRequest,
    SealedShares,
    Survivors,
    Withdrawal,
)
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms
from discreet.session.protocols.secure_sum import answer_of

HERE = Path(__file__).resolve().parent / "secagg"
SITES = range(1, 6)
MANY = range(1, 102)
"""More sites than hold for everybody: receipts travel."""
STEPS = ("advertise", "share", "mask", "confirm", "reveal")
PLAN = bytes(range(32))
Document = dict[str, Any]


def identity(site: int) -> Ed25519PrivateKey:
    """Return the signing key of a site; a test key, known to everybody."""
    return Ed25519PrivateKey.from_private_bytes(bytes([site]) * 32)


def terms_of(document: Document) -> Terms:
    """Read terms as the files hold them."""
    identities = document["identities"]
    if identities is not None:
        identities = {int(s): bytes.fromhex(k) for s, k in identities.items()}
    return Terms(
        bytes.fromhex(document["plan_digest"]),
        length=document["length"],
        min_survivors=document["min_survivors"],
        colluders=document["colluders"],
        identities=identities,
        everyone_signs=document["everyone_signs"],
    )


def described(
    *, signed: bool, sites: range = SITES, everyone_signs: bool = False
) -> Document:
    """Return the terms of the sessions as the files hold them."""
    identities = None
    if signed:
        identities = {
            str(s): identity(s).public_key().public_bytes_raw().hex() for s in sites
        }
    return {
        "plan_digest": PLAN.hex(),
        "length": 3,
        "min_survivors": len(sites) - 1,
        "colluders": 1,
        "identities": identities,
        "everyone_signs": everyone_signs,
    }


def vector_of(site: int) -> list[int]:
    """Return the vector of a site: small, negative and large entries."""
    return [site, -(10 ** (site % 10)), site % 10 * 2**50]


@dataclass(frozen=True)
class SavedSite:
    """A site that is bytes between two messages, as if each met a new process."""

    site: int
    terms: Terms
    vector: Callable[[], NDArray[np.int64]]
    entropy: Entropy
    identity: Ed25519PrivateKey | None = None

    def join(self, invitation: bytes) -> tuple[bytes, bytes]:
        """Answer an invitation; return the first state and the advert."""
        state, advert = steps.advertise(
            invitation,
            site=self.site,
            terms=self.terms,
            entropy=self.entropy,
            identity=self.identity,
        )
        return state.encode(), advert

    def receive(self, state: bytes, message: bytes) -> tuple[bytes, bytes]:
        """Answer a message; return the next state and the answer."""
        following, answer = answer_of(
            restore_site(state, self.terms),
            message,
            site=self.site,
            vector=self.vector,
            entropy=self.entropy,
            identity=self.identity,
        )
        return following.encode(), answer


def end_of(site: int, terms: Terms, step: str) -> SavedSite:
    """Return a site whose randomness depends on the step alone."""
    return SavedSite(
        site,
        terms,
        lambda: np.array(vector_of(site), dtype=np.int64),
        Seeded(b"vector/%d/" % site + step.encode()),
        None if terms.identities is None else identity(site),
    )


def opened_by(
    sites: Iterable[int], terms: Terms
) -> tuple[CoordinatorState, dict[int, bytes]]:
    """Return the coordinator of a session, whose nonce is the same each time."""
    invited = list(sites)
    seed = b"vector/many" if len(invited) > len(SITES) else b"vector/coordinator"
    return invite(invited, terms=terms, entropy=Seeded(seed))


def coordinator_after(
    rounds: Iterable[Mapping[str, str]], terms: Terms, sites: Iterable[int]
) -> CoordinatorState:
    """Return a coordinator that has closed these rounds, each site's word by site."""
    state, _ = opened_by(sites, terms)
    for answers in rounds:
        for site, sent in answers.items():
            state.receive(int(site), bytes.fromhex(sent))
        result = state.advance()
        if isinstance(result, RevealedSum):
            raise TypeError("the last round opens the sum, and is left to the caller")
        state, _ = result
    return state


def session(*, signed: bool, everyone_signs: bool = False, silent: int = 3) -> Document:
    """Play a session in which one site goes silent after it has shared."""
    document = described(signed=signed, everyone_signs=everyone_signs)
    terms = terms_of(document)
    collecting, messages = opened_by(SITES, terms)
    states: dict[int, bytes] = {}
    rounds = []
    steps = iter(s for s in STEPS if signed or s != "confirm")
    while True:
        step = next(steps)
        record: Document = {"step": step, "sites": {}}
        for site, message in messages.items():
            if site == silent and step not in ("advertise", "share"):
                continue
            entry = {"received": message.hex()}
            end = end_of(site, terms, step)
            if step == "advertise":
                states[site], answer = end.join(message)
            else:
                entry["state"] = states[site].hex()
                states[site], answer = end.receive(states[site], message)
            entry["sent"] = answer.hex()
            record["sites"][str(site)] = entry
            collecting.receive(site, answer)
        rounds.append(record)
        result = collecting.advance()
        if isinstance(result, RevealedSum):
            return {
                "terms": document,
                "vectors": {str(s): vector_of(s) for s in SITES},
                "rounds": rounds,
                "session": result.session.hex(),
                "contributors": list(result.contributors),
                "total": result.total.tolist(),
            }
        collecting, messages = result


def many() -> Document:
    """Play a signed session on a sparse graph, as far as the confirmations."""
    document = described(signed=True, sites=MANY)
    terms = terms_of(document)
    collecting, messages = opened_by(MANY, terms)
    states: dict[int, bytes] = {}
    rounds = []
    for step in STEPS[:4]:
        record: Document = {"step": step, "sites": {}}
        for site, message in messages.items():
            end = end_of(site, terms, step)
            before = states.get(site, b"")
            if step == "advertise":
                states[site], answer = end.join(message)
            else:
                states[site], answer = end.receive(before, message)
            collecting.receive(site, answer)
            record["sites"][str(site)] = {
                "state": before.hex(),
                "received": message.hex(),
                "sent": answer.hex(),
            }
        rounds.append(record)
        result = collecting.advance()
        if isinstance(result, RevealedSum):
            raise TypeError("a signed session does not open before its last step")
        collecting, messages = result
    return {"terms": document, "rounds": rounds}


def primitives() -> dict[str, Document]:
    """Return vectors of the sharing, of key derivation and of masks."""
    secret, run = bytes(range(100, 132)), bytes(range(200, 232))
    points = [1, 2, 7, 100]
    shares = shamir.deal(secret, to=points, threshold=3, entropy=Seeded(b"shamir"))
    derived = {
        "pair_mask_3_8": keys.pair_mask_key(secret, run, 8, 3),
        "self_mask_3": keys.derive_key(secret, Purpose.SELF_MASK, run, 3),
        "share_box_3_to_8": keys.derive_key(secret, Purpose.SHARE_BOX, run, 3, 8),
    }
    return {
        "shamir": {
            "prime": hex(shamir.PRIME),
            "secret": secret.hex(),
            "threshold": 3,
            "entropy": b"shamir".hex(),
            "shares": {str(x): share.hex() for x, share in shares.items()},
        },
        "masks": {
            "secret": secret.hex(),
            "session": run.hex(),
            "keys": {name: key.hex() for name, key in derived.items()},
            "masks": {
                name: [int(w) for w in expand(key, 5)] for name, key in derived.items()
            },
            "receipt_3_from_8": keys.receipt(secret, run, 3, 8).hex(),
            "seed_commitment_3": keys.seed_commitment(secret, run, 3).hex(),
        },
    }


def bad_cases(
    curious: Document, malicious: Document, sparse: Document, exact: Document
) -> dict[str, Document]:
    """Damage recorded messages; each must raise the error that is named."""
    cases: dict[str, Document] = {}

    def at_site(
        name: str, run: Document, step: str, error: str, forge: Callable[[bytes], bytes]
    ) -> None:
        entry = _round(run, step)["sites"]["1"]
        cases[f"bad_site_{name}"] = {
            "terms": run["terms"],
            "receiver": "site",
            "step": step,
            "state": entry.get("state"),
            "message": forge(bytes.fromhex(entry["received"])).hex(),
            "error": error,
        }

    def at_coordinator(
        name: str, run: Document, step: str, error: str, forge: Callable[[bytes], bytes]
    ) -> None:
        record = _round(run, step)
        past = STEPS[: STEPS.index(step)]
        cases[f"bad_coordinator_{name}"] = {
            "terms": run["terms"],
            "receiver": "coordinator",
            "step": step,
            "sites": [int(site) for site in run["rounds"][0]["sites"]],
            "before": [sent_in(each) for each in run["rounds"] if each["step"] in past],
            "sender": 1,
            "message": forge(bytes.fromhex(record["sites"]["1"]["sent"])).hex(),
            "error": error,
        }

    by = "FaultyCoordinatorError"
    at_site("version", curious, "share", by, lambda raw: b"\3" + raw[1:])
    at_site("truncated", curious, "mask", by, lambda raw: raw[:-1])
    at_site("oversized", curious, "reveal", by, lambda raw: raw + b"\0")
    at_site("small_roster", curious, "share", by, _small_roster)
    at_site("duplicated_key", curious, "share", by, _duplicated_key)
    at_site("changed_own_key", curious, "share", by, _changed_own_key)
    at_site("unsigned_key", malicious, "share", by, _changed_peer_key)
    at_site("other_session", curious, "mask", by, _other_session)
    at_site("withheld_share", curious, "mask", by, _withheld_share)
    at_site(
        "tampered_share", curious, "mask", "FaultySiteOrCoordinatorError", _flip_last
    )
    at_site("strange_receipt", sparse, "confirm", by, _strange_receipt)
    few = "TooFewHoldersError"
    at_site("few_receipts", sparse, "confirm", few, _few_receipts)
    at_site("false_receipts", sparse, "confirm", few, _false_receipts)
    at_site("few_survivors", curious, "reveal", by, _few_survivors)
    at_site("few_signatures", malicious, "reveal", by, _few_signatures)
    at_site("false_signature", malicious, "reveal", by, _flip_last)
    at_site("unsigned_exact_sum", exact, "reveal", by, _few_signatures)
    by = "FaultySiteError"
    at_coordinator("low_order_key", curious, "advertise", by, _low_order_key)
    at_coordinator("unsigned_advert", malicious, "advertise", by, _flip_last)
    at_coordinator("few_holders", curious, "share", by, _few_holders)
    at_coordinator("short_vector", curious, "mask", by, _short_vector)
    at_coordinator("other_session", curious, "mask", by, _other_session)
    at_coordinator("few_receipts", sparse, "mask", by, _missing_receipt)
    at_coordinator("false_confirmation", malicious, "confirm", by, _flip_last)
    at_coordinator("false_withdrawal", exact, "confirm", by, _false_withdrawal)
    at_coordinator("both_shares", curious, "reveal", by, _both_shares)
    at_coordinator("no_share", curious, "reveal", by, _no_share)
    return cases


def sent_in(record: Document) -> dict[str, str]:
    """Return what each site sent in a round, as the files hold it."""
    return {site: entry["sent"] for site, entry in record["sites"].items()}


def _round(run: Document, step: str) -> Document:
    return next(r for r in run["rounds"] if r["step"] == step)


def _adverts(raw: bytes) -> dict[int, Advert]:
    roster = KeyRoster(raw)
    return {site: roster.advert(site) for site in roster.sites}


def _small_roster(raw: bytes) -> bytes:
    adverts = _adverts(raw)
    return KeyRoster.of({s: adverts[s] for s in (1, 2, 3)}, signed=False).raw


def _duplicated_key(raw: bytes) -> bytes:
    adverts = _adverts(raw)
    adverts[3] = replace(adverts[3], mask_key=adverts[2].mask_key)
    return KeyRoster.of(adverts, signed=False).raw


def _changed_own_key(raw: bytes) -> bytes:
    adverts = _adverts(raw)
    adverts[1] = replace(adverts[1], mask_key=bytes([9]) * 32)
    return KeyRoster.of(adverts, signed=False).raw


def _changed_peer_key(raw: bytes) -> bytes:
    adverts = _adverts(raw)
    adverts[4] = replace(adverts[4], mask_key=bytes([9]) * 32)
    return KeyRoster.of(adverts, signed=True).raw


def _other_session(raw: bytes) -> bytes:
    return raw[:2] + bytes(32) + raw[34:]


def _withheld_share(raw: bytes) -> bytes:
    delivery = BoxDelivery.decode(raw)
    boxes = {s: box for s, box in delivery.boxes.items() if s != 4}
    return replace(delivery, boxes=boxes).encode()


def _flip_last(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


def _few_receipts(raw: bytes) -> bytes:
    return replace(Survivors.decode(raw), receipts={}).encode()


def _false_receipts(raw: bytes) -> bytes:
    survivors = Survivors.decode(raw)
    false = dict.fromkeys(survivors.receipts, bytes(keys.RECEIPT_SIZE))
    return replace(survivors, receipts=false).encode()


def _strange_receipt(raw: bytes) -> bytes:
    survivors = Survivors.decode(raw)
    stranger = min(set(survivors.survivors) - survivors.receipts.keys())
    receipts = {**survivors.receipts, stranger: bytes(keys.RECEIPT_SIZE)}
    return replace(survivors, receipts=receipts).encode()


def _missing_receipt(raw: bytes) -> bytes:
    masked = MaskedVector.decode(raw)
    return replace(masked, receipts=dict(list(masked.receipts.items())[1:])).encode()


def _few_survivors(raw: bytes) -> bytes:
    return replace(RevealRequest.decode(raw), survivors=(1, 2, 4)).encode()


def _few_signatures(raw: bytes) -> bytes:
    request = RevealRequest.decode(raw)
    kept = dict(list(request.signatures.items())[1:])
    return replace(request, signatures=kept).encode()


def _false_withdrawal(raw: bytes) -> bytes:
    confirmation = Confirmation.decode(raw)
    return Withdrawal(confirmation.session, confirmation.signature).encode()


def _low_order_key(raw: bytes) -> bytes:
    return replace(Advert.decode(raw), mask_key=bytes(32)).encode()


def _few_holders(raw: bytes) -> bytes:
    shares = SealedShares.decode(raw)
    return replace(shares, boxes={2: shares.boxes[2]}).encode()


def _short_vector(raw: bytes) -> bytes:
    masked = MaskedVector.decode(raw)
    return replace(masked, words=masked.words[:-1]).encode()


def _both_shares(raw: bytes) -> bytes:
    revealed = RevealedShares.decode(raw)
    both = {**revealed.key_shares, 2: revealed.seed_shares[2]}
    return replace(revealed, key_shares=both).encode()


def _no_share(raw: bytes) -> bytes:
    revealed = RevealedShares.decode(raw)
    beyond = shamir.PRIME.to_bytes(shamir.SHARE_SIZE, "big")
    return replace(revealed, seed_shares={**revealed.seed_shares, 2: beyond}).encode()


def build() -> dict[str, Document]:
    """Return every file by its name."""
    curious, malicious = session(signed=False), session(signed=True)
    # Nobody is silent: one signature too few would be enough under noise.
    exact = session(signed=True, everyone_signs=True, silent=0)
    return {
        **primitives(),
        "session_curious": curious,
        "session_malicious": malicious,
        "session_exact": session(signed=True, everyone_signs=True),
        **bad_cases(curious, malicious, many(), exact),
    }


def main() -> None:
    """Write the files."""
    HERE.mkdir(exist_ok=True)
    for name, document in build().items():
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        (HERE / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()
