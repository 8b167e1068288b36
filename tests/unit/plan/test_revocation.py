"""Revocations: signed by the keys that they name, and refused plans, rosters and reports."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import BudgetError, InputError, PlanError
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster, key_text
from discreet.plan.plan import recommend
from discreet.plan.revocation import Revocation, RevokedKeys
from discreet.privacy.account import Limits, Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import Unbounded

DAY = "2026-11-18"


def key(name):
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32))


def public(name):
    return key(name).public_key().public_bytes_raw()


def revocation(name, successor=None):
    following = None if successor is None else public(successor)
    made = Revocation(name=name, key=public(name), since=DAY, successor=following)
    return made.signed(
        key(name).sign, None if successor is None else key(successor).sign
    )


NAMES = ("north", "south", "east")
ROSTER = Roster(tuple(Member(n, public(n)) for n in NAMES), public("coordinator"))
PLAN = replace(
    recommend(PublicFacts(1000), DistributedDP(1), cohort=Cohort(3)), roster=ROSTER
)


def test_a_revocation_survives_its_file_and_a_members_list(tmp_path):
    sent = tmp_path / "north.revoked.toml"
    own = RevokedKeys((revocation("north", "north 2"),))
    sent.write_text(own.dumps())
    assert RevokedKeys.sent(sent) == own
    listed = own.adding(revocation("south"))
    (tmp_path / "revoked.toml").write_text(listed.dumps())
    assert RevokedKeys.beside(tmp_path) == listed
    assert RevokedKeys.beside(tmp_path / "elsewhere") == RevokedKeys()


@pytest.mark.parametrize("name", [*NAMES, "coordinator"])
def test_a_plan_with_a_revoked_key_is_refused_with_its_day(name):
    known = RevokedKeys((revocation(name),))
    with pytest.raises(PlanError, match=f"a key of {name} that was revoked on {DAY}"):
        known.check(PLAN)
    RevokedKeys((revocation("west"),)).check(PLAN)
    known.check(replace(PLAN, roster=None))


@pytest.mark.parametrize(
    "changed",
    [
        {"since": "2020-01-01"},
        {"name": "south"},
        {"key": public("south")},
        {"successor": public("thief")},
        {"successor": None},
    ],
)
def test_a_revocation_that_was_changed_is_refused(changed):
    with pytest.raises(InputError, match="not signed"):
        replace(revocation("north", "north 2"), **changed)


def test_nobody_names_another_members_key_as_its_next_one(tmp_path):
    """Else a sum without that member would look like one with it."""
    made = Revocation(
        name="north", key=public("north"), since=DAY, successor=public("south")
    ).signed(key("north").sign)
    (tmp_path / "north.revoked.toml").write_text(RevokedKeys((made,)).dumps())
    with pytest.raises(InputError, match="not signed by the keys that it names"):
        RevokedKeys.sent(tmp_path / "north.revoked.toml")


def test_an_owner_sends_the_revocations_of_all_its_earlier_keys(tmp_path):
    known = RevokedKeys(
        (
            revocation("south", "south 2"),
            revocation("north 2", "north 3"),
            revocation("north", "north 2"),
        )
    )
    chain = known.leading_to(revocation("north 3", "north 4"))
    names = ("north", "north 2", "north 3")
    assert [r.key for r in chain.revoked] == [public(name) for name in names]
    path = tmp_path / "north.revoked.toml"
    path.write_text(chain.dumps())
    assert RevokedKeys.sent(path) == chain


@pytest.mark.parametrize("names", [(), ("north", "south")])
def test_a_file_of_several_owners_or_of_none_is_nobodys(tmp_path, names):
    """Else the owner of one key could slip in the link of another's."""
    made = RevokedKeys(tuple(revocation(name, f"{name} 2") for name in names))
    path = tmp_path / "north.revoked.toml"
    path.write_text(made.dumps())
    with pytest.raises(InputError, match="not signed by the keys"):
        RevokedKeys.sent(path)


@pytest.mark.parametrize("since", ["", "18.11.2026", "2026-13-01", "2026-11-18T00"])
def test_a_revocation_has_a_day(since):
    with pytest.raises(InputError, match="YYYY-MM-DD"):
        Revocation(name="north", key=public("north"), since=since)


def test_later_keys_of_a_member_lead_to_its_first_one():
    known = RevokedKeys(
        (
            revocation("north 2", "north 3"),
            revocation("north", "north 2"),
            revocation("south"),
        )
    )
    first = key_text(public("north"))
    assert known.same_site() == {
        key_text(public("north 2")): first,
        key_text(public("north 3")): first,
    }


SITES = tuple(f"site-{i}" for i in range(6))


@pytest.mark.parametrize("known", [False, True])
def test_rotated_keys_do_not_make_room_for_differences_of_exact_sums(tmp_path, known):
    """Six sites; three rotate, and a sum without two of the others is asked for."""
    later = {f"{site} later": site for site in SITES[:3]}
    limits = Limits(fewest_sites=3, same_site=later if known else {})

    def exact(session, sites):
        return Use("icu", session, 0, Unbounded(), sites=tuple(sites), plan=b"p")

    with Ledger.new(tmp_path / "ledger.db", limits=limits) as ledger:
        ledger.reserve(exact(b"a", SITES))
        without_two = exact(b"b", [*later, SITES[5]])
        if known:
            with pytest.raises(BudgetError, match="differs from an earlier one by 2"):
                ledger.reserve(without_two)
            ledger.reserve(exact(b"c", [*later, *SITES[3:]]))  # the same six
        else:  # the attack: two sites are seen alone
            ledger.reserve(without_two)
