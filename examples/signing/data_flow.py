# ruff: noqa: INP001 - read alone
"""Draw which messages a site of the example exchanges, how large each is, who reads it.

Run in a clone: `python examples/signing/data_flow.py docs/signing`. It carries out one
signed session of the example plan among three sites, on made-up data, and measures every
message. The sizes depend on the plan and the roster, not on the data.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.entropy import SYSTEM
from discreet.models.distributed import DistributedDP
from discreet.noise.response import ResponseKey
from discreet.plan.cohort import Member, PublicFacts, Roster
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import Coordinator
from discreet.session.policy import AllowAll
from discreet.session.rehearsal import made_up
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.transport.in_process import InProcess

SITES = ("east", "north", "south")
OUT = {
    "join": ("fresh public keys, signed", "the coordinator and all sites"),
    "exchange shares of keys": ("encrypted shares of keys", "its addressee alone"),
    "send masked counts": (
        "counts with a share of the noise, under masks",
        "nobody: only the sum can be unmasked",
    ),
    "confirm who is in the sum": (
        "signature on the list of sites",
        "the coordinator and all sites",
    ),
    "help to reveal the sum": ("shares that unmask the sum", "the coordinator"),
    "end": ("acknowledgement", "the coordinator"),
}
"""What each message of a site is, and who can read it."""


@dataclass(frozen=True)
class Step:
    """One message to a site and its answer, in bytes."""

    title: str
    received: int
    sent: int


def example_plan() -> tuple[Plan, dict[str, Ed25519PrivateKey]]:
    """Return the plan of the example impact assessment, with a roster of made-up keys."""
    keys = {name: Ed25519PrivateKey.generate() for name in (*SITES, "coordinator")}
    public = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    privacy = DistributedDP(1)
    plan = recommend(
        PublicFacts(20_000, 0.25),
        privacy,
        cohort=privacy.cohort(len(SITES)),
        model=ModelRef("sepsis-demo"),
    )
    members = tuple(Member(name, public[name]) for name in SITES)
    return replace(plan, roster=Roster(members, public["coordinator"])), keys


def measured() -> tuple[Plan, list[Step]]:
    """Carry a session out; return its plan and the largest message of each step."""
    plan, keys = example_plan()
    titles = [plan.protocol.titles[s] for s in plan.protocol.steps(plan)] + ["end"]
    steps: list[Step] = []
    policy = AllowAll(population="made up", privacy=())
    with tempfile.TemporaryDirectory() as folder:
        memories = {name: InMemory() for name in SITES}
        for name in SITES:
            Ledger.new(Path(folder) / f"{name}.sqlite").close()

        def site(name: str) -> Site:
            return Site(
                lambda agreed: made_up(agreed),  # noqa: PLW0108 - looked up anew
                policy,
                Ledger(Path(folder) / f"{name}.sqlite"),
                SYSTEM,
                memories[name],
                plan,
                keys[name],
                ResponseKey(bytes(32)),
            )

        carried = InProcess(
            {k: lambda name=name: site(name) for k, name in enumerate(SITES, 1)},
            lambda place, reason: sys.exit(f"site {place}: {reason}"),
        )

        def transport(messages, /):
            answers = carried(messages)
            steps.append(
                Step(
                    titles[len(steps)],
                    max(len(message.encode()) for message in messages.values()),
                    max(len(answer.encode()) for answer in answers.values()),
                )
            )
            return answers

        nodes = tuple(range(1, len(SITES) + 1))
        Coordinator(plan, nodes, transport, SYSTEM, keys["coordinator"]).run()
    return plan, steps


def table(steps: list[Step]) -> str:
    """Return the steps as a table of Markdown."""
    lines = [
        "| step | the site gets, bytes | the site sends, bytes | what it sends | who can read it |",
        "|---|---:|---:|---|---|",
    ]
    for number, step in enumerate(steps, 1):
        what, who = OUT[step.title]
        lines.append(
            f"| {number}. {step.title} | {step.received:,} | {step.sent:,} | {what} | {who} |"
        )
    return "\n".join(lines)


def drawing(plan: Plan, steps: list[Step]) -> str:
    """Return the diagram as SVG: what stays, what leaves, who reads it."""
    top, gap = 118, 66
    height = top + gap * len(steps) + 92
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 {height}" '
            'font-family="DejaVu Sans, Arial, sans-serif" font-size="13">'
        ),
        f'<rect width="1000" height="{height}" fill="#fff"/>',
        (
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
            'markerHeight="9" orient="auto"><path d="M0 0L8 4L0 8z" fill="#1c4e80"/>'
            "</marker></defs>"
        ),
    ]

    def text(x: float, y: float, words: str, more: str = "") -> None:
        parts.append(f'<text x="{x}" y="{y}" {more}>{escape(words)}</text>')

    def box(x: float, width: float, title: str, lines: tuple[str, ...]) -> None:
        parts.append(
            f'<rect x="{x}" y="12" width="{width}" height="{height - 24}" rx="6" '
            'fill="#f4f6f8" stroke="#8a97a5"/>'
        )
        text(x + 12, 36, title, 'font-weight="bold" font-size="15"')
        for k, line in enumerate(lines):
            text(x + 12, 56 + 17 * k, line, 'fill="#333" font-size="12"')

    box(
        *(12, 216, "Each site"),
        ("rows, scores, labels: stay here", "policy, ledger, keys: stay here"),
    )
    box(772, 216, "Coordinator", ("relays messages,", "adds, reveals the sum"))
    for k, step in enumerate(steps):
        y = top + gap * k
        what, who = OUT[step.title]
        text(240, y - 7, f"{k + 1}. {step.title}", 'font-weight="bold"')
        text(
            *(744, y - 7, f"{step.sent:,} bytes"),
            'text-anchor="end" font-weight="bold" fill="#1c4e80"',
        )
        parts.append(
            f'<path d="M232 {y}H768" stroke="#1c4e80" stroke-width="2" '
            'marker-end="url(#a)"/>'
        )
        text(240, y + 16, what)
        text(240, y + 33, f"readable by {who}", 'fill="#555" font-size="12"')
    y = top + gap * len(steps) + 8
    numbers = sum(r.statistic.size for r in plan.rounds)
    text(240, y, "What is revealed, and all that is", 'font-weight="bold"')
    text(240, y + 18, f"the sum over {len(SITES)} sites of {numbers} noisy counts")
    text(240, y + 35, "which sites took part", "")
    text(
        *(240, y + 54, "Readable by the coordinator and whoever gets the report"),
        'fill="#555" font-size="12"',
    )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write the diagram and the table of sizes into a folder."""
    folder = Path(sys.argv[1])
    plan, steps = measured()
    (folder / "data-flow.svg").write_text(drawing(plan, steps), encoding="utf-8")
    sys.stdout.write(table(steps) + "\n")


if __name__ == "__main__":
    main()
