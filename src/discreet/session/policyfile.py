"""Policies as TOML: a small file that a site's operator writes and signs.

Every key is known or refused: a misspelt cap must not pass for no cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import tomli_w

from discreet.errors import InputError, PlanError
from discreet.parsing import read_text, read_toml
from discreet.privacy.loss import amount_from_text, decimal_text, exact
from discreet.session.policy import Policy, PolicyError

_TABLES: Final = {
    "allow": ("privacy", "units", "coordinators", "models", "groups"),
    "caps": (
        *("epsilon_per_plan", "epsilon_total", "delta_total"),
        *("exact_sums", "sessions_per_plan", "refusals_per_day", "max_bins"),
    ),
    "floors": ("sites", "examples", "colluders", "smallest_cell", "require_roster"),
}
_TEXTS: Final = ("population", "when_declining")
_AMOUNTS: Final = ("epsilon_per_plan", "epsilon_total", "delta_total")


def load(path: str | Path) -> Policy:
    """Read a policy from a file."""
    file = Path(path)
    try:
        text = read_text(file, "a policy")
    except (OSError, InputError):
        raise PolicyError(f"{file.name}: no readable policy file") from None
    return loads(text)


def loads(text: str) -> Policy:
    """Read a policy from TOML.

    >>> policy = loads('''
    ... population = "icu-2025-test"
    ... [allow]
    ... privacy = ["distributed"]
    ... [caps]
    ... epsilon_per_plan = "1"
    ... epsilon_total = "3"
    ... ''')
    >>> policy.epsilon_total, policy.exact_sums
    (Fraction(3, 1), 0)
    """
    document = read_toml(text, "the policy", error=PolicyError)
    _refuse_unknown(document, (*_TEXTS, *_TABLES), "the policy")
    given: dict[str, Any] = {}
    for key in _TEXTS:
        if isinstance(document.get(key, ""), str):
            given[key] = document.get(key, "")
        else:
            raise PolicyError(f"{key} in the policy is a text")
    for name, keys in _TABLES.items():
        table = document.get(name, {})
        if not isinstance(table, dict):
            raise PolicyError(f"[{name}] in the policy is a table")
        _refuse_unknown(table, keys, f"[{name}] in the policy")
        for key, value in table.items():
            given[key] = _value(name, key, value)
    if "population" not in document:
        raise PolicyError("the policy lacks its population, a text")
    if "privacy" not in given:
        raise PolicyError("the policy lacks allow.privacy, the allowed privacy models")
    try:
        return Policy(**given)
    except PlanError as err:  # a key that is none
        raise PolicyError(f"the policy: {err}") from None


def dumps(policy: Policy) -> str:
    """Write a policy as TOML, every key with its value."""
    document: dict[str, Any] = {"population": policy.population}
    if policy.when_declining:
        document["when_declining"] = policy.when_declining
    for name, keys in _TABLES.items():
        table: dict[str, Any] = {}
        for key in keys:
            value = getattr(policy, key)
            if isinstance(value, Fraction):
                table[key] = decimal_text(value)
            else:
                table[key] = list(value) if isinstance(value, tuple) else value
        document[name] = table
    return tomli_w.dumps(document)


def _value(table: str, key: str, value: object) -> object:
    if key in _AMOUNTS:
        return _amount(key, value)
    if table == "allow":
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise PolicyError(f"{key} in the policy is a list of texts")
        return tuple(value)
    return value  # a whole number or a truth value, which the policy checks


def _amount(key: str, value: object) -> Fraction:
    try:
        if isinstance(value, str):
            return amount_from_text(value, name=key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return exact(value, name=key)
    except PlanError as err:
        raise PolicyError(f"the policy: {err}") from None
    raise PolicyError(f'{key} in the policy is a decimal number, such as "0.5"')


def _refuse_unknown(
    table: Mapping[str, object], known: tuple[str, ...], where: str
) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise PolicyError(
            f"{where} has unknown keys: {', '.join(unknown)}; known are "
            f"{', '.join(known)}"
        )
