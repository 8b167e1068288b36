"""Flower's simulation engine: one machine that plays all the nodes.

Nobody is protected there, and nobody needs to be: the data is the developer's own. So
a simulated node needs no policy and charges no ledger, and the claim of the result
says that it was simulated. Both ends look for themselves, because neither may take
the other's word: a coordinator that said "this is a simulation" to a real node would
get around its policy.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Final

from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid

from discreet.plan.privacy_model import MODELS
from discreet.site.ledger import Ledger
from discreet.site.policy import UNIT_NAMES, Policy

_ENGINE: Final = "flwr.simulation.ray_transport.ray_actor"
_PLENTY: Final = 10**6

REHEARSAL: Final = Policy(
    population="simulated",
    privacy=tuple(MODELS),
    units=UNIT_NAMES,
    groups=("*",),
    epsilon_per_plan=Fraction(_PLENTY),
    epsilon_total=Fraction(_PLENTY**2),
    delta_total=Fraction(_PLENTY - 1, _PLENTY),
    exact_sums=_PLENTY,
    sessions_per_plan=_PLENTY,
    refusals_per_day=_PLENTY,
    sites=1,
    examples=0,
)
"""What a node of a simulation allows: whatever can be asked."""


def is_simulated(grid: Grid) -> bool:
    """Whether a grid reaches the nodes of a simulation, and no others."""
    return isinstance(grid, InMemoryGrid)


def in_simulation() -> bool:
    """Whether this process is an actor of Flower's simulation engine.

    A node that is deployed runs its app in a process of Flower, never in an actor.
    """
    ray = sys.modules.get("ray")
    if ray is None or _ENGINE not in sys.modules or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


def throwaway_folder() -> Path:
    """Make a folder for records that are gone with this process."""
    made = Path(tempfile.mkdtemp(prefix="discreet-simulated-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def throwaway_ledger(path: Path) -> Path:
    """Start a record of a node's own, once; return its path."""
    if not path.exists():
        Ledger.new(path).close()
    return path
