"""discreet measures a classifier on data you may not see."""

from discreet import curator
from discreet.data.edges import Listed, Support, Uniform, Warped, reference_quantiles
from discreet.data.examples import Examples
from discreet.data.sources import read
from discreet.errors import (
    BudgetError,
    DisclosureWarning,
    DiscreetError,
    InputError,
    MissingExtraError,
    NotReleasedError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)
from discreet.estimate.areas import area_error
from discreet.estimate.fedcurve import FedCurve
from discreet.estimate.range_queries import RangeQueries
from discreet.exact.model import ExactMPC
from discreet.models.central import CentralDP
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.recommend import recommend
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.result.comparison import ModelComparison
from discreet.result.evaluation import Evaluation
from discreet.result.several import MultiEvaluation
from discreet.runtime.comparison import compare
from discreet.runtime.simulation import evaluate

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "CentralDP",
    "DisclosureWarning",
    "DiscreetError",
    "DistributedDP",
    "Evaluation",
    "ExactMPC",
    "Examples",
    "FedCurve",
    "InputError",
    "LabelDP",
    "Listed",
    "LocalDP",
    "MissingExtraError",
    "ModelComparison",
    "MultiEvaluation",
    "NotReleasedError",
    "Plan",
    "PlanError",
    "PublicFacts",
    "RangeQueries",
    "ReleaseError",
    "SecureAggregation",
    "Support",
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
]
