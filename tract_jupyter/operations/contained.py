"""Runs of an action's kernel code in a contained copy of this kernel, for its rehearsal.

The copy has packages, files of the workspace and the compiled context. Its effects are reported and never kept.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import counted

if TYPE_CHECKING:
    from tract_jupyter.rehearsal import Effects, Rehearser

SECONDS: Final = 5.0
"""The time limit of one run. An import of a package takes a part of it."""
_MEGABYTE: Final = 1_000_000
_MEMORY: Final = 512 * _MEGABYTE
_NEWEST: Final = 20  # commits of the log
_MOST_NAMED: Final = 5
_ENDED: Final = frozenset({"stopped", "limit", "crashed"})

_CONTEXT: Final = """
Tract.compile = lambda self, *args, **kwargs: _compiled
Tract.log = lambda self, *args, **kwargs: list(_log)
_pending.tract.tract_id, _pending.tract.head, _pending.tract.current_branch = _place
"""
_RESULT: Final = """
import json as _json
_json.dumps({call}, default=repr)
"""


class ContainedRun(NamedTuple):
    """The outcome of a run.

    Attributes:
        output: the value of the call as JSON data; None if the run did not return.
        error: the exception in one line; empty if there was none.
        limit: the limit that ended the run; empty if none did.
        printed: the printed text.
        effects: what the code tried outside of its fields, in words.
    """

    output: Any
    error: str
    limit: str
    printed: str
    effects: tuple[str, ...]


class ActionCopies:
    """Copies of this kernel in which actions run.

    Args:
        rehearser: makes the copies.
        tract: the tract whose context the actions read.
    """

    def __init__(self, rehearser: Rehearser, tract: Any) -> None:
        self._rehearser = rehearser
        self._context: dict[str, Any] = {}
        with suppress(TractError):  # without a context, the mock conversation stays
            self._context = {
                "_compiled": tract.compile(),
                "_log": tract.log(_NEWEST),
                "_place": (tract.tract_id, tract.head, tract.current_branch),
            }

    def run(self, prelude: str, body: str, call: str, inputs: dict[str, Any]) -> ContainedRun:
        """Run an action's body, and return the outcome.

        Args:
            prelude: the code before the body, which makes the `pending`.
            body: the body as a function.
            call: the expression whose value is the output.
            inputs: more variables.

        Raises:
            RehearsalError: this machine cannot contain the code. Nothing ran.
        """
        from tract_jupyter.rehearsal import RehearsalLimits

        limits = RehearsalLimits(
            SECONDS,
            int(SECONDS),
            _MEMORY,
            processes=16,
            output=_MEGABYTE,
            disk=16 * _MEGABYTE,
            values=_MEGABYTE,
        )
        code = f"{prelude}{_CONTEXT if self._context else ''}\n{body}\n{_RESULT.format(call=call)}"
        rehearsal = self._rehearser.rehearse(code, {**self._context, **inputs}, limits=limits, compares=False)
        try:
            return _outcome(rehearsal.effects)
        finally:
            rehearsal.discard()


def _outcome(effects: Effects) -> ContainedRun:
    output: Any = None
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):  # the code may show any result
        text = next((one.text for one in reversed(effects.outputs) if one.kind == "result"), "")
        output = json.loads(ast.literal_eval(text))
    is_over = effects.ending in _ENDED
    return ContainedRun(
        output if effects.ending == "finished" else None,
        effects.ending_note or "an error" if effects.ending == "raised" else "",
        effects.ending_note or effects.ending if is_over else "",
        "".join(one.text for one in effects.outputs if one.kind == "text"),
        tuple(_effects(effects)),
    )


def _effects(effects: Effects) -> list[str]:
    verbs = {"created": "create", "changed": "change", "deleted": "delete"}
    files = [f"would {verbs[file.action]} {file.path}" for file in effects.files]
    refused = [f"tried to {refusal.action}" for refusal in effects.refused]
    named = [*files, *refused]
    more = len(named) - _MOST_NAMED
    return [*named[:_MOST_NAMED], *([f"{counted(more, 'more effect')}"] if more > 0 else [])]
