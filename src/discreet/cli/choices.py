"""Options of whoever wants numbers: the data, the question, the privacy model.

The options of a privacy model are the fields of its dataclass, found through
``MODELS``: a model that another package adds has its options too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from discreet.cli.files import (
    EventColumn,
    LabelColumn,
    PositiveLabel,
    SubjectColumn,
    TimeColumn,
)
from discreet.cli.main import documented
from discreet.codec.parsing import exact
from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.data.file_format import FileFormat
from discreet.data.scores import ScoreRange
from discreet.data.scoring import ModelFile
from discreet.data.sources import read
from discreet.errors import InputError
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.followup import FollowUpQuestion
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.plan.privacy_model import MODELS, PrivacyModel


class ClusterOf(StrEnum):
    """Whose rows are alike."""

    site = "site"
    subject = "subject"


class ScoreKind(StrEnum):
    """Kinds of scores."""

    probability = "probability"
    logit = "logit"
    other = "other"


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What the scores are.

    Options:
        kind: What the scores are; 'other' needs --low, --high.
        low: Public lower limit of the scores.
        high: Public upper limit of the scores.
    """

    kind: ScoreKind = ScoreKind.probability
    low: float | None = None
    high: float | None = None

    def declared(self) -> ScoreRange:
        """Return the range, or say what is missing."""
        return ScoreRange.declare(self.kind.value, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class FeatureRows(ScoreOptions, FileFormat):
    """How a file of features is written, and what the model's scores are."""

    def declared_scores(self) -> ScoreOptions:
        """Return what was said of the scores alone."""
        return ScoreOptions(kind=self.kind, low=self.low, high=self.high)


@dataclass(frozen=True, kw_only=True)
class ScoredRows(FeatureRows):
    """In which columns labels and subjects are, and what the scores are."""

    label: LabelColumn = "y_true"
    positive: PositiveLabel = None
    time: TimeColumn = None
    event: EventColumn = None
    subject: SubjectColumn = None

    def read(self, place: str | Path, score: list[str], **more: Any) -> Examples:
        """Read the rows of one site."""
        return read(place, **{**self.columns(score), **more})

    @property
    def _label(self) -> str | None:
        """The column of labels, which ``read`` refuses beside an event's."""
        unsaid = self.label == ScoredRows.label
        return None if self.event is not None and unsaid else self.label

    def columns(self, score: list[str]) -> dict[str, Any]:
        """Return the keywords of ``read``."""
        return {
            "label": self._label,
            "time": self.time,
            "event": self.event,
            "score": score[0] if len(score) == 1 else score,
            "positive": self.positive,
            "subject": self.subject,
            "kind": self.kind.value,
            "low": self.low,
            "high": self.high,
            **self.keywords(),
        }


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model file scores rows of features.

    Options:
        model: An ONNX file: rows of features are scored with it, and it is named in the
            plan by its SHA-256.
        inputs: A column that the model takes; repeat it in the model's order. By default
            as the file names them.
        model_output: Which output of the model is used, where it has several.
        model_column: Which column of that output is the score, from 0; by default the
            second one of two.
    """

    model: Path | None = None
    inputs: list[str] | None = None
    model_output: str | None = None
    model_column: int | None = None

    def open(self, scores: ScoreOptions) -> ModelFile | None:
        """Check the file; what --kind says beside it counts more than what it tells."""
        if self.model is None:
            if self.inputs or self.model_output or self.model_column is not None:
                raise InputError("--input and --model-output belong to --model")
            return None
        told = scores != ScoreOptions()
        return ModelFile(
            self.model,
            inputs=self.inputs,
            output=self.model_output,
            column=self.model_column,
            kind=scores.kind.value if told else None,
            low=scores.low,
            high=scores.high,
        )


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What is measured, and in which bins.

    Options:
        prevalence: Public: roughly which share of them is positive.
        threshold: Decision threshold to report; repeat for more.
        bins: Number of bins; by default from the public facts.
        pilot: Under noise: a pilot round with 5 to 20% of the budget estimates where
            the scores lie and places the bins.
        classes: A class of a multi-class problem; repeat for each.
        groups: A declared group; repeat for each.
        labels: One of several labels that every row has; repeat for each.
        max_weight: Public: the largest weight of a row, where rows have weights.
        max_examples_per_site: No site has more: bounds the effect of false data.
        random_groups: Split the sites at random into so many groups, one sum per group:
            false data of one site show in one of them.
        heterogeneity: How sites differ in this, and what a new site can expect: auc,
            log_oe, calibration_slope, calibration_intercept, or recall@0.5,
            specificity@0.5, net_benefit@0.5 at a threshold; repeat for more.
        clusters: Also give intervals that take rows of one site, or of one subject, as
            alike.
    """

    prevalence: float | None = None
    threshold: list[float] | None = None
    bins: int | None = None
    pilot: bool = False
    classes: list[str] | None = None
    groups: list[str] | None = None
    labels: list[str] | None = None
    max_weight: int | None = None
    max_examples_per_site: int | None = None
    random_groups: int | None = None
    heterogeneity: list[str] | None = None
    clusters: ClusterOf | None = None

    def edges(self, facts: PublicFacts) -> EdgeRule | None:
        """Return the given number of bins, None to have them chosen."""
        return None if self.bins is None else spread_over(self.bins, facts)

    def heterogeneity_question(self) -> HeterogeneityQuestion | None:
        """Return the question how sites differ, None for none."""
        if self.heterogeneity is None and self.clusters is None:
            return None
        return HeterogeneityQuestion(
            tuple(self.heterogeneity or ()),
            within=bool(self.heterogeneity),
            clusters=None if self.clusters is None else self.clusters.value,
        )


@dataclass(frozen=True, kw_only=True)
class FollowUpOptions:
    """Time to event, where that is measured.

    Options:
        horizon: A time at which risks and areas are wanted; repeat for more.
        cut: An end of a time interval; repeat for all. By default from the public facts.
        intervals: Number of time intervals; by default from the public facts.
        causes: How many kinds of events there are: they are coded 1, 2 and so on.
        censoring: Public: roughly which share leaves before the last horizon without an
            event.
    """

    horizon: list[float] | None = None
    cut: list[float] | None = None
    intervals: int | None = None
    causes: int = 1
    censoring: float | None = None

    def planned(self, *, named: bool, several: bool) -> FollowUpQuestion | None:
        """Return what a plan asks about time to event, None for labels.

        ``named`` says that columns of follow-up were named, ``several`` that there is a
        score for each horizon.
        """
        if self.horizon is None:
            if named or several:
                raise InputError(
                    "time to event is measured at horizons: name a --horizon"
                )
            others: dict[str, object] = {
                "--cut": self.cut,
                "--intervals": self.intervals,
                "--censoring": self.censoring,
            }
            given = [name for name, value in others.items() if value is not None]
            if self.causes != 1:
                given.append("--causes")
            if given:
                raise InputError(
                    f"{given[0]} is of time to event: name a --horizon too"
                )
            return None
        return FollowUpQuestion.asked(
            self.horizon,
            self.cut,
            self.intervals,
            self.causes,
            len(self.horizon) if several else 1,
        )


_COHORT: Final = {
    "min_survivors": "Sites that must be in every sum; by default all of them.",
    "colluders": "Sites that may know or tell their share of the noise; under "
    "distributed noise by default one, the site that reads the result.",
}
"""What a plan's cohort holds; a model may have these fields too."""


class Protection:
    """The privacy model, and every field that a model in ``MODELS`` has."""

    def __init__(
        self,
        *,
        privacy: StrEnum,
        min_survivors: int | None,
        colluders: int | None,
        **given: Any,
    ) -> None:
        self.privacy = privacy.value
        self.min_survivors = min_survivors
        self.colluders = colluders
        self._given = given

    @classmethod
    def options(cls) -> Iterator[inspect.Parameter]:
        """Yield the options of all models that are registered now."""
        names = _enum("Privacy", MODELS)
        docs = {name: inspect.getdoc(MODELS[name]) or "" for name in MODELS}
        promises = [
            f"{name}: {doc.partition(chr(10))[0]}" for name, doc in docs.items()
        ]
        text = " ".join(["Who may learn what.", *promises])
        yield _option("privacy", names, names("secure-aggregation"), text)
        for field in _model_fields().values():
            if field.name not in _COHORT:
                yield _option(field.name, field.type(), field.default(), field.help())
        for name, text in _COHORT.items():
            yield _option(name, int, None, text)

    def model(self, *, cohort: bool = True) -> PrivacyModel:
        """Return the privacy model that the options describe.

        ``cohort=False`` leaves out what the plan's cohort holds.
        """
        privacy, known = self.privacy, _model_fields()
        given = dict(self._given)
        for name in _COHORT:
            if cohort and name in known and privacy in known[name].defaults:
                given[name] = getattr(self, name)
        for name in list(given):
            field, option = known[name], f"--{name.replace('_', '-')}"
            if privacy not in field.defaults:
                if given.pop(name) != field.default():
                    raise InputError(
                        f"--privacy {privacy} has no {option}: leave out {option}, or "
                        f"choose --privacy {_listed(field.defaults, 'or')}"
                    )
            elif given[name] is not None:
                given[name] = field.value(given[name], privacy)
            elif given.pop(name) is None and field.defaults[privacy] is MISSING:
                instance = ", for instance 1" if name == "epsilon" else ""
                raise InputError(f"--privacy {privacy} needs {option}{instance}")
        return MODELS[privacy](**given)


@dataclass(frozen=True)
class _ModelField:
    """A field that models have: one option, whichever of them are chosen.

    ``types`` and ``defaults`` are by the models' names.
    """

    name: str
    types: dict[str, frozenset[Any]]
    defaults: dict[str, Any]

    def type(self) -> Any:
        """Return the option's type: text for amounts, and where the models' differ.

        An amount such as epsilon is text, so that a decimal is taken as written.
        """
        kinds = frozenset[Any]().union(*self.types.values())
        (kind,) = kinds if len(kinds) == 1 else (str,)
        if get_origin(kind) is Literal:
            return _enum(self.name, get_args(kind))
        return kind if kind in (bool, int, float) else str

    def default(self) -> Any:
        """Return the default that all models agree on, None if they do not."""
        (default, *others) = set(self.defaults.values())
        plain = isinstance(default, bool | int | float | str) and not others
        return self.type()(default) if plain else None

    def value(self, given: Any, privacy: str) -> Any:
        """Return an option's value as the model takes it."""
        if self.types[privacy] == {Fraction}:
            return exact(given, name=self.name)
        return given.value if isinstance(given, StrEnum) else given

    def help(self) -> str:
        """Return what the models' docstrings say of the field, equal texts once."""
        models: dict[str, list[str]] = {}
        for name in self.defaults:
            text = documented(MODELS[name], self.name)
            models.setdefault(text, []).append(name)
        return " ".join(
            f"For {_listed(names, 'and')}: {text}" for text, names in models.items()
        )


def _model_fields() -> dict[str, _ModelField]:
    """Return the fields of all registered models, by name."""
    known: dict[str, _ModelField] = {}
    for name in MODELS:
        model: Any = MODELS[name]
        hints = get_type_hints(model)
        for field in fields(model) if is_dataclass(model) else ():
            one = known.setdefault(field.name, _ModelField(field.name, {}, {}))
            hint = hints[field.name]
            union = get_origin(hint) in (Union, UnionType)
            one.types[name] = frozenset(get_args(hint) if union else (hint,)) - {
                type(None)
            }
            one.defaults[name] = field.default
    return known


def _option(name: str, kind: Any, default: Any, text: str) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[
            kind | None if default is None else kind, typer.Option(help=text)
        ],
    )


def _enum(name: str, values: Iterable[str]) -> Any:
    made: Any = StrEnum
    return made(name, {value: value for value in values})


def _listed(names: Iterable[str], word: str) -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last
