"""Rotating and revoking: each command, what it writes, and who is refused afterwards."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from typer.testing import CliRunner, Result

from discreet.cli.main import app
from discreet.data.edges import Warped
from discreet.entropy import Seeded
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts, key_text
from discreet.plan.file import dumps, loads
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.revocation import Revocation, RevokedKeys
from discreet.privacy.ledger import Ledger
from discreet.report.build import result_of
from discreet.secret_files import write_secret
from discreet.session.coordinator import AbortedError
from discreet.session.site import Site
from discreet.transport.coordinating import coordinate
from discreet.transport.https.client import HttpsSite
from discreet.transport.keys import (
    CoordinatorKeys,
    PublicFile,
    SiteKeys,
    assemble,
    certificate_in,
    make_authority,
    public_file_in,
    read_certificate,
    read_identity,
)
from discreet.transport.simulation import run as run_plan
from unit.session.federations import Federation, examples, plan_for

SITES = ("east", "north", "south")
TODAY = "that was revoked on 20"


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exception is not None
    return str(result.exception)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A consortium with a plan, ledgers and policies."""
    made = recommend(
        PublicFacts(1200, 0.3),
        DistributedDP(1),
        edges=Warped(16),
        cohort=Cohort(3, 1),
        model=ModelRef("sepsis"),
    )
    (tmp_path / "plan.toml").write_text(dumps(made))
    sites = [word for site in SITES for word in ("--site", site)]
    done("consortium", tmp_path, *sites, "--plan", tmp_path / "plan.toml")
    return tmp_path


def plan_in(folder: Path) -> Plan:
    return loads((folder / "plan.toml").read_text())


def test_a_site_that_rotates_gets_a_new_identity_and_its_old_plan_is_refused(
    folder: Path,
) -> None:
    old = public_file_in(folder / "north")
    said = done("keys", "rotate", folder / "north")
    new = public_file_in(folder / "north")
    assert new.identity != old.identity
    own = SiteKeys(folder / "north").identity().public_key().public_bytes_raw()
    assert own == new.identity
    (revocation,) = SiteKeys(folder / "north").revoked().revoked
    assert (revocation.key, revocation.successor) == (old.identity, new.identity)
    assert "north.revoked.toml" in said
    checked = run("policy", "check", folder / "north/policy.toml", folder / "plan.toml")
    assert checked.exit_code == 1
    assert f"a key of north {TODAY}" in checked.output


def test_the_others_learn_of_it_and_refuse_the_old_plan_and_the_old_public_file(
    folder: Path,
) -> None:
    old = (folder / "north/north.public.toml").read_text()
    done("keys", "rotate", folder / "north")
    sent = folder / "north/north.revoked.toml"
    for member in ("south", "coordinator"):
        said = done("keys", "revoke", folder / member, sent)
        assert "by voice" in said
    (folder / "old.public.toml").write_text(old)
    publics = [folder / f"{site}/{site}.public.toml" for site in ("east", "south")]
    roster = ("--keys", folder / "coordinator")
    words = ("roster", folder / "plan.toml", *publics)
    assert TODAY in refused(*words, folder / "old.public.toml", *roster)
    keys = CoordinatorKeys(folder / "coordinator")
    before = plan_in(folder)
    with pytest.raises(Exception, match=TODAY):
        coordinate(before, keys, None, host="", port=0)  # type: ignore[arg-type]
    done(*words, folder / "north/north.public.toml", *roster)  # replaces the old one
    after = plan_in(folder)
    assert after.digest() != before.digest()
    keys.revoked().check(after)
    assert keys.admitted(replace(after, roster=None))["north"] == after.roster.key_of(
        "north"
    )
    assert (
        "revoked"
        not in run(
            *("policy", "check", folder / "south/policy.toml", folder / "plan.toml")
        ).output
    )


def test_without_a_roster_a_revoked_site_is_not_let_in(folder: Path) -> None:
    done("keys", "revoke", folder / "north")
    done("keys", "revoke", folder / "coordinator", folder / "north/north.revoked.toml")
    keys = CoordinatorKeys(folder / "coordinator")
    assert set(keys.admitted(replace(plan_in(folder), roster=None))) == {
        "east",
        "south",
    }


def test_a_lost_key_is_revoked_by_its_text(folder: Path) -> None:
    lost = key_text(public_file_in(folder / "north").identity)
    words = ("--site", "north", "--since", "2026-01-31")
    said = done("keys", "revoke", folder / "south", lost, *words)
    assert "a key of north that was revoked on 2026-01-31" in said
    with pytest.raises(Exception, match="revoked on 2026-01-31"):
        SiteKeys(folder / "south").revoked().check(plan_in(folder))


