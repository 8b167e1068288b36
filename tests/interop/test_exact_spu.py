"""The SPU engine: the same values as the reference, and traffic that tells nothing."""

import re
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.data.examples import Examples
from discreet.exact import circuit
from discreet.exact.encode import PAD, Encoded, encode
from discreet.exact.engine import Opened, Reference
from discreet.exact.program import PARTIES, SETTINGS, Program
from discreet.exact.spu_engine import SpuSimulator, runtime_config

ROWS = 60
pytestmark = pytest.mark.interop


def owner(scores, labels, padded_to=None):
    return encode(Examples(scores, labels), padded_to=padded_to)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    scores = rng.random(ROWS).round(1)
    labels = (rng.random(ROWS) < scores).astype(int)
    return scores, labels


def both(program, owners):
    return [engine.run(program, owners) for engine in (SpuSimulator(), Reference())]


def assert_same(found: Opened, expected: Opened):
    # The reference has 100 guard bits, the parties' reciprocals 62 bits.
    assert np.abs(found.values - expected.values).max() < 16


def test_parties_open_what_the_reference_finds(data):
    scores, labels = data
    owners = [owner(scores[:20], labels[:20]), owner(scores[20:], labels[20:])]
    found, expected = both(Program((20, 40)), owners)
    assert_same(found, expected)
    assert found.bytes_sent > 0
    assert found.rounds > 0


def test_padding_is_invisible_in_the_value(data):
    scores, labels = data
    owners = [owner(scores[:20], labels[:20], 32), owner(scores[20:], labels[20:], 64)]
    program = Program((32, 64), padded=True)
    found, expected = both(program, owners)
    assert_same(found, expected)
    plain = Reference().run(Program((ROWS,)), [owner(scores, labels)])
    assert np.array_equal(expected.values, plain.values)


def test_the_version_without_ties_keeps_the_order_of_equal_scores(data):
    scores, labels = data
    program = Program((ROWS,), metrics=("auc",), ties="none")
    found, expected = both(program, [owner(scores, labels)])
    assert_same(found, expected)


@pytest.fixture(scope="module")
def traffic(data):
    """Bytes and rounds on data of one size and every structure."""
    scores, labels = data
    rng = np.random.default_rng(8)
    distinct = rng.permutation(np.linspace(0, 1, ROWS))
    kinds = {
        "tied": (scores, labels),
        "distinct": (distinct, labels),
        "ascending": (np.sort(distinct), labels),
        "constant": (np.full(ROWS, 0.5), labels),
        "one class": (distinct, np.zeros(ROWS, dtype=int)),
    }
    program = Program((ROWS,))
    return {
        kind: SpuSimulator().run(program, [owner(*rows)])
        for kind, rows in kinds.items()
    }


def test_bytes_and_rounds_do_not_depend_on_the_data(traffic):
    assert len({(run.bytes_sent, run.rounds) for run in traffic.values()}) == 1


def test_bytes_and_rounds_do_not_depend_on_hidden_counts(data):
    scores, labels = data
    program = Program((32, 64), padded=True)
    runs = [
        SpuSimulator().run(
            program,
            [
                owner(scores[:first], labels[:first], 32),
                owner(scores[20 : 20 + second], labels[20 : 20 + second], 64),
            ],
        )
        for first, second in ((20, 40), (1, 2), (32, 0))
    ]
    assert len({(run.bytes_sent, run.rounds) for run in runs}) == 1


def test_the_engines_quick_sort_would_be_caught_by_that_comparison(data, monkeypatch):
    def quick():
        config = runtime_config()
        config.sort_method = type(config).SortMethod.SORT_QUICK
        return config

    monkeypatch.setattr("discreet.exact.spu_engine.runtime_config", quick)
    _, labels = data
    kinds = (np.linspace(0, 1, ROWS), np.linspace(0, 1, ROWS).round(1), np.ones(ROWS))
    runs = [SpuSimulator().run(Program((ROWS,)), [owner(s, labels)]) for s in kinds]
    assert len({(run.bytes_sent, run.rounds) for run in runs}) > 1


def test_scores_one_ulp_apart_are_told_apart():
    low = 0.3
    high = float(np.nextafter(low, 1.0))
    program = Program((4,), metrics=("auc",))
    ranked = SpuSimulator().run(program, [owner([low, high, low, high], [0, 1, 0, 1])])
    tied = SpuSimulator().run(program, [owner([low, low, low, low], [0, 1, 0, 1])])
    assert program.decode(ranked.values)["auc"] == 1.0
    assert program.decode(tied.values)["auc"] == 0.5


def test_keys_of_every_sign_and_the_largest_sort_correctly():
    scores = [-np.inf, -1e300, -0.5, 0.0, 0.5, 1e300, np.inf, -0.5]
    labels = [0, 1, 0, 1, 1, 0, 1, 1]
    site = Examples(scores, labels, kind="logit")
    program = Program((8,), padded=True)
    found, expected = both(program, [encode(site, padded_to=8)])
    assert_same(found, expected)


def test_the_code_sorts_obliviously_and_never_reveals():
    spu = pytest.importorskip("spu.libspu")
    executable = spu.Executable()
    executable.ParseFromString(Program((ROWS,)).compile())
    operations = set(re.findall(r"pphlo\.([a-z_]+)", executable.code.decode()))
    assert "simple_sort" in operations
    assert not operations & {"sort", "reveal", "custom_call", "if", "case"}


