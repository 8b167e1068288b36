"""The oracle game: a coordinator picks the plan and learns nothing but noisy counts.

A real site with a permissive policy and a real ledger plays; the coordinator runs the
same session, from the same seeds, against data sets that differ in everything that a
plan can ask about. The site's letters must agree in kind, number and size, and what is
opened must differ by the difference of the fitted counts and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet.data.edges import Listed, Support, Uniform
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.noise.response import ResponseKey
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps
from discreet.plan.plan import Plan, recommend
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import Coordinator
from discreet.session.messages import Invitation, Kind, Message, session_of
from discreet.session.respond import bounded
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.transport.in_process import InProcess
from policies import open_policy

pytestmark = pytest.mark.long

POLICY = open_policy(
    population="people",
    privacy=("distributed", "local", "label"),
    units=("example", "subject", "client", "label"),
    groups=("*",),
    epsilon_per_plan=Fraction(9),
    epsilon_total=Fraction(99),
    delta_total=Fraction(1, 10),
    sessions_per_plan=9,
    sites=1,
    examples=5,
)
ROWS = 12
RANGE = ScoreRange.declare("other", 0.0, 9.0)


def rows(scores, labels=None, **more):
    """Rows that nobody has checked, as a model and a table give them."""
    labels = [k % 2 for k in range(len(scores))] if labels is None else labels
    more.setdefault("groups", ["a"] * len(scores))
    more.setdefault("subjects", [str(k) for k in range(len(scores))])
    return {"scores": scores, "labels": labels, **more}


PLAIN = [k / ROWS for k in range(ROWS)]
DATA = {
    "plain": rows(PLAIN),
    "one score out of the range": rows([*PLAIN[1:], 7.0]),
    "one score below the range": rows([*PLAIN[1:], -7.0]),
    "one infinite score": rows([*PLAIN[1:], np.inf]),
    "one score missing": rows([*PLAIN[1:], np.nan]),
    "one score that is text": rows(np.array([*PLAIN[1:], "high"], dtype=object)),
    "one score that nobody declared": rows([*PLAIN[1:], 0.123456]),
    "one label missing": rows(PLAIN, np.array([0, 1] * 5 + [None, 1], dtype=object)),
    "one label of another class": rows(PLAIN, [0, 1] * 5 + [7, 1]),
    "only negatives": rows(PLAIN, [0] * ROWS),
    "one group unknown": rows(PLAIN, groups=["a"] * (ROWS - 1) + ["secret"]),
    "no groups": rows(PLAIN, groups=None),
    "one subject missing": rows(PLAIN, subjects=[*map(str, range(ROWS - 1)), None]),
    "one subject with all rows": rows(PLAIN, subjects=["p"] * ROWS),
    "no subjects": rows(PLAIN, subjects=None),
    "nobody": rows([]),
    "nobody and no columns": rows([], groups=None, subjects=None),
    "one row": rows([0.5]),
    "many rows": rows([0.25, 0.75] * 200),
}
SIZES = ("nobody", "nobody and no columns", "many rows")
SCORES = (
    "one score out of the range",
    "one score missing",
    "one score that is text",
    "one score that nobody declared",
)
GROUPS = ("one group unknown", "no groups")
SUBJECTS = ("one subject missing", "one subject with all rows", "no subjects")
LABELS = ("one label missing", "one label of another class", "only negatives")


def plan_of(privacy, rule=None, *, facts=None, **more) -> Plan:
    cohort = more.pop("cohort", Cohort(3))
    rule = rule or Uniform(4)
    return recommend(facts or PublicFacts(), privacy, edges=rule, cohort=cohort, **more)


SUM = DistributedDP(1)
KNOWN = Support(tuple(PLAIN[:-1]))
ADDED = {
    "edges": (plan_of(SUM, Listed((0.0, 0.1234, 0.12345, 1.0))), SCORES),
    "thresholds": (plan_of(SUM, thresholds=[0.123456]), LABELS),
    "a support without one value": (plan_of(SUM, KNOWN), SCORES),
    "groups": (plan_of(SUM, groups=["b", "c"]), GROUPS),
    "groups and the rest": (plan_of(SUM, groups=["b", "other"]), GROUPS),
    "a floor of examples": (plan_of(SUM, cohort=Cohort(3, 0, 1000)), ("one row",)),
    "subjects": (
        plan_of(DistributedDP(1, unit="subject", max_examples=1)),
        SUBJECTS,
    ),
    "clients": (plan_of(DistributedDP(1, unit="client", max_examples=5)), SUBJECTS),
    "delta": (plan_of(DistributedDP(1, "1e-6"), KNOWN), SCORES[:2]),
    "colluders": (plan_of(SUM, cohort=Cohort(3, 1)), SCORES[:1]),
    "a site's own noise": (plan_of(LocalDP(1, "laplace"), KNOWN), SCORES),
}
REPLACED = {
    "arcs": plan_of(LocalDP(1, "arc")),
    "arcs over a support": plan_of(LocalDP(1), KNOWN),
    "bits": plan_of(LocalDP(1, "unary")),
    "levels": recommend(
        PublicFacts(), LocalDP(1, "levels"), cohort=Cohort(min_survivors=3)
    ),
}


@dataclass
class Overheard(InProcess):
    """Writes down what site 1 sends."""

    heard: list[Message] = field(default_factory=list)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        answers = super().__call__(messages)
        self.heard += [answers[1]] if 1 in answers else []
        return answers


def examples(columns, scores: ScoreRange, **more) -> Examples:
    other = scores.kind == "other"
    limits = {"low": scores.low, "high": scores.high} if other else {}
    return Examples(**columns, kind=scores.kind, **limits, **more, check=False)


def play(folder: Path, plan: Plan, columns, **more):
    """Run one session with this data at site 1; return its letters and the sums."""
    folder.mkdir()
    reasons: list[str] = []

    def site(place: int) -> Site:
        path = folder / f"{place}.sqlite"
        opened = Ledger if path.exists() else Ledger.new
        held = columns if place == 1 else more.get("others", DATA["plain"])
        made = {k: v for k, v in more.items() if k != "others"}
        return Site(
            lambda asked: examples(held, asked.facts.scores, **made),
            POLICY,
            opened(path, limits=POLICY.limits()),
            Seeded(bytes([place])),
            onces[place],
            response_key=ResponseKey(bytes([place]) * 32),
        )

    onces = {place: InMemory() for place in (1, 2, 3)}
    exchange = Overheard(
        {place: lambda place=place: site(place) for place in onces},
        lambda _, reason: reasons.append(reason),
    )
    session = Coordinator(plan, list(onces), exchange, Seeded(b"coordinator"))
    releases = session.run()
    assert reasons == []
    spent = site(1).account.spent("people")
    return exchange.heard, releases, spent


def outside(messages: list[Message], *, sized: bool = True):
    """Return all that an observer sees of letters beside their content."""
    size = [(len(x.body), x.numbers.size) if sized else () for x in messages]
    kinds = [(x.kind, x.round, x.site) for x in messages]
    assert Kind.DECLINED not in [kind for kind, _, _ in kinds]
    return list(zip(kinds, size, strict=True))


def counts(plan: Plan, columns):
    held = examples(columns, plan.facts.scores).fitted()
    return plan.statistic.count(bounded(held, plan.privacy.protects))


@pytest.mark.parametrize("name", ADDED)
def test_nothing_but_the_noisy_counts_depends_on_the_data(tmp_path, name):
    plan, asked_about = ADDED[name]
    heard, (plain,), spent = play(tmp_path / "plain", plan, DATA["plain"])
    for other in (*asked_about, *SIZES):
        columns = DATA[other]
        messages, (release,), charged = play(tmp_path / other, plan, columns)
        assert outside(messages) == outside(heard), other
        assert charged == spent
        moved = counts(plan, columns) - counts(plan, DATA["plain"])
        np.testing.assert_array_equal(release.total - plain.total, moved, other)


@pytest.mark.parametrize("name", REPLACED)
def test_where_the_number_of_rows_is_public_every_row_is_sent(tmp_path, name):
    """One symbol a row: a row left out would be seen to be missing."""
    plan = REPLACED[name]
    heard, (plain,), _ = play(tmp_path / "plain", plan, DATA["plain"])
    for other in (*SCORES, *LABELS):
        messages, (release,), _ = play(tmp_path / other, plan, DATA[other])
        assert outside(messages) == outside(heard), other
        if name.startswith("arcs"):
            assert release.total.sum() == plain.total.sum() == 3 * ROWS, other


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_classes_ask_nothing_that_is_not_charged(tmp_path, multiclass):
    plan = plan_of(SUM, classes=["x", "y", "z"], multiclass=multiclass)
    matrix = np.linspace(0, 1, 3 * ROWS).reshape(-1, 3)
    named = np.array(["x", "y", "z"] * (ROWS // 3), dtype=object)
    odd, missing, broken = named.copy(), named.copy(), matrix.copy()
    odd[0], missing[0], broken[0, 1] = "w", None, np.nan
    sites = [(matrix, named), (matrix, odd), (matrix, missing), (broken, named)]
    sites.append((np.zeros((0, 3)), np.zeros(0, dtype=object)))
    common = {"classes": ["x", "y", "z"], "others": rows(matrix, named)}
    seen = [
        outside(play(tmp_path / str(k), plan, rows(*columns), **common)[0])
        for k, columns in enumerate(sites)
    ]
    assert all(one == seen[0] for one in seen)


def test_two_rounds_ask_nothing_that_is_not_charged(tmp_path):
    facts = PublicFacts(scores=RANGE)
    plan = recommend(facts, DistributedDP(2), cohort=Cohort(3))
    assert len(plan.rounds) == 2
    chosen = ["plain", "one score missing", "one infinite score", "nobody"]
    played = [play(tmp_path / x, plan, DATA[x]) for x in chosen]
    # What was released in the first round is public, and sizes the second.
    seen = [outside(messages, sized=False) for messages, _, _ in played]
    assert all(one == seen[0] for one in seen)
    assert all(spent == played[0][2] for _, _, spent in played)


def test_a_range_of_scores_finds_no_largest_score(tmp_path):
    """Halving the range was a search: 24 questions gave the largest score."""
    for high in (0.5, 0.91, 0.92):
        scores = ScoreRange.declare("other", 0.0, high)
        plan = plan_of(SUM, facts=PublicFacts(scores=scores))
        names = ("plain", "one score out of the range", "nobody")
        seen = [
            outside(play(tmp_path / f"{high} {name}", plan, DATA[name])[0])
            for name in names
        ]
        assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("mechanism", ["binned", "response", "endpoint", "choice"])
def test_no_label_decides_about_a_letter(tmp_path, mechanism):
    """The scores are public here; what labels say is in the charged numbers only."""
    privacy = LabelDP(1, mechanism=mechanism)
    if not privacy.needs_edges:
        plan = recommend(PublicFacts(), privacy, cohort=Cohort(min_survivors=3))
    else:
        plan = plan_of(privacy)
    labels = [[0] * ROWS, [1] * ROWS, [0, 1] * (ROWS // 2), [1] + [0] * (ROWS - 1)]
    seen = []
    for k, given in enumerate(labels):
        messages, _, _ = play(tmp_path / str(k), plan, rows(PLAIN, given))
        seen.append(outside(messages))
    assert all(one == seen[0] for one in seen)


def test_an_error_that_nobody_foresaw_is_the_same_refusal(tmp_path):
    """A crash on somebody's row looks as a plan that is not allowed does."""
    plan = plan_of(LocalDP(1, "laplace"))

    def crashing(asked):
        raise KeyError(asked)

    def answer(name, policy, held):
        ledger = Ledger.new(tmp_path / name, limits=policy.limits())
        site = Site(held, policy, ledger, Seeded(b"1"), InMemory())
        heard = []
        exchange = InProcess({1: lambda: site}, lambda _, reason: heard.append(reason))
        nonce = bytes(32)
        invitation = Invitation(dumps(plan), nonce, b"")
        message = Message(
            Kind.INVITE,
            plan.digest(),
            session_of(plan, nonce),
            0,
            1,
            invitation.encode(),
        )
        reply = exchange({1: message})[1]
        assert len(heard) == 1
        return reply.encode()

    forbidden = replace(POLICY, privacy=("distributed",))
    fine = lambda asked: examples(DATA["plain"], asked.facts.scores)  # noqa: E731
    refused = answer("forbidden", forbidden, fine)
    assert Message.decode(refused).kind is Kind.DECLINED
    assert answer("crashed", POLICY, crashing) == refused


@pytest.mark.flower
def test_an_app_that_scores_strange_rows_makes_no_refusal():
    from discreet.transport.flower import mod

    plan = plan_of(SUM)
    for name in ("one score missing", "one score out of the range", *LABELS, "nobody"):
        columns = DATA[name]["scores"], DATA[name]["labels"]
        held = mod._examples(lambda *_, c=columns: c, None, plan, None, rehearsal=False)
        np.testing.assert_array_equal(
            plan.statistic.count(held.fitted()), counts(plan, DATA[name])
        )
