"""A client whose replies can always be stored and sent again. It converts malformed calls to valid calls.

Models use invalid tool names, write arguments that are not JSON, omit or repeat ids, and stop in the middle of a call.
A provider refuses all of these errors in the next request. So each call of a reply gets a unique id, a valid name, and
an object as arguments. Unreadable arguments are in that object under `INVALID_JSON`, with the reason. Such a call
never runs.
"""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.llm.call import ClientThrough, Send
from tract_jupyter.llm.messages import CUT_REASONS, INVALID_JSON, REFUSED, first_choice
from tract_jupyter.llm.reply import RawCall, finish_of_reply
from tract_jupyter.models import canonical_json, read_strict_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tract_jupyter.models import LLMClient

REASON: Final = "why_unreadable"
"""The key for the reason, next to `INVALID_JSON` with the unreadable arguments."""
_LONGEST_RAW: Final = 500
_DEEPEST: Final = 150
"""Levels of arguments. A commit has 200 at most, and wraps the arguments in a few levels."""
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # as Anthropic takes it
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64
_CUT: Final = (
    "the reply ended before this call was complete (finish_reason {reason!r}); "
    "write it again, shorter if it was long"
)


class ReadableClient(ClientThrough):
    """A client whose replies have calls that can be read, stored and sent again.

    Args:
        client: the client to call.
        offered: the offered names of the tools.
    """

    def __init__(self, client: LLMClient, offered: Collection[str]) -> None:
        super().__init__(client)
        self._offered = offered

    def _ask(self, send: Send, messages: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        response: Any = send(messages, options)
        is_dict = isinstance(response, dict)  # a user's client may return anything
        return readable(response, used_ids(messages), self._offered) if is_dict else response


def used_ids(messages: list[dict[str, Any]]) -> set[str]:
    """Return the ids of all calls in a conversation."""
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return {call["id"] for call in calls}


def readable(response: dict[str, Any], ids: set[str], offered: Collection[str]) -> dict[str, Any]:
    """Return a reply whose calls can be stored and sent again. A response without a reply stays the same.

    Args:
        response: in the shape of a chat completion.
        ids: the ids of earlier calls; new ones are added.
        offered: the names of the tools. A changed name is never one of them.
    """
    choice = first_choice(response)
    message = choice.get("message")
    given = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(given, list) or not all(isinstance(call, dict) for call in given):
        return response
    finish = finish_of_reply(response)
    calls = []
    for place, call in enumerate(() if finish in REFUSED else given):
        raw = RawCall.of(call, place)
        is_last = place == len(given) - 1
        arguments = _arguments(call, raw, finish, is_last=is_last)
        function = {
            "name": _allowed_name(raw.name, offered),
            "arguments": json.dumps(arguments, ensure_ascii=False),
        }
        calls.append({"id": _new_id(call.get("id"), ids), "type": "function", "function": function})
    changed = {**choice, "message": {**message, "tool_calls": calls}}  # type: ignore[dict-item] # it is a dict
    return {**response, "choices": [changed, *response["choices"][1:]]}


def why_unreadable(arguments: Mapping[str, Any]) -> str:
    """Return the reason why a call's arguments are unreadable; else an empty text."""
    return str(arguments[REASON]) if set(arguments) == {INVALID_JSON, REASON} else ""


# ---


def _arguments(call: dict[str, Any], raw: RawCall, finish: str, *, is_last: bool) -> dict[str, Any]:
    """Return the arguments of a call, or the unreadable text with a reason."""
    function = call.get("function")
    written = function.get("arguments") if isinstance(function, dict) else None
    if call.get("cut"):
        return _unread(raw.arguments if written else "", _CUT.format(reason=finish))
    if finish in CUT_REASONS and is_last and raw.arguments == "{}":
        return _unread("", _CUT.format(reason=finish))  # even if the tool needs no arguments
    try:
        # RawCall.values ignores duplicate keys and accepts NaN, which has no JSON form
        arguments = read_strict_json(raw.arguments)
    except (ValueError, RecursionError) as error:
        cut = finish in CUT_REASONS and is_last
        why = _CUT.format(reason=finish) if cut else f"the arguments are not JSON: {_brief(error)}"
        return _unread(raw.arguments, why)
    if not isinstance(arguments, dict):
        return _unread(raw.arguments, f"the arguments must be a JSON object, not {type(arguments).__name__}")
    try:
        return _storable(arguments)
    except ContentError as error:
        return _unread(raw.arguments, f"the arguments cannot be stored: {error}")


def _brief(error: Exception) -> str:
    return "they are nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


def _unread(text: str, why: str) -> dict[str, Any]:
    return {INVALID_JSON: _encodable(text[:_LONGEST_RAW]), REASON: _encodable(why)}


def _storable(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments without half characters, which can be neither stored nor sent."""
    depth, level = 0, list[Any]([arguments])
    while level:
        depth += 1
        parts = chain.from_iterable(part.values() if isinstance(part, dict) else part for part in level)
        level = [part for part in parts if isinstance(part, dict | list)]
    if depth > _DEEPEST:
        raise ContentError(f"they are nested {depth} levels deep; the maximum is {_DEEPEST}")
    text = json.dumps(arguments, ensure_ascii=False)
    clean = _encodable(text)
    stored: dict[str, Any] = arguments if clean == text else json.loads(clean)
    canonical_json(stored)
    return stored


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _allowed_name(name: str, offered: Collection[str]) -> str:
    if name in offered:
        return name
    allowed = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "unnamed"
    while allowed != name and allowed in offered:  # the model did not write an offered name
        allowed = f"{allowed[: _LONGEST_NAME - 1]}_" if len(allowed) < _LONGEST_NAME else f"_{allowed[:-1]}"
    return allowed


def _new_id(requested: Any, ids: set[str]) -> str:
    """Return the original id. If it is not valid or not unique, return a new one."""
    text = requested if isinstance(requested, str) and _ID.fullmatch(requested) else "call"
    candidate, number = text, len(ids) + 1
    while candidate in ids or candidate == "call":
        candidate = f"{text[:32]}_{number}"
        number += 1
    ids.add(candidate)
    return candidate
