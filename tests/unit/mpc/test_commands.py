import pytest

from discreet.cli import main
from discreet.failures import EXIT_INPUT
from discreet.mpc.fleet import allowing
from discreet.mpc.session import MpcSession
from discreet.mpc.transport import EXIT_SESSION
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command line in this process; return exit code, output, error output."""

    def command(*arguments):
        monkeypatch.setattr("sys.argv", ["discreet", "exact", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return command


@pytest.fixture
def prepared(tmp_path, run):
    folder, file = tmp_path / "certificates", tmp_path / "session.toml"
    assert run("certificates", folder, "--owners", 1)[0] == 0
    made = run(
        *("session", file, "--owner", "owner-1:3"),
        *(x for port in (1, 3, 5) for x in ("--party", f"127.0.0.1:{port}:{port + 1}")),
    )
    assert made[0] == 0
    text = policyfile.dumps(allowing(MpcSession.read(file)))
    (tmp_path / "policy.toml").write_text(text, encoding="utf-8")
    Ledger.new(tmp_path / "ledger.sqlite").close()
    return folder, file


GOOD = "0.5,1\n0.1,0\n0.2,1\n"


@pytest.fixture
def owner(tmp_path, prepared, run):
    """Run an owner on rows of text."""

    def command(text=GOOD, name="owner-1", **options):
        folder, file = prepared
        path = tmp_path / "rows.csv"
        path.write_text("y_score,y_true\n" + text, encoding="utf-8")
        return run(
            *("owner", file, path, "--name", name, "--certificates", folder),
            *("--policy", tmp_path / "policy.toml"),
            *(x for key, value in options.items() for x in (f"--{key}", value)),
        )

    return command


def test_a_session_is_written_once(prepared, run):
    _, file = prepared
    session = MpcSession.read(file)
    assert [str(p.link) for p in session.parties] == [
        f"127.0.0.1:{p}" for p in (2, 4, 6)
    ]
    code, _, error = run("session", file, "--party", "a:1:2", "--owner", "owner-1:3")
    assert code == EXIT_INPUT
    assert "a session is used once" in error


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--party a:1:2 --owner o:3", "3 compute parties, got 1"),
        ("--party a:1:2 --owner o", "an owner is NAME:ROWS"),
        ("--party a:1 --owner o:3", "host:port"),
        ("--party a:1:2 --owner o:3 --ties maybe", "ties are 'exact' or 'none'"),
        ("--party a:1:2 --owner o:3 --scores other", '"probability" or "logit"'),
    ],
)
def test_a_wrong_session_is_refused(tmp_path, run, options, sentence):
    code, _, error = run("session", tmp_path / "new.toml", *options.split())
    assert code == EXIT_INPUT
    assert sentence in error
    assert not (tmp_path / "new.toml").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0.5,2\n0.1,0\n0.2,1\n", "labels"),
        ("0.5,1\n1.5,0\n0.2,1\n", "1 of 3 scores are outside [0, 1]"),
        ("0.5,1\n,0\n0.2,1\n", "1 of 3 scores"),
        ("0.5,1\n0.2,1\n", "has 2 examples, the session says 3"),
    ],
)
def test_an_owner_refuses_its_own_bad_data_before_it_connects(owner, text, sentence):
    code, _, error = owner(text)
    assert code == EXIT_INPUT
    assert sentence in error


def test_an_owner_that_finds_no_party_says_so_within_the_timeout(owner):
    code, _, error = owner(timeout=1)
    assert code == EXIT_SESSION
    assert "party-0 did not answer within 1 s; nothing was revealed" in error


def test_an_owner_whose_policy_forbids_a_session_takes_no_part(tmp_path, owner):
    policy = tmp_path / "policy.toml"
    text = policy.read_text().replace("exact_sums = 1", "exact_sums = 0")
    policy.write_text(text, encoding="utf-8")
    code, _, error = owner()
    assert code == EXIT_INPUT
    assert "the policy allows none" in error
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.entries() == ()


@pytest.mark.parametrize("command", ["party", "owner", "open"])
def test_a_member_that_is_not_in_the_session_is_refused(prepared, run, owner, command):
    folder, file = prepared
    if command == "owner":
        code, _, error = owner(name="analyst")
    else:
        stranger = "analyst" if command == "party" else "owner-1"
        code, _, error = run(
            command, file, "--name", stranger, "--certificates", folder
        )
    assert code == EXIT_INPUT
    assert "session" in error


def test_missing_files_are_named(prepared, run, tmp_path):
    folder, file = prepared
    code, _, error = run("open", tmp_path / "no.toml", "--certificates", folder)
    assert (code, "no.toml" in error) == (EXIT_INPUT, True)
    code, _, error = run("open", file, "--certificates", tmp_path)
    assert (code, "analyst has no file" in error) == (EXIT_INPUT, True)
