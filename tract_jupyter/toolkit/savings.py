"""The tokens that a model does not receive because its scripts make the calls.

Without scripts, each call needs a separate request. Every request sends the schemas of all tools again, and all
earlier calls and results. A script needs two requests. The model writes the script in the first one, and receives its
code and output in the second one. Both send only the schemas of a few tools, and the instructions for scripts.

Every request would also send the rest of the conversation. Neither side counts it.
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
    """The tokens that requests sent, or would have sent. The values of several scripts can be added.

    Attributes:
        scripts: number of scripts. A script without calls does not count, because there is nothing to compare.
        searches: requests in which a model searched for tools, outside of scripts. A model with all schemas needs
            none.
        calls: number of calls by the scripts.
        schema_tokens: tool schemas in all requests without scripts: one request per call, and one per script for the
            end.
        exchanged_tokens: calls and results, each as often as separate requests would send it.
        shown_tokens: schemas and instructions in the actual requests, two per script.
        script_tokens: code and output of the scripts, and searches with their results.
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
        """The difference; negative if scripts cost more than they save."""
        return self.one_by_one - self.in_code

    @property
    def share(self) -> float:
        """The saved fraction of the tokens: 0.97 means 97 %."""
        return self.saved / self.one_by_one if self.one_by_one else 0.0

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
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
            f"{self.script_tokens:,} of code and its output)"
        )

    def __add__(self, other: Savings) -> Savings:
        return Savings(*map(int.__add__, astuple(self), astuple(other)))


_COUNTED_CALLS: Final = 200
_COUNTED_CHARACTERS: Final = 200_000
_COUNTED_OF_ONE: Final = 50_000
_DUMPED: Final = 400_000
_USUAL: Final = 4  # characters per token, until a text was counted


class Exchanged:
    """The calls and results of one script, in tokens.

    It counts the first 200 calls, up to 200,000 characters in total, and only the beginning of a long text. It
    estimates later calls from the average so far. A loop with many calls therefore stays fast. `sent` counts all tokens
    as often as later requests repeat them.
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
        """Count the next call.

        Of a failed call, the error counts. `rough` is the estimated number of characters of arguments and result.
        """
        answer = result.error
        if result.success:
            answer = result.output if result.told is None else result.told
        if self.calls < _COUNTED_CALLS and self._read_characters < _COUNTED_CHARACTERS:
            tokens = self._counted(name) + self._counted(arguments) + self._counted(answer)
        else:
            tokens = self._estimated(min(rough, self._longest))
        self.calls += 1
        self.tokens += tokens + TOKENS_PER_CALL
        self.sent += self.tokens

    def go_on(self, calls: int, tokens: int, sent: int) -> None:
        """Continue with the counts of another process."""
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
    """Return a value as a model reads it, possibly only its beginning, and its approximate total length."""
    if isinstance(value, str):
        return value, len(value)
    size = rough_size(value)
    try:
        if size <= _DUMPED:
            text = json.dumps(value, ensure_ascii=False)
            return text, len(text)
        return _beginning(value), size
    except Exception:  # noqa: BLE001 # without a JSON form, it never reaches a model; its code may raise anything
        return "", 0


def _beginning(value: Any) -> str:
    """Return the beginning of a large value's JSON without encoding all of it."""
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
    """Return the number of tokens of a profile's schemas in one request."""
    names = {name: short for short, name in provider_names(tools).items()}
    schemas = [
        to_openai(names[tool.name], tool)
        for tool in profile.filter_tools(tools.values())
        if tool.name not in without
    ]
    return count(canonical_json(schemas)) if schemas else 0
