"""What a claim says."""

from discreet import SecureAggregation
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend


def test_the_claim_of_exact_sums_says_that_they_are_exact():
    plan = recommend(PublicFacts(), SecureAggregation())
    text = str(plan.claim("simulated", sites=12))
    assert "no differential privacy" in text
    assert "Simulated in one process" in text
    assert "258 counts" in text
    assert "malicious sites" in text
    assert "read the other's" in str(plan.claim("deployed", sites=2))
    assert "single site" in str(plan.claim("deployed", sites=1))
    assert "protects nobody" in str(plan.claim("seeded", sites=3))
