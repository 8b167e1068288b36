"""Textbook definitions of every measure, on the rows themselves, by brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn import metrics as sk
from sklearn.isotonic import IsotonicRegression

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


def shared_scores(name: str):
    """Return labels and scores of a public set, or skip where it is not there."""
    path = SHARED / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"the public scores {name} do not lie beside this clone")
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    score = table["score"].to_numpy().astype(float)
    return table["label"].to_numpy().astype(bool), score


def made_up(n: int = 900, seed: int = 4):
    """Scores that are too extreme by a half, of the size of a clinical study."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n) * 1.6 - 0.4
    y = rng.random(n) < expit(z)
    return y, expit(1.5 * z + 0.2)


def fit(y, features, offset=0.0, start=None):
    """Maximum likelihood of a logistic regression."""

    def loss(theta):
        z = features @ theta + offset
        gradient = features.T @ (expit(z) - y)
        return np.sum(np.logaddexp(0, z) - y * z), gradient

    begin = np.zeros(features.shape[1]) if start is None else start
    found = minimize(
        loss, begin, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 2000}
    )
    return found.x


def spline_curve(y, score):
    """Rates by a logistic regression on Harrell's restricted cubic spline."""
    z = logit(np.clip(score, 1e-6, 1 - 1e-6))
    order = np.sort(z)
    places = np.searchsorted(
        np.arange(1, z.size + 1) / z.size, [0.05, 0.275, 0.5, 0.725, 0.95]
    )
    t = order[places]
    columns = [np.ones_like(z), z]
    for tj in t[:3]:
        term = np.where(z > tj, z - tj, 0) ** 3
        term -= np.where(z > t[3], z - t[3], 0) ** 3 * (t[4] - tj) / (t[4] - t[3])
        term += np.where(z > t[4], z - t[4], 0) ** 3 * (t[3] - tj) / (t[4] - t[3])
        columns.append(term / (t[4] - t[0]) ** 2)
    x = np.column_stack(columns)
    scale = np.abs(x).max(axis=0)
    return expit(x @ (fit(y, x / scale) / scale))


def gain_area(y, score):
    """Area under the precision-recall-gain curve: its points, joined by hand."""
    fpr, tpr, _ = sk.roc_curve(y, score, drop_intermediate=False)
    r = y.mean()
    tp, fp = tpr * y.sum(), fpr * (~y).sum()
    # The point where recall is r, on the straight line between two thresholds.
    k = int(np.argmax(tpr >= r))
    w = (r - tpr[k - 1]) / (tpr[k] - tpr[k - 1])
    tp = np.append(r * y.sum(), tp[k:])
    fp = np.append(fp[k - 1] + w * (fp[k] - fp[k - 1]), fp[k:])
    fn = y.sum() - tp
    odds = r / (1 - r)
    precision, recall = 1 - odds * fp / tp, 1 - odds * fn / tp
    return (
        float(np.trapezoid(precision, recall))
        if hasattr(np, "trapezoid")
        else (
            float(np.trapz(precision, recall))  # noqa: NPY201 - numpy 1
        )
    )


def rate_at(y, score, specificity):
    """Sensitivity at a specificity, straight lines between thresholds."""
    fpr, tpr, _ = sk.roc_curve(y, score, drop_intermediate=False)
    return float(np.interp(1 - specificity, fpr, tpr))


def partial_area(y, score, x=0.1):
    """Area under the ROC curve up to a false positive rate."""
    corrected = sk.roc_auc_score(y, score, max_fpr=x)
    least, most = x * x / 2, x
    return least + (2 * corrected - 1) * (most - least)


