"""Seeded streams of a label: what else is drawn moves none of them."""

import numpy as np

import discreet
from discreet.entropy import SYSTEM, Seeded, child
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.transport.simulation import run


def test_a_labels_stream_depends_on_the_seed_and_the_label_alone():
    one, two = Seeded(b"seed"), Seeded(b"seed")
    two(100)
    two.child("site 2")(7)
    assert one.child("site 1")(16) == two.child("site 1")(16)
    assert one.child("site 2")(16) != one.child("site 3")(16)
    assert Seeded(b"other").child("site 1")(16) != Seeded(b"seed").child("site 1")(16)
    assert Seeded(b"seed").child("site 1")(16) != Seeded(b"seed")(16)


def test_a_stream_goes_on_and_is_never_drawn_twice():
    entropy = Seeded(b"seed")
    assert entropy.child("site 1")(16) != entropy.child("site 1")(16)


def test_secret_bytes_have_no_labels():
    assert child(SYSTEM, "site 1") is SYSTEM


def test_the_noise_of_a_release_does_not_move_with_other_draws():
    rng = np.random.default_rng(1)
    sites = [discreet.Examples(rng.random(50), rng.integers(0, 2, 50)) for _ in "abc"]
    model = discreet.DistributedDP(1)
    plan = recommend(PublicFacts(150, 0.5), model, cohort=model.cohort(3))
    totals = []
    for before in (0, 3):
        entropy = Seeded(b"seed")
        for _ in range(before):
            entropy(32)
        totals.append(
            run(plan, sites, entropy=entropy).source.releases[0].total.tolist()
        )
    assert totals[0] == totals[1]
    again = run(plan, sites, entropy=entropy).source.releases[0].total.tolist()
    assert again != totals[0]
