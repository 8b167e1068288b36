"""How far each site is in a session: for people as lines, for programs as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from discreet.session.coordinator import StepReport

_NAMED: Final = 5


@dataclass
class EventLog:
    """What happened, as JSON lines for programs that watch a session.

    No event holds a number that depends on data: names, steps, times, and sizes that
    follow from the plan. The file is its owner's alone; without a path, nothing is
    written.
    """

    path: Path | None = None

    def __call__(self, event: str, **details: Any) -> None:
        """Append an event with its time."""
        if self.path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **details})
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(self.path, flags, 0o600), "a", encoding="utf-8") as file:
            file.write(line + "\n")


def named(sites: Sequence[str]) -> str:
    """Name sites, the first few of them when they are many.

    >>> named(["north", "east"]), named([f"site-{i}" for i in range(1000)])
    ('north, east', 'site-0, site-1, site-2, site-3, site-4 and 995 more')
    """
    more = f" and {len(sites) - _NAMED} more" if len(sites) > _NAMED else ""
    return ", ".join(sites[:_NAMED]) + more


@dataclass
class Board:
    """What the coordinator knows of each site.

    Args:
        names: what each node is called.
        tell: called with a line when something has changed.
        log: called with every event.
        show: called when the statuses may be drawn anew.
    """

    names: Mapping[int, str]
    tell: Callable[[str], None] = lambda _: None
    log: EventLog = field(default_factory=EventLog)
    show: Callable[[Board], None] = lambda _: None
    status: dict[str, str] = field(default_factory=dict, init=False)
    heading: str = field(default="waiting for the sites", init=False)
    _present: frozenset[int] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        self.status = dict.fromkeys(self.names.values(), "registered")

    def connected(self, present: Collection[int], seconds_left: float) -> None:
        """Note who is connected; called repeatedly while sites are waited for."""
        for node in sorted(set(present) ^ self._present):
            name, is_there = self.names[node], node in present
            self._present ^= {node}
            self.status[name] = "connected" if is_there else "registered"
            what = "is connected" if is_there else "is gone"
            self.tell(f"{name} {what}: {len(self._present)} of {len(self.names)} sites")
            self.log("connected" if is_there else "gone", site=name)
        missing = [n for k, n in self.names.items() if k not in self._present]
        if missing and seconds_left > 0:
            self.heading = f"waiting for {named(missing)}: {seconds_left:.0f} s left"
        elif missing:
            self.tell(f"{named(missing)} did not come")
            self.log("absent", sites=missing)
        self.show(self)

    def waiting(self, nodes: Collection[int], seconds_left: float) -> None:
        """Note whose answer is waited for; called repeatedly during a step."""
        for node, name in self.names.items():
            if node in nodes:
                self.status[name] = "asked"
            elif self.status[name] == "asked":
                self.status[name] = "has answered"
        waited = named([self.names[node] for node in sorted(nodes)])
        self.heading = f"waiting for {waited}: {max(seconds_left, 0):.0f} s left"
        self.show(self)

    def finished(self, step: StepReport) -> None:
        """Note how a step ended."""
        place = f"step {step.number} of {step.of}"
        rounds = f"round {step.round + 1}, " if step.round else ""
        parts = [f"{step.answered} of {step.asked} sites"]
        for state, nodes in (
            (f"answered {place}", step.heard),
            ("declined", step.refused),
            (f"missing since {place}", step.missing),
        ):
            names = [self.names[node] for node in nodes]
            self.status.update(dict.fromkeys(names, state))
            if names and state[0] != "a":
                shown = [self._with_words(node, step) for node in nodes]
                parts.append(f"{state.partition(' ')[0]}: {named(shown)}")
        self.tell(f"{rounds}{place}, {step.title}: {'; '.join(parts)}")
        self.log(
            "step",
            round=step.round + 1,
            step=step.number,
            of=step.of,
            name=step.name,
            answered=[self.names[n] for n in step.heard],
            declined=[self.names[n] for n in step.refused],
            missing=[self.names[n] for n in step.missing],
            words={self.names[n]: words for n, words in step.words.items()},
        )
        self.show(self)

    def _with_words(self, node: int, step: StepReport) -> str:
        words = step.words.get(node)
        return f'{self.names[node]} ("{words}")' if words else self.names[node]
