"""The page of measures, made from the tables and from public predictions on the rows.

    python tests/measures_page.py

writes ``docs/measures.md`` again.
"""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import Final

import discreet
from discreet.metrics.curves import CURVES
from discreet.metrics.table import METRICS, RATES

sys.path.insert(0, str(Path(__file__).parent))
from measure_oracles import at_threshold, over_thresholds, shared_scores

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "measures.md"
CUT: Final = 0.1
CUTS: Final = [CUT, *(k / 15 for k in range(1, 15))]
"""The threshold of the case study, and the groups of ECE: their ends become edges."""
LOOSE: Final = {
    "specificity_at_95_sensitivity": 5e-3,
    "e50": 1e-2,
    "miscalibration": 5e-3,
}
"""Where the order of a few rows inside one bin moves the value by more than .1%."""
_BETTER: Final = {
    "higher": "higher",
    "lower": "lower",
    "one": "near 1",
    "zero": "near 0",
}


def release(y, score):
    """Evaluate at 1,024 bins; so few rows in so many bins are public ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.DisclosureWarning)
        return discreet.evaluate(
            [discreet.Examples(score, y)], thresholds=CUTS, examples=20_000
        )


def page() -> str:
    """Return the page."""
    y, score = shared_scores("ovarian-adnex")
    result = release(y, score)
    everywhere, there = over_thresholds(y, score), at_threshold(y, score, CUT)
    found = [
        _BEFORE.format(rows=y.size, positives=int(y.sum()), cut=CUT),
        _table(METRICS, everywhere, lambda n: result.metrics[n].value),
        f"\n## At a threshold, here {CUT:g} (a miss costs 9 false alarms)\n",
        _table(RATES, there, lambda n: result.at(CUT)[n].value),
        _CURVES,
        "\n".join(f"- `{name}`: {CURVES[name].source}" for name in CURVES),
        _AFTER,
    ]
    return "\n".join(found)


def _table(rows, truth, value) -> str:
    head = (
        "| measure | formula | better | on the rows | from the release | source | "
        "what it hides |\n|---|---|---|---:|---:|---|---|"
    )
    lines = [
        f"| `{name}` | {row.formula.replace('|', '&#124;')} | {_BETTER[row.better]} | "
        f"{_number(truth[name])} | {_number(value(name))} | {row.source} | {row.hides} |"
        for name, row in ((n, rows[n]) for n in rows)
    ]
    return "\n".join([head, *lines])


def _number(value: float) -> str:
    return f"{value:.{max(0, 4 - max(0, math.floor(math.log10(abs(value)) + 1)))}f}"


_BEFORE: Final = """\
# Measures: what a validation reports, and what each hides

<!-- made by `python tests/measures_page.py`; a test compares it -->

All of them follow from the one released class histogram: no further privacy is spent. Each is an `Estimate` with
sampling, binning and noise apart.

```python
result.metrics["calibration_slope"]  # any row below, computed when it is looked up
result.at(0.1).net_benefit  # at a threshold
# specificity=, precision=, alert_rate=, youden=True or cost_ratio=9 likewise
result.thresholds.find(sensitivity=0.95)
result.thresholds.top(100).at.precision  # precision at k
result.curves.decision()  # model, treat all, treat none, with limits
result.curves.over_thresholds("lift")  # also cost, gains, pr_gain
result.exports.to_frame()  # one tidy row a measure (pandas)
```

`result.metrics` iterates over what the plan asked for and `print` stays short; looking a name up computes any other row.

The numbers are those of {rows} public predictions ({positives} positives) of the ADNEX model for ovarian tumours, the case
study of Van Calster et al. (2025, arXiv 2412.10288), which recommends the AUC, a calibration plot, a decision curve and the
distribution of risks, and warns of most single numbers below. *On the rows* is the textbook definition on the rows
themselves (`tests/measure_oracles.py`); *from the release* is what 1,024 bins give, cut at {cut:g} and at the groups of ECE.
They agree within .1% but for three, where the order of a few rows inside one bin moves the value: `specificity_at_95_sensitivity`
(.5%), `e50` (1%) and `miscalibration` (.5%).

