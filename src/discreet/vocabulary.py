"""The words that people use for metrics and keywords, and what is said to unknown ones.

A metric has one name (``discreet.metrics.table``) and may have others that mean the
same, such as sensitivity for recall: either finds it. A public function takes its own
keywords and two synonyms; any other keyword is an ``InputError`` that names the nearest
one, never a ``TypeError`` of a function below it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any, Final, TypeVar, get_args, get_type_hints

from discreet.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_NAMES: Final = {
    "recall": "sensitivity tpr true_positive_rate recall_score hit_rate",
    "precision": "ppv positive_predictive_value precision_score",
    "specificity": "tnr true_negative_rate selectivity",
    "accuracy": "acc accuracy_score",
    "f1": "f1_score f_score f_measure",
    "npv": "negative_predictive_value",
    "false_positive_rate": "fpr fall_out false_alarm_rate",
    "false_negative_rate": "fnr miss_rate",
    "alert_rate": "selection_rate flag_rate",
    "balanced_accuracy": "balanced_accuracy_score bacc",
    "youden": "youden_j youdens_j j informedness",
    "likelihood_ratio_positive": "lr_plus positive_likelihood_ratio",
    "likelihood_ratio_negative": "lr_minus negative_likelihood_ratio",
    "diagnostic_odds_ratio": "dor",
    "mcc": "matthews_corrcoef phi",
    "kappa": "cohen_kappa cohen_kappa_score",
    "f_half": "f05",
    "standardised_net_benefit": "standardized_net_benefit snb",
    "number_needed_to_evaluate": "nne number_needed_to_screen",
    "auc": "auroc roc_auc roc_auc_score auc_roc c_statistic",
    "average_precision": "auprc ap pr_auc auc_pr average_precision_score",
    "brier": "brier_score brier_score_loss",
    "gini": "somers_d",
    "ks": "kolmogorov_smirnov ks_statistic",
    "observed_expected": "oe oe_ratio o_e",
    "calibration_in_the_large": "citl",
    "calibration_slope": "slope",
    "ece": "expected_calibration_error",
    "ici": "integrated_calibration_index",
    "eci": "estimated_calibration_index",
    "log_loss": "logloss cross_entropy binary_cross_entropy",
    "scaled_brier": "ipa brier_skill_score index_of_prediction_accuracy",
    "mean_absolute_error": "mae",
    "mcfadden_r2": "mcfadden",
    "cox_snell_r2": "cox_snell",
    "nagelkerke_r2": "nagelkerke r2_nagelkerke",
    "discrimination_slope": "tjur_r2",
    "true_positives": "tp",
    "false_positives": "fp",
    "true_negatives": "tn",
    "false_negatives": "fn",
}
SYNONYMS: Final[Mapping[str, str]] = {
    word: name for name, words in _NAMES.items() for word in words.split()
}
"""Other words for metrics, each with the name of its row."""
KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "y_true": ("label", "labels"),
    "y_score": ("score", "scores"),
}
"""Keywords that scikit-learn's users write, with what they are called here."""
_MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    **KEYWORDS,
    "eps": ("epsilon",),
    "budget": ("epsilon",),
    "y_pred": ("score", "scores"),
    "y_prob": ("score", "scores"),
    "y_proba": ("score", "scores"),
    "prediction": ("score", "scores"),
    "probability": ("score", "scores"),
    "target": ("label", "labels"),
    "truth": ("label", "labels"),
    "outcome": ("label", "labels"),
    "pos_label": ("positive",),
    "sample_weight": ("weight", "weights"),
    "patient": ("subject", "subjects"),
    "patient_id": ("subject", "subjects"),
    "id": ("subject", "subjects"),
    "sep": ("delimiter",),
    "separator": ("delimiter",),
    "site": ("group",),
    "sheet_name": ("sheet",),
    "bins": ("edges",),
    "n_bins": ("edges",),
    "cutoff": ("thresholds",),
    "model_name": ("name",),
    "n": ("examples",),
    "base_rate": ("prevalence",),
}
"""What else people write for a keyword: the first that a function has is suggested."""


def metric_name(word: str, known: Iterable[str] = ()) -> str:
    """Return the name of a metric that people call so; the word itself if none has it.

    Case, spaces and hyphens do not matter. A name in ``known`` is itself.

    >>> metric_name("Sensitivity"), metric_name("ROC-AUC"), metric_name("lift")
    ('recall', 'auc', 'lift')
    """
    if word in known:
        return word
    plain = word.strip().lower().replace(" ", "_").replace("-", "_")
    return SYNONYMS.get(plain, plain)


