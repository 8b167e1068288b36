# ruff: noqa: INP001 - read alone
"""Fill in the sign-off form of a site from its plan, policy, ledger and a rehearsal.

    python sign_off.py plan.toml scores.parquet --keys north --rehearsal rehearsal.json -o sign-off.html

Runs `discreet policy check`, `preview`, `ledger verify` and `verify`; ends with a sentence
and writes nothing when one of them refuses. Say --confirmed when preview asks about rows
that differ from the plan, and they are right. The form holds no count of the data.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from fractions import Fraction
from html import escape
from pathlib import Path

from discreet.errors import DiscreetError
from discreet.plan.cohort import fingerprint
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan
from discreet.session import policy as policyfile
from discreet.transport.keys import PublicFile, public_file_in

REVIEW = "The cryptography was not reviewed by an outside cryptographer."
FAR = 14
"""An epsilon of which e^epsilon is above a million."""
STYLE = """
@page { size: A4; margin: 14mm }
body { font: 9.2pt/1.34 "DejaVu Sans", Arial, sans-serif; color: #111; max-width: 182mm; margin: 0 auto }
h1 { font-size: 14pt; margin: 0 0 .2em } h2 { font-size: 10.5pt; margin: .7em 0 .2em }
p { margin: .25em 0 } .stop { border: 1.5px solid #a11; padding: .25em .5em; font-weight: bold }
table { border-collapse: collapse; width: 100% }
th, td { border: 1px solid #999; padding: .18em .4em; text-align: left; vertical-align: top; overflow-wrap: anywhere }
th { background: #eee; width: 27%; font-weight: normal }
.blank td { height: 2.1em }
"""


def main() -> None:
    """Read what is given, check it, write the form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("scores")
    parser.add_argument("--keys", type=Path, required=True)
    parser.add_argument("--rehearsal", type=Path, required=True)
    parser.add_argument("--out", "-o", type=Path, required=True)
    parser.add_argument("--confirmed", action="store_true")
    given = parser.parse_args()
    try:
        fill_in(given)
    except (DiscreetError, OSError, ValueError) as error:
        sys.exit(f"Not filled in: {error}")
    sys.stdout.write(f"{given.out} is filled in; what is blank is yours to decide.\n")


def fill_in(given: argparse.Namespace) -> None:
    """Check what is given, and write the form."""
    plan = loads(given.plan.read_text(encoding="utf-8"))
    policy, ledger = given.keys / "policy.toml", given.keys / "ledger.sqlite"
    discreet("policy", "check", policy, given.plan, "--ledger", ledger)
    intact = discreet("ledger", "verify", ledger)
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "preview.json"
        words = ["--keys", given.keys, "--json", seen]
        words += ["--confirmed"] * given.confirmed
        discreet("preview", given.plan, given.scores, *words)
        preview = json.loads(seen.read_text())
        rehearsed = Path(folder) / "rehearsed.toml"
        rehearsed.write_text(dumps(plan.rehearsed()), encoding="utf-8")
        discreet("verify", given.rehearsal, "--plan", rehearsed)
    rehearsal = json.loads(given.rehearsal.read_text())
    rules = policyfile.load(policy)
    site, (_, _, tag) = (
        public_file_in(given.keys),
        intact.strip().partition("last tag "),
    )
    page = form(plan, rules, preview, rehearsal, site=site, tag=tag)
    given.out.write_text(page, encoding="utf-8")


def discreet(*words: object) -> str:
    """Run a command; end with what it said when it refuses."""
    done = subprocess.run(  # noqa: S603 - our own command
        ["discreet", *map(str, words)],  # noqa: S607 - of whichever is installed
        stdin=subprocess.DEVNULL,  # a question is an answer of no
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        sys.exit(f"Not filled in: discreet {words[0]} refused.\n{said}")
    return done.stdout


def odds(epsilon: Fraction, delta: Fraction, times: int = 1) -> str:
    """Say what a loss allows, for one patient or for one in so many sites."""
    if times * epsilon > FAR:
        return "odds times more than a million: next to no protection"
    factor = math.exp(times * epsilon)
    said = f"odds times {factor:,.2f} at most, from 10% to {factor / (9 + factor):.1%}"
    if delta:  # group privacy: delta (1 + e^epsilon + ...)
        failing = float(delta) * sum(math.exp(k * epsilon) for k in range(times))
        said += f", but for a chance of {failing:.2g} of any other"
    return said


def form(
    plan: Plan,
    policy: policyfile.Policy,
    preview: dict,
    rehearsal: dict,
    *,
    site: PublicFile,
    tag: str,
) -> str:
    """Return the form."""
    claim, roster = preview["claim"], plan.roster
    coordinator = roster.coordinator if roster else None
    sent = sum(r["bytes"] for r in preview["rounds"])
    numbers = sum(r["numbers"] for r in preview["rounds"])
    contributed, expected = (rehearsal["sites"][k] for k in ("contributed", "expected"))
    signed = (
        "its coordinator signed it" if coordinator else "nobody signed it: no roster"
    )
    unit = f" for {claim['unit']}" if claim["unit"] else ""
    assumes = ["the cryptography in use is secure"] * claim["computational"]
    parts = {
        "What is asked": {
            "this site": f"{site.name}, fingerprint {fingerprint(site.identity)}",
            "plan": f"sha256:{plan.digest().hex()}",
            "model": plan.model.name or "not named",
            "purpose": plan.purpose or "not stated: ask for a plan that states it",
            "coordinator": fingerprint(coordinator) if coordinator else "none is named",
            "sites": ", ".join(s.name for s in roster.sites) if roster else "no roster",
            "population": policy.population,
        },
        "What leaves, and what is promised": {
            "leaves this site": f"{numbers} numbers, {sent:,} bytes, {preview['sent']}",
            "disclosed": "; ".join(claim["discloses"]),
            "claim": f"{claim['loss'].removesuffix('.')}{unit}. {claim['trust']}",
            "assumes": "; ".join([*assumes, *claim["assumes"]]) or "nothing further",
            "not protected": "; ".join(claim["not_protected"]),
            "stored answers": "erased when the session ends; of an interrupted one "
            f"after {policy.retention_days} days, by the next one or by discreet ledger purge",
        },
        "What it costs": {
            **costs(policy, preview),
            "ledger": f"intact; last tag {tag}" if tag else "intact, and empty",
        },
        "Rehearsal": {
            "result": f"{contributed} of {expected} sites, "
            f"{rehearsal['release']['made']['on']}, made-up data, nobody charged; its "
            f"record holds, and {signed}",
            "policy": "allows the plan; caps compared with the ledger",
        },
    }
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>Sign-off</title><style>{STYLE}</style></head><body>",
        "<h1>Sign-off for one plan at one site</h1>",
        f'<p class="stop">{REVIEW}</p>',
    ]
    for title, rows in parts.items():
        lines.append(f"<h2>{escape(title)}</h2><table>")
        lines += [
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in rows.items()
        ]
        lines.append("</table>")
    lines.append('<h2>Decision</h2><table class="blank">')
    for blank in (
        "fingerprints compared by voice, with whom, when",
        "highest acceptable posterior for one patient, and why",
        "retention and backups follow the schedule",
        "allowed / not allowed, until",
        "name, function, signature, day",
    ):
        lines.append(f"<tr><th>{escape(blank)}</th><td></td></tr>")
    lines.append("</table></body></html>")
    return "\n".join(lines) + "\n"


def costs(policy: policyfile.Policy, preview: dict) -> dict[str, str]:
    """Return what the plan costs, and what is left of the caps then."""
    charged, spent = preview["charged"], preview["spent"]
    left = {
        "epsilon": policy.epsilon_total,
        "delta": policy.delta_total,
        "exact_sums": policy.exact_sums,
    }
    rows = {
        "spent before, left after": "; ".join(
            f"{name.replace('_', ' ')} {float(Fraction(spent[name])):g} of "
            f"{float(cap):g}, {float(cap - Fraction(spent[name]) - Fraction(charged[name])):g} left"
            for name, cap in left.items()
            if cap
        )
    }
    if charged["exact_sums"]:
        return {"this plan": "an exact sum: no epsilon, no odds", **rows}
    epsilon, delta = (Fraction(charged[name]) for name in ("epsilon", "delta"))
    price = f"epsilon {float(epsilon):g}" + (
        f", delta {float(delta):g}" if delta else ""
    )
    return {
        "this plan": f"{price}: {odds(epsilon, delta)}",
        "a patient at two sites": f"twice the epsilon: {odds(epsilon, delta, 2)}",
        **rows,
        "at the cap, ever": odds(policy.epsilon_total, policy.delta_total),
    }


if __name__ == "__main__":
    main()
