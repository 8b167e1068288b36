"""Terms: what they refuse, and what their digest covers."""

import pytest

from discreet.codec.messages import MAX_ENTRIES
from discreet.errors import InputError
from discreet.secagg.terms import Terms, listed


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"plan_digest": b"short"}, "32 bytes"),
        ({"length": 0}, "between 1 and"),
        ({"length": 2**40}, "between 1 and"),
        ({"min_survivors": 1}, "one site has no cover"),
        ({"colluders": 3}, "two honest ones"),
        ({"colluders": -1}, "two honest ones"),
        ({"identities": {1: bytes(32)}}, "names 1 sites"),
        ({"identities": dict.fromkeys(range(5), bytes(32))}, "site numbers"),
        ({"identities": dict.fromkeys(range(1, 6), bytes(31))}, "key of 32 bytes"),
        ({"identities": dict.fromkeys(range(1, 6), bytes(32))}, "same identity"),
    ],
)
def test_terms_that_protect_nobody_are_refused(changes, match):
    good = {"plan_digest": bytes(32), "length": 3, "min_survivors": 4}
    with pytest.raises(InputError, match=match):
        Terms(**{**good, **changes})


def test_every_term_changes_the_digest():
    identities = {s: bytes([s]) * 32 for s in range(1, 6)}
    good = {"plan_digest": bytes(32), "length": 3, "min_survivors": 4, "colluders": 0}
    variants = [
        {},
        {"plan_digest": b"p" * 32},
        {"length": 4},
        {"min_survivors": 5},
        {"colluders": 1},
        {"identities": identities},
        {"identities": {**identities, 5: b"x" * 32}},
    ]
    digests = {Terms(**{**good, **v}).digest for v in variants}
    assert len(digests) == len(variants)


def test_the_terms_say_which_coordinator_they_withstand(federation):
    assert federation().terms.coordinator == "curious"
    assert (
        federation(n=6, min_survivors=5, signed=True).terms.coordinator == "malicious"
    )


def test_a_set_that_no_message_could_hold_is_not_hashed():
    with pytest.raises(ValueError, match="at most"):
        listed(range(MAX_ENTRIES + 1))
