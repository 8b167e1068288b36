"""The plaintext engine against the definitions, by brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from discreet.data.examples import Examples
from discreet.errors import InputError, ReleaseError, UndefinedMetricWarning
from discreet.estimate.intervals import AreaShape
from discreet.mpc.encode import encode
from discreet.mpc.engine import Reference
from discreet.mpc.model import AREAS
from discreet.mpc.program import Program
from discreet.mpc.spread import Spread

ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), st.booleans()),
    min_size=2,
    max_size=12,
).filter(lambda rows: len({label for _, label in rows}) == 2)


def delong(scores, labels):
    """The variance from its definition: each example against all of the other class."""
    scores, labels = np.asarray(scores), np.asarray(labels, dtype=bool)
    positives, negatives = scores[labels][:, None], scores[~labels]
    wins = (positives > negatives) + 0.5 * (positives == negatives)
    return sum(np.var(wins.mean(axis=k), ddof=1) / wins.shape[1 - k] for k in (0, 1))


def test_the_oracle_is_the_published_example():
    """DeLong's two placements by hand: 1, 1/2 of positives; 1/2, 1 of negatives."""
    assert delong([0.9, 0.4, 0.6, 0.1], [1, 1, 0, 0]) == pytest.approx(0.125)


@given(ROWS)
def test_three_more_integers_give_delongs_variance(rows):
    scores, labels = zip(*rows, strict=True)
    owner = encode(Examples(scores, labels))
    program = Program((owner.rows,), interval=True)
    opened = Reference().run(program, [owner]).values
    found = Spread.of(program, program.checked(opened))
    assert (found.positives, found.negatives) == (
        sum(labels),
        len(labels) - sum(labels),
    )
    area = program.decode(opened)["auc"]
    if min(found.positives, found.negatives) > 1:
        assert found.variance(area) == pytest.approx(delong(scores, labels), abs=1e-14)
    else:
        own = AreaShape(found.positives, found.negatives).variance(area)
        assert found.variance(area) == own


def test_sums_of_squares_of_no_data_are_refused():
    for sums in ((0, 4, 1, 1), (2, 2, -1, 1), (2, 2, 33, 1), (2, 2, 1, 33)):
        with pytest.raises(ReleaseError, match="of no data"):
            Spread(*sums)


def areas(*sites, ties="exact", padded_to=None):
    owners = [encode(Examples(*site), padded_to=padded_to) for site in sites]
    sizes = tuple(owner.rows for owner in owners)
    program = Program(sizes, ties=ties, padded=padded_to is not None)
    return program.decode(Reference().run(program, owners).values)


@given(ROWS)
def test_areas_with_ties_equal_their_definitions(rows):
    scores, labels = zip(*rows, strict=True)
    found = areas((scores, labels))
    assert found["auc"] == pytest.approx(
        oracles.auc_by_pairs(scores, labels), abs=1e-15
    )
    expected = oracles.average_precision(scores, labels)
    assert found["average_precision"] == pytest.approx(expected, abs=1e-15)
    expected = oracles.trapezoid_aupr(scores, labels)
    assert found["aupr"] == pytest.approx(expected, abs=1e-15)


@given(ROWS, st.integers(0, 12), st.randoms())
def test_how_rows_are_split_and_ordered_does_not_matter(rows, cut, random):
    scores, labels = zip(*rows, strict=True)
    whole = areas((scores, labels))
    shuffled = list(rows)
    random.shuffle(shuffled)
    cut = min(max(cut, 1), len(rows) - 1)
    parts = [
        tuple(zip(*part, strict=True)) for part in (shuffled[:cut], shuffled[cut:])
    ]
    assert areas(*parts) == whole


@given(ROWS)
def test_padding_changes_nothing(rows):
    scores, labels = zip(*rows, strict=True)
    assert areas((scores, labels), padded_to=16) == areas((scores, labels))


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


def test_one_ulp_decides_a_pair():
    score = 0.7
    above = float(np.nextafter(score, 1.0))
    assert areas(([score, above], [0, 1]))["auc"] == 1.0
    assert areas(([score, score], [0, 1]))["auc"] == 0.5
    assert areas(([above, score], [0, 1]))["auc"] == 0.0


def test_perfect_ranking_is_exactly_1():
    found = areas(([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0]))
    assert found == {"auc": 1.0, "average_precision": 1.0, "aupr": 1.0}


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


def test_rows_that_the_program_did_not_ask_for_are_refused():
    owner = encode(Examples([0.1, 0.9], [0, 1]))
    with pytest.raises(InputError, match="sizes that were agreed"):
        Reference().run(Program((3,)), [owner])
    padded = encode(Examples([0.1, 0.9], [0, 1]), padded_to=3)
    with pytest.raises(InputError, match="without padding"):
        Reference().run(Program((3,)), [padded])
    with pytest.raises(InputError, match="0 shares of noise"):
        Reference().run(Program((2,)), [owner], noise=[np.zeros(2, dtype=np.int64)])


def test_too_many_rows_are_refused_with_the_limit():
    with pytest.raises(InputError, match="2,097,151 rows in all, got 2,097,152"):
        Program((2**21,))
