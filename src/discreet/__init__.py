"""discreet measures a classifier on data you may not see."""

from discreet import curator
from discreet.defaults import recommend
from discreet.edges import Listed, Support, Uniform, Warped, reference_quantiles
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
from discreet.evaluation import Evaluation
from discreet.exact.model import ExactMPC
from discreet.examples import Examples
from discreet.multievaluation import MultiEvaluation
from discreet.plan import Plan, PublicFacts
from discreet.privacy.models import (
    DistributedDP,
    LabelDP,
    LocalDP,
    SecureAggregation,
)
from discreet.runtime.comparison import ModelComparison, compare
from discreet.runtime.simulation import evaluate
from discreet.scalar_evaluation import ScalarEvaluation
from discreet.site.sources import read

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
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
    "ScalarEvaluation",
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
