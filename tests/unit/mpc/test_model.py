"""The model: what it promises and refuses; its noise, and that the parties add it."""

import math
from fractions import Fraction

import numpy as np
import pytest

import curator_oracles as oracle
from audits import audit_scores
from discreet.curator.weighted_count import pair_count_weights
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import InputError
from discreet.mpc.engine import SpuSimulator
from discreet.mpc.evaluate import noisy_auc
from discreet.mpc.model import ExactMPC, PartyNoise, areas_plan
from discreet.mpc.shares import PARTIES, encode
from discreet.noise.polya import PolyaShares, simulate_polya_difference
from discreet.plan.cohort import PublicFacts
from mpc_reference import Reference, decoded, program
from oracles import polya_pmf
from statistical_checks import ALPHA, fit_p_value

pytestmark = pytest.mark.long

CLAIM = areas_plan(ExactMPC(epsilon=1), PublicFacts(5), owners=3).claim(
    "simulated", sites=3
)
NOTHING = [np.zeros(2, dtype=np.int64)] * PARTIES


def noisy_program(rows):
    return program((rows,), epsilon=1)


def exact_pair(groups):
    """What the program would open of a ranking if nobody added noise."""
    scores, labels = oracle.to_arrays(groups)
    owner = encode(Examples(scores, labels, kind="logit"))
    noisy = noisy_program(owner.rows)
    return Reference().run(noisy, [owner], noise=NOTHING).values[1:]


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_the_revealed_pair_has_the_l1_sensitivity_that_the_noise_is_sized_by(rows):
    pairs = {g: exact_pair(g) for g in oracle.tied_rankings(rows)}
    largest = max(
        int(np.abs(pairs[g] - pairs[h]).sum())
        for g in pairs
        for h in oracle.neighbours(g, ties=True)
    )
    assert (
        largest == PartyNoise(rows, Fraction(1)).shares.sensitivity.l1 == 2 * rows - 1
    )


def test_the_pair_is_that_of_the_curators_pair_count():
    for groups in oracle.tied_rankings(4):
        n, m = oracle.class_counts(groups)
        balance, code = exact_pair(groups).tolist()
        table = pair_count_weights(4)
        assert code == table.codes[n]
        expected = (oracle.auc(groups) - Fraction(1, 2)) * int(table.weights[n])
        assert balance == (expected if n * m else 0)


ROWS, EPSILON = 2, Fraction(3, 2)
SCALE = Fraction(2 * ROWS - 1) / EPSILON


def shares(count, parties, seed, one=None):
    """Sums of so many parties' shares, drawn as the parties draw them."""
    entropy = Seeded(b"shares" + bytes([seed, parties]))
    drawn = one or PartyNoise(ROWS, EPSILON).shares
    blank = np.zeros(count, dtype=np.int64)
    return sum(drawn.protect(blank, entropy=entropy) for _ in range(parties))


def laplace_pmf(k):
    a = math.exp(-1 / float(SCALE))
    return (1 - a) / (1 + a) * a ** abs(k)


@pytest.mark.statistical
def test_two_honest_parties_alone_add_discrete_laplace_noise(seed):
    sample = shares(100_000, 2, seed)
    assert fit_p_value(sample, laplace_pmf, range(-10, 11)) > ALPHA


@pytest.mark.statistical
def test_shares_sized_for_three_honest_parties_would_fall_short(seed):
    one = PartyNoise(ROWS, EPSILON).shares
    thinner = PolyaShares(one.budget, one.sensitivity, honest=3)
    sample = shares(100_000, 2, seed, thinner)
    assert fit_p_value(sample, laplace_pmf, range(-10, 11)) < ALPHA


@pytest.mark.statistical
def test_three_parties_add_the_noise_that_the_estimate_assumes(seed):
    noise = PartyNoise(ROWS, EPSILON).noise()
    sample = shares(100_000, 3, seed)
    assert noise.shape == 1.5
    assert fit_p_value(sample, polya_pmf(noise), range(-10, 11)) > ALPHA
    assert fit_p_value(sample, laplace_pmf, range(-10, 11)) < ALPHA


