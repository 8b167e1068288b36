"""The clients of reports, in Python and JavaScript: vectors, exact privacy, budget."""

import dbm.dumb
import json
import shelve
import shutil
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import BudgetError, InputError, PlanError, phone
from discreet.data.edges import Edges, Listed
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.noise.arc import CircularArc
from discreet.phone import DENOMINATOR, Budget, Parameters, Report, randomize
from statistical_checks import ALPHA, chi_squared_p_value
from vectors import generate_reports as generator

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "js" / "discreet-phone.mjs"
NODE = shutil.which("node")
SETS = generator.sets()
FOLDER = ROOT / "vectors" / "reports"
GOOD = {p.stem: json.loads(p.read_text()) for p in sorted(FOLDER.glob("report_*.json"))}
BAD = {p.stem: json.loads(p.read_text()) for p in sorted(FOLDER.glob("bad_*.json"))}
CLIENTS = ["python", "javascript"]


def javascript(*questions, client=CLIENT):
    if NODE is None:
        pytest.skip("node is not installed: the JavaScript client is not run")
    run = subprocess.run(  # noqa: S603 - our own script
        [NODE, str(ROOT / "tests" / "clients" / "answer.mjs"), str(client)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def drawing(digits):
    left = list(bytes.fromhex(digits))

    def draw(size):
        taken = bytes(left[:size])
        del left[:size]
        assert len(taken) == size
        return taken

    return draw, left


def test_the_generator_writes_the_committed_vectors():
    made = {f"report_{k}": generator.good(k, v) for k, v in SETS.items()}
    made |= {
        f"bad_{k}": {"why": w, "parameters": t} for k, (t, w) in generator.bad().items()
    }
    assert made == GOOD | BAD


def test_both_clients_follow_the_vectors():
    asked = [{"way": "report", **document} for document in GOOD.values()]
    for document, answers in zip(GOOD.values(), javascript(*asked), strict=True):
        parameters = Parameters.read(document["parameters"])
        for case, answer in zip(document["cases"], answers, strict=True):
            (score,) = struct.unpack(">d", bytes.fromhex(case["score_bits"]))
            draw, left = drawing(case["entropy"])
            report = randomize(parameters, score, case["label"], entropy=draw)
            wanted = {name: case[name] for name in ("plan", "id", "symbol", "bytes")}
            assert report.fields() | {"bytes": report.encode().hex()} == wanted
            assert answer == wanted | {"left": 0}
            assert not left
            assert Report.decode(report.encode()) == report


@pytest.mark.parametrize("name", [n for n in SETS if n != "small_numbers"])
def test_the_vectorised_twin_follows_the_vectors(name):
    document, chosen = GOOD[f"report_{name}"], SETS[name]
    kind = ScoreRange.declare("logit") if name.endswith("logits") else ScoreRange()
    edges = Edges.realise(Listed((kind.low, *chosen.edges, kind.high)), kind)
    arc = CircularArc(chosen.epsilon, edges)
    assert (arc.length, arc.total_weight) == (chosen.length, chosen.total_weight)
    for case in document["cases"]:
        (score,) = struct.unpack(">d", bytes.fromhex(case["score_bits"]))
        inside = np.clip([score], kind.low, kind.high)
        cell = edges.bins_of(inside) + len(edges) * case["label"]
        draw, _ = drawing(case["entropy"][2 * phone.ID_SIZE :])
        assert arc.randomise(cell.astype(np.int64), draw).tolist() == [case["symbol"]]


def test_no_parameters_are_made_that_clients_refuse_for_their_digits():
    third = Fraction("0." + 31 * "3")
    likely = phone.exp_below(third, DENOMINATOR)
    with pytest.raises(PlanError, match="30 digits"):
        Parameters("0" * 64, third, (0.2, 0.5, 0.9), likely, DENOMINATOR, 1)


def test_both_clients_refuse_bad_parameters():
    refused = javascript(*({"way": "bad", **document} for document in BAD.values()))
    assert dict(zip(BAD, refused, strict=True)) == dict.fromkeys(BAD, True)
    for document in BAD.values():
        with pytest.raises(PlanError):
            Parameters.read(document["parameters"])


def exp_of(epsilon):
    """E^epsilon to 60 digits, by code that shares nothing with the clients'."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(epsilon.numerator) / epsilon.denominator).exp())


def ends_of_ranges(parameters):
    """Return integers below W between which a client's symbol cannot change, in pairs.

    The symbol is a function of quotients by n and by D: constant on each of these ranges.
    """
    inside = parameters.length * parameters.likely
    starts = [k * parameters.likely for k in range(parameters.length)]
    rest = range(parameters.cells - parameters.length)
    starts += [inside + k * parameters.unlikely for k in rest]
    ends = [*starts[1:], parameters.total_weight]
    return list(zip(starts, ends, strict=True))


def symbols_of(client, parameters, pairs, module=CLIENT):
    if client == "python":
        return [parameters.symbol(cell, drawn) for cell, drawn in pairs]
    texts = [[cell, str(drawn)] for cell, drawn in pairs]
    text = parameters.write()
    question = {"way": "symbols", "parameters": text, "pairs": texts}
    return javascript(question, client=module)[0]


def worst_ratio(client, parameters, module=CLIENT):
    """Return max P(o|x)/P(o|x') over all symbols and cells, exactly."""
    ranges, cells = ends_of_ranges(parameters), parameters.cells
    whole = parameters.total_weight < 1000  # then every integer is asked
    blocks = [(k, k + 1) for k in range(parameters.total_weight)] if whole else ranges
    pairs = [
        (cell, drawn)
        for cell in range(cells)
        for start, end in blocks
        for drawn in (start, end - 1)
    ]
    symbols = iter(symbols_of(client, parameters, pairs, module))
    weights = [[0] * cells for _ in range(cells)]
    for cell in range(cells):
        for start, end in blocks:
            first, last = next(symbols), next(symbols)
            assert first == last
            weights[cell][first] += end - start
    assert {sum(row) for row in weights} == {parameters.total_weight}
    columns = list(zip(*weights, strict=True))
    assert all(min(column) > 0 for column in columns)
    return max(Fraction(max(column), min(column)) for column in columns)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["one", "sixteen", "four_bins", "small_numbers"])
def test_no_report_tells_two_examples_apart_by_more_than_e_to_the_epsilon(client, name):
    parameters = SETS[name]
    worst = worst_ratio(client, parameters)
    assert worst == Fraction(parameters.likely, parameters.unlikely)
    assert worst <= exp_of(parameters.epsilon)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_draws_a_step_too_far_is_seen_by_the_exact_ratio(
    client, tmp_path
):
    """The failing twins: the likely symbols get more integers than they are due."""
    parameters, module = SETS["small_numbers"], tmp_path / "broken.mjs"
    if client == "python":

        class Broken(Parameters):
            def symbol(self, cell, drawn):
                return super().symbol(cell, max(drawn - self.length, 0))

        fields = [getattr(parameters, name) for name in Parameters.__slots__]
        parameters = Broken(*fields)
    else:
        text = CLIENT.read_text()
        broken = text.replace("drawn < inside\n", "drawn < 2n * inside\n")
        assert broken != text
        module.write_text(broken)
    with pytest.raises(AssertionError):
        assert worst_ratio(client, parameters, module) <= exp_of(parameters.epsilon)


SIZE = 40_000


def sample_of(client, parameters, score, label):
    if client == "javascript":
        question = {"way": "sample", "score": score, "label": label, "size": SIZE}
        (answer,) = javascript(question | {"parameters": parameters.write()})
        assert answer["ids"] == SIZE
        return np.array(answer["counts"])
    entropy = Seeded(b"a sample of reports")
    drawn = [
        randomize(parameters, score, label, entropy=entropy).symbol for _ in range(SIZE)
    ]
    return np.bincount(drawn, minlength=parameters.cells)


@pytest.mark.statistical
@pytest.mark.parametrize("client", CLIENTS)
def test_reports_follow_the_exact_probabilities_and_none_15_percent_off(client):
    parameters = SETS["one"]
    observed = sample_of(client, parameters, 0.3, 1)
    cell = parameters.cell(0.3, 1)

    def p_value(odds):
        held = (
            cell - np.arange(parameters.cells)
        ) % parameters.cells < parameters.length
        weights = np.where(held, odds, 1.0)
        return chi_squared_p_value(observed, SIZE * weights / weights.sum())

    odds = parameters.likely / parameters.unlikely
    assert p_value(odds) > ALPHA
    assert p_value(odds**0.85) < ALPHA
    assert p_value(odds**1.15) < ALPHA


def test_the_python_client_runs_where_numpy_cannot_be_imported():
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names | {{"discreet"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
sys.path.insert(0, {str(ROOT / "src")!r})
import discreet
parameters = discreet.phone.Parameters.read({SETS["one"].write()!r})
report = discreet.phone.randomize(parameters, 0.8, 1)
assert len(report.encode()) == 26
budget = discreet.phone.Budget(parameters, {{}})
assert budget.report(0.8, 1, about="a") is not None
assert "numpy" not in sys.modules
"""
    command = [sys.executable, "-I", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stderr
    # The block works: what needs NumPy fails behind it.
    command[-1] = code + "\nimport discreet.noise.arc\n"
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert "ImportError: " in run.stderr


@pytest.mark.parametrize(
    ("score", "label"),
    [
        *((float("nan"), 1), ("0.5", 1), (None, 0), (0.5, 2), (0.5, -1), (0.5, 0.5)),
        *((0.5, None), (0.5, ""), (0.5, "1"), (0.5, [])),  # no label is not label 0
    ],
)
def test_what_is_no_score_or_no_label_is_refused_and_not_quoted(score, label):
    with pytest.raises(InputError) as error:
        randomize(SETS["one"], score, label)
    assert not {c for c in "0.5" if c.isdigit()} <= set(str(error.value)) - {"0", "1"}
    sent = "NaN" if score != score else score  # noqa: PLR0124
    question = {"way": "wrong", "examples": [[sent, label]]}
    assert javascript(question | {"parameters": SETS["one"].write()}) == [[True]]


def test_a_score_of_32_bits_is_compared_as_a_double():
    """NumPy rounds an edge to 32 bits before it compares it with such a score."""
    edges = (0.100000002, 0.5, 0.9)
    likely = phone.exp_below(Fraction(1), DENOMINATOR)
    parameters = Parameters("0" * 64, Fraction(1), edges, likely, DENOMINATOR, 1)
    score = np.float32(0.1)
    assert float(score) < edges[0]
    assert parameters.cell(score, 0) == 0
    with pytest.raises(InputError, match="double"):
        parameters.cell(10**400, 0)


@pytest.mark.parametrize("raw", [b"", b"\1" * 25, b"\2" * 26, b"\1" * 27])
def test_other_bytes_are_no_report(raw):
    with pytest.raises(InputError, match="26 bytes"):
        Report.decode(raw)


DAY = 86_400
MONTHLY = SETS["two_and_a_half"]  # three reports in 30 days
ASKED = [
    *({"at": DAY * k, "about": f"message {k}"} for k in range(4)),  # the fourth: none
    {"at": 4 * DAY, "about": "message 1"},  # again: the same
    {"at": 31 * DAY, "about": "message 3"},  # the next period
    {"at": 31 * DAY, "about": "message 0"},  # remembered from the last one
    {"at": 2 * DAY, "about": "message 5"},  # the clock was put back
    {"at": 2 * DAY, "about": "message 6"},
    {"at": 2 * DAY, "about": "message 7"},
]


def test_a_client_sends_at_most_its_reports_and_repeats_answers():
    storage = {}
    answers = []
    for asked in ASKED:
        budget = Budget(MONTHLY, storage, clock=lambda at=asked["at"]: at)  # restarted
        report = budget.report(0.4, 1, about=asked["about"])
        answers.append(report and report.id)
    (other,) = javascript(
        {"way": "budget", "parameters": MONTHLY.write(), "asked": ASKED}
    )
    for sent in (answers, other):
        assert [k for k, report in enumerate(sent) if report is None] == [3, 9]
        assert sent[4] == sent[1]
        assert sent[6] == sent[0]
        assert len({report for report in sent if report}) == 6


def test_two_threads_that_ask_at_once_are_answered_one_after_another():
    """One report is left: two that read the same memory would both be answered."""
    both = threading.Barrier(2)

    class Slow(dict):
        def get(self, key, default=None):
            found = super().get(key, default)
            with suppress(threading.BrokenBarrierError):
                both.wait(0.3)  # for the other thread, which must not have read it
            return found

    storage = Slow()

    def ask(about):
        return Budget(SETS["one"], storage).report(0.4, 1, about=about)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, ["one message", "another"]))
    assert answers.count(None) == 1


def test_questions_of_a_page_asked_at_once_are_answered_one_after_another():
    asked = [f"message {k % 8}" for k in range(16)]
    question = {"way": "together", "parameters": MONTHLY.write(), "asked": asked}
    (answers,) = javascript(question)
    assert len({answer for answer in answers if answer}) == 3
    assert answers[:8] == answers[8:]


def test_an_answer_is_stored_before_it_is_sent_and_a_damaged_memory_sends_nothing():
    class Full(dict):
        def __setitem__(self, key, value):
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - no report came out
        Budget(MONTHLY, Full()).report(0.4, 1, about="a")
    damaged = ["{", "[]", '{"version": 1}', '{"version": 1, "period": 0, "answers": 3}']
    answers = [
        "null",
        '["0", "%s", 3]',
        '[0, "%s", 256]',
        '[0, "%s", "3"]',
        "[0, 5, 3]",
    ]
    answers = [one.replace("%s", "a" * 32) for one in answers]
    name = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # of "a"
    head = '{"version": 1, "period": 0, "answers": '
    for text in [*damaged, *(f'{head}{{"{name}": {one}}}}}' for one in answers)]:
        storage = {f"discreet-reports-{MONTHLY.plan[:16]}": text}
        with pytest.raises(BudgetError, match="remembered"):
            Budget(MONTHLY, storage).report(0.4, 1, about="a")
    damaged += [f'{head}[["b", {one}]]}}' for one in answers]
    asked = [{"at": 0, "about": "a"}]
    asked += [{"at": 0, "about": "b", "damage": text} for text in damaged]
    question = {"way": "budget", "parameters": MONTHLY.write(), "asked": asked}
    assert javascript(question)[0][1:] == ["refused"] * len(damaged)


def test_a_shelve_that_was_not_closed_remembers_what_was_sent(tmp_path):
    """A process that was killed closes nothing, and its next must not send more."""

    def opened(name):
        return shelve.Shelf(dbm.dumb.open(str(tmp_path / name)))

    with opened("memory") as storage:
        sent = [
            Budget(MONTHLY, storage).report(0.4, 1, about=f"message {k}")
            for k in range(2)
        ]
    storage = opened("memory")
    sent.append(Budget(MONTHLY, storage).report(0.4, 1, about="message 2"))
    assert None not in sent
    for part in ("dat", "dir"):
        shutil.copy(tmp_path / f"memory.{part}", tmp_path / f"killed.{part}")
    with opened("killed") as left:
        assert Budget(MONTHLY, left).report(0.4, 1, about="message 3") is None
        assert Budget(MONTHLY, left).report(0.4, 1, about="message 2") == sent[2]
    storage.close()


def test_a_clock_without_a_time_opens_no_period():
    """A NaN equals no period, so that nothing would count as spent."""
    asked = [{"at": 0, "about": f"message {k}"} for k in range(3)]
    asked.append({"at": None, "about": "one more"})  # NaN
    question = {"way": "budget", "parameters": MONTHLY.write(), "asked": asked}
    assert javascript(question)[0][3] == "refused"
    with pytest.raises(ValueError, match="NaN"):
        Budget(MONTHLY, {}, clock=lambda: float("nan")).report(0.4, 1, about="a")


def test_parameters_are_read_as_they_are_written():
    for chosen in SETS.values():
        assert Parameters.read(chosen.write()) == chosen
    assert SETS["one"].unlikely == DENOMINATOR
