"""Limbs of reciprocals: exact digits that never leave 64 bits."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.mpc.tables import MAX_ROWS, ONE, SCALE, UNDEFINED, Tables

SIZES = [1, 2, 3, 7, 1000, 8000]


def value(limbs, bits):
    """Put limbs together again, as an exact fraction."""
    return sum(Fraction(int(x), 2 ** ((k + 1) * bits)) for k, x in enumerate(limbs))


@pytest.mark.parametrize("rows", SIZES)
def test_limbs_are_the_reciprocals_cut_off(rows):
    tables = Tables(rows)
    lost = Fraction(1, 2 ** (tables.rank_limbs * tables.rank_bits))
    for rank in {1, 2, rows // 2 or 1, rows}:
        if rank > rows:
            continue
        found = value(tables.by_rank[:, rank - 1], tables.rank_bits)
        assert 0 <= Fraction(1, rank) - found < lost
    single = tables.by_count[2 + tables.pair_limbs :]
    lost = Fraction(1, 2 ** (tables.count_limbs * tables.count_bits))
    for count in {1, rows}:
        found = value(single[:, count], tables.count_bits)
        assert 0 <= Fraction(1, count) - found < lost


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
    found = Tables(rows).by_count
    assert found[:2, 0].tolist() == [UNDEFINED, UNDEFINED]
    assert found[:2, rows].tolist() == [UNDEFINED, 0]
    assert not found[2:, 0].any()
    between = found[:2, 1:rows]
    assert not between.any()


@pytest.mark.parametrize("rows", [*SIZES, 10**5, 10**6, MAX_ROWS])
def test_nothing_overflows_64_bits_whatever_the_labels(rows):
    tables, b = Tables(rows), rows.bit_length()
    assert rows < 2**b
    # Limbs are at most 2^bits; a sum over rows, twice each positive, times one of 1/P.
    largest = rows * 2 * rows * 2**tables.rank_bits * 2**tables.count_bits
    assert largest < 2**63
    wins = rows * rows // 2  # 2PN at most
    assert wins * 2**tables.pair_bits < 2**63
    # Long division: what is left is below the denominator.
    assert wins << tables.pair_bits < 2**63
    assert rows << max(tables.rank_bits, tables.count_bits) < 2**63
    assert min(tables.rank_bits, tables.count_bits, tables.pair_bits) >= 9
    # A limb that is shifted up stays in the word, and so does what marks a class.
    assert max(-shift for _, _, shift in tables.products()) <= SCALE
    assert UNDEFINED + 4 * ONE < 2**63


@pytest.mark.parametrize("rows", [1, 2, 1000, 10**6, MAX_ROWS])
def test_what_is_cut_off_is_some_units_of_the_last_bit(rows):
    """Each shifted product loses less than a unit, each reciprocal less than 2^-b."""
    tables = Tables(rows)
    assert tables.rank_limbs * tables.rank_bits >= SCALE + tables.bits + 2
    assert tables.count_limbs * tables.count_bits >= SCALE + tables.bits + 2
    assert len(list(tables.products())) + tables.count_limbs < 128


def test_tables_are_made_quickly_for_many_rows():
    tables = Tables(200_000)
    assert tables.by_rank.dtype == tables.by_count.dtype == np.int64
    assert tables.by_count.shape[1] == 200_001
