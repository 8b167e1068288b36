"""What several evaluations of one release have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from discreet.estimate.estimate import Estimate
from discreet.report.evaluation import Evaluation
from discreet.report.notebook import claim_html, picture_html, table_html
from discreet.report.shown import Shown


class Parts(Shown, Mapping[str, Evaluation]):
    """Evaluations by name: of classes, of groups, or of two models."""

    def named(self) -> Mapping[str, Evaluation]:
        """Return the parts."""
        return self

    @abstractmethod
    def summary(self) -> dict[str, Estimate]:
        """Return the table that stands for all of them, by the rows' names."""

    def __repr__(self) -> str:
        claim = f"{self.claim.loss}, {self.claim.setting}"
        return f"{type(self).__name__}({', '.join(self)}; {claim})"

    def _repr_html_(self) -> str:
        drawable = any(
            part.refusal is None and part.fit.has_curves for part in self.values()
        )
        pictures = picture_html(self.plot("roc")) if drawable else ""
        return table_html(self.summary()) + pictures + claim_html(self.claim)
