r"""The computation itself: one JAX function of the owners' secret words.

It has no branch and no index that depends on data. After merging the owners' sorted
runs into descending scores, with :math:`t_i` the positives among the first i rows and
:math:`e_i = 1` where row i is the last of its score (it differs from the *following*
row):

- :math:`S_i`, the positives *before* row i's group of equal scores, is the last
  :math:`e_j t_j` with j < i; :math:`E_i`, the positives up to the *end* of the
  group, is the next one with :math:`j \ge i`. Both come from one scan of log depth.
- AUROC (ties one half): :math:`\sum_i (1 - y_i)(S_i + E_i) \big/ 2PN`.
- Average precision: :math:`\sum_i \frac{e_i t_i}{i}(t_i - S_i) \big/ P`.
- AUPR by trapezoids from recall 0 and precision 1:
  :math:`\big[E_1 + \sum_i \frac{e_i t_i}{i}(E_{i+1} - S_i)\big] \big/ 2P`, with
  :math:`E_{r+1} = P`: each threshold's precision is met by half the recall on both
  its sides.

- DeLong's variance: the same scan carries ranks, so that :math:`S'_i` and
  :math:`E'_i` are the *negatives* before and up to the end of a group. Two sums of
  squares, :math:`\sum_i (1 - y_i)(S_i + E_i)^2` and :math:`\sum_i y_i (S'_i + E'_i)^2`,
  and P are opened beside the AUC (``exact.spread`` reads them).

The sums are inner products, whose traffic does not grow with the rows. Division is a
look-up of 1/P and 1/(2PN) in public tables (``exact.tables``).

**What one owner can spoil.** Shares of any 64-bit integer look alike, so nobody can
refuse what an owner shares. A label is the last bit of a word, whatever the word is.
Words that are negative or not in order would make the merged order wrong, and with it
what another owner's row can change. So the order of every run is checked on the
shares, and the values are multiplied by the outcome before they are opened: of an
unsorted run nothing is learnt but that there was one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from discreet.mpc.bits import below, nonzero, scattered
from discreet.mpc.encode import PAD
from discreet.mpc.merge import FEW, merged
from discreet.mpc.program import TABLES, ZERO, Program
from discreet.mpc.tables import SCALE, Tables
from discreet.optional import load

Pair: TypeAlias = tuple[Array, Array]

DIGIT_BITS = 4
DIGITS = SCALE // DIGIT_BITS


def in_order(runs: Sequence[Array], pad: Array) -> Array:
    """Return 1 if every run ascends and none exceeds padding, else 0."""
    left = jnp.concatenate(runs)
    right = jnp.concatenate([x for run in runs for x in (run[1:], pad)])
    wrong = below(right, left, strict=True)
    return (jnp.sum(wrong) == 0).astype(jnp.int64)


def running_sum(values: Array) -> Array:
    """Add up, in slices only: linear, so each party does it alone on its shares."""
    found, step = values, 1
    while step < values.shape[0]:
        found = jnp.concatenate([found[:step], found[step:] + found[:-step]])
        step *= 2
    return found


def labels_and_ends(words: Array, zero: Array, *, ties: bool) -> Pair:
    """Return labels, and 1 at the last row of each group of equal scores.

    ``zero`` is a public input: adding it turns a bit into an arithmetic share once.
    Without it every use would convert the bit again, and a constant is folded away.
    """
    labels = (words & 1) + zero
    if not ties:
        return labels, jnp.ones(words.shape, jnp.int64)
    differ = nonzero((words[1:] ^ words[:-1]) & -2) + zero
    return labels, jnp.concatenate([differ, differ[:1] * zero + 1])


def around_groups(ends: Array, counted: Sequence[Array]) -> Pair:
    """Return, for each row, what was counted before its group and up to its end.

    A pair (g, v) stands for "keep what came before if g = 1, then add v"; such
    pairs compose associatively. The scan carries a g with one v a count downwards
    and one upwards, with a single secret multiplication a level.
    """
    pair = jnp.stack([1 - ends, *(ends * count for count in counted)])
    start = jnp.stack([pair, pair[:, ::-1]], axis=1)  # (g or v, down or up, row)

    # Of a later pair v is added and g is not: a public product cuts nothing apart.
    added = np.array([0] + [1] * len(counted))[:, None, None]

    def then(earlier: Array, later: Array) -> Array:
        return earlier * later[:1] + later * added

    carried: Any = lax.associative_scan(then, start, axis=2)
    down, up = carried[1:, 0], carried[1:, 1]
    none = down[:, :1] - down[:, :1]
    return jnp.concatenate([none, down[:, :-1]], axis=1), up[:, ::-1]


def divide(numerator: Array, denominator: Array) -> Array:
    r"""Return :math:`\lfloor 16^{13} a/b \rfloor` for 0 <= a <= b, digit by digit.

    For the one denominator that no public table holds: the pairs when sizes are
    hidden. A digit is how many of b, 2b, ..., 15b are at most 16 times the
    remainder. A zero denominator gives more than 1, whatever else is known.
    """
    multiples = jnp.arange(1, 1 << DIGIT_BITS, dtype=jnp.int64) * denominator

    def digit(_: int, state: Pair) -> Pair:
        remainder, quotient = state
        remainder = remainder << DIGIT_BITS
        found = jnp.sum((remainder >= multiples).astype(jnp.int64))
        return remainder - found * denominator, (quotient << DIGIT_BITS) + found

    whole = (numerator >= denominator).astype(jnp.int64)
    left = numerator - whole * denominator
    divided: Pair = lax.fori_loop(0, DIGITS, digit, (left, whole))
    return divided[1]


def areas(
    runs: Sequence[Array],
    zero: Array,
    by_rank: Array,
    by_count: Array,
    *,
    program: Program,
) -> Array:
    """Return whether all runs were in order, and then the areas asked for.

    An area of 1 is ``tables.ONE``; AUPR is doubled, so that nothing is cut off after
    the sum. Padding rows, as rows without a label, stand in the last group, where each
    wins every pair: that is subtracted again.
    """
    tables, rows = Tables(program.rows), program.rows
    ok, words, pad = _checked_and_merged(runs, zero)
    labels, ends = labels_and_ends(words, zero, ties=program.ties == "exact")
    positives = running_sum(labels)
    # Of a public input, so that no constant of so many rows is compiled.
    ranks = [jnp.arange(rows) + (zero + 1)] if program.interval else []
    all_before, all_ends = around_groups(ends, [positives, *ranks])
    before, end = all_before[0], all_ends[0]
    total = positives[-1]
    following = jnp.concatenate([end[1:], total[None]])
    steps = jnp.stack([positives - before, following - before], axis=1)
    # Secrets first: their product with the limbs is local, and none has a limb's width.
    sums = by_rank @ ((ends * positives)[:, None] * steps)
    wins = jnp.dot(1 - labels, before + end)
    looked = looked_up(by_count, total, zero)
    found = _assembled(sums, wins, end[0], looked, tables)
    if program.padded:
        padding = rows - jnp.sum(nonzero(words ^ pad) + zero)
        real = divide(wins - 2 * total * padding, 2 * total * (rows - padding - total))
        found = jnp.concatenate([real[None], found[1:]])
    places = [("auc", "average_precision", "aupr").index(m) for m in program.metrics]
    chosen = [found[k] for k in places]
    if program.interval:
        around = all_before + all_ends
        squares = jnp.stack([around[0], around[1] - around[0]]) ** 2
        chosen += [
            total,
            jnp.dot(1 - labels, squares[0]),
            jnp.dot(labels, squares[1]),
        ]
    return jnp.concatenate([ok[None], ok * jnp.stack(chosen)])


def _checked_and_merged(
    runs: Sequence[Array], zero: Array
) -> tuple[Array, Array, Array]:
    """Return whether the runs are in order, their words merged, a word of padding.

    The padding is made of a share, so that nothing is sent.
    """
    pad = runs[0][:1] * zero + PAD
    words = scattered(jnp.concatenate([*runs, pad]), zero)
    ends = np.cumsum([run.shape[0] for run in runs]).tolist()
    *bits, pad = jnp.split(words, ends)
    return in_order(bits, pad), merged(bits, pad), pad


def looked_up(table: Array, place: Array, zero: Array) -> Array:
    """Return a secret column of a public table, without a secret vector of its width.

    Columns are counted in rows of some hundreds. A vector with a one at the place
    within its row adds up each row by itself, which is local, and a vector with a one
    at the row takes that sum.
    """
    limbs, width = table.shape
    low = 1 << (width.bit_length() + 1) // 2
    high = -(-width // low)
    padded = jnp.pad(table, ((0, 0), (0, high * low - width)))
    bits = place ^ zero
    distance = jnp.concatenate(
        [
            jnp.arange(low) ^ (bits & (low - 1)),
            jnp.arange(high) ^ lax.shift_right_logical(bits, low.bit_length() - 1),
        ]
    )
    one_hot = (nonzero(distance, 16) ^ 1) + zero
    by_row = (padded.reshape(-1, low) @ one_hot[:low]).reshape(limbs, high)
    found: Array = by_row @ one_hot[low:]
    return found


def _assembled(
    sums: Array, wins: Array, first_end: Array, looked: Array, tables: Tables
) -> Array:
    """Multiply limbs in one round, shift them in another, and add: the three areas.

    Products with public 0/1 matrices pick what is multiplied and add up what came of
    it: they are local, few operations to compile, and turn all shifted terms into
    arithmetic shares at once.
    """
    pairs, ranks = tables.pair_limbs, tables.rank_limbs
    # What is known: wins, the sums of AP and of AUPR limb by limb, the first end.
    known = jnp.concatenate([wins[None], sums.T.reshape(-1), first_end[None]])
    terms = [(0, a, 0, a * tables.pair_bits) for a in range(pairs)]
    for k, m, shift in tables.products():
        terms += [(1 + k, pairs + m, 1, shift), (1 + ranks + k, pairs + m, 2, shift)]
    for m in range(tables.count_limbs):  # AUPR starts at precision 1: E_1 / P
        shift = (m + 1) * tables.count_bits - SCALE
        terms.append((1 + 2 * ranks, pairs + m, 2, shift))
    terms.sort(key=lambda term: term[3] <= 0)  # those that are shifted down first
    moving = sum(term[3] > 0 for term in terms)
    left, right, area, shifts = np.array(terms).T
    limbs = looked[2:]
    product = (_one_hot(left, known.shape[0]) @ known) * (
        _one_hot(right, limbs.shape[0]) @ limbs
    )
    product = product << np.maximum(-shifts, 0)
    into = _one_hot(area, 3).T
    shifted = jnp.right_shift(product[:moving], shifts[:moving])
    total = into[:, :moving] @ shifted + into[:, moving:] @ product[moving:]
    undefined = _one_hot(np.array([0, 1, 1]), 2) @ looked[:2]
    found: Array = total + undefined
    return found


def _one_hot(places: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (places[:, None] == np.arange(width)).astype(np.int64)
    return found


def noisy_pair(
    runs: Sequence[Array], zero: Array, noise: Sequence[Array], *, program: Program
) -> Array:
    r"""Return whether all runs were in order, and :math:`2U - nm`, :math:`nM` with noise.

    n positives, m negatives, M = n + m rows (public), U the pairs won: the two
    integers of the curator's ``pair-count`` mechanism. They are polynomials of
    sums, so no table has to be looked up obliviously.
    """
    rows = program.rows
    ok, words, _ = _checked_and_merged(runs, zero)
    labels, ends = labels_and_ends(words, zero, ties=program.ties == "exact")
    positives = running_sum(labels)
    (before,), (end,) = around_groups(ends, [positives])
    total = positives[-1]
    balance = jnp.dot(1 - labels, before + end) - total * (rows - total)
    pair = ok * jnp.stack([balance, rows * total]) + sum(noise)
    return jnp.concatenate([ok[None], pair])


@lru_cache(maxsize=8)
def compiled(program: Program) -> bytes:
    """Return a serialised executable, the same bytes for the same program."""
    spu, frontend = load("spu", "mpc"), load("spu.utils.frontend", "mpc")
    jax, numpy = load("jax", "mpc"), load("numpy", "mpc")
    inputs = program.inputs()
    visible = {True: spu.Visibility.VIS_PUBLIC, False: spu.Visibility.VIS_SECRET}
    options = load("spu.libspu", "mpc").CompilerOptions()
    # Half of all operations would free a value, and a small program is mostly read.
    options.disable_deallocation_insertion = program.rows <= FEW
    # 64-bit integers for this trace alone: the process keeps its own setting.
    with load("jax.experimental", "mpc").enable_x64():
        executable, _ = frontend.compile(
            frontend.Kind.JAX,
            function_of(program),
            [jax.ShapeDtypeStruct(i.shape, numpy.int64) for i in inputs],
            {},
            [i.name for i in inputs],
            [visible[i.source == "public"] for i in inputs],
            lambda _: list(program.output_names),
            copts=options,
        )
    found: bytes = executable.SerializeToString()
    return found


def function_of(program: Program) -> Callable[..., Any]:
    """Return the program as one function of its inputs in order."""
    names = [i.name for i in program.inputs()]

    def exact_areas(*values: Any) -> Any:
        by_name = dict(zip(names, values, strict=True))
        runs = [by_name[f"words{k}"] for k in range(len(program.sizes))]
        zero = by_name[ZERO]
        if program.noisy:
            noise = [v for name, v in by_name.items() if name.startswith("noise")]
            return noisy_pair(runs, zero, noise, program=program)
        return areas(runs, zero, *(by_name[t] for t in TABLES), program=program)

    return exact_areas
