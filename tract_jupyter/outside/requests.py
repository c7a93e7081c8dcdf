"""Requests of an outside agent for permission, as requests of the one gate."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import PendingStatus, counted, one_line
from tract_jupyter.outside.calls import CUT
from tract_jupyter.outside.files import absolute, diff_of, expected, is_notebook, mark_of, real, shown
from tract_jupyter.review import CodeBlock, Pending, Subject, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tract_jupyter.outside.agents import AgentSettings
    from tract_jupyter.outside.calls import AnnouncedChange, SeenCall
    from tract_jupyter.outside.files import ExpectedFile

OUTSIDE_AGENT: Final = "outside_agent"
"""The operation of `PendingAgentRequest`, as its requests and rows name it."""
ACTOR: Final = "outside:"
"""The prefix of the actor of an outside agent."""
_ALWAYS: Final = re.compile(r"always|session|\ball\b|remember|don.t ask", re.IGNORECASE)
_READS: Final = frozenset({"read", "search", "fetch", "think"})
_SHORT: Final = 80
_MOST_FINDINGS: Final = 5
NOTEBOOK_FILE: Final = (
    "Do not change a .ipynb file: it may be open, and the open notebook would overwrite the change. "
    "Propose the code of the cell as text, or use a tool of the notebook"
)


class PendingAgentRequest(Pending):
    """An action of an outside agent. The agent carries it out after the approval, with all rights of the user.

    `actor` is the agent of the tree that runs on it; empty for none.
    """

    labels: Mapping[str, str] = {"approve": "Allow once", "reject": "Reject"}
    in_view = frozenset({"changes", "command", "agent", "folder", "title", "arguments", "tool", "kind"})

    def __init__(
        self, call: SeenCall, settings: AgentSettings, folder: Path, *, actor: str = "", **options: Any
    ) -> None:
        command = call.command(settings)
        fields = {
            "agent": settings.name,
            "tool": call.tool,
            "kind": call.kind,
            "title": call.title,
            "folder": str(folder),
            "command": command,
            "changes": [[one.path, one.before, one.after] for one in call.changes],
            "arguments": call.rest(command),
        }
        if not call.changes and not command and not fields["arguments"] and call.texts():
            fields["arguments"] = {"input": call.texts()}
        self._settings = settings
        self._folder = folder
        self._only_this = secrets.token_hex(8)
        self.changes = call.changes
        self._at_request = [mark_of(absolute(one.path, folder)) for one in call.changes]
        actor = actor or f"{ACTOR}{settings.name}"
        super().__init__(OUTSIDE_AGENT, fields=fields, actor=actor, **options)
        self.asked_earlier(None)  # the agent asks, and no line of code

    @property
    def is_unknown(self) -> bool:
        """True if the agent does not say what it would do."""
        return not (self.changes or self.fields["command"] or self.fields["arguments"])

    def notebook_file(self, open_file: Path | None) -> str:
        """Return the notebook file that it would change; empty for none."""
        paths = [change.path for change in self.changes]
        if self.fields["kind"] in {"edit", "delete", "move"} or self.fields["tool"] == "NotebookEdit":
            paths += _texts_in(self.fields["arguments"])
        return next((path for path in paths if is_notebook(path, self._folder, open_file)), "")

    def expected(self) -> list[ExpectedFile]:
        """Return the contents that its files may have after it."""
        files = [expected(change, self._folder) for change in self.changes]
        return [
            one._replace(changed_early=mark_of(one.path) != earlier)
            for one, earlier in zip(files, self._at_request, strict=True)
        ]

    def binding(self) -> Subject:
        """Bind the approval to the agent and everything that it said about the call.

        If that is not all, no recorded decision and no earlier request is identical.
        """
        is_whole = not self.is_unknown and CUT not in self.fields["arguments"]
        return Subject(OUTSIDE_AGENT, self._settings.name, "" if is_whole else self._only_this, self.fields)

    @property
    def title(self) -> str:
        """The action in words, without the agent's title."""
        who = self._settings.title
        if self.changes:
            first, more = self.changes[0], len(self.changes) - 1
            name = one_line(shown(absolute(first.path, self._folder), self._folder), _SHORT)
            verb = "empty or remove" if not first.after and first.before else "change"
            verb = ("overwrite" if self._at_request[0] else "create") if first.before is None else verb
            return f"{who} wants to {verb} {name}{f' and {more} more' if more else ''}"
        if self.fields["command"]:
            return f"{who} wants to run a shell command"
        return f"{who} wants to use its tool {self.fields['tool']}"

    def summary(self) -> str:
        """Say what an approval of a shell command means."""
        if not self.fields["command"]:
            return ""
        return (
            "A shell command has all your rights, also to the files of this kernel, to its connection and to your "
            "signing secret."
        )

    def why(self) -> str:
        """Return the limits of what is known about the request."""
        parts = [f"{self._settings.title} works in {self._folder} and waits for your decision."]
        if self.is_unknown:
            parts.append(
                "It does not say with which arguments. If you allow it, you allow any arguments of this tool, once."
            )
        if CUT in self.fields["arguments"]:
            parts.append("Its arguments are too long to be shown whole.")
        if self.fields["kind"] in _READS and (self.changes or self.fields["command"]):
            parts.append(f"It calls this a {self.fields['kind']}, which is wrong.")
        parts += self._about_diffs()
        outside = self._outside()
        if outside:
            parts.append(f"This is outside of the folder: {one_line(', '.join(outside), 200)}.")
        parts += ["It decides by itself when to ask."] if not self._settings.is_known else []
        return " ".join(parts)

    def _about_diffs(self) -> Iterator[str]:
        limits = [(one.limit, shown(one.path, self._folder)) for one in self.expected()]
        for limit in dict.fromkeys(limit for limit, _ in limits if limit):
            yield f"{limit}: {one_line(', '.join(name for one, name in limits if one == limit), 200)}."

    def _outside(self) -> list[str]:
        paths = [real(change.path, self._folder) for change in self.changes]
        return [str(path) for path in paths if not path.is_relative_to(self._folder.resolve())]

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the shell command and the diffs, with the findings of the analysis."""
        return (*self._command_blocks(), *map(self._change_block, self.changes))

    def _command_blocks(self) -> Iterator[CodeBlock]:
        command = self.fields["command"]
        if command:
            code = f"%%bash\n{command}" if "\n" in command else f"!{command}"
            yield self.tract.operations.advice.code_block("Shell command", code)

    def _change_block(self, change: AnnouncedChange) -> CodeBlock:
        name = one_line(shown(absolute(change.path, self._folder), self._folder), _SHORT)
        note = ""
        if change.path.endswith(".py"):
            if change.before is None and not mark_of(absolute(change.path, self._folder)):
                block: CodeBlock = self.tract.operations.advice.code_block(name, change.after)
                return replace(block, header="New file")
            found = self.tract.operations.advice.analyze(change.after).findings
            lines = [f"line {one.span.line} of the new text: {one.reason}" for one in found[:_MOST_FINDINGS]]
            more = len(found) - len(lines)
            note = "; ".join([*lines, *([f"and {counted(more, 'more finding')}"] if more > 0 else [])])
        return CodeBlock(name, diff_of(change, self._folder), language="diff", analysis_note=note)

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the arguments that the blocks do not show, and the agent's own words."""
        arguments = self.fields["arguments"]
        rows = tuple(
            ValueRow.of(one_line(str(name), _SHORT), type(value).__name__, value)
            for name, value in arguments.items()
        )
        tables = [ValueTable("Arguments", rows)] if rows else []
        words = [
            ValueRow.of("title", "str", self.fields["title"], "The agent's own words. They may be wrong."),
            ValueRow.of("tool", "str", self.fields["tool"]),
            ValueRow.of("kind", "str", self.fields["kind"]),
        ]
        return (*tables, ValueTable("Said by the agent", tuple(words), "nothing"))


