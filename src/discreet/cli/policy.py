"""``discreet policy``: what a policy allows, in sentences, and whether it allows a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from discreet.cli.files import PlanFile, read_plan
from discreet.codec.parsing import decimal_text, shown
from discreet.errors import DiscreetError
from discreet.plan.cohort import fingerprint, key_from_text
from discreet.plan.privacy_model import MODELS
from discreet.plan.revocation import RevokedKeys
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.policy import ANY, UNIT_NAMES, Policy
from discreet.session.respond import admit

app = typer.Typer(no_args_is_help=True)

_Policy = Annotated[
    Path, typer.Argument(help="The site's policy, policy.toml.", show_default=False)
]
DECLINED: Final = 1
_MODELS: Final = {
    "secure-aggregation": "exact sums: the pooled counts are revealed without noise",
    "distributed": "noisy sums: every site adds a share of the noise, and only the sum "
    "over the sites is revealed",
    "local": "noisy answers: every site's own answer carries all of its noise",
    "label": "noisy labels: scores and the number of rows are shown, labels are protected",
    "central": "noisy values that a curator who holds all data publishes",
    "exact": "values that three compute parties work out of secret shares",
}
"""What a privacy model means to whoever signs a policy."""
_EXACT: Final = frozenset({"secure-aggregation", "exact"})
"""Models that can reveal a value without noise."""
_PROTECTED: Final = {
    "distributed": {"example", "subject", "client"},
    "local": {"example"},
    "label": {"label"},
    "central": {"row"},
    "exact": {"row"},
}
"""The units that the noise of a privacy model can protect."""
_UNITS: Final = {
    "example": "one row",
    "subject": "one person at this site, up to the plan's number of rows",
    "client": "all that one site holds",
    "label": "the label of one row, and not its score",
    "row": "the content of one row, and not that it exists",
}


@app.callback()
def _root() -> None:
    """Say what a site's policy allows, and whether it allows a plan."""


@app.command()
def explain(path: _Policy) -> None:
    """Say in sentences what a policy allows and what it does not."""
    for title, sentences in explained(policyfile.load(path)).items():
        typer.echo(title)
        for sentence in sentences:
            typer.echo(f"  - {shown(sentence)}")


@app.command()
def check(
    path: _Policy,
    plan: PlanFile,
    ledger: Annotated[
        Path | None,
        typer.Option(help="The site's ledger: its caps are compared, too."),
    ] = None,
) -> None:
    """Say whether a policy allows a plan, before anybody joins.

    Reads no data, charges nothing, connects to nobody; revoked.toml beside the policy is
    compared, too. Exits with 0 when the plan is
    allowed, with 1 when this site would decline it, and with 2 when a file cannot be
    read.
    """
    rules, agreed = policyfile.load(path), read_plan(plan)
    revoked = RevokedKeys.beside(path.parent)
    reasons = [*rules.reasons(agreed), *revoked.reasons(agreed)]
    if not reasons and ledger is not None:
        limits = replace(rules.limits(), same_site=revoked.same_site())
        with Ledger(ledger, limits=limits) as account:
            try:
                admit(agreed, rules, account)
            except DiscreetError as err:
                reasons.append(str(err))
    if reasons:
        typer.echo(f"{plan.name} would be declined:")
        for reason in reasons:
            typer.echo(f"  - {shown(reason)}")
        raise typer.Exit(DECLINED)
    compared = "policy and the ledger's caps" if ledger is not None else "policy"
    typer.echo(f"{plan.name} is allowed, as far as the {compared} tell.")
    if ledger is None:
        typer.echo("What was spent was not compared: give --ledger.")


def explained(policy: Policy) -> dict[str, list[str]]:
    """Return what a policy allows, what it limits and what it declines."""
    return {
        f'This policy is about the population "{policy.population}".': [
            "Its budget belongs to these people, whatever the file or the model."
        ],
        "It allows": [*_allowed(policy)],
        "Within these limits": [*_limits(policy)],
        "It does not allow": [*_declined(policy)],
    }


