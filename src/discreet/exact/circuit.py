r"""The computation itself: one JAX function of secret keys and labels.

It has no branch and no index that depends on data. After one sort by descending
score, with :math:`t_i` the positives among the first i rows and :math:`e_i = 1`
where row i is the last of its score (it differs from the *following* row):

- :math:`S_i`, the positives *before* row i's group of equal scores, is the last
  :math:`e_j t_j` with j < i; :math:`E_i`, the positives up to the *end* of the
  group, is the next one with :math:`j \ge i`. Both come from one scan of log depth.
- AUROC (ties one half): :math:`\sum_i (1 - y_i)(S_i + E_i) \big/ 2PN`.
- Average precision: :math:`\sum_i \frac{e_i t_i}{i}(t_i - S_i) \big/ P`.
- AUPR by trapezoids from recall 0 and precision 1:
  :math:`\big[E_1 + \sum_i \frac{e_i t_i}{i}(E_{i+1} - S_i)\big] \big/ 2P`, with
  :math:`E_{r+1} = P`: each threshold's precision is met by half the recall on both
  its sides.

The sums are inner products, whose traffic does not grow with the rows. Only the
last step divides secrets: one long division of at most three scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import jax.numpy as jnp
from jax import Array, lax

from discreet.exact.encode import PAD
from discreet.exact.program import DIGIT_BITS, DIGITS, RECIPROCALS, FixedPoint, Program
from discreet.optional import load

Pair: TypeAlias = tuple[Array, Array]


def in_range(keys: Array, labels: Array, *, padded: bool) -> tuple[Array, Array | int]:
    """Return labels that are bits whatever was shared, and how many rows are padding.

    Shares of any 64-bit integer look alike, so nobody can refuse a forged label, and
    one of 2^24 would lift another row's rank above all noise: what one row can change
    rests on this line, not on the owners. Keys need no such line: each 64-bit integer
    is a place in the order. Padding rows are told by their key and have no label.
    """
    labels = jnp.bitwise_and(labels, 1)
    if not padded:
        return labels, 0
    real = (keys != PAD).astype(jnp.int64)
    return labels * real, keys.shape[0] - jnp.sum(real)


def sorted_rows(keys: Array, labels: Array) -> Pair:
    """Sort by ascending keys: descending scores, padding last."""
    ordered = lax.sort((keys, labels), num_keys=1)
    return ordered[0], ordered[1]


def running_sum(values: Array) -> Array:
    """Add up; linear, so each party does it alone on its shares."""
    found: Array = lax.associative_scan(jnp.add, values)
    return found


def group_ends(keys: Array, *, ties: bool) -> Array:
    """Return 1 at the last row of each group of equal keys, else 0."""
    last = jnp.ones(1, jnp.int64)
    if not ties:
        return jnp.ones(keys.shape, jnp.int64)
    return jnp.concatenate([(keys[1:] != keys[:-1]).astype(jnp.int64), last])


def around_groups(ends: Array, positives: Array) -> Pair:
    """Return, for each row, the positives before its group and up to its end.

    A pair (g, v) stands for "keep what came before if g = 1, then add v"; such
    pairs compose associatively. The scan carries one pair downwards and one
    upwards, with a single secret multiplication a level.
    """
    pair = jnp.stack([1 - ends, ends * positives])
    start = jnp.stack([pair, pair[:, ::-1]], axis=1)  # (g or v, down or up, row)

    def then(earlier: Array, later: Array) -> Array:
        kept = earlier * later[:1]
        return jnp.concatenate([kept[:1], kept[1:] + later[1:]])

    carried: Any = lax.associative_scan(then, start, axis=2)
    down, up = carried[1, 0], carried[1, 1]
    before = jnp.concatenate([jnp.zeros(1, jnp.int64), down[:-1]])
    return before, up[::-1]


def divide(numerators: Array, denominators: Array) -> Array:
    r"""Return :math:`\lfloor 16^{13} a/b \rfloor` for 0 <= a <= b, digit by digit.

    A digit is how many of b, 2b, ..., 15b are at most 16 times the remainder: one
    round of comparisons a digit instead of one a bit. A zero denominator gives
    more than 1, whatever else is known.
    """
    multiples = jnp.arange(1, 1 << DIGIT_BITS, dtype=jnp.int64)[:, None] * denominators

    def digit(_: int, state: Pair) -> Pair:
        remainder, quotient = state
        remainder = remainder << DIGIT_BITS
        found = jnp.sum((remainder[None, :] >= multiples).astype(jnp.int64), axis=0)
        return remainder - found * denominators, (quotient << DIGIT_BITS) + found

    whole = (numerators >= denominators).astype(jnp.int64)
    left = numerators - whole * denominators
    divided: Pair = lax.fori_loop(0, DIGITS, digit, (left, whole))
    return divided[1]


def doubled_wins(labels: Array, before: Array, end: Array) -> Array:
    """Return twice the pairs won by the positives, ties one half."""
    return jnp.dot(1 - labels, before + end)


def areas(
    keys: Array,
    labels: Array,
    high: Array,
    low: Array,
    *,
    metrics: tuple[str, ...],
    ties: bool,
    padded: bool,
) -> Array:
    """Return the areas asked for as integers over ``program.ONE``.

    Padding rows, as rows without a label, stand in the last group, where each wins
    every pair: that is subtracted again.
    """
    rows = keys.shape[0]
    labels, padding = in_range(keys, labels, padded=padded)
    bits = FixedPoint(rows)
    keys, labels = sorted_rows(keys, labels)
    positives = running_sum(labels)
    ends = group_ends(keys, ties=ties)
    before, end = around_groups(ends, positives)
    total = positives[-1]
    following = jnp.concatenate([end[1:], total[None]])
    at_ends = ends * positives
    limbs = jnp.stack([at_ends * high, at_ends * low])
    steps = jnp.stack([positives - before, following - before], axis=1)
    sums = limbs @ steps
    precise = sums[0] + jnp.right_shift(sums[1], bits.low_bits)
    unit = 1 << bits.high_bits

    wins = doubled_wins(labels, before, end) - 2 * total * padding
    pairs = total * (rows - padding - total)
    fractions = {
        "auc": (wins, 2 * pairs),
        "average_precision": (precise[0], total * unit),
        "aupr": (precise[1] + end[0] * unit, 2 * total * unit),
    }
    chosen = [fractions[metric] for metric in metrics]
    return divide(
        jnp.stack([numerator for numerator, _ in chosen]),
        jnp.stack([denominator for _, denominator in chosen]),
    )


def noisy_pair(keys: Array, labels: Array, noise: list[Array], *, ties: bool) -> Array:
    r"""Return :math:`2U - nm` and :math:`nM` with the parties' noise added.

    n positives, m negatives, M = n + m rows (public), U the pairs won: the two
    integers of the curator's ``pair-count`` mechanism. They are polynomials of
    sums, so no table has to be looked up obliviously.
    """
    rows = keys.shape[0]
    labels, _ = in_range(keys, labels, padded=False)
    keys, labels = sorted_rows(keys, labels)
    positives = running_sum(labels)
    ends = group_ends(keys, ties=ties)
    before, end = around_groups(ends, positives)
    total = positives[-1]
    balance = doubled_wins(labels, before, end) - total * (rows - total)
    return jnp.stack([balance, rows * total]) + sum(noise)


@lru_cache(maxsize=8)
def compiled(program: Program) -> bytes:
    """Return a serialised executable, the same bytes for the same program."""
    spu, frontend = load("spu", "mpc"), load("spu.utils.frontend", "mpc")
    jax, numpy = load("jax", "mpc"), load("numpy", "mpc")
    inputs = program.inputs()
    visible = {True: spu.Visibility.VIS_PUBLIC, False: spu.Visibility.VIS_SECRET}
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
        )
    found: bytes = executable.SerializeToString()
    return found


def function_of(program: Program) -> Callable[..., Any]:
    """Return the program as one function of its inputs in order."""
    jnp, circuit = load("jax.numpy", "mpc"), load("discreet.exact.circuit", "mpc")
    names = [i.name for i in program.inputs()]
    ties = program.ties == "exact"

    def exact_areas(*values: Any) -> Any:
        by_name = dict(zip(names, values, strict=True))

        def all_of(kind: str, indices: Sequence[int]) -> list[Any]:
            return [by_name[f"{kind}{k}"] for k in indices]

        owners = range(len(program.sizes))
        keys = jnp.concatenate(all_of("keys", owners))
        labels = jnp.concatenate(all_of("labels", owners))
        if program.noisy:
            noise = [v for name, v in by_name.items() if name.startswith("noise")]
            return circuit.noisy_pair(keys, labels, noise, ties=ties)
        return circuit.areas(
            keys,
            labels,
            *(by_name[name] for name in RECIPROCALS),
            metrics=program.metrics,
            ties=ties,
            padded=program.padded,
        )

    return exact_areas
