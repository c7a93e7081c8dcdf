"""One call as a log keeps it: what was called, by hashes, and the answer as JSON.

While a script runs, its calls are kept in the form of `marshal`: that is a copy which the script cannot change, and it
takes a tenth of the time of JSON. It never leaves the process; what is stored is JSON.
"""

from __future__ import annotations

import json
import marshal
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import digest, plain
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition

MOST_BYTES = 256_000
"""Of one result, about."""


class LoggedCall(NamedTuple):
    """A call that was made. `output` is JSON, None where the result has no such form or is too large."""

    tool: str
    definition_hash: str
    arguments_hash: str
    success: bool
    output: str | None
    error: str
    denied: bool

    @property
    def is_answer(self) -> bool:
        """Whether the same call can be answered with it: not with a refusal, about which a person is asked again."""
        return self.output is not None and not self.denied

    @property
    def size(self) -> int:
        """Characters, about."""
        return len(self.output or "") + len(self.error)

    def result(self) -> ToolResult:
        """What came of it, as the caller gets it."""
        output = json.loads(self.output or "null")
        return ToolResult(self.tool, self.success, output, self.error, replayed=True)

    def is_of(self, tool: ToolDefinition | str, arguments: Any) -> bool:
        """Whether it is a call of that tool, as it is now, with those arguments."""
        if (self.tool, self.definition_hash) != _names(tool):
            return False
        try:
            return self.arguments_hash == digest(arguments)
        except ContentError:
            return False


class FrozenCall(NamedTuple):
    """A call of the present run. `tool` is a name where there is none of it."""

    tool: ToolDefinition | str
    arguments: bytes
    success: bool
    output: bytes | None
    error: str
    denied: bool

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.arguments) + len(self.output or b"") + len(self.error)

    def logged(self) -> LoggedCall | None:
        """The form that is stored; None if the arguments have no JSON form."""
        try:
            arguments_hash = digest(marshal.loads(self.arguments))  # noqa: S302 # of this process
        except ContentError:
            return None
        output = None if self.output is None else _json(self.output)
        return LoggedCall(*_names(self.tool), arguments_hash, self.success, output, self.error, self.denied)


def frozen_arguments(arguments: Any) -> bytes | None:
    """A copy of a call's arguments; None if they have no form that can be kept."""
    try:
        return marshal.dumps(arguments)
    except ValueError:  # of a subclass, such as an enumeration's member
        try:
            return marshal.dumps(plain(arguments))
        except (ContentError, ValueError):
            return None


def frozen_output(output: Any) -> bytes | None:
    """A copy of a call's output; None if it has no form that can be kept, or is too large."""
    try:
        frozen = marshal.dumps(output)
    except ValueError:
        return None
    return frozen if len(frozen) <= MOST_BYTES else None


def _json(frozen: bytes) -> str | None:
    """JSON that gives the very same value again: keys keep their order, and a tuple is no list."""
    value = marshal.loads(frozen)  # noqa: S302 # of this process
    try:
        text = json.dumps(value, allow_nan=False)
        return text if json.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def _names(tool: ToolDefinition | str) -> tuple[str, str]:
    return (tool, "") if isinstance(tool, str) else (tool.name, tool.definition_hash)
