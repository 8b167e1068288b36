"""What exact noise costs: CPU microseconds a draw, beside OpenDP and NumPy.

NumPy's generators are fast and not secret: they are here as the price of a draw
that may not be released. OpenDP's are secret and exact, one draw at a time.

    python bench/noise.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import opendp.prelude as dp

from discreet.arrays import IntVector
from discreet.entropy import SYSTEM, Entropy
from discreet.noise.coins import poisson, stretched
from discreet.noise.laplace import discrete_laplace
from discreet.noise.polya import polya_difference, simulate_polya_difference
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.noise.skellam import skellam
from discreet.noise.unary import UnaryEncoding, simulate_unary
from discreet.privacy.loss import PureDP

SIZE = 32_768


def microseconds(
    draw: Callable[[], object], *, size: int = SIZE, times: int = 5
) -> float:
    best = math.inf
    for _ in range(times):
        start = time.process_time()
        draw()
        best = min(best, time.process_time() - start)
    return 1e6 * best / size


def polya_table() -> None:
    rng = np.random.default_rng(1)
    print("Polya shares, microseconds a cell (exact | NumPy's dense NB, not secret)")
    sites = (3, 10, 100, 1000)
    print("   eps " + "".join(f"{h:>7} sites      " for h in sites))
    for gamma in (Fraction(2), Fraction(1), Fraction(1, 10), Fraction(1, 100)):
        cells = []
        for h in sites:
            exact = microseconds(partial(share, gamma, h))
            draw = partial(simulate_polya_difference, float(gamma), 1 / h, (SIZE,), rng)
            cells.append(f"{exact:8.3f} | {microseconds(draw):6.3f}")
        print(f"{float(gamma):6.2f} " + "  ".join(cells))


def share(gamma: Fraction, honest: int) -> object:
    return polya_difference(gamma, honest, SIZE, stretched(SYSTEM))


def single_table() -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    few = [0] * 4_096
    print("\nOther noise, microseconds a draw (exact, ours | OpenDP)")
    for scale in (1, 10, 100):
        ours = microseconds(partial(single, discrete_laplace, Fraction(scale)))
        peer = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), float(scale))
        theirs = microseconds(partial(peer, few), size=len(few))
        print(f"discrete Laplace, scale {scale:>4}   {ours:8.3f} | {theirs:8.3f}")
    for variance in (Fraction(1, 10), Fraction(5), Fraction(500)):
        ours = microseconds(partial(single, skellam, variance))
        print(f"Skellam, variance {float(variance):>6}       {ours:8.3f} |        -")
    ours = microseconds(partial(single, poisson, Fraction(1)))
    print(f"Poisson, mean 1                {ours:8.3f} |        -")


def single(
    sampler: Callable[[Fraction, int, Entropy], IntVector], parameter: Fraction
) -> object:
    return sampler(parameter, SIZE, stretched(SYSTEM))


def local_table() -> None:
    print("\nLocal noise, microseconds")
    one = PureDP(Fraction(1))
    ids = [i.to_bytes(8, "big") for i in range(SIZE)]
    labels = np.arange(SIZE) % 2
    key = ResponseKey(SYSTEM(32))
    flip = microseconds(lambda: RandomizedResponse(one).flip(labels, ids, key=key))
    print(f"randomized response, a label   {flip:8.3f}")
    clients, cells = 2_048, 64
    own = np.arange(clients) % cells
    encode = microseconds(
        lambda: UnaryEncoding(one).encode(own, cells=cells, entropy=SYSTEM),
        size=clients * cells,
    )
    print(f"unary encoding, a bit          {encode:8.3f}")
    counts = np.full(cells, 10_000_000 // cells)
    rng = np.random.default_rng(1)
    q = UnaryEncoding(one).other_probability
    ten_million = microseconds(
        lambda: simulate_unary(counts, 10_000_000, q, 1, rng), size=1
    )
    print(
        f"unary encoding of 10 million simulated clients, {cells} cells {ten_million:.0f}"
    )


if __name__ == "__main__":
    polya_table()
    single_table()
    local_table()
