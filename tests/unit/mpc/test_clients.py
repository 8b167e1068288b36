"""An owner asks its policy and its ledger before a share leaves, once a session."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet import Examples
from discreet.entropy import SYSTEM
from discreet.errors import BudgetError, InputError
from discreet.mpc.clients import Owner, make_packages
from discreet.mpc.fleet import allowing, local_session
from discreet.mpc.model import ExactMPC
from discreet.mpc.shares import PAD, combine, encode
from discreet.plan.cohort import key_text
from discreet.plan.plan import ModelRef
from discreet.privacy.account import Spent
from discreet.privacy.ledger import Ledger
from discreet.session.policy import PolicyError

SIZES = (3, 4)
KEY = key_text(b"\1" * 32)
NOISY, EXACT = ExactMPC(epsilon="0.5"), ExactMPC()
ROWS = Examples([0.5, 0.1, 0.2], [1, 0, 1])
OTHERS = Examples([0.5, 0.1, 0.3], [1, 0, 1])


def never():
    raise AssertionError("the rows were read")


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    opened = [Ledger.new(path)]

    def open_ledger(policy):
        opened.append(Ledger(path, limits=policy.limits()))
        return opened[-1]

    yield open_ledger
    for each in opened:
        each.close()


@pytest.fixture
def owner(ledger):
    def make(model, rows=ROWS, session=None, **policy):
        session = session or local_session(SIZES, model)
        rules = replace(allowing(session), **policy)
        given = rows if callable(rows) else lambda: rows
        return Owner(session, "owner-1", rules, ledger(rules), given)

    return make


def spent(member):
    return member.account.spent(member.policy.population)


@pytest.mark.parametrize("model", [NOISY, EXACT])
def test_an_allowed_session_is_charged_and_shared(owner, model):
    member = owner(model)
    packages, _ = member.answer(entropy=SYSTEM)
    assert (combine([p.pairs for p in packages]) & 1).tolist() == [1, 1, 0]
    expected = Spent(Fraction(1, 2)) if model is NOISY else Spent(exact_sums=1)
    assert spent(member) == expected


@pytest.mark.parametrize(
    ("model", "rule", "sentence"),
    [
        (NOISY, {"privacy": ("distributed",)}, "privacy model is 'exact'"),
        (NOISY, {"units": ("example",)}, "protects one row"),
        (NOISY, {"epsilon_per_plan": Fraction(1, 4)}, "costs 0.5-DP"),
        (EXACT, {"exact_sums": 0}, "exact sums, and the policy allows none"),
        (EXACT, {"sites": 3}, "a sum of 2 sites"),
        (EXACT, {"models": ("sepsis-*",)}, "the plan names no model"),
        (EXACT, {"coordinators": ()}, "the policy allows no coordinator"),
        (EXACT, {"coordinators": (KEY,)}, "the plan names none"),
        (EXACT, {"require_roster": True}, "the plan has no roster"),
    ],
)
def test_what_the_policy_forbids_is_refused_before_rows_are_read(
    owner, model, rule, sentence
):
    member = owner(model, never, **rule)
    with pytest.raises(PolicyError, match=sentence):
        member.answer(entropy=SYSTEM)
    assert spent(member) == Spent()


def test_a_named_model_can_be_allowed(owner):
    session = local_session(SIZES)
    session = replace(session, plan=replace(session.plan, model=ModelRef("sepsis-xgb")))
    member = owner(EXACT, session=session, models=("sepsis-*",))
    member.answer(entropy=SYSTEM)


def test_under_noise_whether_rows_fit_is_paid_for(owner):
    member = owner(NOISY, Examples([0.5], [1]))
    for _ in range(2):  # trying again costs nothing more
        with pytest.raises(InputError, match="the session says 3"):
            member.answer(entropy=SYSTEM)
        assert spent(member) == Spent(Fraction(1, 2))
    mended = replace(member, rows=lambda: ROWS)
    assert len(mended.answer(entropy=SYSTEM)[0]) == 3
    assert spent(member) == Spent(Fraction(1, 2))


def test_too_few_rows_for_the_policy_are_not_shared(owner):
    with pytest.raises(PolicyError, match="fewer than the 4 examples"):
        owner(NOISY, examples=4).answer(entropy=SYSTEM)


@pytest.mark.parametrize("model", [NOISY, EXACT])
def test_shares_leave_once_a_session(owner, model):
    member = owner(model)
    packages, permit = member.answer(entropy=SYSTEM)
    again, same = member.answer(entropy=SYSTEM)  # nothing has left yet
    assert same == permit
    member.leaving(permit, packages)
    with pytest.raises(BudgetError, match="have left for this session already"):
        replace(member, rows=never).answer(entropy=SYSTEM)
    with pytest.raises(BudgetError, match="have left for this session already"):
        member.leaving(same, again)


@pytest.mark.parametrize(
    ("model", "more", "sentence"),
    [
        (NOISY, {"sessions_per_plan": 2}, "exceed the cap"),
        (NOISY, {"epsilon_total": Fraction(9)}, "answered in 1 sessions"),
        (EXACT, {"sessions_per_plan": 2}, "exceed the cap"),
    ],
)
def test_a_second_session_is_refused_when_a_cap_is_reached(
    owner, model, more, sentence
):
    owner(model).answer(entropy=SYSTEM)
    rows = never if model is NOISY else ROWS
    with pytest.raises(BudgetError, match=sentence):
        owner(model, rows, **more).answer(entropy=SYSTEM)


def test_a_second_exact_value_of_changed_rows_is_refused_after_its_charge(owner):
    def leave(member):
        packages, permit = member.answer(entropy=SYSTEM)
        member.leaving(permit, packages)

    leave(owner(EXACT))
    more = {"exact_sums": 3, "sessions_per_plan": 3}
    leave(owner(EXACT, **more))
    with pytest.raises(BudgetError, match="the data changed"):
        leave(owner(EXACT, OTHERS, **more))


def test_a_stranger_to_the_session_is_refused_before_anything(owner):
    member = replace(owner(EXACT, never), name="owner-9")
    with pytest.raises(InputError, match="names no owner"):
        member.answer(entropy=SYSTEM)


def test_shares_are_sorted_words_and_nothing_else():
    session = local_session((3, 5))
    data = Examples([0.5, 0.25, 1.0], [1, 0, 1])
    packages = make_packages(session, "owner-1", data, entropy=SYSTEM)
    values = combine([p.pairs for p in packages])
    assert values.tolist() == encode(data).words.tolist()
    assert len({p.sharing for p in packages}) == 1


def test_padding_hides_the_size():
    session = local_session((8, 8), ExactMPC(hide_sizes=True))
    sizes = set()
    for data in (Examples([0.5], [1]), Examples([0.5] * 8, [0, 1] * 4)):
        packages = make_packages(session, "owner-1", data, entropy=SYSTEM)
        sizes |= {len(p.encode()) for p in packages}
        words = combine([p.pairs for p in packages])
        assert np.count_nonzero(words != PAD) == len(data)
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("sizes", "name", "rows", "sentence"),
    [
        ((3, 5), "owner-1", 2, "has 2 examples, the session says 3"),
        ((2,), "owner-1", 3, "agree on a larger size"),
        ((3, 5), "party-0", 1, "names no owner 'party-0'"),
    ],
)
def test_other_rows_and_strangers_are_refused_before_anything_is_shared(
    sizes, name, rows, sentence
):
    def undrawn(size):
        raise AssertionError(f"{size} secret bytes were drawn")

    session = local_session(sizes, ExactMPC(hide_sizes=len(sizes) == 1))
    data = Examples([0.1] * rows, [1] * rows)
    with pytest.raises(InputError, match=sentence):
        make_packages(session, name, data, entropy=undrawn)
