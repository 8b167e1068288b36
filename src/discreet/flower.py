"""Private evaluation in a Flower app: the public names.

At a client ``add_evaluation`` (or ``evaluation_mod``), at the server ``evaluate`` after
training, or ``Evaluating`` every few rounds. In a rehearsal, ``rehearsal=True`` at both
ends, nobody is charged.
"""

from __future__ import annotations

from discreet.errors import MissingExtraError

try:
    from discreet.transport.flower.app import (
        Evaluating,
        Scored,
        add_evaluation,
        evaluate,
        evaluation_mod,
    )
except ModuleNotFoundError as err:
    if (err.name or "").split(".")[0] != "flwr":
        raise
    raise MissingExtraError("evaluation in a Flower app", "flower") from err

__all__ = [
    "Evaluating",
    "Scored",
    "add_evaluation",
    "evaluate",
    "evaluation_mod",
]
