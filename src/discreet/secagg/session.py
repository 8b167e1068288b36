"""What is bound together: the session, and the words that sites sign.

A session is a hash of the terms (with the plan's digest), the coordinator's nonce
and all advertised keys. Every key, mask and signature is bound to it, so that two
runs of one plan share nothing, and sites that were shown different rosters cannot
even read each other's shares.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.secagg.graph import Parameters
from discreet.secagg.messages import Advert, Roster, listed
from discreet.secagg.prg import tagged, tagged_hash
from discreet.secagg.terms import Terms


def session_id(terms: Terms, nonce: bytes, roster: Roster, chosen: Parameters) -> bytes:
    """Hash everything that the ends must agree on before a share is dealt."""
    graph = chosen.degree.to_bytes(4, "big") + chosen.threshold.to_bytes(4, "big")
    return tagged_hash(b"session", terms.digest, nonce, graph, roster.identified())


def advert_statement(terms: Terms, nonce: bytes, site: int, advert: Advert) -> bytes:
    """Return what a site signs about its keys."""
    keys = advert.channel_key + advert.mask_key
    return tagged(b"advert", terms.digest, nonce, site.to_bytes(4, "big"), keys)


def survivor_statement(
    session: bytes, sharers: Sequence[int], survivors: Sequence[int]
) -> bytes:
    """Return what a site signs about the others.

    Who shared is part of it: sites that were told different sets of sharers have
    different masks, and a coordinator could open the parts one by one.
    """
    return tagged(b"survivors", session, listed(sharers), listed(survivors))
