import math

import numpy as np
import pytest

from discreet.curator.sensitivity import (
    LEAST_BETA,
    ap_local_sensitivity,
    ap_smooth_sensitivity,
    auc_local_sensitivity,
    auc_smooth_sensitivity,
)
from discreet.errors import PlanError

BETAS = [LEAST_BETA, 0.003, 0.02, 0.1, 0.5, 3.0]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("rows", [2, 3, 10, 101, 400])
def test_the_closed_form_for_auc_is_the_maximum_of_theorem_4(rows, beta):
    local = np.array([auc_local_sensitivity(i, rows - i) for i in range(rows + 1)])
    for n in range(rows + 1):
        away = np.abs(np.arange(rows + 1) - n)
        expected = np.max(local * np.exp(-beta * away))
        found = auc_smooth_sensitivity(n, rows - n, beta)
        assert found == pytest.approx(expected, rel=1e-6)
        assert found >= expected


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("bound", ["exact", "equation-10"])
def test_average_precision_is_the_maximum_of_theorem_6(beta, bound):
    rows = 300
    local = ap_local_sensitivity(np.arange(rows + 1), bound)
    for n in (0, 1, 2, 50, 300):
        expected = np.max(local * np.exp(-beta * np.abs(np.arange(rows + 1) - n)))
        found = ap_smooth_sensitivity(n, beta, bound)
        assert found == pytest.approx(expected, rel=1e-6)
        assert found >= expected


@pytest.mark.parametrize("beta", BETAS)
def test_neighbours_differ_by_at_most_e_to_the_beta(beta):
    rows = 500
    auc = [auc_smooth_sensitivity(n, rows - n, beta) for n in range(rows + 1)]
    ap = [ap_smooth_sensitivity(n, beta) for n in range(rows + 1)]
    for found in (auc, ap):
        steps = np.abs(np.diff(np.log(found)))
        assert steps.max() <= beta
        if beta <= 0.1:  # else the local sensitivity is smooth enough by itself
            assert steps.max() == pytest.approx(beta, rel=1e-6)


def test_a_smoothness_too_small_for_floats_is_refused():
    with pytest.raises(PlanError, match="drown"):
        auc_smooth_sensitivity(5, 5, LEAST_BETA / 2)
    with pytest.raises(PlanError, match="drown"):
        ap_smooth_sensitivity(5, math.nan)