def test_a_lost_key_stays_the_same_site_once_its_next_key_was_noted(
    folder: Path,
) -> None:
    """The commands of docs/signing/incident.md where a key was lost, not stolen."""
    lost = key_text(public_file_in(folder / "north").identity)
    (folder / "north" / "identity.key").unlink()
    (folder / "north" / "north.public.toml").unlink()
    coordinator = folder / "coordinator/coordinator.public.toml"
    done("join", coordinator, "--site", "north", "--folder", folder / "north")
    found = key_text(public_file_in(folder / "north").identity)
    assert found != lost
    words = (lost, "--site", "north", "--next", found)
    done("keys", "revoke", folder / "south", *words)
    assert SiteKeys(folder / "south").revoked().same_site() == {found: lost}


def test_a_lost_key_whose_text_is_missing_does_not_revoke_ones_own(
    folder: Path,
) -> None:
    """A shell leaves an empty variable out: the others' words would be about oneself."""
    for words in (["--site", "north"], ["--next", key_text(b"k" * 32)]):
        assert "somebody else's" in refused("keys", "revoke", folder / "south", *words)
    assert refused("keys", "revoke", folder / "south", "", "--site", "north")
    assert SiteKeys(folder / "south").revoked().revoked == ()


def test_another_next_key_is_refused_once_one_was_noted(folder: Path) -> None:
    """A thief has the revoked key and names a key of its own as the next one."""
    shutil.copytree(folder / "north", folder / "thief")
    done("keys", "rotate", folder / "north")
    done("keys", "rotate", folder / "thief")
    done("keys", "revoke", folder / "south", folder / "north/north.revoked.toml")
    known = SiteKeys(folder / "south").revoked()
    forged = folder / "thief/north.revoked.toml"
    assert "another next key of north" in refused(
        "keys", "revoke", folder / "south", forged
    )
    (old,) = known.revoked
    unlinked = refused("keys", "revoke", folder / "south", key_text(old.key))
    assert "another next key of north" in unlinked
    assert SiteKeys(folder / "south").revoked() == known


def test_a_rotation_keeps_the_day_of_the_revocation_before_it(folder: Path) -> None:
    """Else what a thief signed between the two days would look older than the theft."""
    old, day = public_file_in(folder / "north").identity, "2026-02-03"
    sent = folder / "north/north.revoked.toml"
    done("keys", "revoke", folder / "north", "--since", day)
    done("keys", "revoke", folder / "south", sent)
    done("keys", "rotate", folder / "north")
    assert day in done("keys", "revoke", folder / "south", sent)
    for member in ("north", "south"):
        known = SiteKeys(folder / member).revoked().of(old)
        assert known is not None
        assert (known.since, known.proven) == (day, True)
        assert known.successor == public_file_in(folder / "north").identity


def test_a_thief_does_not_move_the_day_of_a_revocation(folder: Path) -> None:
    shutil.copytree(folder / "north", folder / "thief")
    day, later = "2026-02-03", "2026-03-04"
    for owner, since in (("north", day), ("thief", later)):
        done("keys", "revoke", folder / owner, "--since", since)
        sent = folder / owner / "north.revoked.toml"
        assert day in done("keys", "revoke", folder / "south", sent)
    text = key_text(public_file_in(folder / "north").identity)
    assert day in done("keys", "revoke", folder / "south", text)  # and not today
    (known,) = SiteKeys(folder / "south").revoked().revoked
    assert known.since == day


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_a_key_is_not_revoked_from_a_later_day(folder: Path, command: str) -> None:
    words = ("keys", command, folder / "north", "--since", "2999-01-01")
    assert "from today" in refused(*words)
    assert SiteKeys(folder / "north").revoked().revoked == ()


class KilledError(Exception):
    """Stands for a process that ends between two instructions."""


