"""Proposals: the requests about an orchestrator's calls, for a user's function.

The request itself is the pending of the call. A proposal is a view of it. The function's response is applied through
the actions of the pending.
"""

from __future__ import annotations

import json
import logging
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import CodeDecisionError, FingerprintError, OrchestratorError
from tract_jupyter.models import ToolCall, brief_repr, printable
from tract_jupyter.prompts import CHOSEN_INSTEAD
from tract_jupyter.review import check_wait, deciding
from tract_jupyter.toolkit import Alternative

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.toolkit import Asking, PendingToolCall

logger = logging.getLogger(__name__)
_DECISIONS: Final = ("approved", "rejected", "modified")
_CHANNEL: Final = "handler"
"""The channel of decisions by a user's function."""


@dataclass
class OrchestratorProposal:
    """A call that an orchestrator's model requests, and that needs a decision.

    Attributes:
        proposal_id: the id of the pending.
        recommended_action: the call.
        reasoning: the model's reason.
        alternatives: other calls that the model suggests.
        context_summary: the state of the context, in a line.
        decision: `pending`, then `approved`, `rejected` or `modified`.
        modified_action: the replacement call, if the decision is `modified`.
    """

    proposal_id: str
    recommended_action: ToolCall
    reasoning: str
    alternatives: list[ToolCall]
    context_summary: str
    decision: str = "pending"
    modified_action: ToolCall | None = None


@dataclass
class ProposalResponse:
    """The decision about a proposal.

    Attributes:
        decision: `approved`, `rejected` or `modified`.
        modified_action: the replacement call, for `modified`: the same tool with other arguments, or another tool.
        reason: the reason of a rejection. The model receives it.

    Raises:
        OrchestratorError: unknown decision, or `modified` without a call.
    """

    decision: Literal["approved", "rejected", "modified"]
    modified_action: ToolCall | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.decision not in _DECISIONS:
            raise OrchestratorError(
                f"decision must be one of {', '.join(_DECISIONS)}, not {brief_repr(self.decision)}"
            )
        if self.decision == "modified" and not isinstance(self.modified_action, ToolCall):
            raise OrchestratorError(
                "'modified' needs the replacement call, such as ProposalResponse('modified', ToolCall(id, name, "
                f"arguments)), not {brief_repr(self.modified_action)}"
            )


class ProposalReviewer:
    """Asks a user's function about calls, instead of the user.

    Args:
        reviewer: the reviewer of the maintained tract. It knows earlier approvals. It asks the user about calls that no
            function may approve.
        on_proposal: the function.
        summary: returns the state of the context, in a line.
    """

    def __init__(
        self,
        reviewer: Asking,
        on_proposal: Callable[[OrchestratorProposal], ProposalResponse],
        summary: Callable[[], str],
    ) -> None:
        self._reviewer = reviewer
        self._on_proposal = on_proposal
        self._summary = summary

    def granted(self, pending: Any) -> bool:
        """Decide a request without asking if the tract's reviewer can."""
        return self._reviewer.granted(pending)

    def find_duplicate(self, pending: Any) -> Any | None:
        """Return the identical open request, or None."""
        return self._reviewer.find_duplicate(pending)

    def catch_up(self, pending: Any) -> str:
        """Apply a decision that was made elsewhere."""
        return self._reviewer.catch_up(pending)

    def decide_together(self, pendings: Sequence[Any]) -> tuple[list[Any], Exception | None]:
        """Ask the function about each request. Ask the user about the requests that no function may approve."""
        for_user = []
        for pending in pendings:
            check_wait()
            try:
                if pending.is_in_doubt:
                    for_user.append(pending)
                else:
                    self._decide(pending)
            except CodeDecisionError:
                for_user.append(pending)
        if not for_user:
            return list(pendings), None
        decided, error = self._reviewer.decide_together(for_user)
        by_id = dict(zip(map(id, for_user), decided, strict=True))
        return [by_id.get(id(pending), pending) for pending in pendings], error

    def _decide(self, pending: PendingToolCall) -> None:
        if not pending.status.is_open:
            return
        proposal = proposal_of(pending, self._summary())
        response = self._on_proposal(proposal)
        if not isinstance(response, ProposalResponse):
            raise OrchestratorError(
                f"on_proposal must return a ProposalResponse, such as ProposalResponse('approved'), not "
                f"{brief_repr(response)}; nothing was done"
            )
        name = getattr(self._on_proposal, "__name__", type(self._on_proposal).__name__)
        with deciding(_CHANNEL, f"on_proposal:{name}"):
            try:
                respond(pending, response)
            except FingerprintError as error:  # the level or the tool changed before the answer
                pending.reject(str(error))
        proposal.decision, proposal.modified_action = response.decision, response.modified_action


