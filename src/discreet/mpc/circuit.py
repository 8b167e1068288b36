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
  and P are revealed beside the AUC (``evaluate.DeLongSums``).

The sums are inner products, whose traffic does not grow with the rows. Division is a
look-up of 1/P and 1/(2PN) in public tables (``program.Tables``).

**What a malicious owner can spoil.** Shares of any 64-bit integer look alike, so nobody
can refuse what an owner shares. A label is the last bit of a word, whatever the word is.
Words that are negative or not in order would make the merged order wrong, and with it
what another owner's row can change. So the order of every run is checked on the
shares, and the values are multiplied by the outcome before they are revealed: of an
unsorted run nothing is learnt but that there was one.

**Words as shares of bits.** The engine compares arithmetic shares, and every comparison
begins by turning a difference into bits: 36 bytes per party. Words that *stay* bits are
compared for 19 and exchanged for 8 more where an arithmetic choice takes 21. Exclusive
or, shifts and products with public masks are local; only "and" sends something, as many
bytes as its operands are wide.

**Order.** Of two words the first bit in which they differ decides. With :math:`e` the
bits that are equal and :math:`v` the second word, two neighbouring bits are one:
:math:`e = e_h e_l`, :math:`v = v_h \oplus e_h (v_h \oplus v_l)`, so that v is the
second word's bit at the highest place that differs. Six such levels leave one bit.
Halves are cheaper to cut out than neighbours, so the bits of a word are *scattered*
first: bit i moves to the place whose six binary digits are those of i in reverse. Then
upper and lower half are neighbours, at every level. Bit 0 stays where it is.