@pytest.mark.parametrize("member", ["north", "coordinator"])
def test_a_rotation_that_was_killed_is_run_again_and_every_old_key_is_revoked(
    folder: Path, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write, until one rotation is through; then all others learn of it."""
    old = public_file_in(folder / member)
    for survives in itertools.count():
        written = itertools.count()

        def killed(
            path: Path,
            content: bytes,
            *,
            over: bool = False,
            mode: int = 0o600,
            written: Iterator[int] = written,
            survives: int = survives,
        ) -> None:
            if next(written) == survives:
                raise KilledError
            write_secret(path, content, over=over, mode=mode)

        with monkeypatch.context() as patch:
            patch.setattr("discreet.transport.rotation.write_secret", killed)
            patch.setattr("discreet.transport.keys.write_secret", killed)
            if not isinstance(
                run("keys", "rotate", folder / member).exception, KilledError
            ):
                break
    assert survives == (4 if member == "north" else 9)
    new = public_file_in(folder / member)
    done("keys", "revoke", folder / "south", folder / member / f"{member}.revoked.toml")
    known = SiteKeys(folder / "south").revoked()
    assert TODAY in str(known.of(old.identity))
    assert known.of(new.identity) is None
    assert known.same_site()[key_text(new.identity)] == key_text(old.identity)
    own = read_identity(folder / member / "identity.key")
    assert own.public_key().public_bytes_raw() == new.identity
    with pytest.raises(Exception, match=TODAY):
        known.check(plan_in(folder))


class InAMinute(datetime):
    """A clock that is ahead: certificates have seconds."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + timedelta(minutes=1)


def test_a_replaced_authority_is_not_trusted_again(folder: Path) -> None:
    """Its public file has the fingerprint of the present one: nobody would notice."""
    stolen = folder / "stolen.public.toml"
    old = public_file_in(folder / "coordinator")
    before = make_authority(days=3)[1].public_bytes(Encoding.PEM).decode()
    identity = CoordinatorKeys(folder / "coordinator").identity()
    words = {"authority": before, "address": old.address}
    stolen.write_text(PublicFile.signed(old.name, identity, **words).dumps())
    done("keys", "trust", folder / "north", stolen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("discreet.transport.keys.datetime", InAMinute)
        done("keys", "rotate", folder / "coordinator", "--only", "authority")
    new = folder / "coordinator/coordinator.public.toml"
    done("keys", "trust", folder / "north", new)
    for again in (
        ("keys", "trust", folder / "north", stolen),
        ("join", stolen, "--site", "north", "--folder", folder / "north"),
    ):
        assert "an older authority" in refused(*again)
    assert SiteKeys(folder / "north").coordinator() == PublicFile.read(new)


@pytest.mark.parametrize("only", ["identity", "authority", None])
def test_a_coordinator_rotates_its_identity_its_authority_or_both(
    folder: Path, only: str | None
) -> None:
    old = public_file_in(folder / "coordinator")
    done("keys", "rotate", folder / "coordinator", *(["--only", only] if only else []))
    new = public_file_in(folder / "coordinator")
    assert (new.identity == old.identity) == (only == "authority")
    assert (new.authority == old.authority) == (only == "identity")
    authority = read_certificate(new.authority.encode(), "the authority")
    certificate = certificate_in(folder / "coordinator", "server.pem")
    certificate.verify_directly_issued_by(authority)
    said = done(
        "keys",
        "trust",
        folder / "north",
        folder / "coordinator/coordinator.public.toml",
    )
    assert ("allow.coordinators" in said) == (only != "authority")
    assert SiteKeys(folder / "north").coordinator() == new


def test_a_site_trusts_no_coordinator_whose_key_was_revoked(folder: Path) -> None:
    stolen = folder / "stolen.public.toml"
    stolen.write_text((folder / "coordinator/coordinator.public.toml").read_text())
    done("keys", "rotate", folder / "coordinator")
    done(
        "keys",
        "revoke",
        folder / "north",
        folder / "coordinator/coordinator.revoked.toml",
    )
    assert TODAY in refused("keys", "trust", folder / "north", stolen)
    assert TODAY in refused(
        *("join", stolen, "--site", "north", "--folder", folder / "north")
    )


@pytest.mark.parametrize("given", ["--keys", "--policy"])
def test_a_preview_says_that_a_plan_with_a_revoked_key_is_declined(
    folder: Path, given: str
) -> None:
    rows = folder / "rows.csv"
    cells = [f"{int(i % 3 == 0)},{i % 97 / 97}\n" for i in range(400)]
    rows.write_text("y_true,y_score\n" + "".join(cells))
    north = folder / "north"
    own = {"--keys": north, "--policy": north / "policy.toml"}[given]
    words = ("preview", folder / "plan.toml", rows, given, own, "--confirmed")
    assert "This site would take part" in done(*words)
    done("keys", "rotate", folder / "south")
    done("keys", "revoke", north, folder / "south/south.revoked.toml")
    said = run(*words)
    assert said.exit_code == 1
    assert f"would decline: the plan's roster holds a key of south {TODAY}" in (
        said.output
    )


def test_a_site_does_not_call_a_coordinator_whose_key_was_revoked(folder: Path) -> None:
    """Whatever the plan: one without a roster names no key that could be refused."""
    done("keys", "rotate", folder / "coordinator")
    sent = folder / "coordinator/coordinator.revoked.toml"
    done("keys", "revoke", folder / "north", sent)
    words = ("--keys", folder / "north", "-o", folder / "fetched.toml")
    assert TODAY in refused("site", "fetch", *words)
    with pytest.raises(Exception, match=TODAY):
        HttpsSite().fetch_plan(SiteKeys(folder / "north"), "127.0.0.1:1")
    done(
        *("keys", "trust", folder / "north"),
        folder / "coordinator/coordinator.public.toml",
    )
    SiteKeys(folder / "north").coordinator()


def test_an_interrupted_session_keeps_its_key_unless_it_is_given_up(
    folder: Path,
) -> None:
    before = public_file_in(folder / "coordinator")
    (folder / "coordinator" / "session-00.sealed").write_bytes(b"sealed")
    assert "interrupted session" in refused("keys", "rotate", folder / "coordinator")
    assert public_file_in(folder / "coordinator") == before
    done("keys", "rotate", folder / "coordinator", "--anyway")


def test_a_site_has_no_authority_to_rotate(folder: Path) -> None:
    words = ("keys", "rotate", folder / "north", "--only", "authority")
    assert "no authority" in refused(*words)


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_site_in_a_session_declines_once_the_coordinator_is_revoked(
    tmp_path: Path, answered: int
) -> None:
    """Its invitation, and each step of a session that it had joined before."""
    plan = plan_for(DistributedDP("2"), survivors=3, signed_by=3)
    coordinator = plan.roster.coordinator if plan.roster else b""
    stolen = Revocation(name="hub", key=coordinator or b"", since="2026-02-03")

    class Warned(Federation):
        def site(self, place: int) -> Site:
            warned = place == 2 and next(messages) >= answered
            revoked = RevokedKeys((stolen,) if warned else ())
            return replace(super().site(place), revoked=revoked)

    messages = itertools.count()
    federation = Warned(tmp_path)
    with pytest.raises(AbortedError, match="1 declined"):
        federation.session(plan).run()
    ((place, reason),) = federation.reasons
    assert place == 2
    assert "a key of hub that was revoked on 2026-02-03" in reason
    assert federation.spent(2) == 0
    assert next(messages) == answered + 2  # the one declined, and the end
    assert answered == 2 or federation.spent(1) == federation.spent(3) == 0


def test_verify_says_that_a_report_is_signed_by_a_revoked_key(folder: Path) -> None:
    plan, keys = plan_in(folder), CoordinatorKeys(folder / "coordinator")
    simulated = run_plan(plan, [examples(k) for k in (1, 2, 3)], entropy=Seeded(b"r"))
    claim = plan.claim("deployed", sites=3)
    result = result_of(plan, simulated.source.releases, claim)
    report = folder / "report.json"
    result.save(report, sign=keys.identity().sign)
    words = ("verify", report, "--plan", folder / "plan.toml")
    assert "holds." in done(*words)
    done("keys", "revoke", folder / "coordinator", "--since", "2026-02-03")
    sent = folder / "coordinator/coordinator.revoked.toml"
    said = run(*words, "--revoked", sent)
    assert said.exit_code == 3
    assert (
        "It is signed by a key of coordinator that was revoked on 2026-02-03"
        in said.output
    )
    other = run(*words, "--revoked", folder / "coordinator/revoked.toml")
    assert other.output == said.output
    shutil.copytree(folder / "coordinator", folder / "thief")
    (folder / "thief/revoked.toml").unlink()
    done("keys", "revoke", folder / "thief", "--since", "2026-03-04")
    later = ("--revoked", folder / "thief/coordinator.revoked.toml")
    assert run(*words, *later, "--revoked", sent).output == said.output
    without_plan = run("verify", report, "--revoked", sent)
    assert without_plan.exit_code == 3
    assert "It is signed by a key of coordinator that was revoked" in (
        without_plan.output
    )
    json.loads(report.read_text())


def test_a_ledger_goes_on_when_its_site_has_rotated(folder: Path) -> None:
    done("keys", "rotate", folder / "north")
    done("ledger", "rotate", folder / "north/ledger.sqlite")
    with Ledger(folder / "north/ledger.sqlite") as ledger:
        ledger.verify()
    site = PublicFile.read(folder / "north/north.public.toml")
    members = [site, *(public_file_in(folder / name) for name in ("east", "south"))]
    roster = assemble(members, public_file_in(folder / "coordinator"))
    RevokedKeys.beside(folder / "north").check(replace(plan_in(folder), roster=roster))