## Over all thresholds
"""
_CURVES: Final = """
## Curves

`result.curves.over_thresholds(name)` holds x, y, their 95% limits where they are known, and the curves to compare with:
"""
_AFTER: Final = """

## Two models

`discreet.compare(sites)` gives `difference(name)` of any row above, `differences_at(t)` of the rows at a threshold,
`decision_curve()` of the difference of net benefits, and with `form="joint"` the net reclassification `nri()`. The
difference of discrimination slopes is the IDI. `dependence` says whether the correlation of the two models' errors was
read from joint counts or taken as none, which is careful.

## Groups

`result = discreet.evaluate(sites, groups=[...])`, then `result.fairness(threshold)`: every group's rates and calibration,
`gaps(measure)` and ratios of all pairs with intervals that hold at once, `largest(measure)` with an interval that holds
although the pair was picked for its size, `standardised(measure, mix)` at a declared mix of the groups, and `small()`:
groups that are too small or too noisy are marked, never dropped.

## Periods

Declare periods as groups, in order: `result.drift(("auc", "observed_expected"))` compares each with the mean of those before
it, and the population stability index of the scores; `false_alarm` is the share of whole series without any change that
raise an alarm, over all periods and measures. `detectable("auc")` says which change would be seen; `discreet plan --in-group ... --watch-drop 0.03`
says it before any data, and refuses a plan that would miss it.

Measured on calibrated scores (AUC .82), 24 periods of 5,000 rows at epsilon 1, AUC, O:E, slope and stability watched at 5%: 4 of 55 series without a
change raised an alarm, and the contrasts had standard deviations of 0.99 to 1.01. With the AUC lower by .031 from period 21 on, 32 of 32 series raised one
in that very period, the AUC's own contrast 28 of 32, within four periods 32 of 32.

## Prediction sets