def over_thresholds(y, score):
    """Every measure over all thresholds, by its definition."""
    y = y.astype(bool)
    r = y.mean()
    kept = np.clip(score, 1e-6, 1 - 1e-6)
    z = logit(kept)
    line = np.column_stack([np.ones_like(z), z])
    intercept, slope = fit(y, line, start=np.array([0.0, 1.0]))
    (large,) = fit(y, line[:, :1], offset=z)
    c = spline_curve(y, score)
    gap = np.abs(c - score)
    loss = sk.log_loss(y, kept)
    entropy = -r * np.log(r) - (1 - r) * np.log(1 - r)
    brier = sk.brier_score_loss(y, score)
    iso = IsotonicRegression().fit(score, y).predict(score)
    pooled = np.mean((y - iso) ** 2)
    cox_snell = 1 - np.exp(2 * (loss - entropy))
    groups = np.minimum((score * 15).astype(int), 14)
    ece = sum(abs(np.sum((y - score)[groups == g])) for g in range(15)) / y.size
    fpr, tpr, _ = sk.roc_curve(y, score, drop_intermediate=False)
    auc = sk.roc_auc_score(y, score)
    return {
        "auc": auc,
        "average_precision": sk.average_precision_score(y, score),
        "aupr": sk.auc(*sk.precision_recall_curve(y, score)[1::-1]),
        "brier": brier,
        "gini": 2 * auc - 1,
        "ks": np.max(tpr - fpr),
        "partial_auc": partial_area(y, score),
        "partial_auc_corrected": sk.roc_auc_score(y, score, max_fpr=0.1),
        "partial_auc_sensitivity": partial_area(~y, -score),
        "partial_auc_sensitivity_corrected": sk.roc_auc_score(~y, -score, max_fpr=0.1),
        "sensitivity_at_95_specificity": rate_at(y, score, 0.95),
        "specificity_at_95_sensitivity": rate_at(~y, -score, 0.95),
        "pr_gain_area": gain_area(y, score),
        "observed_expected": y.sum() / score.sum(),
        "calibration_in_the_large": large,
        "calibration_intercept": intercept,
        "calibration_slope": slope,
        "ece": ece,
        "ici": gap.mean(),
        "e50": np.sort(gap)[int(np.ceil(0.5 * gap.size)) - 1],
        "e90": np.sort(gap)[int(np.ceil(0.9 * gap.size)) - 1],
        "emax": gap.max(),
        "eci": np.mean(gap**2),
        "log_loss": loss,
        "scaled_brier": 1 - brier / (r * (1 - r)),
        "mean_absolute_error": np.mean(np.abs(y - score)),
        "miscalibration": brier - pooled,
        "discrimination": r * (1 - r) - pooled,
        "uncertainty": r * (1 - r),
        "mcfadden_r2": 1 - loss / entropy,
        "cox_snell_r2": cox_snell,
        "nagelkerke_r2": cox_snell / (1 - np.exp(-2 * entropy)),
        "discrimination_slope": score[y].mean() - score[~y].mean(),
    }


def at_threshold(y, score, t):
    """Every measure at a threshold, by its definition."""
    called = score >= t
    tp, fn = np.sum(called & y), np.sum(~called & y)
    fp, tn = np.sum(called & ~y), np.sum(~called & ~y)
    n, odds = y.size, t / (1 - t)
    lr_plus, lr_minus = sk.class_likelihood_ratios(y, called)
    return {
        "precision": sk.precision_score(y, called),
        "recall": sk.recall_score(y, called),
        "specificity": sk.recall_score(~y, ~called),
        "accuracy": sk.accuracy_score(y, called),
        "f1": sk.f1_score(y, called),
        "npv": sk.precision_score(~y, ~called),
        "false_positive_rate": fp / (fp + tn),
        "false_negative_rate": fn / (fn + tp),
        "alert_rate": called.mean(),
        "balanced_accuracy": sk.balanced_accuracy_score(y, called),
        "youden": tp / (tp + fn) + tn / (tn + fp) - 1,
        "likelihood_ratio_positive": lr_plus,
        "likelihood_ratio_negative": lr_minus,
        "diagnostic_odds_ratio": lr_plus / lr_minus,
        "mcc": sk.matthews_corrcoef(y, called),
        "kappa": sk.cohen_kappa_score(y, called),
        "f2": sk.fbeta_score(y, called, beta=2),
        "f_half": sk.fbeta_score(y, called, beta=0.5),
        "net_benefit": tp / n - fp / n * odds,
        "net_benefit_all": y.mean() - (1 - y.mean()) * odds,
        "standardised_net_benefit": (tp / n - fp / n * odds) / y.mean(),
        "expected_cost": (1 - t) * fn / n + t * fp / n,
        "lift": y[called].mean() / y.mean(),
        "number_needed_to_evaluate": 1 / sk.precision_score(y, called),
    }
