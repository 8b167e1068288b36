"""Merging sorted runs of secret words: a network of comparisons, nothing is opened.

Two ascending runs, the second turned round, are one bitonic sequence, which log2 layers
of comparisons bring into order (Batcher, 1968). Results are stored interleaved, which
rotates the bits of the positions: so every layer compares the two halves of its input,
and the last one leaves the natural order (Stone's perfect shuffle, 1971). Which rows
are compared depends on the public sizes alone.

Runs of one length are merged side by side, in the rounds of one merge. Whoever has no
partner of its length is filled with padding up to the next length that there is; so
few long runs among many short ones cost little more than the long ones alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax.numpy as jnp
from jax import Array, lax

Lengths: TypeAlias = dict[int, Array]
"""Runs by their length, a power of two: one row a run."""


def merged(runs: Sequence[Array], pad: Array) -> Array:
    """Return one ascending vector of all runs, with padding behind it.

    ``pad`` is one secret word of padding, of shape (1, 1): a public one would be
    turned into shares anew wherever it is used.
    """
    waiting: Lengths = {}
    for run in runs:
        length = 1 << (run.shape[0] - 1).bit_length()
        _join(waiting, _filled(run[None], length, pad))
    while True:
        length = min(waiting)
        group = waiting.pop(length)
        alone = group.shape[0] == 1
        if alone and not waiting:
            return group.reshape(-1)
        if alone:
            _join(waiting, _filled(group, min(waiting), pad))
            continue
        if group.shape[0] % 2:
            _join(waiting, _filled(group[-1:], 2 * length, pad))
            group = group[:-1]
        _join(waiting, _merged_pairs(group))


def _join(waiting: Lengths, group: Array) -> None:
    length = group.shape[1]
    before = waiting.get(length)
    waiting[length] = group if before is None else jnp.concatenate([before, group])


def _filled(group: Array, length: int, pad: Array) -> Array:
    missing = length - group.shape[1]
    if missing == 0:
        return group
    rows = jnp.broadcast_to(pad, (group.shape[0], missing))
    return jnp.concatenate([group, rows], axis=1)


def _merged_pairs(group: Array) -> Array:
    """Merge row 0 with row 1, row 2 with row 3, and so on, all at once."""
    count, length = group.shape
    pairs = group.reshape(count // 2, 2, length)
    found = jnp.concatenate([pairs[:, 0], pairs[:, 1, ::-1]], axis=1)
    layers = length.bit_length()
    if layers > 1:
        found = _two_layers(found, fresh=True)
        found = lax.fori_loop(0, layers // 2 - 1, lambda _, x: _two_layers(x), found)
        layers %= 2
    return _layer(found) if layers else found


def _layer(x: Array) -> Array:
    """Compare the halves; store the smaller and the larger ones interleaved."""
    half = x.shape[1] // 2
    first, second = x[:, :half], x[:, half:]
    low = (first < second).astype(jnp.int64) * (first - second)
    return jnp.stack([second + low, first - low], axis=2).reshape(x.shape)


def _two_layers(x: Array, *, fresh: bool = False) -> Array:
    """Do two layers in the rounds of one comparison: compare all six pairs of four.

    With a, b, c, d the quarters, the first layer compares a with c and b with d, the
    second the two smaller and the two larger ones. Who they are follows from the six
    comparisons without a seventh. ``fresh``: before the first two layers of a merge
    a <= b and c >= d are known.
    """
    quarter = x.shape[1] // 4
    a, b, c, d = (x[:, k * quarter : (k + 1) * quarter].reshape(-1) for k in range(4))
    m = a.shape[0]
    left, right = [a, b, c, a], [c, d, b, d]
    if not fresh:
        left, right = [*left, a, c], [*right, b, d]
    less = jnp.concatenate(left) < jnp.concatenate(right)
    p, q, cb, ad, *rest = (less[k * m : (k + 1) * m] for k in range(len(left)))
    both = jnp.concatenate([q, q])
    if fresh:
        kept = jnp.concatenate([ad, cb]) & both
        chosen = jnp.concatenate([ad ^ q ^ kept[:m], kept[m:]])
        other = jnp.concatenate([~ad, cb]) ^ chosen
    else:
        ab, cd = rest
        near, far = jnp.concatenate([ab, cb]), jnp.concatenate([ad, cd])
        chosen = far ^ (both & (near ^ far))
        other = near ^ far ^ chosen
    # Of a and of c: whether it is below the smaller, and below the larger, of b, d.
    for_a = jnp.concatenate([chosen[:m], other[:m]])
    for_c = jnp.concatenate([chosen[m:], other[m:]])
    second = for_c ^ (jnp.concatenate([p, ~p]) & (for_a ^ for_c))
    moved = jnp.concatenate([p, q]).astype(jnp.int64)
    moved *= jnp.concatenate([a - c, b - d])
    left_half = jnp.concatenate([c + moved[:m], a - moved[:m]])
    right_half = jnp.concatenate([d + moved[m:], b - moved[m:]])
    shift = second.astype(jnp.int64) * (left_half - right_half)
    low, high = right_half + shift, left_half - shift
    return jnp.stack([low[:m], high[:m], low[m:], high[m:]], axis=1).reshape(x.shape)
