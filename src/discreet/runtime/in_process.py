"""Sites of a session in this process, behind the bytes that would travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from discreet.site.letters import Letter
from discreet.site.session import Site


@dataclass
class InProcess:
    """Sites in this process, for tests and for trying a plan out.

    ``sites`` returns the site of a node anew for every letter, as a runtime does
    that starts a process a letter.
    """

    sites: Mapping[int, Callable[[], Site]]
    report: Callable[[int, str], None]
    states: dict[int, bytes] = field(default_factory=dict)

    def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
        """Let each site answer, through the bytes that would travel."""
        answers = {}
        for node, letter in letters.items():
            answers[node] = self.answer(node, Letter.decode(letter.encode()))
        return answers

    def answer(self, node: int, letter: Letter) -> Letter:
        """Let one site answer one letter."""
        state = self.states.get(node, b"")
        self.states[node], answer = self.sites[node]().answer(
            state, letter, report=lambda reason: self.report(node, reason)
        )
        return Letter.decode(answer.encode())
