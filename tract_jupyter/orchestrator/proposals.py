"""Proposals: the questions about an orchestrator's calls, as a person's function is asked them.

There is one question, the pending of the call. A proposal is a view of it, and what the function says is carried out
through the pending's own actions.
"""

from __future__ import annotations

import json
import logging
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
"""The channel of what a person's own function decides."""


@dataclass
class OrchestratorProposal:
    """A call that an orchestrator's model wants to make, and that is decided about.

    Attributes:
        proposal_id: the id of the pending.
        recommended_action: the call.
        reasoning: why the model wants it, in its own words.
        alternatives: other calls that it has thought of.
        context_summary: where the context stands, in a line.
        decision: `pending`, then `approved`, `rejected` or `modified`.
        modified_action: what is done instead, where it was modified.
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
    """What is decided about a proposal.

    Attributes:
        decision: `approved`, `rejected` or `modified`.
        modified_action: for `modified`, what is done instead: the same tool with other arguments, or another tool.
        reason: why it is rejected; the model is told.

    Raises:
        OrchestratorError: there is no such decision, or it is modified and nothing says to what.
    """

    decision: Literal["approved", "rejected", "modified"]
    modified_action: ToolCall | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Check what a person's function says."""
        if self.decision not in _DECISIONS:
            raise OrchestratorError(
                f"a decision about a proposal is {', '.join(_DECISIONS)}, not {brief_repr(self.decision)}"
            )
        if self.decision == "modified" and not isinstance(self.modified_action, ToolCall):
            raise OrchestratorError(
                "a modified proposal has the call that is made instead: ProposalResponse('modified', ToolCall(id, "
                f"name, arguments)), not {brief_repr(self.modified_action)}"
            )


