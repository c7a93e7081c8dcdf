"""The turn that a run begins with, as the tract has it: the draft of the prompt, and whose turn it is (R9, R30)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.runs.activation import Source
from tract_jupyter.runs.prompt import Prompt
from tract_jupyter.runs.terms import Trigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import CompiledContext, Message


class Opening(NamedTuple):
    """Where a run starts.

    Attributes:
        prompt: what would be sent without operations.
        user_commit: the commit of the current user's message; None if there is none.
        replaces: the commit of the reply that gets another variant, of `regenerate`.
        source: whether the user has said something new.
    """

    prompt: Prompt
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
    return Opening(prompt, None if user is None else user.commit_hash, replaces, _source(messages, trigger))


def _source(messages: Sequence[Message], trigger: Trigger) -> Source:
    if trigger is Trigger.REGENERATE:
        return Source.REGENERATE
    is_new = bool(messages) and messages[-1].role == "user"
    return Source.USER_MESSAGE if is_new else Source.CONTINUE
