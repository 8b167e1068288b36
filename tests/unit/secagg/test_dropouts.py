"""Sites that go silent: who is named, and sparse graphs; sums: test_secagg_sum."""

import pytest

from discreet.secagg.errors import TooFewHoldersError, TooFewSitesError
from secagg_federation import STEPS

MODES = [
    pytest.param({"n": 6, "min_survivors": 5, "signed": False}, id="curious"),
    pytest.param({"n": 6, "min_survivors": 5, "signed": True}, id="malicious"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", STEPS)
def test_beyond_the_bound_the_round_and_the_count_are_named(federation, mode, step):
    f = federation(**mode)
    step = step if step in f.steps else "reveal"
    with pytest.raises(TooFewSitesError, match=f"after the {step} round") as caught:
        f.through(silent=[(step, 2), (step, 5)])
    error = caught.value
    assert (error.during, error.present, error.needed) == (step, 4, 5)


def test_a_site_without_enough_holders_left_sends_no_vector(federation):
    # Numbers of a sparse graph: the site chose its holders, and they are gone.
    f = federation(n=120, min_survivors=60, length=1).until("share").answer("share")
    holders = list(f.states[1].agreed)
    f.deliver(without=holders[f.states[1].threshold - 1 :]).advance()
    with pytest.raises(TooFewHoldersError, match="share round"):
        f.act("mask", 1)


@pytest.mark.parametrize(
    ("terms", "silent", "outside"),
    [
        (
            {"n": 130, "min_survivors": 90, "colluders": 5},
            [("advertise", 7), ("share", 11), *(("mask", s) for s in range(60, 85))],
            {7, 11, *range(60, 85)},
        ),
        (
            {"n": 101, "min_survivors": 97, "signed": True},
            [("share", 3), ("mask", 5), ("confirm", 7), ("reveal", 9)],
            {3, 5},
        ),
    ],
    ids=["curious", "malicious"],
)
def test_a_sparse_graph_with_silent_sites_gives_the_exact_sum(
    federation, terms, silent, outside
):
    f = federation(**terms, length=1)
    assert f.terms.parameters(f.n).degree < f.n - 1
    opened = f.through(silent=silent)
    assert set(f.sites) - set(opened.contributors) == outside
    assert opened.total.tolist() == f.sum_of(opened.contributors)
