"""A fitted map as a scikit-learn transformer: the last step of a pipeline."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InputError, MissingExtraError
from discreet.recalibrate.maps import CalibrationMap

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def as_transformer(fitted: CalibrationMap) -> Any:
    """Return a transformer whose ``transform`` applies the map to one column.

    It has nothing to learn: ``fit`` only looks at the shape. It can be cloned and
    pickled. scikit-learn is imported here and nowhere else.
    """
    return _transformer_class()(fitted)


@cache
def _transformer_class() -> Any:
    """Make the class when it is first asked for: its parents are an extra's."""
    try:
        from sklearn.base import (  # noqa: PLC0415 - an extra
            BaseEstimator,
            OneToOneFeatureMixin,
            TransformerMixin,
        )
    except ImportError:
        raise MissingExtraError("a scikit-learn transformer", "demo") from None

    class CalibrationTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
        """Scores in, probabilities out, one column."""

        def __init__(self, fitted: CalibrationMap) -> None:
            self.fitted = fitted

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def __reduce__(self) -> tuple[Any, ...]:
            # The class has no name that a pickle could find; the function has.
            return as_transformer, (self.fitted,), dict(vars(self))

        def fit(self, X: ArrayLike, y: object = None) -> CalibrationTransformer:  # noqa: N803
            """Check the shape; the map is fitted already."""
            del y
            self.n_features_in_ = _column(X).shape[1]
            return self

        def transform(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
            """Return the probabilities in one column."""
            return self.fitted.apply(_column(X))

    return CalibrationTransformer


def _column(scores: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 1:
        return values[:, None]
    if values.ndim != 2 or values.shape[1] != 1:
        raise InputError(f"scores are one column, got the shape {values.shape}")
    return values