def _allowed(policy: Policy) -> Iterator[str]:
    if reason := _declines_all(policy):
        yield f"nothing: {reason}"
        return
    for name in policy.privacy:
        if not _lacking(policy, name):
            yield f"{_MODELS.get(name, 'the privacy model')} ({name})"
    noisy = [name for name in policy.privacy if not _lacks_noise(policy, name)]
    protected = {unit for name in noisy for unit in _PROTECTED[name]}
    units = [f"{_UNITS[name]} ({name})" for name in policy.units if name in protected]
    if units:
        yield f"noise that protects {_either(units)}"
    if ANY in policy.coordinators:
        yield "plans of any coordinator, also of none that is named"
    else:
        digits = [fingerprint(key_from_text(key)) for key in policy.coordinators]
        yield f"plans of the coordinator with the fingerprint {_either(digits)}"
    if ANY in policy.models:
        yield "measuring any model"
    else:
        yield f"measuring the models {_either(policy.models)}"
    if policy.groups:
        yield f"telling apart the groups {_either(policy.groups)}"


def _declines_all(policy: Policy) -> str:
    """Return why no plan at all is allowed, '' if some could be."""
    if not policy.privacy:
        return "it names no privacy model"
    if not policy.coordinators:
        return "it names no coordinator"
    if not policy.models:
        return "it names no model"
    lacking = [_lacking(policy, name) for name in policy.privacy]
    if all(lacking):
        return lacking[0]
    return "" if policy.sessions_per_plan else "it allows no session"


def _lacking(policy: Policy, name: str) -> str:
    """Return why no plan of a privacy model that is named is allowed, '' if some are."""
    return "" if name in _EXACT and policy.exact_sums else _lacks_noise(policy, name)


def _lacks_noise(policy: Policy, name: str) -> str:
    """Return why no plan with noise of a privacy model is allowed, '' if some are."""
    if name not in _PROTECTED:
        return "caps.exact_sums is 0"
    if not _PROTECTED[name] & set(policy.units):
        return f"allow.units does not name {_either(sorted(_PROTECTED[name]))}"
    if not min(policy.epsilon_per_plan, policy.epsilon_total):
        return "it has no budget of epsilon"
    return ""


def _limits(policy: Policy) -> Iterator[str]:
    yield (
        f"one session costs at most epsilon {decimal_text(policy.epsilon_per_plan)}, and "
        f"all of them together at most {decimal_text(policy.epsilon_total)}, ever"
    )
    delta = policy.delta_total
    yield (
        f"all deltas together are at most {decimal_text(delta)}"
        if delta
        else "delta is 0: pure differential privacy only"
    )
    yield f"sums without noise: {policy.exact_sums or 'none'}, ever"
    yield f"the same counts are given in at most {policy.sessions_per_plan} sessions"
    yield f"a sum is over at least {policy.sites} sites"
    yield (
        f"a plan with summed answers counts on at least {policy.colluders} colluding "
        "sites"
    )
    yield f"this site stays out with fewer than {policy.examples} examples"
    yield f"a histogram has at most {policy.max_bins} bins"
    if policy.smallest_cell and "secure-aggregation" in policy.privacy:
        yield (
            f"a sum without noise expects at least {policy.smallest_cell} examples of "
            "the smaller class in a cell"
        )
    yield (
        "stored answers are erased when a session ends, and those of an interrupted one "
        f"after {policy.retention_days} days, by the next session or `discreet ledger purge`"
    )
    yield (
        f"after {policy.refusals_per_day} refusals on a day this site answers nothing new"
    )
    if policy.when_declining:
        yield f'whoever is declined reads: "{policy.when_declining}"'


def _declined(policy: Policy) -> Iterator[str]:
    for name in MODELS:
        lacking = name in policy.privacy and _lacking(policy, name)
        if lacking or name not in policy.privacy:
            why = f": {lacking}" if lacking else ""
            yield f"{_MODELS.get(name, 'the privacy model')} ({name}){why}"
    if _EXACT & set(policy.privacy) and not policy.exact_sums:
        yield "any sum without noise: caps.exact_sums is 0"
    for name in UNIT_NAMES:
        if name not in policy.units:
            yield f"noise that protects only {_UNITS[name]} ({name})"
    if not policy.groups:
        yield "telling groups of people apart"
    if policy.require_roster:
        yield "a plan without a roster of the sites' keys"
    if ANY not in policy.coordinators:
        yield "a plan of any other coordinator, or of none"
    yield "whatever is not said here"


def _either(names: Sequence[str]) -> str:
    return " or ".join(names) or "nobody"