def _texts_in(data: Any) -> Iterator[str]:
    """Yield the names and the texts in JSON data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        for value in data.values():
            yield from _texts_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts_in(value)


def once(options: Any, kind: str) -> str | None:
    """Return the id of the option that allows or rejects once. One that covers more is never chosen.

    An option that shares its id with another one is not clear.
    """
    found = [
        one for one in options if isinstance(one, dict) and one.get("kind") == kind and one.get("optionId")
    ] if isinstance(options, list) else []  # fmt: skip
    found = [
        one for one in found if [_option_id(other) for other in options].count(str(one["optionId"])) == 1
    ]
    if kind == "allow_once":
        found = [one for one in found if not _ALWAYS.search(f"{one['optionId']} {one.get('name')}")]
    return str(found[0]["optionId"]) if found else None


def _option_id(option: Any) -> str:
    return str(option.get("optionId")) if isinstance(option, dict) else ""


def outcome_for(pending: Pending, options: Any) -> dict[str, Any]:
    """Return the answer for the agent about a decided request."""
    is_approved = pending.status is PendingStatus.APPROVED
    option = once(options, "allow_once" if is_approved else "reject_once")
    return CANCELLED if option is None else {"outcome": {"outcome": "selected", "optionId": option}}


CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}
"""The answer to a request that nobody decided."""