def did_you_mean(word: object, known: Iterable[str], form: str = "{}") -> str:
    """Return a question after the nearest name, "" where none is near.

    >>> did_you_mean("lable", ["label", "score"], "{}=")
    '; did you mean label=?'
    >>> did_you_mean("zebra", ["label", "score"])
    ''
    """
    nearest = _nearest(word, tuple(known))
    return f"; did you mean {form.format(nearest)}?" if nearest else ""


def _nearest(word: object, known: tuple[str, ...]) -> str | None:
    if not isinstance(word, str) or len(word) > 80:
        return None
    by_case = {name.lower(): name for name in known}
    plain = word.strip().lower()
    for synonym in (*_MEANT.get(plain, ()), SYNONYMS.get(plain.replace("-", "_"), "")):
        if synonym in by_case:
            return by_case[synonym]
    for name, own in by_case.items():
        if sorted(name) == sorted(plain):  # two letters changed places
            return own
    near = get_close_matches(plain, by_case, 1, 0.6)
    return by_case[near[0]] if near else None


def understood(function: F) -> F:
    """Let a public function take synonyms of its keywords, and explain wrong ones.

    >>> @understood
    ... def read(source, *, label="y_true"):
    ...     return label
    >>> read("a.csv", y_true="died")
    'died'
    >>> read("a.csv", lable="died")
    Traceback (most recent call last):
        ...
    discreet.errors.InputError: read has no keyword lable=; did you mean label=?
    """
    own = inspect.signature(function).parameters
    verb = function.__qualname__.removesuffix(".__init__")
    positional = [
        name
        for name, p in own.items()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    named = frozenset(
        name
        for name, p in own.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    )
    required = [
        n for n in own if n in named and own[n].default is inspect.Parameter.empty
    ]

    @cache
    def keywords() -> tuple[str, ...]:
        """Return every keyword, with those that a typed ``**`` parameter lists."""
        every = [name for name in own if name in named and name != "self"]
        for name, p in own.items():
            if p.kind is p.VAR_KEYWORD:
                # Only this one: the others may name types that are not imported.
                alone = SimpleNamespace(__annotations__={name: p.annotation})
                spread = get_type_hints(alone, function.__globals__)[name]
                for listed in get_args(spread):
                    every += get_type_hints(listed)
        return tuple(dict.fromkeys(every))

    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        if len(args) > len(positional):
            takes = [name for name in positional if name != "self"]
            raise InputError(
                f"{verb} takes {len(takes)} arguments by position ({', '.join(takes)}); "
                "several sites are one list, [first, second], and all else is named"
            )
        if not given.keys() <= named:
            given = _renamed(verb, given, keywords())
        by_position = positional[: len(args)]
        lacking = [n for n in required if n not in given and n not in by_position]
        if lacking:
            raise InputError(f"{verb} needs {' and '.join(f'{n}=' for n in lacking)}")
        return function(*args, **given)

    return called  # type: ignore[return-value]


def _renamed(
    verb: str, given: Mapping[str, Any], known: tuple[str, ...]
) -> dict[str, Any]:
    """Return the keywords by their own names, or raise the error that explains one."""
    renamed: dict[str, Any] = {}
    for word, value in given.items():
        name = next((n for n in KEYWORDS.get(word, ()) if n in known), word)
        if name not in known:
            near = did_you_mean(word, known, "{}=")
            listed = near or f"; it takes {', '.join(f'{n}=' for n in known)}"
            raise InputError(f"{verb} has no keyword {word}={listed}")
        if name in renamed or (name != word and name in given):
            raise InputError(f"{word}= and {name}= are two words for one: give one")
        renamed[name] = value
    return renamed


def check_fields(cls: type, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Refuse keywords that a dataclass lacks, and say which one it needs."""
    own = [field for field in fields(cls) if field.init]
    names = tuple(field.name for field in own)
    _renamed(cls.__name__, given, names)
    for field in own[len(args) :]:
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in given:
            instance = (
                f", for instance {field.name}=1" if field.name == "epsilon" else ""
            )
            raise InputError(f"{cls.__name__} needs {field.name}={instance}")
