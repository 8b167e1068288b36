"""Releases from fixed seeds, pinned bit by bit: a change of structure moves none.

Each row is a release under one privacy model and statistic. The digest covers the
opened totals of every round; the numbers are what readers make of them. A change of
meaning moves a row, and says so in the changelog.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.curator import auc as curator_auc
from discreet.curator import average_precision as curator_ap
from discreet.data.prior_spread import PriorSpread
from discreet.entropy import Seeded
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.rounds import Round
from discreet.transport.comparison import compare
from discreet.transport.simulation import run
from label_runs import evaluate_labels, label_auc

pytestmark = pytest.mark.both_numpys

PINS = Path(__file__).with_name("pinned_releases.json")
SEED = b"pinned releases"
SITES = 3
CLASSES = ["cat", "dog", "eel"]


def _sites(scores, labels, **more):
    """Split rows over the sites, and what is given for each row with them."""
    return [
        discreet.Examples(
            scores[i::SITES],
            labels[i::SITES],
            **{
                k: v[i::SITES] if isinstance(v, np.ndarray) else v
                for k, v in more.items()
            },
        )
        for i in range(SITES)
    ]


def _examples(kind="probability", **more):
    rng = np.random.default_rng(20)
    y = rng.random(6000) < 0.3
    z = rng.normal(1.6 * y - 1.2, 1.1)
    if kind == "other":
        return _sites(z, y, kind=kind, low=-8.0, high=8.0, **more)
    return _sites(1 / (1 + np.exp(-z)), y, **more)


def _classes():
    rng = np.random.default_rng(21)
    y = rng.integers(0, 3, 3000)
    raw = rng.normal(0, 1, (3000, 3)) + 1.5 * np.eye(3)[y]
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    return _sites(p, np.array(CLASSES)[y], classes=CLASSES)


def _pairs():
    rng = np.random.default_rng(22)
    y = rng.random(6000) < 0.3
    s = 1 / (1 + np.exp(-(rng.normal(0, 1, (6000, 2)) + np.outer(y, [1.5, 1.0]))))
    return _sites(s, y)


def _run(privacy, sites=None, *, aggregation="plain", method=None, **more):
    sites = sites or _examples()
    facts = PublicFacts(6000, 0.3, sites[0].scores)
    plan = recommend(facts, privacy, cohort=privacy.cohort(SITES), **more)
    if method is not None:
        plan = replace(plan, rounds=(Round(method.hierarchy()),))
    return run(
        plan, sites, entropy=Seeded(SEED), aggregation=aggregation, estimator=method
    )


def _totals(result) -> str:
    if isinstance(result, discreet.MultiEvaluation):
        result = next(iter(result.values()))
    digest = hashlib.sha256()
    for release in result.source.releases:
        digest.update(release.total.astype("<i8").tobytes())
    return digest.hexdigest()


def _numbers(result) -> dict[str, str]:
    if isinstance(result, discreet.MultiEvaluation):
        return {name: _numbers(part) for name, part in result.items()}
    found = {}
    for name in ("auc", "average_precision", "brier"):
        if name not in result.metrics:
            continue
        estimate = result.metrics[name]
        found[name] = [f"{v:.7g}" for v in (estimate.value, *estimate.interval())]
    return found


def _labels(mechanism):
    return evaluate_labels(
        _examples(subjects=np.arange(6000)),
        privacy=discreet.LabelDP(1, mechanism=mechanism),
        entropy=Seeded(SEED),
    )


def _curator(which):
    scores, labels = zip(*(site.to_arrays() for site in _examples()), strict=True)
    y, s = np.concatenate(labels), np.concatenate(scores)
    return which(y, s, epsilon=1, entropy=Seeded(SEED))


_FINE = PriorSpread(1024, 0.3)
CASES = {
    "secure-aggregation": lambda: _run(discreet.SecureAggregation(), edges=_FINE),
    "secure-aggregation, protocol": lambda: _run(
        discreet.SecureAggregation(), aggregation="secagg", edges=_FINE
    ),
    "distributed": lambda: _run(discreet.DistributedDP(1)),
    "distributed, delta": lambda: _run(discreet.DistributedDP(1, "1e-6")),
    "distributed, client": lambda: _run(
        discreet.DistributedDP(80, unit="client", max_examples=900)
    ),
    "distributed, two rounds": lambda: _run(
        discreet.DistributedDP(1), _examples(kind="other")
    ),
    "distributed, classes": lambda: _run(
        discreet.DistributedDP(1), _classes(), classes=CLASSES
    ),
    "distributed, pairs of classes": lambda: _run(
        discreet.DistributedDP(1),
        _classes(),
        classes=CLASSES,
        multiclass="ovo",
    ),
    "distributed, groups": lambda: _run(
        discreet.DistributedDP(1),
        _examples(groups=np.where(np.arange(6000) % 5 < 2, "a", "b")),
        groups=["a", "b"],
    ),
    "distributed, FedCurve": lambda: _run(
        discreet.DistributedDP(1), method=discreet.FedCurve(quantiles=32)
    ),
    "local, arc": lambda: _run(discreet.LocalDP(2)),
    "local, unary": lambda: _run(discreet.LocalDP(2, "unary")),
    "local, levels": lambda: _run(discreet.LocalDP(2, "levels")),
    "local, laplace": lambda: _run(discreet.LocalDP(1, "laplace")),
    "label, response": lambda: _labels("response"),
    "label, binned": lambda: _labels("binned"),
}


def _flat(numbers) -> list[float]:
    """Return the numbers of a case, part by part and metric by metric."""
    if isinstance(numbers, dict):
        return [x for _, each in sorted(numbers.items()) for x in _flat(each)]
    return [float(x) for x in numbers]


@pytest.fixture(scope="module")
def pins():
    return json.loads(PINS.read_text())


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_release_is_what_it_was(case, pins):
    result = CASES[case]()
    assert _totals(result) == pins[case]["totals"]
    known = pins[case]["numbers"]
    for found, pinned in zip(_flat(_numbers(result)), _flat(known), strict=True):
        # Two NumPys differ in the last digit that is written down.
        assert found == pytest.approx(pinned, abs=3e-7)


def _label_auc(**options):
    return label_auc(_examples(), epsilon=1, entropy=Seeded(SEED), **options).auc


def _compare(**options):
    return compare(_pairs(), entropy=Seeded(SEED), **options).a.auc


_NOISY = {
    "privacy": discreet.DistributedDP(1),
    "examples": 6000,
    "prevalence": 0.3,
}
SCALARS = {
    "label, choice": _label_auc,
    "label, endpoint in total": lambda: _label_auc(
        mechanism="endpoint", aggregation="secagg"
    ),
    "curator, AUC": lambda: _curator(curator_auc),
    "curator, AP": lambda: _curator(curator_ap),
    "paired, marginals": lambda: _compare(form="marginals", **_NOISY),
    "paired, joint": lambda: _compare(form="joint"),
}


@pytest.mark.parametrize("case", SCALARS)
def test_a_single_number_is_what_it_was(case, pins):
    assert f"{SCALARS[case]().value:.7g}" == pins[case]


def test_a_plan_of_rank_sums_is_a_session_and_gives_the_same_number(pins):
    result = _run(discreet.LabelDP(1))
    assert f"{result.auc.value:.7g}" == pins["label, choice"]
    assert result.plan is not None
    (release,) = result.source.releases
    assert (release.contributors, release.expected) == (SITES, SITES)


def _write() -> None:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case, make in CASES.items():
            result = make()
            found[case] = {"totals": _totals(result), "numbers": _numbers(result)}
        for case, make in SCALARS.items():
            found[case] = f"{make().value:.7g}"
    PINS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    _write()
