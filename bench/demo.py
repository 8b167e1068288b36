"""What averaging gives instead of the pooled value, for the hospitals of ``discreet demo``.

    python bench/demo.py [--save]

Prints the AUC and the concordance of the pooled patients, and the mean of the hospitals'
own. The hospitals are those of the demo, with its seeds.
"""

from __future__ import annotations

import argparse

import numpy as np

from discreet.cli.demo import (
    _alone,
    _concordance,
    simulate_follow_up,
    simulate_hospitals,
)
from evidence import FITS, Evidence, Figure


def measured() -> dict[str, float]:
    """Return the four numbers."""
    hospitals = simulate_hospitals()
    followed = simulate_follow_up(hospitals)
    local = [_alone([hospital]).auc.value for hospital in hospitals]
    ranked = [_concordance([site]) for site in followed]
    return {
        "averaged-auc": float(np.mean(local)),
        "pooled-auc": float(_alone(hospitals).auc.value),
        "averaged-concordance": float(np.mean(ranked)),
        "pooled-concordance": _concordance(followed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="into results/")
    options = parser.parse_args()
    evidence = Evidence("demo", (*FITS, "cli/demo"), {"hospitals": 1, "follow-up": 2})
    for name, value in measured().items():
        print(f"{name:24}{value:.4f}")
        evidence.figure(name, Figure(value, digits=3))
    if options.save:
        evidence.save()


if __name__ == "__main__":
    main()
