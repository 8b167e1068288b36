"""The plaintext oracle against the definitions by brute force, and what engines refuse."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from discreet.data.examples import Examples
from discreet.errors import InputError, UndefinedMetricWarning
from discreet.mpc.engine import SpuSimulator
from discreet.mpc.model import AREAS
from discreet.mpc.shares import encode
from mpc_reference import ROWS, Reference, decoded, program


def areas(*sites, padded_to=None, **model):
    owners = [encode(Examples(*site), padded_to=padded_to) for site in sites]
    sizes = (owner.rows for owner in owners)
    asked = program(sizes, hide_sizes=padded_to is not None, **model)
    return decoded(asked, Reference().run(asked, owners).values)


@given(ROWS)
def test_areas_with_ties_equal_their_definitions(rows):
    scores, labels = zip(*rows, strict=True)
    expected = {
        "auc": oracles.auc_by_pairs(scores, labels),
        "average_precision": oracles.average_precision(scores, labels),
        "aupr": oracles.trapezoid_aupr(scores, labels),
    }
    assert areas((scores, labels)) == pytest.approx(expected, abs=1e-15)


@given(ROWS, st.integers(0, 12), st.randoms())
def test_how_rows_are_split_ordered_and_padded_does_not_matter(rows, cut, random):
    whole = areas(tuple(zip(*rows, strict=True)))
    assert areas(tuple(zip(*rows, strict=True)), padded_to=16) == whole
    random.shuffle(rows)
    cut = min(max(cut, 1), len(rows) - 1)
    parts = [tuple(zip(*part, strict=True)) for part in (rows[:cut], rows[cut:])]
    assert areas(*parts) == whole


@given(ROWS)
def test_without_equal_scores_both_versions_agree(rows):
    _, labels = zip(*rows, strict=True)
    scores = np.linspace(0.0, 1.0, len(rows))
    assert areas((scores, labels), ties="none") == areas((scores, labels))


def test_without_tie_handling_negatives_come_first_among_equal_scores():
    tied = [0.5] * 4
    assert areas((tied, [1, 1, 0, 0]), ties="none")["auc"] == 0.0
    assert areas((tied, [0, 0, 1, 1]), ties="none")["auc"] == 0.0
    assert areas((tied, [0, 0, 1, 1]))["auc"] == 0.5


@pytest.mark.parametrize(("ulps", "auc"), [(1, 1.0), (0, 0.5), (-1, 0.0)])
def test_one_ulp_decides_a_pair(ulps, auc):
    score = float(np.nextafter(0.7, 0.7 + ulps))
    assert areas(([0.7, score], [0, 1]))["auc"] == auc


def test_perfect_ranking_is_exactly_1():
    assert areas(([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0])) == dict.fromkeys(AREAS, 1.0)


@pytest.mark.parametrize(
    ("labels", "undefined", "cause"),
    [
        ([0, 0, 0], AREAS, "no positive example"),
        ([1, 1, 1], ("auc",), "no negative example"),
    ],
)
def test_an_empty_class_is_nan_with_its_cause(labels, undefined, cause):
    with pytest.warns(UndefinedMetricWarning, match=cause):
        found = areas(([0.1, 0.2, 0.3], labels))
    assert [m for m, value in found.items() if math.isnan(value)] == list(undefined)


BLANK = np.zeros(2, dtype=np.int64)


@pytest.mark.parametrize(
    ("asked", "padded_to", "noise", "message"),
    [
        (program((3,)), None, (), "sizes that were agreed"),
        (program((3,)), 3, (), "without padding"),
        (program((2,)), None, [BLANK], "0 shares of noise"),
        (program((2,), epsilon=1), None, (), "3 shares of noise"),
        (program((2,), epsilon=1), None, [BLANK] * 2, "3 shares of noise"),
        (program((2,), epsilon=1), None, [BLANK[:1]] * 3, "3 shares of noise"),
    ],
)
@pytest.mark.parametrize("engine", [Reference(), SpuSimulator()])
def test_rows_or_noise_of_another_program_are_refused(
    engine, asked, padded_to, noise, message
):
    owner = encode(Examples([0.1, 0.9], [0, 1]), padded_to=padded_to)
    with pytest.raises(InputError, match=message):
        engine.run(asked, [owner], noise=noise)