def test_only_the_named_settings_are_used():
    text = str(runtime_config())
    assert "protocol: ABY3" in text
    assert "field: FM64" in text
    assert "sort_method: RADIX" in text
    assert set(re.findall(r"^(\w+):", text, re.MULTILINE)) == {
        "protocol",
        "field",
        "sort_method",
        "enable_pphlo_profile",
    }
    import importlib.metadata

    assert f"spu {importlib.metadata.version('spu')}" in SETTINGS


def test_compiling_twice_gives_the_same_bytes():
    program = Program((5, 6))
    first = program.compile()
    circuit.compiled.cache_clear()
    assert program.compile() == first


def test_one_partys_shares_of_the_same_rows_are_fresh_each_time(data):
    import spu
    from spu import api

    shared = owner(*data)
    io = api.Io(PARTIES, runtime_config())
    draws = [
        io.make_shares(shared.labels, spu.Visibility.VIS_SECRET)[0].share_chunks
        for _ in range(2)
    ]
    assert draws[0] != draws[1]


def test_progress_names_each_phase(data):
    phases = []
    SpuSimulator().run(Program((ROWS,)), [owner(*data)], progress=phases.append)
    assert phases == [
        "compiling",
        "sharing 60 rows",
        "computing on 60 rows",
        "opening",
    ]


class PlainJax:
    """The very function that is compiled, run by JAX in the clear."""

    def __init__(self, program):
        import jax

        self.program = program
        self.function = jax.jit(circuit.function_of(program))

    def run(self, *values):
        from jax.experimental import enable_x64

        with enable_x64():
            found = self.function(*values, *self.program.public_inputs().values())
            return np.asarray(found)


@pytest.fixture(scope="module")
def padded_plain():
    return PlainJax(Program((9,), padded=True))


@settings(max_examples=200)
@given(
    rows=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), max_size=9),
)
def test_the_function_equals_the_reference_on_any_small_data(rows, padded_plain):
    keys = np.array([k for k, _ in rows] + [PAD] * (9 - len(rows)), dtype=np.int64)
    labels = np.array([y for _, y in rows] + [0] * (9 - len(rows)), dtype=np.int64)
    shared = Encoded(keys, labels)
    found = padded_plain.run(keys, labels)
    expected = Reference().run(padded_plain.program, [shared]).values
    assert np.abs(found - expected).max() < 16


WORDS = (2**24, -1, 2**63 - 1, -(2**63), 2**40 + 1, 3)
"""What a lying owner may share instead of a label, or of a key."""
HONEST = [(0, 0), (5, 1), (-2, 1), (5, 0)]
NOISY = Program((4, len(WORDS)), metrics=("auc",), epsilon=Fraction(1))


def forged(keys, labels):
    """Rows that no honest owner could have encoded."""
    found = [np.array(column, dtype=np.int64) for column in (keys, labels)]
    return SimpleNamespace(
        keys=found[0], labels=found[1], rows=found[0].size, count=found[0].size
    )


def honest(rows):
    return forged(*zip(*rows, strict=True))


def test_the_engine_takes_forged_labels_for_their_last_bit():
    liar = forged(WORDS, WORDS)
    bits = forged(WORDS, [word & 1 for word in WORDS])
    nothing = [np.zeros(2, dtype=np.int64)] * PARTIES
    opened = [
        SpuSimulator().run(NOISY, [honest(HONEST), owner], noise=nothing).values
        for owner in (liar, bits)
    ]
    opened.append(Reference().run(NOISY, [honest(HONEST), bits], noise=nothing).values)
    assert np.array_equal(opened[0], opened[1])
    assert np.array_equal(opened[1], opened[2])


def test_forged_rows_give_the_same_exact_areas_as_their_last_bits(data):
    scores, labels = data
    rows = owner(scores, labels, padded_to=64)
    program = Program((64, len(WORDS)), padded=True)
    found = [
        SpuSimulator().run(program, [rows, forged([PAD, 0, 1, PAD, 2, 3], said)]).values
        for said in (WORDS, [0, 1, 1, 0, 1, 1])
    ]
    assert np.array_equal(*found)


@pytest.fixture(scope="module")
def noisy_plain():
    return PlainJax(NOISY)


row = st.tuples(st.integers(-3, 3), st.integers(0, 1))
any_word = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(WORDS)


@settings(max_examples=200)
@given(
    rows=st.lists(row, min_size=4, max_size=4),
    other=row,
    keys=st.lists(any_word, min_size=len(WORDS), max_size=len(WORDS)),
    labels=st.lists(any_word, min_size=len(WORDS), max_size=len(WORDS)),
)
def test_no_owner_can_raise_what_anothers_row_changes(
    rows, other, keys, labels, noisy_plain
):
    liar = forged(keys, labels)
    blank = [np.zeros(2, dtype=np.int64)] * PARTIES
    pairs = [
        noisy_plain.run(mine.keys, mine.labels, liar.keys, liar.labels, *blank)
        for mine in (honest(rows), honest([other, *rows[1:]]))
    ]
    assert np.abs(pairs[0] - pairs[1]).sum() <= 2 * NOISY.rows - 1
