"""The SPU engine: the same values as the reference, and traffic that tells nothing."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.examples import Examples
from discreet.mpc import circuit
from discreet.mpc.engine import SpuSimulator, runtime_config
from discreet.mpc.program import ONE, SETTINGS
from discreet.mpc.shares import PAD, PARTIES, Encoded, encode
from fuzzing import draws
from mpc_reference import Reference, decoded, program

ROWS = 60
pytestmark = [pytest.mark.interop, pytest.mark.mpc]


def owner(scores, labels, padded_to=None):
    return encode(Examples(scores, labels), padded_to=padded_to)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    scores = rng.random(ROWS).round(1)
    labels = (rng.random(ROWS) < scores).astype(int)
    return scores, labels


def both(asked, owners):
    return [engine.run(asked, owners) for engine in (SpuSimulator(), Reference())]


def assert_same(found, expected):
    # The reference has 100 guard bits, the parties' reciprocals 62 bits.
    assert np.abs(found.values - expected.values).max() < 16


@pytest.mark.parametrize(
    ("sizes", "model"),
    [
        ((20, 40), {"interval": True}),
        ((32, 64), {"hide_sizes": True}),
        ((ROWS,), {"metrics": ("auc",), "ties": "none", "interval": True}),
    ],
    ids=["plain", "padded", "without ties, negatives first"],
)
def test_parties_reveal_what_the_reference_finds(data, sizes, model):
    scores, labels = data
    padded = sizes if "hide_sizes" in model else (None,) * len(sizes)
    cuts = [slice(0, 20), slice(20, None)] if len(sizes) > 1 else [slice(None)]
    owners = [owner(scores[c], labels[c], n) for c, n in zip(cuts, padded, strict=True)]
    found, expected = both(program(sizes, **model), owners)
    assert_same(found, expected)
    assert found.bytes_sent > 0
    assert found.rounds > 0
    if "hide_sizes" in model:  # padding is invisible in the value
        plain = Reference().run(program((ROWS,)), [owner(scores, labels)])
        assert np.array_equal(expected.values, plain.values)


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
    asked = program((ROWS,), interval=True)
    return {
        kind: SpuSimulator().run(asked, [owner(*rows)]) for kind, rows in kinds.items()
    }


def test_bytes_and_rounds_do_not_depend_on_the_data(traffic):
    assert len({(run.bytes_sent, run.rounds) for run in traffic.values()}) == 1


def test_bytes_and_rounds_do_not_depend_on_hidden_counts(data):
    scores, labels = data
    asked = program((32, 64), hide_sizes=True)
    runs = [
        SpuSimulator().run(
            asked,
            [
                owner(scores[:first], labels[:first], 32),
                owner(scores[20 : 20 + second], labels[20 : 20 + second], 64),
            ],
        )
        for first, second in ((20, 40), (1, 2), (32, 0))
    ]
    assert len({(run.bytes_sent, run.rounds) for run in runs}) == 1


def test_a_sort_in_the_open_would_be_caught_by_that_comparison(data, monkeypatch):
    """The engine's quick sort opens comparisons: ties show in its rounds."""
    import jax.numpy as jnp

    def quick():
        config = runtime_config()
        config.sort_method = type(config).SortMethod.SORT_QUICK
        return config

    monkeypatch.setattr("discreet.mpc.engine.runtime_config", quick)
    monkeypatch.setattr(circuit, "merged", lambda runs, _: jnp.sort(runs[0] + 0))
    circuit.compiled.cache_clear()
    _, labels = data
    kinds = (np.linspace(0, 1, ROWS), np.linspace(0, 1, ROWS).round(1), np.ones(ROWS))
    runs = [SpuSimulator().run(program((ROWS,)), [owner(s, labels)]) for s in kinds]
    circuit.compiled.cache_clear()
    assert len({(run.bytes_sent, run.rounds) for run in runs}) > 1


