"""Tables 1 and 7: every mechanism over the number of sites, and the blanks filled."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from papers.data import Data
from papers.registry import Item, Measured, Report, Runs
from papers.sun2022.agreement import cells_agree, rms, runs_agree
from papers.sun2022.criteo import (
    Ranked,
    evaluation_set,
    shrunk,
    source,
)
from papers.sun2022.printed import (
    BLANK,
    EPSILONS,
    IN_TABLE_1,
    RESPONSE,
    SITES,
    TABLE_7,
    Name,
)
from papers.sun2022.sites import (
    SPLITS,
    Split,
    Weights,
    adaptive_weights,
    choice_sd,
    endpoint_weights,
    global_weights,
    local_weights,
    response_sd,
    secure_sum_sd,
    simulate_response,
    sites_of,
)
from papers.tables import Check, Table, check_ours, check_that, shown

CHOSEN: Final = (10, 458, 1000, 4584)
"""Numbers of sites at which our choice is worked out site by site."""
_MOST: Final = 1.05


def weights(name: Name, ranked: Ranked, sites: int, how: Split) -> Weights:
    """Return a mechanism of the paper at every site."""
    public = sites_of(ranked.examples, sites, how)
    match name:
        case "global":
            return global_weights(public)
        case "local":
            return local_weights(public)
        case "adaptive":
            return adaptive_weights(public)


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Draw every cell of both tables once."""
    ranked = evaluation_set(data)
    found = {
        "/".join(map(str, (name, how, epsilon))): np.array(
            [
                weights(name, ranked, k, how).simulate_auc(ranked, epsilon, rng)
                for k in SITES
            ]
        )
        for name, how, epsilon in TABLE_7
    }
    for epsilon in RESPONSE:
        errors = simulate_response(ranked, epsilon, rng)
        found[f"response/{epsilon}"] = np.array([ranked.noisy_auc(*errors)])
    return found


def report(data: Data, runs: Runs) -> Report:
    """Show printed, predicted and simulated deviations, and ours beside them."""
    ranked = evaluation_set(data)
    predicted = {
        (*key, k): weights(key[0], ranked, k, key[1]).sd(ranked, key[2])
        for key in TABLE_7
        for k in SITES
    }
    return Report(
        (
            _table("table-1", IN_TABLE_1, ranked, runs, predicted),
            _table("table-7", SITES, ranked, runs, predicted),
            _ours(ranked, predicted),
        ),
        _checks(ranked, runs, predicted, shrunk(data)),
        (),
        (source(data),),
    )


Predicted = dict[tuple[Name, Split, int, int], float]


def _table(
    name: str,
    sites: tuple[int, ...],
    ranked: Ranked,
    runs: Runs,
    predicted: Predicted,
) -> Table:
    rows: list[tuple[str | float | int, ...]] = []
    picked = [SITES.index(k) for k in sites]
    for epsilon in EPSILONS:
        response_key = float(rms(runs.all(f"response/{epsilon}"), ranked.auc)[0])
        told = (RESPONSE[epsilon], response_sd(ranked, epsilon), response_key)
        rows += [
            (epsilon, "randomized response", "any", word, *([value] * len(sites)))
            for word, value in zip(("paper", "predicted", "runs"), told, strict=True)
        ]
        for key, printed in TABLE_7.items():
            if key[2] != epsilon:
                continue
            seen = rms(runs.all("/".join(map(str, key))), ranked.auc)
            rows += [
                (epsilon, key[0], key[1], "paper", *(printed[i] for i in picked)),
                (
                    epsilon,
                    key[0],
                    key[1],
                    "predicted",
                    *(predicted[*key, k] for k in sites),
                ),
                (epsilon, key[0], key[1], "runs", *(float(seen[i]) for i in picked)),
            ]
    return Table(
        name,
        f"Standard deviation of the AUC over the number of sites, {len(runs)} runs",
        ("eps", "mechanism", "split", "", *(f"K {k:,}" for k in sites)),
        tuple(rows),
    )


