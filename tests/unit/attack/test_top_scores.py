"""The guess from public scores alone, against its definition by hand."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.attack.top_scores import TOP, guess_top_scores
from discreet.data.examples import Examples
from discreet.errors import InputError


def _random_sites(rng: np.random.Generator) -> list[Examples]:
    sites = []
    for size, rate in ((40, 0.5), (25, 0.1), (1, 0.9)):
        y = rng.random(size) < rate
        sites.append(Examples(np.round(rng.random(size) * 0.5 + y * 0.4, 2), y))
    return sites


def test_precision_and_recall_are_those_of_the_top_k_taken_one_by_one() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    labels = np.array([1, 0, 1, 1, 0])
    found = guess_top_scores([Examples(scores, labels)], [1, 2, 3, 5])
    assert [row.in_order.positives for row in found] == [1, 1, 2, 3]
    assert [row.in_order.precision for row in found] == [1, 0.5, 2 / 3, 3 / 5]
    assert [row.in_order.recall for row in found] == [1 / 3, 1 / 3, 2 / 3, 1]


def test_the_split_over_sites_does_not_matter_when_scores_come_in_order() -> None:
    rng = np.random.default_rng(3)
    s, y = rng.random(60), rng.random(60) < 0.4
    one = guess_top_scores([Examples(s, y)], [5, 20])
    three = guess_top_scores([Examples(s[i::3], y[i::3]) for i in range(3)], [5, 20])
    assert [r.in_order for r in one] == [r.in_order for r in three]


def test_shuffled_guesses_succeed_as_often_as_simulated_shuffles() -> None:
    # Mean of 20,000 shuffles of at most 12 hits: sd below 2/sqrt(20,000) = 0.014.
    rng = np.random.default_rng(4)
    sites = _random_sites(rng)
    k = 12
    expected = guess_top_scores(sites, [k])[0].shuffled.positives
    arrays = [site.to_arrays() for site in sites]
    pooled = np.concatenate([s for s, _ in arrays])
    total = 0
    for _ in range(20_000):
        shuffled = np.concatenate([rng.permutation(y) for _, y in arrays])
        top = np.lexsort((rng.random(pooled.size), -pooled))[:k]
        total += int(shuffled[top].sum())
    assert total / 20_000 == pytest.approx(expected, abs=6 * 0.014)


def test_shuffling_hides_nothing_in_sites_with_one_example() -> None:
    rng = np.random.default_rng(5)
    s, y = rng.random(30), rng.random(30) < 0.5
    sites = [Examples([a], [b]) for a, b in zip(s, y, strict=True)]
    for row in guess_top_scores(sites, [1, 10, 30]):
        assert row.shuffled == row.in_order


def test_ties_at_the_end_count_as_many_positives_as_to_be_expected() -> None:
    site = Examples([0.9, 0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0, 0])
    assert guess_top_scores([site], [3])[0].in_order.positives == 1 + 2 * 0.25


def test_k_beyond_the_examples_has_no_row() -> None:
    site = Examples(np.linspace(0, 1, 60), np.arange(60) % 2)
    assert [row.top for row in guess_top_scores([site])] == [k for k in TOP if k <= 60]


def test_no_positives_and_no_guesses_are_refused() -> None:
    site = Examples([0.1, 0.2], [0, 0])
    with pytest.raises(InputError, match="no positives"):
        guess_top_scores([site], [1])
    with pytest.raises(InputError, match="at least 1"):
        guess_top_scores([Examples([0.1, 0.2], [0, 1])], [0])
