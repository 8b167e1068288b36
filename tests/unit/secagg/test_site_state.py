"""Every state goes through bytes, as if each message met a new process."""

import pytest

from discreet.entropy import Seeded
from discreet.secagg.errors import FaultyCoordinatorError, SavedStateError
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms
from vectors.generate_secagg import SavedSite

STEPS = ["share", "mask", "confirm", "reveal"]


def saved(f, site):
    return SavedSite(site, f.terms, lambda: f.vectors[site], Seeded(b"x"))


def test_a_second_unmask_request_is_refused(federation):
    f = federation(n=5, min_survivors=4).until("reveal")
    finished, _ = f.act("reveal", 1)
    with pytest.raises(FaultyCoordinatorError, match="answers once"):
        saved(f, 1).receive(finished.encode(), f.messages[1])


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
    with pytest.raises(SavedStateError, match="site 1"):
        saved(f, 2).receive(f.states[1].encode(), f.messages[2])


def test_a_site_that_lost_its_identity_cannot_go_on(federation):
    f = federation(signed=True).until("confirm")
    with pytest.raises(SavedStateError, match="identity"):
        saved(f, 1).receive(f.states[1].encode(), f.messages[1])