def _ours(ranked: Ranked, predicted: Predicted) -> Table:
    rows: list[tuple[str | float | int, ...]] = []
    for epsilon in EPSILONS:
        for how in SPLITS:
            adaptive = [predicted["adaptive", how, epsilon, k] for k in SITES]
            ends = [
                endpoint_weights(sites_of(ranked.examples, k, how)).sd(ranked, epsilon)
                for k in SITES
            ]
            chosen = [
                choice_sd(ranked, k, how, epsilon) if k in CHOSEN else BLANK
                for k in SITES
            ]
            rows += [
                (epsilon, how, "adaptive (paper)", *adaptive),
                (epsilon, how, "endpoint (ours)", *ends),
                (epsilon, how, "choice (ours)", *chosen),
            ]
        once = secure_sum_sd(ranked, epsilon)
        rows.append((epsilon, "any", "secure sum (ours)", *([once] * len(SITES))))
    return Table(
        "table-7-ours",
        "Predicted standard deviation of the paper's best mechanism and of ours",
        ("eps", "split", "mechanism", *(f"K {k:,}" for k in SITES)),
        tuple(rows),
    )


def _checks(
    ranked: Ranked, runs: Runs, predicted: Predicted, reason: str
) -> tuple[Check, ...]:
    def cells(sites: tuple[int, ...]) -> dict[str, tuple[float, float]]:
        return {
            f"{key}, K {k}": (printed[SITES.index(k)], predicted[*key, k])
            for key, printed in TABLE_7.items()
            for k in sites
        }

    ratio = {
        (how, e, k): choice_sd(ranked, k, how, e) / predicted["adaptive", how, e, k]
        for how in SPLITS
        for e in EPSILONS
        for k in CHOSEN
    }
    iid = [v for (how, e, _), v in ratio.items() if how == "IID" and e <= 2]
    once = secure_sum_sd(ranked, 1)
    gain = [predicted["adaptive", "IID", 1, k] / once for k in IN_TABLE_1]
    small = response_sd(ranked, 1) < predicted["adaptive", "IID", 1, 45_840]
    large = response_sd(ranked, 1) > predicted["adaptive", "IID", 1, 458]
    seen = {
        f"{'/'.join(map(str, key))}/{k}": (
            runs.all("/".join(map(str, key)))[:, SITES.index(k)],
            ranked.auc,
            predicted[*key, k],
        )
        for key in TABLE_7
        for k in SITES
    }
    better = (
        f"our choice: {shown(min(ratio.values()))} to {shown(max(ratio.values()))} x"
    )
    return (
        cells_agree(
            "Table 1, Laplace mechanisms",
            cells(IN_TABLE_1),
            better=f"{better} the paper's adaptive deviation",
            reason=reason,
        ),
        cells_agree(
            "Table 7, the cells that Table 1 has not",
            cells((1000, 100_000, 458_407)),
            better="the 24 blanks of the adaptive rows are filled",
            reason=reason,
        ),
        cells_agree(
            "Tables 1 and 7, randomized response",
            {f"eps {e}": (p, response_sd(ranked, e)) for e, p in RESPONSE.items()},
            reason=reason,
        ),
        runs_agree(seen),
        check_that(
            "randomized response gains when sites are small, Laplace when large",
            small and large,
            paper="RR can gain some advantages when sites are small",
            ours=f"eps 1: RR {shown(response_sd(ranked, 1))}, adaptive "
            f"{shown(predicted['adaptive', 'IID', 1, 458])} (K 458), "
            f"{shown(predicted['adaptive', 'IID', 1, 45_840])} (K 45,840)",
            better="the choice takes whichever is better, site by site",
            reason=reason,
        ),
        check_ours(
            "our choice beats the adaptive allocation at equal epsilon and trust",
            max(iid) < 0.75 and max(ratio.values()) < _MOST,
            ours=f"IID, eps 1 and 2: at most {shown(max(iid))}; anywhere at most "
            f"{shown(max(ratio.values()))} x its deviation",
        ),
        check_ours(
            "noise added once to a secure sum does not grow with the sites",
            min(gain) > 2 and once * math.sqrt(ranked.examples) < 1,
            ours=f"eps 1: {shown(once)} at any K, adaptive IID is "
            f"{', '.join(shown(g) for g in gain)} times that at K "
            f"{', '.join(f'{k:,}' for k in IN_TABLE_1)}",
        ),
    )


TABLE_1: Final = Item(
    "table-1",
    "Tables 1 and 7: standard deviations over the number of sites",
    measure,
    report,
    runs=100,
    also=("table-7",),
)