**Merging** is a network of comparisons that reveals nothing. Two ascending runs, the
second turned round, are one bitonic sequence, which log2 layers of comparisons bring
into order (Batcher, 1968). Results are stored interleaved, which rotates the bits of the
positions: so every layer compares the two halves of its input, and the last one leaves
the natural order (Stone's perfect shuffle, 1971). Which rows are compared depends on the
public sizes alone.

Runs of like lengths are merged side by side, in the rounds of one merge. Between two
runs stands padding up to a power of two. After t layers a sequence has become 2^t, the
words of each below those of the next; those that must be padding altogether, as the
public sizes tell, are left out then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, ShapeDtypeStruct, lax
from numpy.typing import NDArray

from discreet.mpc.model import AREAS
from discreet.mpc.program import OUTPUT, SCALE, TABLES, ZERO, Program, Tables
from discreet.mpc.shares import PAD
from discreet.optional import load

HALF: Final = 32
LEVELS: Final = 6
DIGIT_BITS: Final = 4
DIGITS: Final = SCALE // DIGIT_BITS
TwoArrays: TypeAlias = tuple[Array, Array]


def scattered(words: Array, zero: Array) -> Array:
    """Turn words into bits, in the order in which they are compared.

    ``zero`` is a public input: an exclusive or with it makes shares of bits, once.
    """
    bits = words ^ zero
    for low, high in ((0, 5), (1, 4), (2, 3)):  # exchange two digits of every place
        shift = (1 << high) - (1 << low)
        places = [i for i in range(2 * HALF) if i >> low & 1 and not i >> high & 1]
        mask = np.uint64(sum(1 << i for i in places)).astype(np.int64)
        moving = (_down(bits, shift) ^ bits) & mask
        bits = bits ^ moving ^ (moving << shift)
    return bits


def below(x: Array, y: Array, *, strict: bool = False) -> Array:
    """Return a bit: 1 where x < y as unsigned words; ``strict`` for 0 where equal.

    Without ``strict`` the bit of equal words is one of their own: good enough for
    whoever puts two words in order, and a round less.
    """
    rows = x.shape[0]

    def level(k: Array, state: TwoArrays) -> TwoArrays:
        equal, less = state
        half = HALF >> k
        ones = (1 << half) - 1
        upper, first = _down(equal, half), _down(less, half)
        # One "and" for both: as many rounds as operations that send.
        both = jnp.concatenate([upper, upper]) & jnp.concatenate(
            [equal & ones, first ^ (less & ones)]
        )
        return both[:rows], first ^ both[rows:]

    ends: TwoArrays = lax.fori_loop(0, LEVELS, level, (~(x ^ y), y))
    equal, less = ends
    return less & (equal ^ 1) if strict else less


def nonzero(words: Array, width: int = 2 * HALF) -> Array:
    """Return a bit: 1 where some of the lowest ``width`` bits, a power of two, is set."""

    def level(k: Array, zeros: Array) -> Array:
        half = (width // 2) >> k
        return _down(zeros, half) & (zeros & ((1 << half) - 1))

    ones = -1 if width == 2 * HALF else (1 << width) - 1
    zero: Array = lax.fori_loop(0, width.bit_length() - 1, level, ~words & ones)
    return zero ^ 1


def everywhere(bit: Array) -> Array:
    """Return a word whose 64 bits are all this bit; local."""
    # In two steps: the compiler takes one shift by 63 for a comparison with zero.
    return ((bit << 63) >> 32) >> 31


def _down(words: Array, shift: Array | int) -> Array:
    return lax.shift_right_logical(words, jnp.asarray(shift, words.dtype))


WaitingRuns: TypeAlias = dict[int, list[Array]]
"""Runs, by the power of two at or above their length."""
FEW: Final = 2**13
"""Up to so many words rounds cost more than bytes, and two layers are done at once."""
EARLY: Final = 4
"""Layers after which padding is left out: at most a sixteenth of it stays."""


def merged(runs: Sequence[Array], pad: Array) -> Array:
    """Return one ascending vector of all runs.

    Runs are shares of scattered bits; ``pad`` is one such word, of shape (1,), that
    no other exceeds.
    """
    waiting: WaitingRuns = {}
    for run in runs:
        _wait(waiting, run)
    while True:
        power = min(waiting)
        group = waiting.pop(power)
        if len(group) == 1 and not waiting:
            return group[0]
        if len(group) % 2:  # the one without a partner waits for longer ones
            longer = power + 1 if len(group) > 1 else min(waiting)
            waiting.setdefault(longer, []).append(group.pop())
        for run in _merged_pairs(group, pad):
            _wait(waiting, run)


def _wait(waiting: WaitingRuns, run: Array) -> None:
    waiting.setdefault((run.shape[0] - 1).bit_length(), []).append(run)


def _merged_pairs(group: Sequence[Array], pad: Array) -> list[Array]:
    """Merge the first with the second, the third with the fourth, and so on, at once.

    Word j of pair k stands at j * pairs + k, and once its sequence is cut into
    columns, column c of pair k at k * columns + c of each row.
    """
    if not group:
        return []
    first, second = group[::2], group[1::2]
    lengths = [a.shape[0] + b.shape[0] for a, b in zip(first, second, strict=True)]
    layers = (max(lengths) - 1).bit_length()
    sequences = [
        jnp.concatenate([a, *_repeated(pad, (1 << layers) - n), b[::-1]])
        for a, b, n in zip(first, second, lengths, strict=True)
    ]
    words, pairs = jnp.stack(sequences, axis=1).reshape(-1), len(lengths)
    columns, left = 1, layers
    early = min(EARLY, layers)
    full = -(-max(lengths) // (1 << layers - early))
    if words.shape[0] > FEW and full < 1 << early:
        words, columns, left = _layers(words, early), full, layers - early
        words = words.reshape(1 << left, pairs, 1 << early)[:, :, :columns].reshape(-1)
    ordered = _layers(words, left).reshape(pairs, columns << left)
    return [ordered[k, :n] for k, n in enumerate(lengths)]


def _repeated(pad: Array, times: int) -> list[Array]:
    return [jnp.broadcast_to(pad, (times,))] if times else []


def _layers(words: Array, number: int) -> Array:
    if words.shape[0] <= FEW:
        words = _repeat(_two_layers, number // 2, words)
        number %= 2
    return _repeat(_layer, number, words)


def _repeat(step: Callable[[Array], Array], times: int, words: Array) -> Array:
    if times == 0:
        return words
    repeated: Array = lax.fori_loop(0, times, lambda _, x: step(x), words)
    return repeated


def _layer(x: Array) -> Array:
    """Compare the halves; store the smaller and the larger ones interleaved."""
    half = x.shape[0] // 2
    first, second = x[:half], x[half:]
    kept = everywhere(below(first, second)) & (first ^ second)
    return jnp.stack([second ^ kept, first ^ kept], axis=1).reshape(-1)


def _two_layers(x: Array) -> Array:
    """Do two layers in the rounds of one comparison: compare all six pairs of four.

    With a, b, c, d the quarters, the first layer compares a with c and b with d, the
    second the two smaller and the two larger ones. Who they are follows from the six
    comparisons without a seventh.
    """
    m = x.shape[0] // 4
    a, b, c, d = (x[k * m : (k + 1) * m] for k in range(4))
    less = below(
        jnp.concatenate([a, b, c, a, a, c]), jnp.concatenate([c, d, b, d, b, d])
    )
    p, q, cb, ad, ab, cd = (less[k * m : (k + 1) * m] for k in range(6))
    near, far = jnp.concatenate([ab, cb]), jnp.concatenate([ad, cd])
    chosen = far ^ (jnp.concatenate([q, q]) & (near ^ far))
    other = near ^ far ^ chosen
    # Of a and of c: whether it is below the smaller, and below the larger, of b, d.
    for_a = jnp.concatenate([chosen[:m], other[:m]])
    for_c = jnp.concatenate([chosen[m:], other[m:]])
    second = for_c ^ (jnp.concatenate([p, p ^ 1]) & (for_a ^ for_c))
    moved = everywhere(jnp.concatenate([p, q])) & jnp.concatenate([a ^ c, b ^ d])
    left = jnp.concatenate([c ^ moved[:m], a ^ moved[:m]])
    right = jnp.concatenate([d ^ moved[m:], b ^ moved[m:]])
    kept = everywhere(second) & (left ^ right)
    low, high = right ^ kept, left ^ kept
    return jnp.stack([low[:m], high[:m], low[m:], high[m:]], axis=1).reshape(-1)


def in_order(runs: Sequence[Array], pad: Array) -> Array:
    """Return 1 if every run ascends and none exceeds padding, else 0."""
    left = jnp.concatenate(runs)
    right = jnp.concatenate([x for run in runs for x in (run[1:], pad)])
    wrong = below(right, left, strict=True)
    return (jnp.sum(wrong) == 0).astype(jnp.int64)


def running_sum(values: Array) -> Array:
    """Add up, in slices only: linear, so each party does it alone on its shares."""
    sums, step = values, 1
    while step < values.shape[0]:
        sums = jnp.concatenate([sums[:step], sums[step:] + sums[:-step]])
        step *= 2
    return sums


def labels_and_ends(words: Array, zero: Array, *, ties: bool) -> TwoArrays:
    """Return labels, and 1 at the last row of each group of equal scores.

    ``zero`` is a public input: adding it turns a bit into an arithmetic share once.
    Without it every use would convert the bit again, and a constant is folded away.
    """
    labels = (words & 1) + zero
    if not ties:
        return labels, jnp.ones(words.shape, jnp.int64)
    differ = nonzero((words[1:] ^ words[:-1]) & -2) + zero
    return labels, jnp.concatenate([differ, differ[:1] * zero + 1])


def around_groups(ends: Array, counted: Sequence[Array]) -> TwoArrays:
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

    def digit(_: int, state: TwoArrays) -> TwoArrays:
        remainder, quotient = state
        remainder = remainder << DIGIT_BITS
        one = jnp.sum((remainder >= multiples).astype(jnp.int64))
        return remainder - one * denominator, (quotient << DIGIT_BITS) + one

    whole = (numerator >= denominator).astype(jnp.int64)
    left = numerator - whole * denominator
    divided: TwoArrays = lax.fori_loop(0, DIGITS, digit, (left, whole))
    return divided[1]


def areas(
    runs: Sequence[Array],
    zero: Array,
    by_rank: Array,
    by_count: Array,
    *,
    program: Program,
) -> Array:
    """Return whether all runs were in order, and then the program's areas.

    An area of 1 is ``program.ONE``; AUPR is doubled, so that nothing is cut off after
    the sum. Padding rows, as rows without a label, stand in the last group, where each
    wins every pair: that is subtracted again.
    """
    tables, rows = Tables(program.rows), program.rows
    ok, words, pad = _checked_and_merged(runs, zero)
    labels, ends = labels_and_ends(words, zero, ties=program.model.ties == "exact")
    positives = running_sum(labels)
    # Of a public input, so that no constant of so many rows is compiled.
    ranks = [jnp.arange(rows) + (zero + 1)] if program.interval_sums else []
    all_before, all_ends = around_groups(ends, [positives, *ranks])
    before, end = all_before[0], all_ends[0]
    total = positives[-1]
    following = jnp.concatenate([end[1:], total[None]])
    steps = jnp.stack([positives - before, following - before], axis=1)
    # Secrets first: their product with the limbs is local, and none has a limb's width.
    sums = by_rank @ ((ends * positives)[:, None] * steps)
    wins = jnp.dot(1 - labels, before + end)
    looked = looked_up(by_count, total, zero)
    values = _assembled(sums, wins, end[0], looked, tables)
    if program.model.hide_sizes:
        padding = rows - jnp.sum(nonzero(words ^ pad) + zero)
        real = divide(wins - 2 * total * padding, 2 * total * (rows - padding - total))
        values = jnp.concatenate([real[None], values[1:]])
    chosen = [values[AREAS.index(metric)] for metric in program.metrics]
    if program.interval_sums:
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
    column: Array = by_row @ one_hot[low:]
    return column


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
    values: Array = total + undefined
    return values


def _one_hot(places: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    hot: NDArray[np.int64] = (places[:, None] == np.arange(width)).astype(np.int64)
    return hot


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
    labels, ends = labels_and_ends(words, zero, ties=program.model.ties == "exact")
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
    inputs = program.inputs()
    visible = {False: spu.Visibility.VIS_PUBLIC, True: spu.Visibility.VIS_SECRET}
    options = load("spu.libspu", "mpc").CompilerOptions()
    # Half of all operations would free a value, and a small program is mostly read.
    options.disable_deallocation_insertion = program.rows <= FEW
    # 64-bit integers for this trace alone: the process keeps its own setting.
    with load("jax.experimental", "mpc").enable_x64():
        executable, _ = frontend.compile(
            frontend.Kind.JAX,
            function_of(program),
            [ShapeDtypeStruct(i.shape, np.int64) for i in inputs],
            {},
            [i.name for i in inputs],
            [visible[i.secret] for i in inputs],
            lambda _: [OUTPUT],
            copts=options,
        )
    serialised: bytes = executable.SerializeToString()
    return serialised


def function_of(program: Program) -> Callable[..., Any]:
    """Return the program as one function of its inputs in order."""
    names = [i.name for i in program.inputs()]

    def exact_areas(*values: Any) -> Any:
        by_name = dict(zip(names, values, strict=True))
        runs = [by_name[f"words{k}"] for k in range(len(program.sizes))]
        zero = by_name[ZERO]
        if program.model.epsilon is not None:
            noise = [v for name, v in by_name.items() if name.startswith("noise")]
            return noisy_pair(runs, zero, noise, program=program)
        return areas(runs, zero, *(by_name[t] for t in TABLES), program=program)

    return exact_areas
