"""discreet measures a classifier on data you may not see.

The public names, nothing else. Each is loaded when it is first asked for (PEP 562):
``import discreet`` alone takes no time, and a program that never plots or reads a
file never loads what that needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from discreet.errors import (
    BudgetError,
    DisclosureWarning,
    DiscreetError,
    IgnoredWarning,
    InputError,
    MissingExtraError,
    NotReleasedError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)

if TYPE_CHECKING:  # what _HOMES says, for type checkers and editors
    from discreet import curator
    from discreet.data.edges import (
        Grid,
        Listed,
        Support,
        Uniform,
        Warped,
        reference_quantiles,
    )
    from discreet.data.examples import Examples
    from discreet.data.prior_spread import PriorSpread
    from discreet.data.scoring import ModelFile
    from discreet.data.sources import read
    from discreet.estimate.areas import area_error
    from discreet.models.central import CentralDP
    from discreet.models.distributed import DistributedDP
    from discreet.models.label import LabelDP
    from discreet.models.local import LocalDP
    from discreet.models.secure_aggregation import SecureAggregation
    from discreet.mpc.model import ExactMPC
    from discreet.plan.cohort import Cohort, PublicFacts
    from discreet.plan.followup import FollowUpQuestion
    from discreet.plan.heterogeneity import HeterogeneityQuestion
    from discreet.plan.plan import Plan, recommend
    from discreet.published.xu2025.fedcurve import FedCurve
    from discreet.published.xu2025.range_queries import RangeQueries
    from discreet.report.comparison import ModelComparison
    from discreet.report.evaluation import Evaluation
    from discreet.report.several import MultiEvaluation
    from discreet.report.timed import TimedEvaluations
    from discreet.report.timed_evaluation import TimedEvaluation
    from discreet.transport.comparison import compare
    from discreet.transport.simulation import evaluate, run

__version__ = "1.0.0"

_HOMES: Final = {
    "HeterogeneityQuestion": "plan.heterogeneity",
    "CentralDP": "models.central",
    "Cohort": "plan.cohort",
    "DistributedDP": "models.distributed",
    "Evaluation": "report.evaluation",
    "ExactMPC": "mpc.model",
    "Examples": "data.examples",
    "FedCurve": "published.xu2025.fedcurve",
    "FollowUpQuestion": "plan.followup",
    "LabelDP": "models.label",
    "Listed": "data.edges",
    "LocalDP": "models.local",
    "ModelComparison": "report.comparison",
    "ModelFile": "data.scoring",
    "MultiEvaluation": "report.several",
    "Plan": "plan.plan",
    "PriorSpread": "data.prior_spread",
    "PublicFacts": "plan.cohort",
    "RangeQueries": "published.xu2025.range_queries",
    "SecureAggregation": "models.secure_aggregation",
    "Grid": "data.edges",
    "Support": "data.edges",
    "TimedEvaluation": "report.timed_evaluation",
    "TimedEvaluations": "report.timed",
    "Uniform": "data.edges",
    "Warped": "data.edges",
    "area_error": "estimate.areas",
    "compare": "transport.comparison",
    "evaluate": "transport.simulation",
    "read": "data.sources",
    "recommend": "plan.plan",
    "reference_quantiles": "data.edges",
    "run": "transport.simulation",
}
_MODULES: Final = frozenset({"curator", "flower", "mpc", "phone", "recalibrate"})
"""Modules that are used as ``discreet.curator.auc``."""

__all__ = [
    "BudgetError",
    "CentralDP",
    "Cohort",
    "DisclosureWarning",
    "DiscreetError",
    "DistributedDP",
    "Evaluation",
    "ExactMPC",
    "Examples",
    "FedCurve",
    "FollowUpQuestion",
    "Grid",
    "HeterogeneityQuestion",
    "IgnoredWarning",
    "InputError",
    "LabelDP",
    "Listed",
    "LocalDP",
    "MissingExtraError",
    "ModelComparison",
    "ModelFile",
    "MultiEvaluation",
    "NotReleasedError",
    "Plan",
    "PlanError",
    "PriorSpread",
    "PublicFacts",
    "RangeQueries",
    "ReleaseError",
    "SecureAggregation",
    "Support",
    "TimedEvaluation",
    "TimedEvaluations",
    "UndefinedMetricWarning",
    "Uniform",
    "Warped",
    "area_error",
    "compare",
    "curator",
    "evaluate",
    "read",
    "recommend",
    "reference_quantiles",
    "run",
]


def __getattr__(name: str) -> object:
    """Load a public name, once: afterwards it is an ordinary attribute."""
    if name in _MODULES:
        return import_module(f"discreet.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    found: object = getattr(import_module(f"discreet.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
