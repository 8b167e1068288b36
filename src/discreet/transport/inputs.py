"""What people hand over, turned into sites and a privacy model; nothing is guessed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

from discreet.codec.parsing import whole
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.python_model import PythonModel, predicts
from discreet.data.scores import ScoreKind
from discreet.data.scoring import ModelFile, Scoring
from discreet.data.sources import read
from discreet.errors import InputError
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.followup import FollowUpQuestion
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import MODELS, PrivacyModel
from discreet.vocabulary import did_you_mean

Sources: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Examples, frames, Arrow tables or paths, in a list or by the sites' names."""


class ColumnNames(TypedDict, total=False):
    """Where frames and files keep what is needed, as ``discreet.read`` takes it."""

    label: str | Sequence[str]
    score: str | Sequence[str]
    time: str | None
    event: str | None
    causes: int
    group: str | None
    subject: str | None
    positive: object | None
    kind: ScoreKind
    low: float | None
    high: float | None
    delimiter: str | None
    decimal: str
    thousands: str | None
    encoding: str | None
    percent: bool
    sheet: str | None


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """What scores the sites' rows: a model file, or a Python object in this process."""

    model: ModelFile | PythonModel
    code: LabelCode
    _made: list[Scoring] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        classes: Sequence[str] | None,
        columns: ColumnNames,
        plan: Plan | None = None,
    ) -> tuple[Scorer, ColumnNames]:
        """Open a model; return it with the columns that are left to name."""
        if "score" in columns:
            raise InputError("the model makes the scores: leave out score=, or model=")
        left = {k: v for k, v in columns.items() if k not in ("kind", "low", "high")}
        said: dict[str, Any] = {k: v for k, v in columns.items() if k not in left}
        named = None if classes is None else tuple(classes)
        code = LabelCode(columns.get("positive"), named)
        opened: ModelFile | PythonModel
        if predicts(model):
            opened = PythonModel(model, code, **said)
        elif isinstance(model, ModelFile):
            if said:
                raise InputError(
                    f"the model file declares its scores: give {', '.join(said)} to "
                    "ModelFile"
                )
            opened = model
        elif not isinstance(model, str | Path):
            raise InputError(
                "model= is a path to an ONNX file, a ModelFile, or an object with "
                "predict_proba"
            )
        elif plan is not None and plan.model.scoring is not None:
            agreed = (plan.model.scoring, plan.facts.scores)
            opened = ModelFile(model, digest=plan.model.digest, agreed=agreed)
        else:
            opened = ModelFile(model, **said)
        return cls(model=opened, code=code), cast("ColumnNames", left)

    def read(self, source: Any, **named: Any) -> Examples:
        """Read the rows of one site, scored."""
        if isinstance(source, Examples):
            raise InputError(
                "Examples hold scores already: give frames or files of features, or "
                "leave out model="
            )
        if isinstance(self.model, ModelFile):
            return read(source, model=self.model, **named)
        for settled in ("positive", "classes"):
            named.pop(settled, None)
        named["name"] = named["name"] or str(source)
        examples, scoring = self.model.examples(source, **named)
        self._made.append(scoring)
        return examples

    def ref(self, called: str) -> ModelRef:
        """Return what the plan says of the model, once the sites are read."""
        if isinstance(self.model, ModelFile):
            return ModelRef.of(self.model, self.code, called=called)
        return ModelRef(called or self.model.name, "", self._made[0])


def check_group_names(groups: Sequence[str] | None) -> None:
    """Refuse a group or site that a result could not tell from all together."""
    if any(str(name).strip().lower() == "pooled" for name in groups or ()):
        raise InputError(
            "a group or site cannot be called pooled: results call all examples "
            "together so; give it another name"
        )


def sites_of(
    sources: Sources,
    *,
    classes: Sequence[str] | None,
    columns: ColumnNames,
    weight: str | None = None,
    scorer: Scorer | None = None,
) -> list[Examples]:
    """Return a site for each source, called by its name in every message."""
    if is_one_source(sources):
        sources = [sources]
    if not isinstance(sources, Mapping | Iterable):
        raise InputError(
            "sites is a list of Examples, frames or paths, or a mapping of names to them"
        )
    named = isinstance(sources, Mapping)
    entries = sources.items() if isinstance(sources, Mapping) else enumerate(sources, 1)
    sites = []
    for key, source in entries:
        name = str(key) if named else f"site {key}"
        sites.append(_site(source, name, named, classes, columns, weight, scorer))
    if not sites:
        raise InputError("there are no sites: give at least one")
    _check_alike(sites)
    return sites


def _site(
    source: Any,
    name: str,
    named: bool,
    classes: Sequence[str] | None,
    columns: ColumnNames,
    weight: str | None,
    scorer: Scorer | None,
) -> Examples:
    if isinstance(source, Examples) and scorer is None:
        if columns or weight is not None:
            words = [*columns, *(["weight"] if weight is not None else [])]
            given = ", ".join(f"{word}=" for word in words)
            raise InputError(
                f"{source.name or name}: Examples know their columns already; leave "
                f"out {given}"
            )
        if not named:
            return source
        renamed = copy(source)  # the caller's own keeps its name
        renamed.name = name
        return renamed
    title = name if named or not isinstance(source, str | Path) else None
    try:
        named_so: dict[str, Any] = {**columns, "classes": classes, "weight": weight}
        reader = read if scorer is None else scorer.read
        return reader(source, name=title, **named_so)
    except InputError as err:
        if title is None or str(err).startswith(f"{title}: "):
            raise
        raise InputError(f"{title}: {err}") from None


