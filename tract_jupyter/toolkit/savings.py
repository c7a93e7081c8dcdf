"""What a model is not sent because its scripts make the calls.

Without scripts, each call is a request of its own. Every request sends the schemas of all tools, and all calls and
results before it once more. With a script there are two: one that the script comes of, and one that has its code and
what it told. Both send the schemas of the few tools that are shown then, and the instructions for scripts.

What else is in the conversation would be sent in every request too, and is counted on neither side.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import canonical_json, counted
from tract_jupyter.toolkit.names import provider_names
from tract_jupyter.toolkit.results import rough_size
from tract_jupyter.toolkit.toolset import to_openai

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.results import ToolResult

TOKENS_PER_CALL: Final = 12
"""The overhead of a chat format for a call and its result: ids, names, roles."""


@dataclass(frozen=True, slots=True)
class Savings:
    """The tokens that requests sent, or would have sent; those of several scripts can be added up.

    Attributes:
        scripts: how many scripts this is about. One that calls nothing has no other way to be compared with.
        searches: requests by which a model looked for tools, outside of scripts. Who is shown all needs none.
        calls: that the scripts made.
        schema_tokens: of the tools' schemas in all requests, one for each call and one for what comes of them.
        exchanged_tokens: of calls and results, each as often as it would have been sent.
        shown_tokens: of the schemas and instructions that were sent instead, in two requests for each script.
        script_tokens: of code, and what it told; of searches, and what they found.
    """

    scripts: int = 0
    searches: int = 0
    calls: int = 0
    schema_tokens: int = 0
    exchanged_tokens: int = 0
    shown_tokens: int = 0
    script_tokens: int = 0

    @property
    def one_by_one(self) -> int:
        """The tokens that would have been sent if the model had made the calls one by one."""
        return self.schema_tokens + self.exchanged_tokens

    @property
    def in_code(self) -> int:
        """The tokens that were sent with scripts."""
        return self.shown_tokens + self.script_tokens

    @property
    def saved(self) -> int:
        """The difference; negative where scripts cost more than they spare."""
        return self.one_by_one - self.in_code

    @property
    def share(self) -> float:
        """The part of the tokens that was saved: 0.97 are 97 %."""
        return self.saved / self.one_by_one if self.one_by_one else 0.0

    @property
    def verdict(self) -> str:
        """The one number, in words."""
        if self.saved < 0:
            return f"≈ {-self.saved:,} tokens more than separate calls would send"
        return f"≈ {self.saved:,} tokens saved ({self.share:.0%})"

    @property
    def arithmetic(self) -> str:
        """The calculation, in words."""
        requests, in_code = counted(self.calls + self.scripts, "request"), 2 * self.scripts + self.searches
        return (
            f"one by one ≈ {self.one_by_one:,} in {requests} ({self.schema_tokens:,} of schemas + "
            f"{self.exchanged_tokens:,} of calls and results, which later requests send again); as a script ≈ "
            f"{self.in_code:,} in {in_code:,} ({self.shown_tokens:,} of schemas and instructions + "
            f"{self.script_tokens:,} of code and what it told)"
        )

    def __add__(self, other: Savings) -> Savings:
        return Savings(*map(int.__add__, astuple(self), astuple(other)))


_COUNTED_CALLS: Final = 200
_COUNTED_CHARACTERS: Final = 200_000
_COUNTED_OF_ONE: Final = 50_000
_DUMPED: Final = 400_000
_USUAL: Final = 4  # characters of a token, as long as nothing was counted


class Exchanged:
    """The calls and results of one script, in tokens.

    The first 200 calls are counted, up to 200,000 characters, and a long one by its beginning. From there on, tokens
    are estimated by what a character came to so far, so that a loop of many calls is not slowed down.

    Args:
        count: counts the tokens of a text.
        longest: characters of a result that a model would be shown.

    Attributes:
        calls: how many there were.
        tokens: of all, each sent once.
        sent: of all, each sent as often as there are requests after it.
    """

    def __init__(self, count: Callable[[str], int], longest: int) -> None:
        self.calls = 0
        self.tokens = 0
        self.sent = 0
        self._count = count
        self._longest = longest
        self._read_characters = 0
        self._read_tokens = 0

    def add(self, name: str, arguments: Mapping[str, Any], result: ToolResult, rough: int) -> None:
        """Count one call, after those before it.

        Args:
            name: the tool.
            arguments: of the call.
            result: of the call; of a failed one, the error is what a model is told.
            rough: the characters of both, estimated.
        """
        told = result.error
        if result.success:
            told = result.output if result.told is None else result.told
        if self.calls < _COUNTED_CALLS and self._read_characters < _COUNTED_CHARACTERS:
            tokens = self._counted(name) + self._counted(arguments) + self._counted(told)
        else:
            tokens = self._estimated(min(rough, self._longest))
        self.calls += 1
        self.tokens += tokens + TOKENS_PER_CALL
        self.sent += self.tokens

    def go_on(self, calls: int, tokens: int, sent: int) -> None:
        """Continue where another process stopped."""
        self.calls, self.tokens, self.sent = calls, tokens, sent

    def _counted(self, value: Any) -> int:
        text, size = _read(value)
        read = text[: min(_COUNTED_OF_ONE, self._longest)]
        tokens = self._count(read)
        self._read_characters += len(read)
        self._read_tokens += tokens
        size = min(size, self._longest)
        return tokens if size <= len(read) else tokens * size // max(len(read), 1)

    def _estimated(self, characters: int) -> int:
        if not self._read_characters:
            return characters // _USUAL
        return characters * self._read_tokens // self._read_characters


def _read(value: Any) -> tuple[str, int]:
    """Return a value as a model reads it, or the beginning of that, and how long all of it is, about."""
    if isinstance(value, str):
        return value, len(value)
    size = rough_size(value)
    try:
        if size <= _DUMPED:
            text = json.dumps(value, ensure_ascii=False)
            return text, len(text)
        return _beginning(value), size
    except Exception:  # noqa: BLE001 # what has no JSON form would not reach a model, and its code may do anything
        return "", 0


def _beginning(value: Any) -> str:
    """Return the beginning of a large value's JSON, without making all of it."""
    pieces, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length >= _COUNTED_OF_ONE:
            break
    return "".join(pieces)


def schema_tokens(
    tools: Mapping[str, ToolDefinition],
    profile: ToolProfile,
    count: Callable[[str], int],
    *,
    without: Collection[str] = (),
) -> int:
    """Return the tokens of the schemas of a profile's tools, as one request sends them.

    Args:
        tools: all that there are, by name.
        profile: which of them are shown.
        count: counts the tokens of a text.
        without: the names of tools that are not counted.
    """
    names = {name: short for short, name in provider_names(tools).items()}
    shown = [
        to_openai(names[tool.name], tool)
        for tool in profile.filter_tools(tools.values())
        if tool.name not in without
    ]
    return count(canonical_json(shown)) if shown else 0
