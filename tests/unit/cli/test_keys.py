"""Keys of a real consortium: each member makes its own, and people compare digits."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from discreet.cli.files import read_plan
from discreet.cli.main import app
from discreet.errors import InputError
from discreet.failures import exit_code
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts, fingerprint, key_text
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, recommend
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.journal import SavedSession
from discreet.transport import keys
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.keys import (
    CoordinatorKeys,
    PublicFile,
    SiteKeys,
    hosts_of,
    read_certificate,
)
from unit.transport.https.port import listening, make

SITES = ("north", "south", "east")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    made = recommend(
        PublicFacts(1000, 0.3),
        DistributedDP("1"),
        cohort=Cohort(3),
        model=ModelRef("sepsis-xgb"),
    )
    path.write_text(dumps(made))
    return path


@pytest.fixture
def public(tmp_path: Path) -> list[Path]:
    """The public files of three sites that made their keys at home."""
    for site in SITES:
        done("keys", "new", site, "--folder", tmp_path / site)
    return [tmp_path / site / f"{site}.public.toml" for site in SITES]


def test_a_consortium_comes_together_without_a_private_key_leaving_anybody(
    tmp_path: Path, plan: Path, public: list[Path]
) -> None:
    own = tmp_path / "coordinator"
    done("keys", "coordinator", own)
    said = done("roster", plan, *public, "--keys", own)
    agreed = read_plan(plan)
    assert agreed.roster is not None
    assert [site.name for site in agreed.roster.sites] == sorted(SITES)
    assert set(CoordinatorKeys(own).admitted(agreed)) == set(SITES)
    sent = "".join(path.read_text() for path in public) + plan.read_text()
    for site in SITES:
        public_file = own / "coordinator.public.toml"
        done("keys", "trust", tmp_path / site, public_file, "--plan", plan)
        identity = SiteKeys(tmp_path / site).identity()
        assert identity.public_key().public_bytes_raw() == agreed.roster.key_of(site)
        assert fingerprint(agreed.roster.key_of(site)) in said
        policyfile.load(tmp_path / site / "policy.toml").check(agreed)
        path = tmp_path / site / "identity.key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().splitlines()[1] not in sent
    assert "PRIVATE" not in sent
    # Every site sees in the plan that it got what it compares by voice.
    shown = done("roster", plan)
    assert [s for s in shown.splitlines() if s.startswith("    ")] == [
        s for s in said.splitlines() if s.startswith("    ")
    ]


def test_a_public_file_whose_name_was_changed_is_refused(
    tmp_path: Path, plan: Path, public: list[Path]
) -> None:
    done("keys", "coordinator", tmp_path / "coordinator")
    public[0].write_text(public[0].read_text().replace("north", "north-2"))
    result = run("roster", plan, *public, "--keys", tmp_path / "coordinator")
    assert isinstance(result.exception, InputError)
    assert "not signed by its identity" in str(result.exception)
    assert read_plan(plan).roster is None


def test_keys_are_never_written_over(tmp_path: Path, public: list[Path]) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "north").iterdir()}
    again = run("keys", "new", "north", "--folder", tmp_path / "north")
    assert isinstance(again.exception, InputError)
    assert before == {path: path.read_bytes() for path in public[0].parent.iterdir()}


def test_a_certificate_ends_and_is_renewed_under_the_same_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "coordinator"
    done("keys", "coordinator", own, "--host", "mpc.example.org", "--days", 90)
    folder = CoordinatorKeys(own)
    assert folder.check_dates() is None

    class Later(datetime):
        days = 80

        @classmethod
        def now(cls, tz: object = None) -> datetime:
            del tz
            return datetime.now(UTC) + timedelta(days=cls.days)

    monkeypatch.setattr(keys, "datetime", Later)
    assert "discreet keys renew" in (folder.check_dates() or "")
    Later.days = 91
    with pytest.raises(InputError, match="was valid until"):
        folder.check_dates()
    monkeypatch.undo()
    old = (own / "server.pem").read_bytes(), (own / "ca.pem").read_bytes()
    done("keys", "renew", own, "--days", 200)
    assert (own / "server.pem").read_bytes() != old[0]
    assert (own / "ca.pem").read_bytes() == old[1], "the sites notice nothing"
    renewed = read_certificate((own / "server.pem").read_bytes(), "it")
    renewed.verify_directly_issued_by(read_certificate(old[1], "the authority"))
    assert hosts_of(renewed) == ["mpc.example.org"]
    assert stat.S_IMODE((own / "server.key").stat().st_mode) == 0o600
    monkeypatch.setattr(keys, "datetime", Later)
    assert folder.check_dates() is None


def test_a_rehearsal_says_that_it_is_one(tmp_path: Path) -> None:
    said = done("consortium", tmp_path / "r", "--site", "a", "--site", "b")
    assert "This is a rehearsal" in said
    assert "at home" in said


def consortium(folder: Path, *options: object, names: Sequence[str] = "abc") -> Result:
    sites = [part for name in names for part in ("--site", name)]
    return run("consortium", folder, *sites, *options)


def test_a_consortium_has_a_roster_and_policies_that_allow_its_plan(
    tmp_path: Path, plan: Path
) -> None:
    before = read_plan(plan).digest()
    result = consortium(tmp_path / "c", "--plan", plan)
    assert result.exit_code == 0, result.output
    agreed = read_plan(plan)
    assert agreed.digest() != before
    assert agreed.roster is not None
    assert [member.name for member in agreed.roster.sites] == ["a", "b", "c"]
    for member in agreed.roster.sites:
        assert f"{member.name} {key_text(member.key)}" in result.output
        policy = policyfile.load(tmp_path / "c" / member.name / "policy.toml")
        policy.check(agreed)
        assert policy.coordinators == (key_text(agreed.roster.coordinator or b""),)


def test_a_consortium_never_writes_over_keys(tmp_path: Path) -> None:
    assert consortium(tmp_path).exit_code == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = {path: path.read_bytes() for path in files}
    assert isinstance(consortium(tmp_path).exception, InputError)
    assert kept == {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("names", [("a", "a"), ("coordinator",)])
def test_sites_are_named_once_and_none_is_the_coordinator(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    assert isinstance(consortium(tmp_path / "c", names=names).exception, InputError)


@pytest.fixture
def coordinator(tmp_path: Path) -> Path:
    """The public file of a coordinator that nobody reaches."""
    done("keys", "coordinator", tmp_path / "c", "--port", free_port())
    return tmp_path / "c" / "coordinator.public.toml"


def test_one_command_sets_up_a_site_and_says_what_to_send(
    tmp_path: Path, coordinator: Path, plan: Path
) -> None:
    north = tmp_path / "north"
    words = ("join", coordinator, "--site", "north", "--folder", north)
    said = done(*words, "--plan", plan)
    public = PublicFile.read(north / "north.public.toml")
    assert f"Send {north / 'north.public.toml'} to the coordinator" in said
    for each in (public, PublicFile.read(coordinator)):
        assert fingerprint(each.identity) in said
    assert "not tried yet: nobody listens" in said
    assert [p.name for p in north.iterdir() if p.stat().st_mode & 0o077 == 0]
    assert "sepsis-xgb" in policyfile.load(north / "policy.toml").models
    with Ledger(north / "ledger.sqlite") as ledger:
        assert ledger.entries() == ()
    # Once more keeps what is there, whatever was changed by hand.
    rules = (north / "policy.toml").read_text() + "# read\n"
    (north / "policy.toml").write_text(rules)
    kept = {path: path.read_bytes() for path in north.iterdir()}
    assert "starter policy" not in done(*words)
    assert kept == {path: path.read_bytes() for path in north.iterdir()}
    # A public file that was moved away is written again, and is the same.
    (north / "north.public.toml").unlink()
    done(*words)
    assert PublicFile.read(north / "north.public.toml") == public


def other_name(tmp_path: Path, coordinator: Path) -> tuple[object, ...]:
    done("join", coordinator, "--site", "north", "--folder", tmp_path / "north")
    return coordinator, "--site", "south", "--folder", tmp_path / "north"


def other_coordinator(tmp_path: Path, coordinator: Path) -> tuple[object, ...]:
    done("join", coordinator, "--site", "north", "--folder", tmp_path / "north")
    done("keys", "coordinator", tmp_path / "d")
    another = tmp_path / "d" / "coordinator.public.toml"
    return another, "--site", "north", "--folder", tmp_path / "north"


def broken_file(tmp_path: Path, coordinator: Path) -> tuple[object, ...]:
    coordinator.write_text(coordinator.read_text().replace("127.0.0.1", "127.0.0.2"))
    return coordinator, "--site", "north", "--folder", tmp_path / "north"


def sites_file(tmp_path: Path, coordinator: Path) -> tuple[object, ...]:
    del coordinator
    done("keys", "new", "south", "--folder", tmp_path / "south")
    public = tmp_path / "south" / "south.public.toml"
    return public, "--site", "north", "--folder", tmp_path / "north"


def no_name(tmp_path: Path, coordinator: Path) -> tuple[object, ...]:
    return coordinator, "--site", "../north", "--folder", tmp_path / "north"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (other_name, "is the folder of north"),
        (other_coordinator, "trusts another coordinator"),
        (broken_file, "not signed by its identity"),
        (sites_file, "trust is for the coordinator's"),
        (no_name, "a name has 1 to 63"),
    ],
)
def test_a_site_that_cannot_join_is_told_why_and_nothing_changes(
    tmp_path: Path,
    coordinator: Path,
    wrong: Callable[[Path, Path], tuple[object, ...]],
    words: str,
) -> None:
    arguments = wrong(tmp_path, coordinator)
    north = tmp_path / "north"
    before = {p: p.read_bytes() for p in north.iterdir()} if north.exists() else {}
    result = run("join", *arguments)
    assert isinstance(result.exception, InputError), result.output
    assert re.search(words, str(result.exception)), result.exception
    assert exit_code(result.exception) == 2
    after = {p: p.read_bytes() for p in north.iterdir()} if north.exists() else {}
    assert after == before


def test_a_site_that_joins_with_a_broken_ledger_exits_with_one(
    tmp_path: Path, coordinator: Path
) -> None:
    words = ("join", coordinator, "--site", "north", "--folder", tmp_path / "north")
    done(*words)
    (tmp_path / "north" / "ledger.sqlite.head").unlink()
    result = run(*words)
    assert result.exit_code == 1
    assert "fails ledger" in result.output


def test_a_site_of_the_roster_fetches_the_plan_and_never_writes_over_one(
    tmp_path: Path,
) -> None:
    agreed, out = make(tmp_path), tmp_path / "plan.toml"
    with listening(tmp_path, agreed) as port:
        words = ("site", "fetch", "--keys", tmp_path / "north", "--out", out)
        words = (*words, "--coordinator", f"{LOOPBACK}:{port.number}")
        said = done(*words)
        assert agreed.digest().hex()[:32] in said
        assert read_plan(out) == agreed
        again = run(*words)
    assert isinstance(again.exception, InputError)
    assert "is there already" in str(again.exception)


@pytest.mark.parametrize(("days", "left"), [(0, 0), (29, 1), (31, 2)])
def test_saved_sessions_of_a_coordinator_are_deleted_when_they_are_old(
    tmp_path: Path, days: int, left: int
) -> None:
    folder = tmp_path / "coordinator"
    keys.new_coordinator(folder, ["localhost"])
    for name, age in (("old", 30), ("new", 0)):
        saved = folder / f"session-{name}.sealed"
        saved.write_bytes(b"sealed")
        written = time.time() - age * 86_400 - 1
        os.utime(saved, (written, written))
    said = done("coordinate", "purge", "--keys", folder, "--days", days)
    assert f"{2 - left} saved sessions were deleted." in said
    assert len(list(folder.glob("session-*.sealed"))) == left


def test_parts_of_a_saved_session_that_a_kill_left_are_deleted_too(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "coordinator"
    keys.new_coordinator(folder, ["localhost"])
    saved = SavedSession(folder / "session-00.sealed", b"secret", b"plan")
    left = folder / ".session-00.sealed.x1y2z3w4"
    left.write_bytes(b"sealed")
    done("coordinate", "purge", "--keys", folder, "--days", 0)
    assert not left.exists()
    left.write_bytes(b"sealed")
    saved.save(b"content")
    saved.discard()
    assert not list(folder.glob("*session-00*"))
