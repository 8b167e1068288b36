"""False reports: what they move, searched; totals that no honest population gives."""

import numpy as np
import pytest

from bench.poisoning import NAMES, evaluated, values
from discreet.report.poisoning import attacks


def population(size=60_000, prevalence=0.3, apart=2.0):
    rng = np.random.default_rng(11)
    labels = (rng.random(size) < prevalence).astype(np.int64)
    logits = rng.normal(apart * labels - 1.5, 1)
    return 1 / (1 + np.exp(-logits)), labels


@pytest.fixture(scope="module")
def result():
    return evaluated(*population(), 2, np.random.default_rng(1))


def test_no_adversary_of_a_search_moves_a_metric_by_more_than_is_stated(result):
    total = result.source.releases[-1].total
    false = int(np.ceil(0.01 * total.sum()))
    rng = np.random.default_rng(2)
    start = values(result, np.zeros_like(total))
    stated = np.array([result.influence()[name] for name in NAMES])
    largest = np.zeros(len(NAMES))
    for _ in range(25):
        chosen = rng.choice(total.size, int(rng.integers(1, 4)), replace=False)
        sent = np.zeros_like(total)
        sent[chosen] = np.minimum(false // chosen.size, total[chosen])
        moved = np.abs(values(result, sent) - start)
        assert (moved <= stated).all()
        largest = np.maximum(largest, moved)
    assert (largest > 0.1 * stated).all()  # the amount is not idle


def test_three_times_as_many_false_reports_exceed_what_is_stated(result):
    """The failing twin: the amount is of 1%, and not of any number."""
    total = result.source.releases[-1].total
    start = values(result, np.zeros_like(total))
    stated = np.array([result.influence()[name] for name in NAMES])
    moved = [
        np.abs(values(result, sent) - start)
        for k, sent in enumerate(attacks(total, int(0.05 * total.sum())))
        if k % 4 == 0
    ]
    assert (np.max(moved, axis=0) > stated).any()


def test_false_reports_are_as_many_as_asked_and_none_is_invented(result):
    total = result.source.releases[-1].total
    for false in (1, 600, int(0.3 * total.sum())):
        for sent in attacks(total, false):
            assert sent.sum() == false
            assert ((sent >= 0) & (sent <= total)).all()


def flagged(result, total):
    from dataclasses import replace

    from discreet.report.build import open_release

    release = replace(result.source.releases[-1], total=total.astype(np.int64))
    (part,) = open_release(result.plan, [release]).parts().values()
    return any("no honest population" in note for note in part.notes)


def test_honest_totals_are_not_called_impossible(result):
    assert not any("no honest" in note for note in result.fit.notes)
    rng = np.random.default_rng(3)
    scores, labels = population(20_000)
    for wanted in (scores, np.round(scores), np.full(scores.size, 0.4)):
        for epsilon in (1, 5):
            one = evaluated(wanted, labels, epsilon, rng)
            assert not flagged(one, one.source.releases[-1].total)


def test_totals_that_no_honest_population_gives_are_flagged(result):
    honest = result.source.releases[-1].total
    one = honest.copy()
    one[7] += int(0.05 * honest.sum())  # 5% more of one symbol
    assert flagged(result, one)
    every_other = np.where(np.arange(honest.size) % 2 == 0, 2, 0) * (
        honest.sum() // 128
    )
    assert flagged(result, every_other)
    assert not flagged(result, np.full(honest.size, honest.sum() // honest.size))


def test_an_evaluation_without_reports_says_nothing_of_them():
    import discreet

    sites = [discreet.Examples(*population(5000))]
    own = discreet.evaluate(sites, privacy=discreet.LocalDP(4), examples=5000)
    assert own.influence() == {}
    assert "false" not in own.to_text().partition("Claim")[0]
