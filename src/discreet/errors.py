"""Errors a caller can act on. Each one says who is at fault and what to do.

A message carries the count, the bound and the remedy, and never a score or a
label: it may travel to the coordinator.
"""


class DiscreetError(Exception):
    """Base class of every error that discreet raises on purpose."""


class InputError(DiscreetError, ValueError):
    """The caller's data or argument is wrong; nothing was counted or released."""


class UnknownNameError(InputError, KeyError):
    """There is nothing of this name; the sentence names the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


class PlanError(DiscreetError, ValueError):
    """The plan is malformed, or its parts do not fit together."""


class ReleaseError(DiscreetError, ValueError):
    """A release does not belong to the plan that it was presented with."""


class NotReleasedError(DiscreetError, LookupError):
    """The metric cannot be had from what this plan released."""


class BudgetError(DiscreetError):
    """The account refuses this release, and says what was charged or sent."""


class MissingExtraError(DiscreetError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(
            f"{purpose} needs an optional dependency: from a clone, "
            f"pip install '.[{extra}]'"
        )


class UndefinedMetricWarning(UserWarning):
    """A metric is NaN because the pooled data do not define it."""


class IgnoredWarning(UserWarning):
    """Something that was given is not used."""


class DisclosureWarning(UserWarning):
    """What is about to be released says more about the data than it seems."""


class ReadHereWarning(UserWarning):
    """Rows are read here one by one, because their engine cannot count them alike."""
