"""Figure 2: guessing a row's class from a published AUC, with a null control."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.attack.reidentify import Design, reidentify_auc
from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_that, shown

SIZES: Final = (100, 500, 1000, 2500)
DIGITS: Final = (2, 3, 4, 5, 6, 7)
DESIGNS: Final[tuple[Design, ...]] = ("balanced", "independent")
TRIALS: Final = 20


def sizes(data: Data) -> tuple[int, ...]:
    """Return the sizes that the pool allows."""
    pool = data.scored("adult-lr")
    most = min(pool.positives.size, pool.negatives.size)
    return tuple(size for size in SIZES if size <= most)


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Attack 20 releases of every size, in both designs."""
    pool = data.scored("adult-lr")
    found: dict[str, FloatVector] = {}
    for design in DESIGNS:
        rates = reidentify_auc(
            pool.labels,
            pool.scores,
            rng=rng,
            sizes=sizes(data),
            digits=DIGITS,
            trials=TRIALS,
            design=design,
        )
        for d in DIGITS:
            mine = [rate for rate in rates if rate.digits == d]
            found[f"{design}/success/{d}"] = np.array([r.success for r in mine])
            found[f"{design}/null/{d}"] = np.array([r.null for r in mine])
            found[f"{design}/private/{d}"] = np.array([r.private for r in mine])
    return found


def report(data: Data, runs: Runs) -> Report:
    """Show success beside the null control in both designs."""
    rows = []
    for design in DESIGNS:
        for d in DIGITS:
            for k, size in enumerate(sizes(data)):
                success, null, private = (
                    float(runs.mean(f"{design}/{kind}/{d}")[k])
                    for kind in ("success", "null", "private")
                )
                rows.append((design, size, d, success, null, private))
    null = float(runs.mean("balanced/null/7").mean())
    honest = float(np.mean([runs.mean(f"independent/null/{d}") for d in DIGITS]))
    many, few = runs.mean("independent/success/7"), runs.mean("independent/success/2")
    guarded = runs.mean("independent/private/7")
    trials = TRIALS * len(runs)
    room = 3 * 0.5 / np.sqrt(trials)
    middle = runs.mean("independent/success/4")
    return Report(
        (
            Table(
                "figure-2",
                f"Share of right guesses, {trials} attacks a cell",
                (
                    "labels",
                    "rows",
                    "digits",
                    "attack",
                    "null control",
                    "private, eps 1",
                ),
                tuple(rows),
            ),
        ),
        (
            check_that(
                "many digits give the class away",
                float(many[0]) > 0.9,
                paper="high probability at 7 digits",
                ours=f"{shown(float(many[0]))} at {sizes(data)[0]} rows",
                better=f"{shown(float(guarded[0]))} from a private AUC, eps 1",
            ),
            check_that(
                "rounding lowers the success",
                bool((few <= many + room).all()) and float(few[0]) < float(many[0]),
                paper="fewer decimals, less success",
                ours=f"{shown(float(few[-1]))} to {shown(float(few[0]))} at 2 digits",
                better="a private release: no attack, and more digits",
            ),
            check_that(
                "success falls with the number of rows",
                float(middle[-1]) <= float(middle[0]) + room,
                paper="falls from 100 to 2500 rows",
                ours=f"4 digits: {shown(float(middle[0]))} to {shown(float(middle[-1]))}",
            ),
            check_that(
                "the attack succeeds because of the release",
                null < 0.5 + room,
                paper="half positives, half negatives: .5 is guessing",
                ours=f"null control at 7 digits: {shown(null)}",
                better=f"independent labels: null control {shown(honest)}",
                wrong=True,
                reason="with exactly half of each class the known rows give the last "
                "one away: an unrelated AUC does as well or better, and where digits "
                "are few the tie rule guesses the wrong class every time",
            ),
        ),
        (_figure(data, runs),),
        (data.scored("adult-lr").source,),
    )


def _figure(data: Data, runs: Runs) -> Figure:
    x = np.array(sizes(data), dtype=np.float64)
    panels = []
    for design in DESIGNS:
        lines = [
            Series(x, runs.mean(f"{design}/success/{d}"), f"{d} digits", "line", k)
            for k, d in enumerate(DIGITS)
        ]
        null = runs.mean(f"{design}/null/7")
        lines.append(Series(x, null, "null control, 7 digits", "dashed", 6))
        words = {"balanced": "the paper's design", "independent": "independent labels"}
        panels.append(Panel(words[design], tuple(lines), "rows", "right guesses"))
    return Figure(
        "figure-2", "Boyd 2015, figure 2: the class from an AUC", tuple(panels)
    )


FIGURE_2: Final = Item(
    "figure-2",
    "Figure 2: re-identification from an AUC",
    measure,
    report,
    needs=("adult-lr",),
    runs=25,
)
