"""The turn that a run begins with, as the tract has it: the draft of the prompt, and whose turn it is (R9, R30)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.runs.activation import Source
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.terms import Trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import CompiledContext, Message


class Opening(NamedTuple):
    """Where a run starts.

    Attributes:
        prompt: what would be sent without operations.
        turn_id: the commit of the current user's message; None if there is none.
        user_commit: the version of it that the run starts from: that commit, or an edit of it.
        replaces: the commit of the reply that gets another variant, of `regenerate`.
        source: whether the user has said something new.
    """

    prompt: Prompt
    turn_id: str | None
    user_commit: str | None
    replaces: str | None
    source: Source


def opening(context: CompiledContext, trigger: Trigger) -> Opening:
    """Read the turn from the compiled context.

    Raises:
        ContentError: there is no reply to make another variant of.
    """
    messages, replaces = context.messages, None
    if trigger is Trigger.REGENERATE:
        if not messages or messages[-1].role != "assistant":
            last = f"ends with a message of the {messages[-1].role}" if messages else "is empty"
            raise ContentError(
                f"there is no reply to make another variant of: the context {last}; generate() makes the first one"
            )
        messages, replaces = messages[:-1], messages[-1].commit_hash
    user = next((one for one in reversed(messages) if one.role == "user"), None)
    prompt = Prompt.of_context(replace(context, messages=messages))
    turn_id = None if user is None else user.commit_hash
    return Opening(prompt, turn_id, turn_id, replaces, _source(messages, trigger))


def original(versions: Sequence[CommitInfo], operations: Collection[str]) -> CommitInfo:
    """The version of the user's message that operations start from, so that none rewrites what it has rewritten itself.

    Args:
        versions: of the message, the oldest first.
        operations: the ids of those that may run: what they made of it before does not count.
    """
    person = max((place for place, one in enumerate(versions) if not one.metadata.get("run_id")), default=0)
    for place in range(person + 1, len(versions)):
        if versions[place].metadata.get("operation_id") in operations:
            return versions[place - 1]
    return versions[-1]


def started_from(opening: Opening, version: CommitInfo, text: str) -> Opening:
    """The same turn with another version of the user's message."""
    return opening._replace(prompt=opening.prompt.with_user(text), user_commit=version.commit_hash)


def _source(messages: Sequence[Message], trigger: Trigger) -> Source:
    if trigger is Trigger.REGENERATE:
        return Source.REGENERATE
    is_new = bool(messages) and messages[-1].role == "user"
    return Source.USER_MESSAGE if is_new else Source.CONTINUE
