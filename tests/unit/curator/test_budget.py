import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet import curator
from discreet.curator import Budget
from discreet.entropy import Seeded
from discreet.errors import BudgetError, PlanError
from discreet.privacy.account import Permit
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import Charge
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded
from discreet.privacy.unit import ROW

pytestmark = pytest.mark.long

HALF = PureDP(Fraction(1, 2))
LABELS = [0, 1] * 200
SCORES = list(range(400))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.sqlite"


def test_a_budget_pays_until_it_is_spent_and_decimals_add_up_as_written():
    with Budget(epsilon="0.3") as budget:
        for _ in range(3):
            budget.charge(PureDP(Fraction(1, 10)), "a tenth")
        assert budget.remaining == 0
        with pytest.raises(BudgetError, match="nothing was charged"):
            budget.charge(PureDP(Fraction(1, 10**9)), "a fourth")
        assert budget.spent.epsilon == Fraction(3, 10)


def test_delta_has_a_total_of_its_own():
    loss = ApproxDP(Fraction(1, 10), Fraction(1, 100))
    with Budget(epsilon=10) as pure, pytest.raises(BudgetError):
        pure.charge(loss, "needs delta")
    with Budget(epsilon=10, delta="0.01") as budget:
        budget.charge(loss, "spends it all")
        with pytest.raises(BudgetError):
            budget.charge(loss, "once more")


def test_releases_go_through_the_budget():
    with Budget(epsilon=3) as budget:
        entropy = Seeded(b"budget")
        curator.auc(LABELS, SCORES, epsilon=1, budget=budget, entropy=entropy)
        for release in (curator.average_precision, curator.confusion):
            release(LABELS, SCORES, epsilon="0.5", budget=budget, entropy=entropy)
        assert budget.remaining == 1
        with pytest.raises(BudgetError):
            curator.auc(LABELS, SCORES, epsilon="1.1", budget=budget)
        assert budget.remaining == 1


def test_the_charge_comes_before_the_noise():
    def broken(_size):
        raise OSError("no randomness")

    with Budget(epsilon=3) as budget:
        for release in (curator.auc, curator.average_precision, curator.confusion):
            with pytest.raises(OSError, match="randomness"):
                release(LABELS, SCORES, epsilon=1, budget=budget, entropy=broken)
        assert budget.remaining == 0


def test_without_a_path_it_says_that_it_ends_with_the_process():
    with Budget(epsilon=1) as budget:
        assert "ends with the process" in str(budget)
        found = curator.auc(LABELS, SCORES, epsilon=1, budget=budget)
    assert "ends with the process" in str(found.claim)
    alone = curator.auc(LABELS, SCORES, epsilon=1)
    assert "nobody keeps count" in str(alone.claim)


def test_a_file_remembers_what_was_spent_and_under_which_total(path):
    with Budget(epsilon=1, path=path) as budget:
        budget.charge(HALF, "first")
    with Budget(epsilon=1, path=path) as budget:
        assert budget.remaining == Fraction(1, 2)
        assert "recorded in budget.sqlite" in str(budget)
        with pytest.raises(BudgetError):
            budget.charge(PureDP(Fraction(3, 4)), "second")
    with pytest.raises(BudgetError, match="epsilon 1 "):
        Budget(epsilon=2, path=path)


def test_a_crash_after_the_charge_does_not_undo_it(path):
    script = (
        "import os, sys\n"
        "from fractions import Fraction\n"
        "from discreet.curator import Budget\n"
        "from discreet.privacy.loss import PureDP\n"
        "budget = Budget(epsilon=1, path=sys.argv[1])\n"
        "budget.charge(PureDP(Fraction(1, 2)), 'then it dies')\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, path], check=False)  # noqa: S603
    assert done.returncode == 9
    with Budget(epsilon=1, path=path) as budget:
        assert budget.remaining == Fraction(1, 2)


def test_two_users_of_one_file_share_the_budget(path):
    with Budget(epsilon=1, path=path) as one, Budget(epsilon=1, path=path) as other:
        one.charge(HALF, "one")
        other.charge(HALF, "other")
        with pytest.raises(BudgetError):
            one.charge(HALF, "one again")


def test_a_file_that_is_something_else_is_refused(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("y_true,y_score\n" * 100)
    with pytest.raises(BudgetError, match=r"scores\.csv"):
        Budget(epsilon=1, path=path)


def test_a_closed_budget_and_other_losses_are_refused():
    budget = Budget(epsilon=1)
    with pytest.raises(BudgetError, match="cannot be charged"):
        budget.charge(Unbounded(), "exact")
    budget.close()
    with pytest.raises(BudgetError, match="closed"):
        budget.charge(HALF, "late")


@pytest.mark.parametrize("bad", [{"epsilon": 0}, {"epsilon": 1, "delta": 1}])
def test_an_impossible_total_is_refused(bad):
    with pytest.raises(PlanError):
        Budget(**bad)


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_published_is_stored_under_its_charge_and_stays(path, kept):
    with Budget(epsilon=1, path=path if kept else None) as budget:
        permit = budget.charge(HALF, "an evaluation")
        budget.record(permit, b"noisy")
        budget.record(permit, b"noisy")
        with pytest.raises(BudgetError, match="another message"):
            budget.record(permit, b"fresh noise")
        stranger = replace(permit.use, session=b"other")
        with pytest.raises(BudgetError, match="not issued"):
            budget.record(Permit(stranger), b"noisy")
    assert permit.use.unit == ROW


def test_a_release_is_stored_before_it_is_returned(path, monkeypatch):
    def full(*_):
        raise OSError("the disk is full")

    with Budget(epsilon=2, path=path) as budget:
        curator.confusion(LABELS, SCORES, epsilon=1, budget=budget)
        monkeypatch.setattr(Ledger, "record", full)
        with pytest.raises(OSError, match="full"):
            curator.auc(LABELS, SCORES, epsilon=1, budget=budget)
        assert budget.remaining == 0
    with Ledger(path) as ledger:
        first, second = (e.use for e in ledger.entries() if isinstance(e, Charge))
        assert len(ledger.replay(first.session, 0)) == 4 * 8
        assert ledger.replay(second.session, 0) is None
