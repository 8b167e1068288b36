"""Exact areas from secret shares: three parties compute, only the values are revealed.

After Ünal, Pfeifer and Akgün (2023), "ppAURORA", on an existing engine (SecretFlow
SPU, protocol ABY3). The engine is the ``mpc`` extra, imported when it runs; owners and
the analyst run on any Python that the package runs on.
"""

from discreet.mpc.evaluate import evaluate, run
from discreet.mpc.model import ExactMPC

__all__ = ["ExactMPC", "evaluate", "run"]
