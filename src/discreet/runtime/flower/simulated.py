"""Flower's simulation engine: one machine that plays all the nodes.

Nobody is protected there, and nobody needs to be: the data is the developer's own. So
a simulated node needs no policy and charges no ledger, and the claim of the result
says that it was simulated. Both ends look for themselves, because neither may take
the other's word: a coordinator that said "this is a simulation" to a real node would
get around its policy.
"""

from __future__ import annotations

import sys
from typing import Final

from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid

_ENGINE: Final = "flwr.simulation.ray_transport.ray_actor"


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
