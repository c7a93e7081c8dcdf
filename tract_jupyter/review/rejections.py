"""What the model learns from decisions: why something was turned down is committed to the context."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import TractError

if TYPE_CHECKING:
    from tract_jupyter.context.repository import Repository
    from tract_jupyter.review.decision import Decision

_logger = logging.getLogger(__name__)
_ANSWERED = frozenset({"tool_result", "tool_call", "script_call"})


class Rejections:
    """Tells the model why its proposals were turned down.

    Attributes:
        are_told: whether it does.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.are_told = True

    def learn(self, pending: Any, decision: Decision) -> None:
        """Commit a person's reason for a rejection to the branch that asked.

        The decision stands, also where that cannot be done.
        """
        is_reason = decision.action == "reject" and decision.reason and decision.is_personal
        if not (self.are_told and is_reason) or _is_told_anyway(pending) or pending.branch is None:
            return
        about = {
            "rejected": pending.pending_id,
            "operation": pending.operation,
            "decided_by": decision.decided_by,
        }
        commits, branch = self._repository.commits, self._repository.refs.position.branch
        try:
            said = f"I turned down {pending.title!r}: {decision.reason}"
            content = {"content_type": "dialogue", "role": "user", "text": said, "name": None}
            if pending.branch == branch:
                commits.commit(content, metadata=about)
            else:
                commits.commit_on(pending.branch, content, metadata=about)
        except TractError:
            _logger.warning("why %r was turned down could not be committed", pending.title, exc_info=True)


def _is_told_anyway(pending: Any) -> bool:
    """Whether a message about it would be out of place.

    A model reads the reason in the answer of its tool call, which a message would part from the call. What an operation
    of a run was refused is in the run; a message of the user would begin another turn in the midst of it.
    """
    if str(pending.actor).startswith("operation:"):
        return True
    is_models_call = pending.actor != "user" and str(pending.triggered_by).startswith("tools.")
    return is_models_call or pending.operation in _ANSWERED
