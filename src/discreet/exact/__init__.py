"""Exact areas from secret shares: three parties compute, only the values are opened.

After Ünal, Pfeifer and Akgün (2023), "ppAURORA", on an existing engine (SecretFlow
SPU, protocol ABY3). The engine is an optional dependency, imported when it runs.
"""

from discreet.exact.evaluate import evaluate, run
from discreet.exact.model import ExactMPC

__all__ = ["ExactMPC", "evaluate", "run"]
