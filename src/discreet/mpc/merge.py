"""Merging sorted runs of secret words: a network of comparisons, nothing is opened.

Two ascending runs, the second turned round, are one bitonic sequence, which log2 layers
of comparisons bring into order (Batcher, 1968). Results are stored interleaved, which
rotates the bits of the positions: so every layer compares the two halves of its input,
and the last one leaves the natural order (Stone's perfect shuffle, 1971). Which rows
are compared depends on the public sizes alone.

Runs of like lengths are merged side by side, in the rounds of one merge. Between two
runs stands padding up to a power of two. After t layers a sequence has become 2^t, the
words of each below those of the next; those that must be padding altogether, as the
public sizes tell, are left out then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import jax.numpy as jnp
from jax import Array, lax

from discreet.mpc.bits import below, everywhere

Waiting: TypeAlias = dict[int, list[Array]]
"""Runs, by the power of two at or above their length."""

FEW: Final = 2**13
"""Up to so many words rounds cost more than bytes, and two layers are done at once."""
EARLY: Final = 4
"""Layers after which padding is left out: at most a sixteenth of it stays."""


def merged(runs: Sequence[Array], pad: Array) -> Array:
    """Return one ascending vector of all runs.

    Runs are shares of scattered bits (``exact.bits``); ``pad`` is one such word, of
    shape (1,), that no other exceeds.
    """
    waiting: Waiting = {}
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


def _wait(waiting: Waiting, run: Array) -> None:
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
    found = _layers(words, left).reshape(pairs, columns << left)
    return [found[k, :n] for k, n in enumerate(lengths)]


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
    found: Array = lax.fori_loop(0, times, lambda _, x: step(x), words)
    return found


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
