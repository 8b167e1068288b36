"""The program: what it refuses, what its digest covers, its tables, what it reveals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import (
    InputError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)
from discreet.mpc.model import AREAS
from discreet.mpc.program import MAX_ROWS, ONE, SCALE, UNDEFINED, Tables
from mpc_reference import decoded, program

NOISY = program((3, 4), epsilon=Fraction(1, 3))
PROGRAMS = [
    program((3, 4)),
    program((3, 4), metrics=("auc",)),
    program((3, 4), ties="none"),
    program((4, 4), hide_sizes=True),
    NOISY,
    program((4, 3)),
    program((3, 4), interval=True),
]


def test_the_digest_is_fixed():
    """A change of the description is a new version of the program."""
    digest = PROGRAMS[0].digest(b"code").hex()
    assert digest == "126284c407499ee0dc45cad51bca89b6fa2475a0c42dddfd39424b1ad3ea2af1"


def test_every_field_and_the_executable_change_the_digest():
    digests = {each.digest(b"code") for each in PROGRAMS}
    assert len(digests) == len(PROGRAMS)
    assert PROGRAMS[0].digest(b"code") == program((3, 4)).digest(b"code")
    assert PROGRAMS[0].digest(b"other") not in digests


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((3,), {"metrics": ("brier",)}, "exact areas are"),
        ((3,), {"epsilon": "1", "metrics": AREAS}, "AUC can be revealed with noise"),
        ((0,), {}, "at least one row"),
        ((), {}, "at least one row"),
        ((2**21,), {}, "2,097,151 rows in all, got 2,097,152"),
    ],
)
def test_what_cannot_be_computed_is_refused(sizes, options, message):
    with pytest.raises((PlanError, InputError), match=message):
        program(sizes, **options)


def test_inputs_name_who_gives_what():
    first, noisy = (
        [(i.name, i.shape, i.secret) for i in each.inputs()]
        for each in (PROGRAMS[0], NOISY)
    )
    assert first == [
        ("words0", (3,), True),
        ("words1", (4,), True),
        ("zero", (), False),
        ("by_rank", (3, 7), False),
        ("by_count", (7, 8), False),
    ]
    noise = [(f"noise{k}", (2,), True) for k in range(3)]
    assert noisy[2:] == [*noise, ("zero", (), False)]


def test_revealed_integers_become_areas():
    revealed = np.array([1, ONE // 2, ONE, 2 * ONE + 3], dtype=np.int64)
    areas = decoded(program((3,)), revealed)
    assert list(areas.items()) == list(zip(AREAS, [0.5, 1.0, 1.0], strict=True))


@pytest.mark.parametrize("value", [2 * ONE - 1, UNDEFINED])
def test_an_empty_class_is_nan(value):
    with pytest.warns(UndefinedMetricWarning, match="one class only"):
        found = decoded(program((3,), metrics=("auc",)), np.array([1, value]))
    assert math.isnan(found["auc"])


@pytest.mark.parametrize(
    ("asked", "values", "error", "message"),
    [
        (PROGRAMS[1], [0, 0], ReleaseError, "not in order, and nothing was revealed"),
        (PROGRAMS[0], [ONE], InputError, "4 revealed integers were expected, got 1"),
        (NOISY, [1, 1, 2], PlanError, "holds no areas"),
    ],
)
def test_integers_without_areas_are_refused(asked, values, error, message):
    with pytest.raises(error, match=message):
        decoded(asked, np.array(values))


SIZES = [1, 2, 3, 7, 1000, 8000]


def value(limbs, bits):
    """Put limbs together again, as an exact fraction."""
    return sum(Fraction(int(x), 2 ** ((k + 1) * bits)) for k, x in enumerate(limbs))


@pytest.mark.parametrize("rows", SIZES)
def test_limbs_are_the_reciprocals_cut_off(rows):
    tables = Tables(rows)
    lost = Fraction(1, 2 ** (tables.rank_limbs * tables.rank_bits))
    for rank in {1, min(2, rows), rows // 2 or 1, rows}:
        limbs = value(tables.by_rank[:, rank - 1], tables.rank_bits)
        assert 0 <= Fraction(1, rank) - limbs < lost
    single = tables.by_count[2 + tables.pair_limbs :]
    lost = Fraction(1, 2 ** (tables.count_limbs * tables.count_bits))
    for count in {1, rows}:
        limbs = value(single[:, count], tables.count_bits)
        assert 0 <= Fraction(1, count) - limbs < lost


@pytest.mark.parametrize("rows", SIZES)
def test_pairs_have_their_bits_behind_the_point_and_enough_of_them(rows):
    tables = Tables(rows)
    ways = tables.by_count[2 : 2 + tables.pair_limbs]
    for count in {1, rows // 2, rows - 1} - {0, rows}:
        pairs = 2 * count * (rows - count)
        low = value(ways[1:, count], tables.pair_bits)
        off = Fraction(ONE, pairs) - (int(ways[0, count]) + low)
        assert 0 <= off * pairs < 1  # the whole of the pairs moves less than one unit


@pytest.mark.parametrize("rows", SIZES)
def test_counts_without_a_class_are_marked_and_have_no_reciprocal(rows):
    by_count = Tables(rows).by_count
    assert by_count[:2, 0].tolist() == [UNDEFINED, UNDEFINED]
    assert by_count[:2, rows].tolist() == [UNDEFINED, 0]
    assert not by_count[2:, 0].any()
    assert not by_count[:2, 1:rows].any()


@pytest.mark.parametrize("rows", [*SIZES, 10**5, 10**6, MAX_ROWS])
def test_nothing_overflows_64_bits_whatever_the_labels(rows):
    tables, b = Tables(rows), rows.bit_length()
    assert rows < 2**b
    # Limbs are at most 2^bits; a sum over rows, twice each positive, times one of 1/P.
    largest = rows * 2 * rows * 2**tables.rank_bits * 2**tables.count_bits
    assert largest < 2**63
    wins = rows * rows // 2  # 2PN at most
    assert wins << tables.pair_bits < 2**63  # as is a remainder of the long division
    assert rows << max(tables.rank_bits, tables.count_bits) < 2**63
    assert min(tables.rank_bits, tables.count_bits, tables.pair_bits) >= 9
    # A limb that is shifted up stays in the word, and so does what marks a class.
    assert max(-shift for _, _, shift in tables.products()) <= SCALE
    assert UNDEFINED + 4 * ONE < 2**63
    # Each shifted product loses less than a unit, each reciprocal less than 2^-b.
    assert tables.rank_limbs * tables.rank_bits >= SCALE + tables.bits + 2
    assert tables.count_limbs * tables.count_bits >= SCALE + tables.bits + 2
    assert len(list(tables.products())) + tables.count_limbs < 128


def test_tables_are_made_quickly_for_many_rows():
    tables = Tables(200_000)
    assert tables.by_rank.dtype == tables.by_count.dtype == np.int64
    assert tables.by_count.shape[1] == 200_001
