"""The ledger's three files: cut, put back or lost, each of them is missed."""

import shutil
import sqlite3
import stat
from fractions import Fraction

import pytest

from discreet.errors import BudgetError
from discreet.privacy import ledger_file
from discreet.privacy.account import Cap, Limits, Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import LedgerError, TamperedLedgerError, seal
from discreet.privacy.ledger_file import head_path, secret_path
from discreet.privacy.loss import PureDP

HALF = PureDP(Fraction(1, 2))


def use(session):
    return Use("icu", session, 0, HALF, b"i")


def spend(path, *sessions):
    with Ledger(path) as ledger:
        for session in sessions:
            ledger.record(ledger.reserve(use(session)), b"answer " + session)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def filled(path):
    Ledger.new(path).close()
    spend(path, b"a", b"b", b"c")
    return path


def files(path):
    return path, head_path(path), secret_path(path)


def tamper(path, statement, *values):
    with sqlite3.connect(path) as file:
        changed = file.execute(statement, values).rowcount
    file.close()
    assert changed


@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        (
            "UPDATE entry SET body = cast(replace(body, '5', '1') AS BLOB) WHERE number = 3",
            3,
        ),
        ("UPDATE entry SET tag = zeroblob(32) WHERE number = 2", 2),
        ("DELETE FROM entry WHERE number = 2", 2),
        ("DELETE FROM entry WHERE number = 6", 6),
        ("DELETE FROM entry WHERE number > 4", 5),
        ("DELETE FROM entry", 1),
        ("UPDATE message SET bytes = x'00' WHERE session = x'62'", 4),
        ("DELETE FROM message WHERE session = x'62'", 4),
    ],
)
def test_tampering_is_seen_and_the_entry_is_named(filled, statement, entry):
    tamper(filled, statement)
    with pytest.raises(TamperedLedgerError) as caught, Ledger(filled) as ledger:
        ledger.verify()
    assert caught.value.entry == entry
    assert f"entry {entry} of the ledger" in str(caught.value)


def test_a_tampered_ledger_pays_for_nothing(filled):
    with Ledger(filled) as ledger:
        head = head_path(filled)
        head.write_bytes(head.read_bytes().replace(b"6 ", b"7 ", 1))
        with pytest.raises(LedgerError, match="head was changed"):
            ledger.reserve(use(b"d"))


def emptied(path):
    tamper(path, "DELETE FROM entry")
    tamper(path, "DELETE FROM message")


def truncated(path):
    path.write_bytes(b"")


def as_on_the_first_day(path):
    """Everything but the head and the secret is that of a new ledger."""
    other = path.with_name("other.db")
    Ledger.new(other).close()
    shutil.copy(other, path)


@pytest.mark.parametrize("forget", [emptied, truncated, as_on_the_first_day])
def test_an_emptied_ledger_is_a_broken_one_and_no_new_start(filled, forget):
    forget(filled)
    with pytest.raises(LedgerError, match=r"was removed|is empty"):
        Ledger(filled, limits=Limits(Cap(epsilon=Fraction(3, 2))))


def test_a_log_that_is_removed_after_a_kill_takes_no_charge_along(filled, tmp_path):
    ledger = Ledger(filled)  # never closed: nothing is folded into the file
    ledger.reserve(use(b"d"))
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in tmp_path.glob("ledger.db*"):
        if "-wal" not in file.name and "-shm" not in file.name:
            shutil.copy(file, killed / file.name)
    with pytest.raises(TamperedLedgerError, match="entry 7 of the ledger was removed"):
        Ledger(killed / filled.name)
    ledger.close()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("later", [[b"d"], [b"d", b"e"]])
def test_one_file_that_is_put_back_alone_is_seen(filled, which, later):
    file = files(filled)[which]
    old = file.read_bytes()
    spend(filled, *later)
    file.write_bytes(old)
    with pytest.raises(LedgerError, match=r"was removed|old copy was put back"):
        Ledger(filled)


def test_a_head_that_is_one_entry_behind_forgets_nothing_and_is_sealed(filled):
    """A crash leaves it so, after the commit; nothing was sent for that entry yet."""
    with Ledger(filled, limits=Limits(Cap(epsilon=Fraction(2)))) as ledger:
        old = head_path(filled).read_bytes()
        ledger.reserve(use(b"d"))
        new = head_path(filled).read_bytes()
    head_path(filled).write_bytes(old)
    with Ledger(filled, limits=Limits(Cap(epsilon=Fraction(2)))) as ledger:
        assert ledger.spent("icu").epsilon == 2
        with pytest.raises(BudgetError, match="exceed"):
            ledger.reserve(use(b"e"))
    assert head_path(filled).read_bytes() == new


def test_nothing_is_permitted_before_it_is_sealed(filled, monkeypatch):
    def full(path, content):
        del content
        raise LedgerError(f"{path.name} cannot be written; nothing was sent")

    with Ledger(filled) as ledger:
        with monkeypatch.context() as disk:
            disk.setattr(ledger_file, "write_private", full)
            for _ in range(3):
                with pytest.raises(LedgerError, match="cannot be written"):
                    ledger.reserve(use(b"d"))
        ledger.reserve(use(b"d"))  # there is room again, and it was charged once
        assert ledger.spent("icu").epsilon == 2
        ledger.verify()