def test_scores_one_ulp_apart_are_told_apart():
    low = 0.3
    high = float(np.nextafter(low, 1.0))
    asked = program((4,), metrics=("auc",))
    ranked = SpuSimulator().run(asked, [owner([low, high, low, high], [0, 1, 0, 1])])
    tied = SpuSimulator().run(asked, [owner([low, low, low, low], [0, 1, 0, 1])])
    assert decoded(asked, ranked.values)["auc"] == 1.0
    assert decoded(asked, tied.values)["auc"] == 0.5


def test_keys_of_every_sign_and_the_largest_sort_correctly():
    scores = [-np.inf, -7e19, -0.5, 0.0, 0.5, 7e19, np.inf, -0.5]
    labels = [0, 1, 0, 1, 1, 0, 1, 1]
    site = Examples(scores, labels, kind="logit")
    asked = program((8,), hide_sizes=True)
    found, expected = both(asked, [encode(site, padded_to=8)])
    assert_same(found, expected)


def code_of(asked):
    from spu import libspu as spu

    executable = spu.Executable()
    executable.ParseFromString(asked.compile())
    return executable.code.decode()


def test_the_code_never_sorts_nor_reveals():
    code = code_of(program((ROWS,), interval=True))
    operations = set(re.findall(r"pphlo\.([a-z_]+)", code))
    assert {"and", "xor"} <= operations
    telling = {"sort", "simple_sort", "reveal", "custom_call", "if", "case"}
    assert not operations & telling


def test_no_table_of_the_rows_is_compiled_in():
    """Else a million rows would make an executable of many megabytes."""
    assert not re.search(r"dense<[^>]{4000}", code_of(program((500,), interval=True)))


def test_only_the_named_settings_are_used():
    text = str(runtime_config())
    assert "protocol: ABY3" in text
    assert "field: FM64" in text
    assert set(re.findall(r"^(\w+):", text, re.MULTILINE)) == {
        "protocol",
        "field",
        "enable_pphlo_profile",
    }
    import importlib.metadata

    assert f"spu {importlib.metadata.version('spu')}" in SETTINGS


def test_compiling_twice_gives_the_same_bytes():
    asked = program((5, 6))
    first = asked.compile()
    circuit.compiled.cache_clear()
    assert asked.compile() == first


def test_one_partys_shares_of_the_same_rows_are_fresh_each_time(data):
    import spu
    from spu import api

    shared = owner(*data)
    io = api.Io(PARTIES, runtime_config())
    draws = [
        io.make_shares(shared.words, spu.Visibility.VIS_SECRET)[0].share_chunks
        for _ in range(2)
    ]
    assert draws[0] != draws[1]


def test_progress_names_each_phase(data):
    phases = []
    SpuSimulator().run(program((ROWS,)), [owner(*data)], progress=phases.append)
    assert phases == [
        "compiling",
        "sharing 60 rows",
        "computing on 60 rows",
        "revealing",
    ]


class PlainJax:
    """The very function that is compiled, run by JAX in the clear."""

    def __init__(self, asked):
        import jax

        self.program = asked
        self.function = jax.jit(circuit.function_of(asked))

    def run(self, *values):
        from jax.experimental import enable_x64

        with enable_x64():
            found = self.function(*values, *self.program.public_inputs().values())
            return np.asarray(found)


def run_of(rows, *, padded_to=None):
    """Return sorted words of small keys and labels."""
    words = sorted(2 * (key + 3) + label for key, label in rows)
    words += [PAD] * ((padded_to or len(words)) - len(words))
    return Encoded(np.array(words, dtype=np.int64))


row = st.tuples(st.integers(-3, 3), st.integers(0, 1))
PADDED = program((9,), hide_sizes=True)
RAGGED = program((5, 1, 3, 8, 2), interval=True)


@pytest.fixture(scope="module")
def padded_plain():
    return PlainJax(PADDED)


@pytest.fixture(scope="module")
def ragged_plain():
    return PlainJax(RAGGED)


