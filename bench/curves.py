"""Area error without noise: what binning alone costs, beside the papers' figures.

python bench/curves.py [--save]
"""

from __future__ import annotations

import sys
import warnings

import discreet
from datasets import load, needs
from discreet.data.edges import Warped
from discreet.metrics.curve_points import drawn_points
from discreet.report.views import counted
from evidence import FITS, Evidence, Figure

PAPERS = {"adult-xgb": 6.3, "bank-xgb": 8.1, "cover-xgb": 5.0}
"""ROC area error x 1e-4 of the tree with secure aggregation at 512 leaves
(Xu and Cormode 2025, re-run)."""
SETS = (*PAPERS, "adult-xgb-oof", "bank-xgb-oof", "adult-lr", "adult-knn5-oof")


def main() -> None:
    needs(*SETS)
    warnings.simplefilter("ignore", discreet.DisclosureWarning)
    print("area error x 1e-4, exact sums, default estimator")
    header = "".join(f"{f'{b} bins':>16}" for b in (128, 512, 4096))
    print(f"{'':16}{header}{'at 512: x papers':>20}")
    print(f"{'':16}" + f"{'ROC':>9}{'PR':>7}" * 3 + f"{'ROC':>20}")
    rows: list[list[str | Figure]] = []
    for name in SETS:
        data = load(name)
        rows.append([name])
        site = discreet.Examples(data.scores, data.labels)
        cells, at_512 = [], float("nan")
        for bins in (128, 512, 4096):
            result = discreet.evaluate([site], edges=Warped(bins))
            drawn = drawn_points(counted(result.fit))
            roc, pr = (
                1e4 * discreet.area_error(*pair)
                for pair in zip((data.roc, data.pr), drawn, strict=True)
            )
            cells.append(f"{roc:9.2f}{pr:7.2f}")
            rows[-1] += [Figure(roc), Figure(pr)]
            at_512 = roc if bins == 512 else at_512
        ratio = f"{at_512 / PAPERS[name]:20.3f}" if name in PAPERS else ""
        rows[-1].append(Figure(PAPERS[name], digits=1) if name in PAPERS else "")
        print(f"{name:16}{''.join(cells)}{ratio}")
    if "--save" in sys.argv:
        columns = ["area error x 1e-4"]
        for bins in (128, 512, 4096):
            columns += [f"ROC, {bins} bins", f"PR, {bins} bins"]
        columns.append("Xu and Cormode 2025, ROC, 512 leaves")
        evidence = Evidence("curves", FITS, {"sets": SETS})
        evidence.table("exact", columns, rows)
        evidence.save()


if __name__ == "__main__":
    main()