def test_putting_all_files_back_is_seen_by_whoever_noted_a_tag(filled):
    """What remains possible, as the documentation says."""
    old = [file.read_bytes() for file in files(filled)]
    with Ledger(filled) as ledger:
        ledger.verify(noted=ledger.head()[1])
        ledger.reserve(use(b"d"))
        noted = ledger.head()[1]
    for file, content in zip(files(filled), old, strict=True):
        file.write_bytes(content)
    with Ledger(filled) as ledger:
        ledger.verify()
        with pytest.raises(LedgerError, match="older copy"):
            ledger.verify(noted=noted)


def test_a_head_cannot_be_made_from_what_the_ledger_holds(filled):
    """Its seal has a purpose of its own: tags in the ledger are no seals."""
    with Ledger(filled) as ledger:
        tags = ledger._file.tags
        good = seal(ledger._file.secret, 2, tags[2])
    tamper(filled, "DELETE FROM entry WHERE number > 2")
    tamper(filled, "DELETE FROM message WHERE session <> x'61'")
    head_path(filled).write_bytes(f"2 {tags[2].hex()} {tags[2].hex()}\n".encode())
    with pytest.raises(LedgerError, match="head was changed"):
        Ledger(filled)
    head_path(filled).write_bytes(good)  # with the secret, it could
    Ledger(filled).close()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_files_are_their_owners_alone(filled, which):
    file = files(filled)[which]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with pytest.raises(LedgerError, match=f"others.*chmod 600 {file.name}"):
        Ledger(filled)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_lost_file_is_an_error_and_not_a_new_start(filled, which):
    file = files(filled)[which]
    file.unlink()
    with pytest.raises(LedgerError, match=f"{file.name} is gone.*one backup"):
        Ledger(filled)
    with pytest.raises(LedgerError, match="nothing was made"):
        Ledger.new(filled)
    with pytest.raises(LedgerError):
        Ledger(filled)


def test_a_wrong_secret_or_head_is_refused(filled):
    _, head, secret = files(filled)
    kept = secret.read_bytes()
    secret.write_bytes(b"x" * 31)
    with pytest.raises(LedgerError, match="31 bytes"):
        Ledger(filled)
    secret.write_bytes(bytes(32))
    with pytest.raises(TamperedLedgerError, match="another secret"):
        Ledger(filled)
    secret.write_bytes(kept)
    for garbage in (b"", b"1 2 3", b"6 zz 00\n", b"9" * 400, b"\xff" * 80):
        head.write_bytes(garbage)
        with pytest.raises(LedgerError, match="head was changed"):
            Ledger(filled)


def test_a_file_that_is_no_ledger_or_of_another_version_is_refused(filled):
    with sqlite3.connect(filled) as file:
        file.execute("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(LedgerError, match="newer"):
        Ledger(filled)
    filled.write_bytes(b"this is not SQLite" * 100)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(filled)


def test_a_ledger_is_made_once_and_never_by_looking(path):
    with pytest.raises(LedgerError, match=f"discreet ledger new {path}"):
        Ledger(path)
    assert not path.exists()
    Ledger.new(path).close()
    with pytest.raises(LedgerError, match="already"):
        Ledger.new(path)
    with pytest.raises(LedgerError, match="cannot be made"):
        Ledger.new(path / "below a file")


@pytest.mark.parametrize("written", [0, 1])
def test_a_ledger_whose_making_was_interrupted_can_be_finished(
    path, monkeypatch, written
):
    write, done = ledger_file.write_private, []

    def crash(file, content):
        if len(done) == written:
            raise KeyboardInterrupt
        done.append(file)
        write(file, content)

    with monkeypatch.context() as crashing:
        crashing.setattr(ledger_file, "write_private", crash)
        with pytest.raises(KeyboardInterrupt):
            Ledger.new(path)
    with pytest.raises(LedgerError, match="discreet ledger new"):
        Ledger(path)
    with Ledger.new(path) as ledger:
        ledger.reserve(use(b"a"))
    spend(path, b"b")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(filled, mode):
    """Whoever may write there can put another ledger in its place."""
    folder = filled.parent
    folder.chmod(mode)
    with pytest.raises(LedgerError, match=f"run: chmod go-w {folder}$"):
        Ledger(filled)
    with pytest.raises(LedgerError, match="chmod go-w"):
        Ledger.new(folder / "another.db")
    assert not (folder / "another.db").exists()
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~0o022)
    Ledger(filled).close()


def test_the_folder_that_a_link_leads_to_is_looked_at(filled, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    for file in files(filled):
        (private / file.name).symlink_to(file)
    Ledger(private / filled.name).close()
    filled.parent.chmod(0o777)
    with pytest.raises(LedgerError, match="chmod go-w"):
        Ledger(private / filled.name)