@draws(200)
@given(rows=st.lists(row, max_size=9))
def test_the_function_equals_the_reference_on_any_small_data(rows, padded_plain):
    shared = run_of(rows, padded_to=9)
    found = padded_plain.run(shared.words)
    expected = Reference().run(PADDED, [shared]).values
    # An empty class is revealed as "undefined", in one of two ways.
    expected = np.where(expected > 2 * ONE, found, expected)
    assert np.abs(found - expected).max() < 16
    assert not np.isnan(found).any()


@draws(200)
@given(rows=st.lists(row, min_size=RAGGED.rows, max_size=RAGGED.rows))
def test_runs_of_any_lengths_are_merged(rows, ragged_plain):
    ends = np.cumsum(RAGGED.sizes)
    starts = ends - RAGGED.sizes
    owners = [run_of(rows[a:b]) for a, b in zip(starts, ends, strict=True)]
    found = ragged_plain.run(*(o.words for o in owners))
    expected = Reference().run(RAGGED, owners).values
    assert np.abs(found - expected).max() < 16


WORDS = (2**24, -1, 2**63 - 1, -(2**63), 2**40 + 1, 3)
"""What a lying owner may share instead of words in order."""
HONEST = [(0, 0), (3, 1), (-2, 1), (3, 0)]
NOISY = program((4, len(WORDS)), epsilon=1)
EXACT = program((4, len(WORDS)), interval=True)
BLANK = [np.zeros(2, dtype=np.int64)] * PARTIES


def forged(words):
    """Rows that no honest owner could have encoded."""
    found = np.array(words, dtype=np.int64)
    return SimpleNamespace(words=found, rows=found.size, count=found.size)


LIES = {
    "unsorted": (8, 2, 4, 6, 10, 12),
    "last two swapped": (2, 4, 6, 8, 12, 10),
    "negative": (-5, 2, 4, 6, 8, 10),
    "sorted but for the sign": (-(2**63), -(2**62), 0, 2, 4, 6),
    "in order if the sign is a bit": (2, 4, 6, 8, -(2**63), -2),
    "overflowing differences": (2**62, -(2**63), 2**62, -(2**63), 2**62, 4),
    "above padding": (2, 4, 6, 8, 10, 2**63 - 1),
    "anything": WORDS,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("asked", [NOISY, EXACT], ids=["noisy", "exact"])
def test_of_rows_out_of_order_nothing_is_revealed(asked, lie):
    noise = BLANK if asked.noise else []
    engine = SpuSimulator()
    opened = engine.run(asked, [run_of(HONEST), forged(lie)], noise=noise).values
    assert not opened.any()


def test_labels_are_last_bits_whatever_is_shared():
    words = np.sort(np.array([5, 9, 2**40 + 1, 2**62, 2**62 + 1, PAD]))
    owners = [run_of(HONEST), forged(words)]
    opened = SpuSimulator().run(NOISY, owners, noise=BLANK).values
    expected = Reference().run(NOISY, owners, noise=BLANK).values
    assert np.array_equal(opened, expected)


@pytest.fixture(scope="module")
def noisy_plain():
    return PlainJax(NOISY)


any_word = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(WORDS)
any_words = st.lists(any_word, min_size=len(WORDS), max_size=len(WORDS))


@draws(300)
@given(
    rows=st.lists(row, min_size=4, max_size=4),
    other=row,
    words=any_words
    | any_words.map(sorted)
    | any_words.map(lambda w: sorted(map(abs, w))),
)
def test_no_owner_can_raise_what_anothers_row_changes(rows, other, words, noisy_plain):
    altered = np.array([min(w, 2**63 - 1) for w in words], dtype=np.int64)
    pairs = [
        noisy_plain.run(run_of(mine).words, altered, *BLANK)
        for mine in (rows, [other, *rows[1:]])
    ]
    assert pairs[0][0] == pairs[1][0]
    assert np.abs(pairs[0] - pairs[1])[1:].sum() <= 2 * NOISY.rows - 1