`result.thresholds.conformal(0.1)` (or `given="class"`; every group's own for groups) gives the least probability with which a label is in
the set, so that 90% of sets hold the true one: the finite-sample rule of split conformal prediction on the released counts,
with the noise's 95% quantile added. `discreet.report.conformal.conformal_classes` has the one threshold of several classes.

## Weights

`discreet.evaluate(sites, weight="n", max_weight=5)` (`--weight n --max-weight 5`; `discreet plan --max-weight 5`, then `--weight n` at each
site) lets an example count by a whole number from 0 to a declared, public largest one: rows that were sampled with known chances, or
another case mix. Every measure is scikit-learn's with `sample_weight` on the binned scores; one example
moves the released vector by that weight, and noise grows with it.

Errors are those of fewer examples: counts over w = sum of squares/sum of weights have Kish's effective number as their total, and counts are shown
in such effective examples. Exact sums release the sum of squared weights of each class beside the histogram, and take the larger w of the two
classes. Under noise such a sum would move by the square of the largest weight, so none is released: w is taken as the largest weight, which is
careful. Weights that were estimated, or that go with scores inside a class, are not covered by it: where high scores were sampled one in twenty,
intervals of precision at a threshold held in 82% of 50 runs. Limits of the areas (`worst_case_binning=True`) are made for whole
counts and are estimates with weights. Sums of squares that no whole weights give are refused. Conformal sets are for examples of one weight.

Refused, with a sentence: one-example local messages (a message cannot hold a weight), label privacy (a flip of a heavy row is no flip of a
light one), exact areas, groups, classes, two models and how sites differ; fractions (multiply and round them); counting in a database.
Inside a session a weight out of range is moved to the nearer end, and a row without one is left out.

## Several classes

`result.class_map("temperature")` (one slope for all) or `"vector"` (an intercept and a slope a class) maps scores to
probabilities from the one-vs-rest release; `result.top_label_ece` is the top label's calibration error over examples whose
top score is above a half, with limits for the others: below a half no class's own histogram tells which label is the top.

## What is stated, not hidden

- Log loss and what is made of it keep scores 1e-6 from 0 and 1; so does the logit of calibration lines and curves.
- Intercept and slope are maximum likelihood, unpenalised; separated classes have none.
- The smooth calibration curve is a logistic regression on a restricted cubic spline of the logit with five knots and a pull of
  1e-4 towards calibrated scores, for ends without positives. ICI and its kin cannot be below 0, so they are too large where little is wrong; their intervals take that scatter off
  (`discreet.metrics.logistic.Folded`).
- The Brier score's parts are CORP's: miscalibration - discrimination + uncertainty is the score, exactly.
- A threshold found on these data is judged on them too; `result.thresholds.find(...).sentence` says what that means.
- Partial areas of the table end at a false positive rate of .1 or begin at a recall of .9; `result.curves.partial_auc(max_fpr=0.2)` or
  `min_recall=0.8` gives any other.
- All rows of `to_frame()` with their intervals at three thresholds take .16 s of one core from 1,024 exact bins, .19 s under noise
  (fitting the release again .02 s and .05 s).
- The Hosmer-Lemeshow test is there (`result.recalibration.hosmer_lemeshow()`) with the sentence on why not to use it.
- Under noise a measure's error follows the smooth model's own response to the released counts ([error bars](error-bars.md)).

## How often the intervals hold

`python bench/measures_coverage.py`: percent of 95% intervals that hold the population's own value, 5,000 rows drawn with
replacement from 400,000 made-up ones or from public out-of-fold scores, 300 repetitions (their error is 1.3).

| population | noise | slope | O:E | recall at 95% spec. | log loss | partial AUC | net benefit | ICI |
|---|---|---:|---:|---:|---:|---:|---:|---:|
| calibrated | exact | 95.3 | 96.0 | 95.0 | 95.3 | 96.7 | 94.7 | 96.7 |
| calibrated | eps 1 | 97.3 | 96.7 | 96.0 | 97.7 | 97.7 | 96.0 | 96.7 |
| too extreme, 1 positive in 11 | exact | 95.7 | 94.7 | 97.0 | 96.3 | 97.0 | 95.0 | 91.7 |
| too extreme, 1 positive in 11 | eps 1 | 96.7 | 94.7 | 96.7 | 98.7 | 97.3 | 95.0 | 91.3 |
| adult, boosted trees | exact | 95.3 | 94.3 | 94.3 | 95.3 | 94.7 | 93.7 | 93.7 |
| adult, boosted trees | eps 1 | 96.0 | 95.0 | 96.3 | 98.0 | 97.3 | 93.3 | 96.3 |
| bank, boosted trees | exact | 95.0 | 95.7 | 94.3 | 97.0 | 94.3 | 94.0 | 96.7 |
| bank, boosted trees | eps 1 | 94.7 | 96.3 | 96.0 | 96.7 | 95.3 | 94.3 | 98.7 |

ICI falls short on scores that are too extreme and rare; log loss at epsilon 1 asks for more than it needs.

Conformal sets at 10,000 rows, 100 repetitions, mean share of labels held (known to .0004), exact and at epsilon 1: at 90% .9000 and .9015 on the
calibrated scores, .8997 and .9011 on the too extreme ones, .9004 and .9019 on adult, .9001 and .9014 on the bank; at 95% .9500 and .9513, .9499 and .9510,
.9505 and .9516, .9500 and .9514. All six
gaps of recall between four groups at once, 200 repetitions (their error is 1.5), exact and at epsilon 1: calibrated 97.5 and 99.0%, too extreme 92.5 and 96.0%,
adult 92.5 and 96.5%, bank 94.5 and 97.0%; the largest gap 97.5 to 100%, which is careful.
"""


if __name__ == "__main__":
    PAGE.write_text(page())