class ProposalReviewer:
    """Asks a person's function about calls, in the place of the person.

    Args:
        reviewer: of the tract that is looked after; it knows what was allowed before, and asks the person about what
            no function may approve.
        on_proposal: the function.
        summary: gives where the context stands, in a line.
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
        """Have a question decided without asking, where the reviewer of the tract has it so."""
        return self._reviewer.granted(pending)

    def find_duplicate(self, pending: Any) -> Any | None:
        """Return the open question that asks the very same; None if there is none."""
        return self._reviewer.find_duplicate(pending)

    def catch_up(self, pending: Any) -> str:
        """Follow what was decided elsewhere."""
        return self._reviewer.catch_up(pending)

    def decide_together(self, pendings: Sequence[Any]) -> tuple[list[Any], Exception | None]:
        """Ask the function about each of several questions, and the person about those that no function may approve."""
        for_person = []
        for pending in pendings:
            check_wait()
            try:
                if pending.is_in_doubt:
                    for_person.append(pending)
                else:
                    self._decide(pending)
            except CodeDecisionError:
                for_person.append(pending)
        if not for_person:
            return list(pendings), None
        asked, left = self._reviewer.decide_together(for_person)
        theirs = dict(zip(map(id, for_person), asked, strict=True))
        return [theirs.get(id(pending), pending) for pending in pendings], left

    def _decide(self, pending: PendingToolCall) -> None:
        if not pending.status.is_open:
            return
        proposal = proposal_of(pending, self._summary())
        response = self._on_proposal(proposal)
        if not isinstance(response, ProposalResponse):
            raise OrchestratorError(
                f"on_proposal returns a ProposalResponse, such as ProposalResponse('approved'), not "
                f"{brief_repr(response)}; nothing was done"
            )
        by = getattr(self._on_proposal, "__name__", type(self._on_proposal).__name__)
        with deciding(_CHANNEL, f"on_proposal:{by}"):
            try:
                respond(pending, response)
            except (
                FingerprintError
            ) as error:  # the level was lowered, or the tool changed, while it was asked
                pending.reject(str(error))
        proposal.decision, proposal.modified_action = response.decision, response.modified_action


def proposal_of(pending: PendingToolCall, summary: str = "") -> OrchestratorProposal:
    """Return the question about a call as a proposal."""
    return OrchestratorProposal(
        pending.pending_id,
        ToolCall(pending.pending_id, pending.tool_name, dict(pending.call_arguments)),
        pending.reasoning,
        [
            ToolCall(f"{pending.pending_id}.{number}", one.name, dict(one.arguments))
            for number, one in enumerate(pending.alternatives, 1)
        ],
        summary,
    )


def respond(pending: PendingToolCall, response: ProposalResponse) -> None:
    """Carry out what is decided about a proposal: through the pending's own actions.

    Raises:
        ParameterError: the other arguments do not fit the tool.
        PendingError: it was decided meanwhile.
    """
    other = response.modified_action
    if response.decision == "rejected":
        pending.reject(response.reason)
    elif response.decision == "approved" or other is None:
        pending.approve()
    elif other.name == pending.tool_name:
        pending.approve(edits=dict(other.arguments))
    else:
        chosen = Alternative(other.name, dict(other.arguments))
        told = CHOSEN_INSTEAD.format(chosen=chosen)
        pending.take_instead(chosen, f"{told}: {response.reason}" if response.reason else told)


# --- functions to be asked


def auto_approve(proposal: OrchestratorProposal) -> ProposalResponse:  # noqa: ARG001 # whatever it is
    """Approve each proposal, also of what may destroy something."""
    return ProposalResponse("approved")


def log_and_approve(proposal: OrchestratorProposal) -> ProposalResponse:
    """Log each proposal, and approve it."""
    logger.info("%s: %s", _call_text(proposal.recommended_action), proposal.reasoning or "no reason is given")
    return ProposalResponse("approved")


def reject_all(proposal: OrchestratorProposal) -> ProposalResponse:  # noqa: ARG001 # whatever it is
    """Reject each proposal."""
    return ProposalResponse("rejected", reason="proposals are rejected here")


def cli_prompt(proposal: OrchestratorProposal) -> ProposalResponse:
    """Ask at the terminal: approve, reject with a reason, modify the arguments as JSON, or take an alternative."""
    action = proposal.recommended_action
    _say(f"The orchestrator wants to call {_call_text(action)}")
    _say(f"  why: {proposal.reasoning or 'it does not say'}")
    _say(f"  context: {proposal.context_summary}")
    for number, other in enumerate(proposal.alternatives, 1):
        _say(f"  {number}: instead {_call_text(other)}")
    numbers = ", the number of an alternative" if proposal.alternatives else ""
    while True:
        try:
            choice = input(f"[a]pprove, [r]eject, [m]odify{numbers}: ").strip().lower()
            if choice.startswith("a"):
                return ProposalResponse("approved")
            if choice.startswith("r"):
                return ProposalResponse("rejected", reason=input("Reason: ").strip())
            if choice.startswith("m"):
                return ProposalResponse("modified", _edited(action))
        except EOFError:
            return ProposalResponse("rejected", reason="nobody answered at the terminal")
        if choice.isdecimal() and 1 <= int(choice) <= len(proposal.alternatives):
            return ProposalResponse("modified", proposal.alternatives[int(choice) - 1])
        print(f"{choice[:40]!r} is none of these.")  # noqa: T201


def _say(text: str) -> None:
    """Print what a model may have written: no line of it looks like one of ours, and no character steers a terminal."""
    print(printable(text).replace("\n", "\n      | "))  # noqa: T201 # that is what it is for


def _edited(action: ToolCall) -> ToolCall:
    """Return a call with the arguments that are typed; what is no JSON object is asked for again."""
    print(json.dumps(action.arguments, ensure_ascii=False))  # noqa: T201
    while True:
        typed = input("The arguments as JSON: ").strip()
        try:
            arguments = json.loads(typed)
        except (ValueError, RecursionError) as error:
            print(f"That is no JSON: {error}")  # noqa: T201
            continue
        if isinstance(arguments, dict):
            return ToolCall(action.id, action.name, {**action.arguments, **arguments})
        print('The arguments are a JSON object, such as {"target_tokens": 500}.')  # noqa: T201


def _call_text(call: ToolCall) -> str:
    return str(Alternative(call.name, call.arguments))
