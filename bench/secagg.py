"""What secure aggregation costs: CPU a site and at the coordinator, bytes, growth.

Every number is from the real protocol, all ends in this process, CPU time. A
fraction of the sites goes silent after sharing, which is the most costly moment.

    python bench/secagg.py                 the tables up to 1,000 sites
    python bench/secagg.py --large         also 10,000 sites (minutes)
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.entropy import SYSTEM
from discreet.secagg import site as steps
from discreet.secagg.coordinator import (
    CollectingConfirmations,
    CollectingRevealed,
    CoordinatorState,
    invite,
)
from discreet.secagg.keys import KeyAgreement, public_of
from discreet.secagg.site_state import SiteState
from discreet.secagg.terms import Terms


@dataclass
class Meter:
    """CPU seconds and bytes, by site and at the coordinator."""

    sites: dict[int, float] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    coordinator: float = 0.0

    @contextmanager
    def at_site(self, site: int) -> Iterator[None]:
        """Charge what happens inside to one site."""
        start = time.process_time()
        yield
        spent = time.process_time() - start
        self.sites[site] = self.sites.get(site, 0.0) + spent

    @contextmanager
    def at_coordinator(self) -> Iterator[None]:
        """Charge what happens inside to the coordinator."""
        start = time.process_time()
        yield
        self.coordinator += time.process_time() - start


@dataclass(frozen=True)
class Case:
    """One row of a table."""

    sites: int
    words: int
    dropped: float = 0.0
    corrupt_rate: float = 0.1
    dropout_rate: float = 0.3
    malicious: bool = False


def run(case: Case) -> tuple[Meter, Terms]:
    """Play one session and check its sum."""
    n = case.sites
    keys = {}
    if case.malicious:
        keys = {s: Ed25519PrivateKey.generate() for s in range(1, n + 1)}
    terms = Terms(
        bytes(32),
        length=case.words,
        min_survivors=n - round(case.dropout_rate * n),
        colluders=round(case.corrupt_rate * n),
        identities={s: k.public_key().public_bytes_raw() for s, k in keys.items()}
        if keys
        else None,
    )
    silent = frozenset(range(1, round(case.dropped * n) + 1))
    meter = Meter()
    states: dict[int, SiteState] = {}

    def play(
        collecting: CoordinatorState,
        messages: dict[int, bytes],
        act: Callable[[int, bytes], tuple[SiteState, bytes]],
        gone: frozenset[int] = frozenset(),
    ) -> None:
        for s, message in messages.items():
            meter.received[s] = meter.received.get(s, 0) + len(message)
            if s in gone:
                continue
            with meter.at_site(s):
                states[s], answer = act(s, message)
            meter.sent[s] = meter.sent.get(s, 0) + len(answer)
            with meter.at_coordinator():
                collecting.receive(s, answer)

    rng = np.random.default_rng(6)
    expected = np.zeros(case.words, dtype=np.int64)

    def masked(s: int, raw: bytes) -> tuple[SiteState, bytes]:
        vector = rng.integers(0, 1000, case.words)
        np.add(expected, vector, out=expected)
        return steps.mask(states[s], raw, lambda: vector)  # type: ignore[arg-type]

    with meter.at_coordinator():
        adverts, messages = invite(range(1, n + 1), terms=terms, entropy=SYSTEM)
    play(
        adverts,
        messages,
        lambda s, raw: steps.advertise(
            raw, site=s, terms=terms, entropy=SYSTEM, identity=keys.get(s)
        ),
    )
    with meter.at_coordinator():
        shares, messages = adverts.advance()
    play(
        shares,
        messages,
        lambda s, raw: steps.share(states[s], raw, entropy=SYSTEM),  # type: ignore[arg-type]
    )
    with meter.at_coordinator():
        vectors, messages = shares.advance()
    play(vectors, messages, masked, silent)
    with meter.at_coordinator():
        following, messages = vectors.advance()
    if isinstance(following, CollectingConfirmations):
        play(
            following,
            messages,
            lambda s, raw: steps.confirm(states[s], raw, identity=keys[s]),  # type: ignore[arg-type]
        )
        with meter.at_coordinator():
            following, messages = following.advance()
    if not isinstance(following, CollectingRevealed):
        raise TypeError("the request follows the masked vectors or the signatures")
    play(following, messages, lambda s, raw: steps.reveal(states[s], raw))  # type: ignore[arg-type]
    with meter.at_coordinator():
        opened = following.advance()
    if not np.array_equal(opened.total, expected):
        raise ArithmeticError("the revealed sum is wrong")
    return meter, terms


def agreement_microseconds(repeats: int = 2000) -> float:
    """Time the primitive that dominates: it says how busy the machine is."""
    agreement, peer = KeyAgreement(bytes(range(32))), public_of(bytes(range(1, 33)))
    start = time.process_time()
    for _ in range(repeats):
        agreement.with_peer(peer)
    return 1e6 * (time.process_time() - start) / repeats


def table(title: str, cases: list[Case]) -> None:
    print(f"\n{title} (one X25519 agreement: {agreement_microseconds():.0f} us)")
    print(
        f"{'sites':>6} {'words':>7} {'silent':>7} {'k':>4} {'t':>4} {'ms/site':>8}"
        f" {'max':>6} {'coordinator s':>14} {'sent KB':>8} {'received KB':>12}"
    )
    for case in cases:
        meter, terms = run(case)
        chosen = terms.parameters(case.sites)
        survivors = [s for s in meter.sites if s > round(case.dropped * case.sites)]
        spent = [1000 * meter.sites[s] for s in survivors]
        sent = statistics.mean(meter.sent[s] for s in survivors) / 1000
        received = statistics.mean(meter.received[s] for s in survivors) / 1000
        print(
            f"{case.sites:>6} {case.words:>7} {case.dropped:>7.0%} {chosen.degree:>4}"
            f" {chosen.threshold:>4} {statistics.mean(spent):>8.1f} {max(spent):>6.1f}"
            f" {meter.coordinator:>14.2f} {sent:>8.1f} {received:>12.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 10,000 sites")
    parser.add_argument("--only-large", action="store_true", help="10,000 sites alone")
    options = parser.parse_args()
    if not options.only_large:
        table(
            "Curious coordinator, no signatures; 10% corrupt, 30% may go silent",
            [
                Case(100, 16_384),
                Case(100, 16_384, dropped=0.3),
                Case(1000, 16_384),
                Case(1000, 16_384, dropped=0.3),
            ],
        )
        table(
            "Malicious coordinator, Ed25519; 10% corrupt, 30% may go silent",
            [
                Case(100, 16_384, dropped=0.3, malicious=True),
                Case(300, 16_384, dropped=0.3, malicious=True),
            ],
        )
        table(
            "Malicious coordinator, Ed25519; 5% corrupt, 15% may go silent",
            [
                Case(n, 16_384, 0.15, 0.05, 0.15, malicious=True)
                for n in (100, 300, 1000)
            ],
        )
        table(
            "Growth with the number of sites, 1,024 words, curious, 30% silent",
            [Case(n, 1024, dropped=0.3) for n in (10, 30, 100, 300, 1000)],
        )
        table(
            "Growth with the length, 100 sites, curious, 30% silent",
            [Case(100, words, dropped=0.3) for words in (256, 4096, 65_536)],
        )
    if options.large or options.only_large:
        table(
            "10,000 sites, 1,024 words, curious, 30% silent",
            [Case(10_000, 1024, dropped=0.3)],
        )


if __name__ == "__main__":
    main()
