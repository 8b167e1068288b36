"""What the paper prints (Ünal, Pfeifer and Akgün 2023), and where it is wrong.

Each function is the printed text on plain numbers; each test shows an example in
which the print and the area that it means part, and that the engine agrees with
the area.
"""

import numpy as np
import pytest

import oracles
from discreet.data.examples import Examples
from discreet.mpc.encode import encode
from discreet.mpc.engine import Reference
from discreet.mpc.program import Program


def engine(scores, labels, ties="exact"):
    owner = encode(Examples(scores, labels))
    program = Program((owner.rows,), ties=ties)
    return program.decode(Reference().run(program, [owner]).values)


def algorithm_1(labels):
    """Secure AUROC without ties: numerator and denominator."""
    tp = previous_fp = numerator = fp = 0
    for p, label in enumerate(labels, start=1):
        tp += label
        fp = p - tp
        numerator += tp * (fp - previous_fp)
        previous_fp = fp
    return numerator, tp * fp


def algorithm_2(labels, marks):
    """Secure AUROC with ties; ``marks`` are the samples' ``con``."""
    tp = fp = previous_fp = previous_tp = n1 = n2 = 0
    for p, (label, mark) in enumerate(zip(labels, marks, strict=True), start=1):
        tp += label
        fp = p - tp
        n1 += mark * previous_tp * (fp - previous_fp)
        n2 += mark * (tp - previous_tp) * (fp - previous_fp)
        if mark:
            previous_fp, previous_tp = fp, tp
    return (2 * n1 + n2) / (2 * tp * fp)


def algorithm_4(labels, marks, *, recall):
    """Secure AUPR; ``recall`` says what RC accumulates (printed: 1 a sample)."""
    tp = np.cumsum(labels)
    ranks = np.arange(1, len(labels) + 1)
    rc = ranks if recall == "rank" else tp
    pc = tp / ranks
    previous_pc, previous_rc, n1, n2 = 1.0, 0.0, 0.0, 0.0
    for j, mark in enumerate(marks):
        n1 += mark * previous_pc * (rc[j] - previous_rc)
        n2 += mark * (rc[j] - previous_rc) * (pc[j] - previous_pc)
        if mark:
            previous_pc, previous_rc = pc[j], rc[j]
    return (2 * n1 + n2) / (2 * tp[-1])


def equation_2(t, f, chosen, start):
    """The printed sum over the chosen indices; ``start`` is T[0], F[0] = 0."""
    area, t0, f0 = 0.0, start, 0.0
    for i in chosen:
        area += t0 * (f[i] - f0) + (t[i] - t0) * (f[i] - f0) / 2
        t0, f0 = t[i], f[i]
    return area


def differs_from_following(scores):
    return [*(np.diff(scores) != 0).astype(int).tolist(), 1]


def differs_from_preceding(scores):
    return [1, *(np.diff(scores) != 0).astype(int).tolist()]


SCORES = [0.9, 0.7, 0.7, 0.7, 0.4, 0.2]
LABELS = [1, 1, 0, 0, 1, 0]


def test_the_version_without_ties_is_ours():
    distinct = [0.9, 0.8, 0.7, 0.6, 0.4, 0.2]
    numerator, denominator = algorithm_1(LABELS)
    auc = pytest.approx(numerator / denominator, abs=1e-15)
    assert engine(distinct, LABELS, ties="none")["auc"] == auc
    assert engine(distinct, LABELS)["auc"] == auc


def test_the_numerator_never_exceeds_the_denominator_as_the_text_says_it_does():
    # Section 4.1: "since N is always greater than or equal to D".
    numerator, denominator = algorithm_1(LABELS)
    assert numerator < denominator


def test_ten_equal_scores_give_1_or_0_without_tie_handling():
    # The paper's own example of section 3.2: there their order decides.
    tied = [0.5] * 10
    first, last = [1] * 5 + [0] * 5, [0] * 5 + [1] * 5
    areas = [np.divide(*algorithm_1(labels)) for labels in (first, last)]
    assert areas == [1.0, 0.0]
    # Owners share sorted rows: the version without ties is always the lower one.
    assert engine(tied, first, ties="none")["auc"] == 0.0
    assert engine(tied, last, ties="none")["auc"] == 0.0
    assert engine(tied, first)["auc"] == engine(tied, last)["auc"] == 0.5


def test_marks_must_say_differs_from_the_following_sample():
    truth = oracles.auc_by_pairs(SCORES, LABELS)
    assert algorithm_2(LABELS, differs_from_following(SCORES)) == pytest.approx(truth)
    printed = algorithm_2(LABELS, differs_from_preceding(SCORES))
    assert abs(printed - truth) > 0.05
    assert engine(SCORES, LABELS)["auc"] == pytest.approx(truth, abs=1e-15)


def test_equation_2_with_its_printed_index_is_wrong():
    tp, fp = np.cumsum(LABELS), np.cumsum(1 - np.array(LABELS))
    tpr, fpr = tp / tp[-1], fp / fp[-1]
    truth = oracles.auc_by_pairs(SCORES, LABELS)
    right = np.flatnonzero(differs_from_following(SCORES))
    printed = np.flatnonzero(differs_from_preceding(SCORES))
    assert equation_2(tpr, fpr, right, 0.0) == pytest.approx(truth)
    assert abs(equation_2(tpr, fpr, printed, 0.0) - truth) > 0.05


def test_algorithm_4_takes_the_rank_for_recall():
    truth = oracles.trapezoid_aupr(SCORES, LABELS)
    marks = differs_from_following(SCORES)
    assert algorithm_4(LABELS, marks, recall="rank") > 1.0  # no area is
    assert algorithm_4(LABELS, marks, recall="positives") == pytest.approx(truth)
    assert engine(SCORES, LABELS)["aupr"] == pytest.approx(truth, abs=1e-15)


def test_precision_starts_at_1_not_at_0():
    # Section 3.2 sets T[0] = 0 and then lets T be precision; Algorithm 4 starts at 1.
    tp, ranks = np.cumsum(LABELS), np.arange(1, 7)
    precision, recall = tp / ranks, tp / tp[-1]
    chosen = np.flatnonzero(differs_from_following(SCORES))
    truth = oracles.trapezoid_aupr(SCORES, LABELS)
    assert equation_2(precision, recall, chosen, 1.0) == pytest.approx(truth)
    assert equation_2(precision, recall, chosen, 0.0) < truth - 0.1
