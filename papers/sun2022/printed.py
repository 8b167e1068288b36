"""What the paper prints in its tables of standard deviations and means."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, Literal, TypeAlias

from papers.sun2022.sites import Split

Name: TypeAlias = Literal["global", "local", "adaptive"]
Key: TypeAlias = tuple[Name, Split, int]
SITES: Final = (10, 458, 1000, 4584, 45_840, 100_000, 458_407)
EPSILONS: Final = (1, 2, 4, 8)
IN_TABLE_1: Final = (10, 458, 4584, 45_840)
BLANK: Final = float("nan")


def _rows(table: str) -> dict[Key, tuple[float, ...]]:
    """Read a table of standard deviations: its rows say mechanism, split, epsilon."""
    text = Path(__file__).with_name("printed.toml").read_text(encoding="utf-8")
    found: dict[Key, tuple[float, ...]] = {}
    for words, cells in tomllib.loads(text)[table].items():
        name, how, epsilon = words.split()
        found[name, how, int(epsilon)] = tuple(cells)
    return found


RESPONSE: Final = {1: 2.17e-3, 2: 1.02e-3, 4: 3.49e-4, 8: 4.41e-5}
"""Randomized response in Tables 1 and 7, for any number of sites."""

TABLE_7: Final = _rows("table-7")
"""Tables 1 and 7: standard deviations of 100 runs; columns are SITES."""

TABLE_2_SITES: Final = (10, 1000, 100_000, 458_407)
TABLE_2: Final = _rows("table-2")
"""Standard deviations with accurate P and N; columns are TABLE_2_SITES."""

TABLE_3: Final = {
    0.1: (0.509429, 0.510137, 0.510237),
    0.5: (0.546986, 0.550344, 0.550862),
    1.0: (0.592421, 0.598951, 0.600010),
    2.0: (0.667666, 0.679436, 0.681911),
    4.0: (0.735230, 0.751306, 0.754892),
    10.0: (0.749343, 0.766438, 0.770177),
}
"""AUCs of flipped labels without debiasing; columns are epochs."""

TABLE_5: Final = {
    0.1: ((0.745667, 2.41e-2), (0.765312, 2.40e-2), (0.777627, 2.62e-2)),
    0.25: ((0.749169, 8.69e-3), (0.767502, 8.76e-3), (0.771198, 7.57e-3)),
    0.5: ((0.749206, 5.39e-3), (0.767081, 4.79e-3), (0.769621, 4.56e-3)),
    1.0: ((0.749495, 2.11e-3), (0.766833, 2.09e-3), (0.770707, 2.23e-3)),
    2.0: ((0.749453, 9.43e-4), (0.766621, 8.76e-4), (0.770548, 1.01e-3)),
    3.0: ((0.749295, 5.46e-4), (0.766490, 4.62e-4), (0.770183, 6.14e-4)),
    4.0: ((0.749207, 3.75e-4), (0.766458, 3.33e-4), (0.770161, 3.21e-4)),
    5.0: ((0.749399, 2.05e-4), (0.766477, 2.14e-4), (0.770214, 1.33e-4)),
    10.0: ((0.749383, 1.77e-5), (0.766475, 1.84e-5), (0.770214, 1.67e-5)),
}
"""Mean and standard deviation of the debiased AUC on the small set."""

TABLE_6: Final = {
    0.1: ((0.751439, 7.52e-3), (0.768640, 6.96e-3), (0.774664, 6.48e-3)),
    0.25: ((0.750405, 2.90e-3), (0.767958, 2.85e-3), (0.771694, 3.26e-3)),
    0.5: ((0.750589, 1.32e-3), (0.768324, 1.62e-3), (0.772143, 1.39e-3)),
    1.0: ((0.750345, 5.51e-4), (0.767988, 7.27e-4), (0.771974, 8.11e-4)),
    2.0: ((0.750482, 3.03e-4), (0.768001, 3.03e-4), (0.772005, 3.60e-4)),
    3.0: ((0.750480, 1.53e-4), (0.768043, 1.82e-4), (0.772040, 1.73e-4)),
    4.0: ((0.750509, 9.45e-5), (0.768055, 1.11e-4), (0.772008, 1.20e-4)),
    5.0: ((0.750500, 5.87e-5), (0.768041, 6.73e-5), (0.772004, 6.11e-5)),
    10.0: ((0.750509, 5.37e-6), (0.768046, 5.83e-6), (0.772008, 5.04e-6)),
}
"""The same on the large set."""

TABLE_8: Final = {
    1: 1,
    5: 4,
    10: 8,
    50: 43,
    100: 79,
    500: 384,
    1000: 774,
    5000: 3914,
    10_000: 7519,
    50_000: 30_793,
    100_000: 52_268,
}
"""Positives among the top k scores."""

TABLE_9: Final = {
    1: (0.5374, 0.5416, 0.5420),
    2: (0.5725, 0.5795, 0.5830),
    3: (0.5976, 0.6105, 0.6130),
    4: (0.6239, 0.6367, 0.6387),
    5: (0.6413, 0.6569, 0.6607),
    6: (0.6571, 0.6732, 0.6786),
    7: (0.6698, 0.6870, 0.6903),
    8: (0.6797, 0.6976, 0.7022),
    9: (0.6885, 0.7060, 0.7115),
    10: (0.6952, 0.7124, 0.7191),
    50: (0.7454, 0.7625, 0.7663),
    100: (0.7484, 0.7654, 0.7692),
    1000: (0.7494, 0.7665, 0.7702),
}
"""AUCs of noisy scores; columns are epochs."""