def is_one_source(source: object) -> bool:
    """Say whether something is one frame, table, file or Examples, and no list of them."""
    frames = ("pandas", "polars", "pyarrow", "ibis", "pyspark")
    return isinstance(source, Examples | str | Path) or (
        hasattr(source, "__arrow_c_stream__")
        or type(source).__module__.partition(".")[0] in frames
    )


def all_examples(sources: Any) -> bool:
    """Say whether every source is Examples, which have their columns already."""
    if is_one_source(sources) or not isinstance(sources, Mapping | Sequence):
        return isinstance(sources, Examples)
    every = sources.values() if isinstance(sources, Mapping) else sources
    return all(isinstance(source, Examples) for source in every)


def _check_alike(sites: Sequence[Examples]) -> None:
    first = sites[0]
    for number, site in enumerate(sites, 1):
        if site.scores != first.scores:
            raise InputError(
                f"the sites declare different kinds or ranges of scores: "
                f"{first.name or 'site 1'} and {site.name or f'site {number}'}"
            )
        if (site.timed, site.columns) != (first.timed, first.columns):
            raise InputError(
                "the sites differ in their columns: all have one label, or all time and "
                "event, and as many scores"
            )


def check_weights(sites: Sequence[Examples], most: int | None = None) -> None:
    """Say when weights are there and nobody asks for them, or the other way round."""
    weighted = [site.weighted for site in sites]
    if most is None and any(weighted):
        raise InputError(
            "the sites' weights are not used here: name the largest one with max_weight= "
            "in evaluate, or leave them out"
        )
    if most is not None and not all(weighted):
        raise InputError(
            "max_weight= needs weights at every site: name their column with weight=, or "
            "give Examples(..., weights=...)"
        )


def followup_of(
    sites: Sequence[Examples],
    horizons: Sequence[float] | None,
    cuts: Sequence[float] | None,
    intervals: int | None,
    *,
    models: bool = False,
) -> FollowUpQuestion | None:
    """Return what is asked about time to event; None where sites have labels."""
    first = sites[0]
    if not first.timed:
        if any(given is not None for given in (horizons, cuts, intervals)):
            raise InputError(
                "horizons= and cuts of time need follow-up: name the columns with time= "
                "and event=, or give Examples that have both"
            )
        return None
    code = first.label_code.classes
    causes = 1 if code is None else len(code) - 1
    if intervals is not None:
        whole(intervals, "the number of intervals", error=InputError)
    return FollowUpQuestion.asked(
        numbers("horizons", horizons, "365"),
        numbers("cuts", cuts, "365"),
        intervals,
        causes,
        first.columns,
        models=models,
    )


def numbers(word: str, given: Any, such: str) -> tuple[float, ...] | None:
    """Return a list of numbers as floats; the digits of a text are no list."""
    if given is None:
        return None
    listed: Any = None if isinstance(given, str) else given
    try:
        return tuple(float(number) for number in listed)
    except (TypeError, ValueError):
        raise InputError(
            f"{word}= is a list of numbers, such as {word}=[{such}]"
        ) from None


def model_of(
    privacy: PrivacyModel | str | None, epsilon: Any, delta: Any
) -> PrivacyModel:
    """Return the privacy model, from its name and its loss or as it is."""
    loss = {
        word: given
        for word, given in (("epsilon", epsilon), ("delta", delta))
        if given is not None
    }
    words = " and ".join(f"{word}=" for word in loss)
    if isinstance(privacy, PrivacyModel):
        if loss:
            raise InputError(
                f"the privacy model holds its own loss: leave out {words}, or give its "
                f"name, privacy='{privacy.name}'"
            )
        return privacy
    if privacy is None:
        if loss:
            raise InputError(
                f"{words} needs a privacy model, for instance privacy='distributed'"
            )
        return SecureAggregation()
    if privacy not in MODELS:
        raise InputError(
            f"privacy is a model such as DistributedDP(epsilon=1), or the name of one: "
            f"{', '.join(MODELS)}{did_you_mean(privacy, MODELS)}"
        )
    model = MODELS[privacy]
    takes = inspect.signature(model).parameters
    unknown = [word for word in loss if word not in takes]
    if unknown:
        raise InputError(
            f"privacy='{privacy}' has no {unknown[0]}: leave it out, or choose "
            "privacy='distributed'"
        )
    needed = [
        word
        for word, parameter in takes.items()
        if parameter.default is parameter.empty and word not in loss
    ]
    if needed:
        raise InputError(
            f"privacy='{privacy}' needs {needed[0]}=, for instance {needed[0]}=1"
        )
    return model(**loss)
