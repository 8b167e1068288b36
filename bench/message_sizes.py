"""Bytes that leave a site, by method and number of bins, with 64-bit counts."""

from __future__ import annotations

from discreet.data.scores import ScoreRange
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.published.xu2025.fedcurve import FedCurve

FACTS = PublicFacts(examples=30_000, prevalence=0.25)
OTHER = PublicFacts(30_000, 0.25, ScoreRange.declare("other", 0, 1))
MODELS: dict[str, tuple[PublicFacts, PrivacyModel]] = {
    "exact sums": (FACTS, SecureAggregation()),
    "distributed, eps 1": (FACTS, DistributedDP(1)),
    "distributed, eps 0.1": (FACTS, DistributedDP("0.1")),
    "distributed, eps 1, two rounds": (OTHER, DistributedDP(1)),
    "local arcs, eps 1": (FACTS, LocalDP(1)),
    "local unary, eps 5": (FACTS, LocalDP(5, "unary")),
    "local Laplace, eps 1": (FACTS, LocalDP(1, "laplace")),
}


def main() -> None:
    print("30,000 examples, a quarter positive; the sum of all rounds")
    print(f"{'':44}{'counts':>9}{'bytes':>10}")
    for name, (facts, privacy) in MODELS.items():
        plan = recommend(facts, privacy)
        counts = sum(r.statistic.size for r in plan.rounds)
        print(f"{name:44}{counts:9,}{8 * counts:10,}")
    for quantiles in (32, 128, 1024):
        counts = FedCurve(quantiles=quantiles).hierarchy().size
        name = f"the papers' tree, {quantiles} quantiles"
        print(f"{name:44}{counts:9,}{8 * counts:10,}")
    print("one local client alone sends one arc symbol: 6 bits for 32 bins")


if __name__ == "__main__":
    main()