def proposal_of(pending: PendingToolCall, summary: str = "") -> OrchestratorProposal:
    """Return the proposal for a call's request. It has copies: a change of them must not change the request."""
    return OrchestratorProposal(
        pending.pending_id,
        ToolCall(pending.pending_id, pending.tool_name, deepcopy(dict(pending.call_arguments))),
        pending.reasoning,
        [
            ToolCall(f"{pending.pending_id}.{number}", one.name, deepcopy(dict(one.arguments)))
            for number, one in enumerate(pending.alternatives, 1)
        ],
        summary,
    )


def respond(pending: PendingToolCall, response: ProposalResponse) -> None:
    """Apply the decision about a proposal through the actions of the pending."""
    other = response.modified_action
    if response.decision == "rejected":
        pending.reject(response.reason)
    elif response.decision == "approved" or other is None:
        pending.approve()
    elif other.name == pending.tool_name:
        pending.approve(edits=dict(other.arguments))
    else:
        chosen = Alternative(other.name, dict(other.arguments))
        note = CHOSEN_INSTEAD.format(chosen=chosen)
        pending.take_instead(chosen, f"{note}: {response.reason}" if response.reason else note)


# --- functions for `on_proposal`


def auto_approve(proposal: OrchestratorProposal) -> ProposalResponse:  # noqa: ARG001 # approves all
    """Approve each proposal, including destructive calls."""
    return ProposalResponse("approved")


def log_and_approve(proposal: OrchestratorProposal) -> ProposalResponse:
    """Log each proposal, and approve it."""
    logger.info("%s: %s", _call_text(proposal.recommended_action), proposal.reasoning or "no reason")
    return ProposalResponse("approved")


def reject_all(proposal: OrchestratorProposal) -> ProposalResponse:  # noqa: ARG001 # rejects all
    """Reject each proposal."""
    return ProposalResponse("rejected", reason="all proposals are rejected here")


def cli_prompt(proposal: OrchestratorProposal) -> ProposalResponse:
    """Ask at the terminal: approve, reject with a reason, edit the arguments as JSON, or choose an alternative."""
    action = proposal.recommended_action
    _print(f"The orchestrator wants to call {_call_text(action)}")
    _print(f"  why: {proposal.reasoning or 'no reason'}")
    _print(f"  context: {proposal.context_summary}")
    for number, alternative in enumerate(proposal.alternatives, 1):
        _print(f"  {number}: instead {_call_text(alternative)}")
    numbers = ", the number of an alternative" if proposal.alternatives else ""
    while True:
        try:
            choice = input(f"[a]pprove, [r]eject, [m]odify{numbers}: ").strip().lower()
            if choice in {"a", "approve"}:
                return ProposalResponse("approved")
            if choice in {"r", "reject"}:
                return ProposalResponse("rejected", reason=input("Reason: ").strip())
            if choice in {"m", "modify"}:
                return ProposalResponse("modified", _read_arguments(action))
        except EOFError:
            return ProposalResponse("rejected", reason="no answer at the terminal")
        if choice.isdecimal() and 1 <= int(choice) <= len(proposal.alternatives):
            return ProposalResponse("modified", proposal.alternatives[int(choice) - 1])
        print(f"Unknown choice {choice[:40]!r}.")  # noqa: T201


def _print(text: str) -> None:
    """Print a model's text, with a prefix on further lines and without control characters."""
    print(printable(text).replace("\n", "\n      | "))  # noqa: T201 # a prompt at the terminal


def _read_arguments(action: ToolCall) -> ToolCall:
    """Read arguments from the terminal, until they are a JSON object. Return the call with these arguments."""
    print(json.dumps(action.arguments, ensure_ascii=False))  # noqa: T201
    while True:
        typed = input("The arguments as JSON: ").strip()
        try:
            arguments = json.loads(typed)
        except (ValueError, RecursionError) as error:
            print(f"Invalid JSON: {error}")  # noqa: T201
            continue
        if isinstance(arguments, dict):
            return ToolCall(action.id, action.name, {**action.arguments, **arguments})
        print('The arguments must be a JSON object, such as {"target_tokens": 500}.')  # noqa: T201


def _call_text(call: ToolCall) -> str:
    return str(Alternative(call.name, call.arguments))
