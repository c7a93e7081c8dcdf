"""Having something made again until it is good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import PendingError
from tract_jupyter.hooks.builtin.base import ValidationResult
from tract_jupyter.hooks.introspection import action_parameters

if TYPE_CHECKING:
    from tract_jupyter.hooks.pending import Pending


def auto_retry(pending: Any, *, max_retries: int = 3) -> None:
    """Approve a pending if it is good; have it made again if not, with what was wrong; reject it in the end.

    It can be a handler: `t.on("generate", auto_retry)`. The last attempt is looked at too.

    Args:
        pending: offers `validate`, and `retry` if it can be made again. An operation of your own does if it has
            actions of these names; its `validate` returns None if all is good, else what is wrong, as a text.
        max_retries: how often it is made again at most, over all its parts. The pending's own bound counts as well.

    Raises:
        PendingError: it has nothing to validate it by.
        Exception: whatever making it again raises; the pending stays open then.
    """
    if "validate" not in pending._public_actions:  # noqa: SLF001 # what it offers
        raise PendingError(
            f"{pending.operation!r} offers no 'validate', so nobody knows when it is good; decide it yourself"
        )
    diagnoses: list[str] = []
    while True:
        found = ValidationResult.of(pending.validate())
        if found.passed:
            pending.approve()
            return
        diagnoses.append(found.diagnosis)
        retries = len(diagnoses) - 1
        if retries >= max_retries or not _can_retry(pending):
            pending.reject(_told(diagnoses))
            return
        _retry(pending, found)


def _can_retry(pending: Pending) -> bool:
    """Whether it can be made again; a pending with a bound of its own says how often in `retries_left`."""
    return "retry" in pending._public_actions and bool(getattr(pending, "retries_left", True))  # noqa: SLF001


def _retry(pending: Any, found: ValidationResult) -> None:
    taken = action_parameters(type(pending), "retry").names
    given = {"index": found.index, "guidance": found.diagnosis}
    pending.retry(**{name: value for name, value in given.items() if name in taken and value is not None})


def _told(diagnoses: list[str]) -> str:
    if len(diagnoses) == 1:
        return diagnoses[0]
    listed = "; ".join(f"({number}) {text}" for number, text in enumerate(diagnoses, 1))
    return f"{len(diagnoses)} attempts, and none was good: {listed}"
