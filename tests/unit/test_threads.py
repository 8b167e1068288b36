"""Results are computed in the calling thread: the linear algebra's own threads rest.

Shared out among threads, a product that takes 50 microseconds lasts until each thread has
had its turn, and its last bits depend on how many there are.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.arrays import product

pytestmark = pytest.mark.both_numpys

LARGEST, LARGEST_OF_A_VECTOR = 262_144, 9_216
"""Multiplications from which some OpenBLAS shares a product with other threads."""

POOLS = """
import os, sys, time
import numpy as np
from scipy.linalg import blas

def threads():
    return set(os.listdir("/proc/self/task"))

def ran():
    # How long each thread ran, and how often: a thread that rests adds nothing.
    return [open(f"/proc/self/task/{each}/schedstat").read() for each in POOL]

def settled():
    # A thread that has done its share looks for more before it rests.
    before = None
    while before != (before := ran()):
        time.sleep(0.1)
    return before

def wakes(task):
    before = settled()
    task()
    return settled() != before

# Products that are shared for certain start what threads there will be.
large = np.ones((700, 700))
large @ large, blas.dgemm(1.0, large, large)
POOL = threads() - {str(os.getpid())}
if not POOL or not (wakes(lambda: large @ large) and wakes(
    lambda: blas.dgemm(1.0, large, large)
)):
    sys.exit("no threads")
"""
TASK = """
import discreet, sys
from discreet.entropy import Seeded
from discreet.plan.plan import recommend
rng = np.random.default_rng(8)
y = rng.random(20_000) < 0.3
s = 1 / (1 + np.exp(-rng.normal(1.6 * y - 1.2, 1.1)))
sites = [discreet.Examples(s[i::3], y[i::3]) for i in range(3)]
facts = discreet.PublicFacts(examples=20_000, prevalence=0.3)
plan = recommend(facts, discreet.DistributedDP(4), edges=discreet.Warped(BINS))

def task():
    global result
    result = discreet.run(plan, sites, entropy=Seeded(b"threads"))
    assert result.fit.way == "model"
    result.to_json(), str(result)
"""


def run(code, **environment):
    """Run Python in a process of its own, whose linear algebra has two threads."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2"} | environment,
    )
    if done.returncode and done.stderr.strip() == "no threads":
        pytest.skip("the linear algebra here has no threads of its own to wake")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("bins", [128, 1024])
def test_no_thread_of_the_linear_algebra_wakes_for_a_fit_and_its_report(bins):
    code = f"BINS = {bins}{POOLS}{TASK}print(wakes(task))"
    assert run(code).split() == ["False"]


@pytest.mark.long
def test_the_number_of_threads_moves_no_bit_of_a_result():
    code = f"BINS = 1024\nimport numpy as np{TASK}task(); print(result.to_json())"
    one, two = (run(code, OPENBLAS_NUM_THREADS=str(n)) for n in (1, 2))
    assert one == two


class Recorded(np.ndarray):
    """An array that notes the shapes of the products that it is in."""

    noted: list

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        plain = [np.asarray(each) for each in inputs]
        if ufunc is np.matmul:
            (rows, inner), (_, columns) = (each.shape for each in plain)
            self.noted.append((rows, inner, columns))
        more.pop("out", None)
        return getattr(ufunc, method)(*plain, **more)


sides = st.sampled_from([1, 2, 3, 15, 60, 255, 2048])


@given(rows=sides, inner=sides, columns=sides, seed=st.integers(0, 99))
def test_a_product_is_made_of_products_too_small_for_threads(
    rows, inner, columns, seed
):
    if rows * inner * columns > 3e7:
        inner = min(inner, 15)
        columns = min(columns, 255)
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(rows, inner)), rng.normal(size=(inner, columns))
    recorded = left.view(Recorded)
    Recorded.noted = []
    found = product(recorded, right)
    np.testing.assert_allclose(found, left @ right, rtol=0, atol=1e-10)
    for shape in Recorded.noted:
        vector = min(shape[0], shape[2]) == 1
        assert np.prod(shape) <= (LARGEST_OF_A_VECTOR if vector else LARGEST)
    assert sum(map(np.prod, Recorded.noted)) == rows * inner * columns
