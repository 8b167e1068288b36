"""Every state goes through bytes, as if each message met a new process."""

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.secagg.coordinator import RevealedSum, invite
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    SavedStateError,
)
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms
from vectors.generate_secagg import SavedSite

STEPS = ["share", "mask", "confirm", "reveal"]


def converse(f, *, silent_after=()):
    """Run a federation whose sites are bytes between two messages."""
    ends = {
        s: SavedSite(s, f.terms, lambda s=s: f.vectors[s], f.entropy, f.keys.get(s))
        for s in f.sites
    }
    coordinator, messages = invite(f.sites, terms=f.terms, entropy=f.entropy)
    states = {}
    for rounds in range(len(f.steps)):
        for site, message in messages.items():
            if (rounds, site) in silent_after:
                continue
            if rounds == 0:
                states[site], answer = ends[site].join(message)
            else:
                states[site], answer = ends[site].receive(states[site], message)
            coordinator.receive(site, answer)
        result = coordinator.advance()
        if isinstance(result, RevealedSum):
            return ends, states, messages, result
        coordinator, messages = result
    raise AssertionError("the conversation never ended")


@pytest.mark.parametrize("signed", [False, True])
def test_a_process_a_message_gives_the_same_sum(federation, signed):
    f = federation(n=5, min_survivors=4, signed=signed)
    _, _, _, opened = converse(f)
    assert opened.total.tolist() == f.sum_of(f.sites)


def test_a_process_a_message_with_a_silent_site(federation):
    f = federation(n=5, min_survivors=4, signed=True)
    _, _, _, opened = converse(f, silent_after={(2, 3)})
    assert opened.contributors == (1, 2, 4, 5)
    assert opened.total.tolist() == f.sum_of(opened.contributors)


def test_a_second_unmask_request_is_refused(federation):
    f = federation(n=5, min_survivors=4)
    ends, states, requests, _ = converse(f)
    with pytest.raises(FaultyCoordinatorError, match="answers once"):
        ends[1].receive(states[1], requests[1])


@pytest.mark.parametrize("step", STEPS)
def test_site_states_survive_their_bytes(federation, step):
    f = federation(signed=True).until(step)
    raw = f.states[1].encode()
    assert restore_site(raw, f.terms).encode() == raw


@pytest.mark.parametrize("step", STEPS)
def test_states_of_other_terms_or_cut_short_are_refused(federation, step):
    f = federation(signed=True).until(step)
    other = Terms(bytes(32), length=3, min_survivors=4)
    raw = f.states[1].encode()
    with pytest.raises(SavedStateError, match="other terms"):
        restore_site(raw, other)
    for bad in (b"", raw[:2], raw[:-1], raw + b"\0", b"\2\x01" + raw[2:]):
        with pytest.raises(SavedStateError):
            restore_site(bad, f.terms)


def test_a_state_of_another_site_is_refused(federation):
    f = federation().until("share")
    end = SavedSite(2, f.terms, lambda: np.zeros(3, np.int64), Seeded(b"x"))
    with pytest.raises(SavedStateError, match="site 1"):
        end.receive(f.states[1].encode(), f.messages[2])


def test_a_site_that_lost_its_identity_cannot_go_on(federation):
    f = federation(signed=True).until("confirm")
    end = SavedSite(1, f.terms, lambda: f.vectors[1], Seeded(b"x"))
    with pytest.raises(SavedStateError, match="identity"):
        end.receive(f.states[1].encode(), f.messages[1])