def test_each_party_draws_its_own_two_integers():
    entropy, noise = Seeded(b"one"), PartyNoise(500, Fraction(1))
    assert len({tuple(noise.draw(entropy=entropy)) for _ in range(3)}) == 3
    assert noise.draw(entropy=SYSTEM).shape == (2,)


# Neighbours as far apart as any: the only positive, on top, becomes a negative.
NEIGHBOURS = (exact_pair(((1, 0), (0, 2))), exact_pair(((0, 2), (0, 1))))


def audited(entropy, *, epsilon_used):
    """Audit what the analyst sees less the noise of the one curious party."""
    one = PartyNoise(3, Fraction(epsilon_used)).shares
    scores = []
    for side in NEIGHBOURS:
        runs = np.tile(side, 50_000)
        for _ in range(PARTIES - 1):
            runs = one.protect(runs, entropy=entropy)
        seen = runs.reshape(-1, 2)
        # The likelihood ratio of Laplace noise: no attacker has a better score.
        distances = [np.abs(seen - centre).sum(axis=1) for centre in NEIGHBOURS]
        scores.append((distances[1] - distances[0]).astype(float))
    return audit_scores(*scores, alpha=ALPHA)


@pytest.mark.statistical
def test_an_audit_does_not_refute_the_claim(entropy):
    found = audited(entropy, epsilon_used=1)
    assert not found.refutes(Fraction(1))
    assert found.epsilon_at_least > 0.8  # it does see most of the loss


@pytest.mark.statistical
def test_an_audit_refutes_noise_that_is_a_third_too_small(entropy):
    assert audited(entropy, epsilon_used="1.5").refutes(Fraction(1))


def test_without_noise_the_pair_is_the_auc(rng):
    scores = rng.random(300).round(1)
    labels = (rng.random(300) < scores).astype(int)
    owner = encode(Examples(scores, labels))
    noisy, exact = noisy_program(300), program((300,), metrics=("auc",))
    revealed = Reference().run(noisy, [owner], noise=NOTHING).values[1:]
    found = noisy_auc(noisy.noise, revealed, CLAIM)
    auc = decoded(exact, Reference().run(exact, [owner]).values)["auc"]
    assert found.positives == labels.sum()
    assert found.shape.value == pytest.approx(auc, abs=1e-12)


@pytest.mark.statistical
def test_likely_errors_hold_95_percent_of_the_noise(rng):
    rows, positives, runs = 2000, 600, 1000
    parties = PartyNoise(rows, Fraction(1))
    distribution = parties.noise()
    weight = 2 * positives * (rows - positives)
    auc = 0.8
    truth = np.array([round((auc - 0.5) * weight), positives * rows])
    noise = simulate_polya_difference(
        distribution.gamma, distribution.shape, (runs, 2), rng
    )
    ends, seen = [], []
    for pair in (truth + noise).astype(np.int64):
        found = noisy_auc(parties, pair, CLAIM).shape
        ends.append(np.quantile(found.errors, [0.025, 0.975]))
        seen.append(found.value - auc)

    def covered(factor):
        low, high = factor * np.array(ends).T
        return np.mean((low <= seen) & (seen <= high))

    # A thousand runs at 95% have a standard deviation of 0.7 points: six of them.
    assert abs(covered(1.0) - 0.95) < 0.042
    assert covered(0.7) < 0.95 - 0.042


@pytest.mark.interop
@pytest.mark.mpc
def test_the_parties_add_exactly_the_noise_that_they_drew():
    scores, labels = [0.9, 0.8, 0.8, 0.1, 0.5], [1, 0, 1, 0, 1]
    owner = encode(Examples(scores, labels))
    noisy, entropy = noisy_program(5), Seeded(b"parties")
    noise = [noisy.noise.draw(entropy=entropy) for _ in range(PARTIES)]
    found = SpuSimulator().run(noisy, [owner], noise=noise)
    exact = Reference().run(noisy, [owner], noise=NOTHING).values[1:]
    assert found.values[1:].tolist() == (exact + sum(noise)).tolist()


def test_noisy_and_exact_results_are_not_mistaken_for_each_other():
    with pytest.raises(InputError, match="two integers"):
        noisy_auc(PartyNoise(3, Fraction(1)), np.zeros(3, dtype=np.int64), CLAIM)
    with pytest.raises(InputError, match="at least 2 rows"):
        PartyNoise(1, Fraction(1))
