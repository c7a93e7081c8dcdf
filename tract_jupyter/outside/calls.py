"""The tool calls of an outside agent, joined from its messages by their ids.

Agents differ: a request for permission may have the arguments, the diff, both or neither, and an earlier message may
have the rest. The title is a text of the agent, so nothing is derived from it.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import ToolCall, canonical_json, one_line
from tract_jupyter.outside.files import absolute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tract_jupyter.outside.agents import AgentSettings

CUT: Final = "cut"
"""The only argument of a call whose arguments are too large. It has their beginning."""
_LONGEST_ARGUMENTS: Final = 64_000
_LONGEST_TITLE: Final = 300
_NAME_LENGTH: Final = 64
_ENDED: Final = frozenset({"completed", "failed"})
_PATHS: Final = ("file_path", "filePath", "path", "notebook_path", "abs_path")
_BEFORE: Final = ("old_string", "oldString", "old_str", "oldText")
_AFTER: Final = ("new_string", "newString", "new_str", "newText", "content", "file_text")


class AnnouncedChange(NamedTuple):
    """A change of a file that the agent announces.

    Attributes:
        path: the path as the agent writes it.
        before: the replaced text, a part or the whole file; None for a new file.
        after: the new text.
    """

    path: str
    before: str | None
    after: str


class ApprovedCall(NamedTuple):
    """The parts of a call that an approval covers.

    Attributes:
        arguments: the arguments as texts.
        command: the shell command; empty for none.
        paths: the files that it changes.
    """

    arguments: Mapping[str, str]
    command: str
    paths: frozenset[Path]

    def covers(self, now: ApprovedCall) -> bool:
        """Return True if a later report is of the same call. It may use other names, and add arguments."""
        is_same = all(now.arguments.get(name, value) == value for name, value in self.arguments.items())
        return is_same and now.command == self.command and now.paths <= self.paths


@dataclass(eq=False)
class SeenCall:
    """A call with all that the agent said about it so far.

    Attributes:
        number: its place in the turn.
        prefix: makes our id unique.
        call_id: our id of the call.
        data: the joined fields of its messages.
        announced: the diffs of the last message that has some.
        is_committed: True if it is in the history.
        is_answered: True if its answer is in the history.
        answer: the commit of an answer that said that the call still ran; empty for none.
        is_begun: True if the agent carries it out.
        is_rejected: True if the user rejected it.
        committed_arguments: its arguments in the history; None if it is not there.
        approved: its parts when the user approved it. None without an approval, and after a difference is reported.
    """

    number: int
    prefix: str
    data: dict[str, Any] = field(default_factory=dict)
    announced: tuple[AnnouncedChange, ...] = ()
    is_committed: bool = False
    is_answered: bool = False
    is_begun: bool = False
    is_rejected: bool = False
    answer: str = ""
    committed_arguments: Mapping[str, Any] | None = None
    approved: ApprovedCall | None = None

    @property
    def call_id(self) -> str:
        """Our id of the call. The agent's may repeat, or may not be valid for a provider."""
        return f"outside-{self.prefix}-{self.number}"

    def merge(self, update: Mapping[str, Any]) -> None:
        """Add the fields of a message. An empty value does not replace an earlier one."""
        self.announced = tuple(_changes_in(update.get("content"))) or self.announced
        for name, value in update.items():
            if name == "_meta":
                self.data["_meta"] = {
                    **self.data.get("_meta", {}),
                    **(value if isinstance(value, dict) else {}),
                }
            elif value not in (None, {}, [], ""):
                self.data[name] = value

    @property
    def changes(self) -> tuple[AnnouncedChange, ...]:
        """The changes of files that its diffs announce, or else its last arguments."""
        return self.announced or tuple(_changes_of(self.raw))

    @property
    def raw(self) -> Any:
        """The arguments as the agent sent them; None if it sent none."""
        return self.data.get("rawInput")

    @property
    def status(self) -> str:
        """The status of the call in words of ACP."""
        return str(self.data.get("status") or "pending")

    @property
    def has_ended(self) -> bool:
        """True if the agent says that the call ended."""
        return self.status in _ENDED

    @property
    def kind(self) -> str:
        """The kind of the call in words of ACP."""
        return _word(self.data.get("kind")) or "other"

    @property
    def tool(self) -> str:
        """The name of the tool, or the kind if the agent does not name it."""
        claude = self.data.get("_meta", {}).get("claudeCode")
        named = claude.get("toolName") if isinstance(claude, dict) else None
        return _word(self.data.get("name")) or _word(named) or self.kind

    @property
    def title(self) -> str:
        """The agent's title of the call, in one line."""
        return one_line(str(self.data.get("title") or ""), _LONGEST_TITLE)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call for the history."""
        raw = self.raw if isinstance(self.raw, dict) else {} if self.raw is None else {"input": self.raw}
        if not raw and self.changes:
            raw = {"path": self.changes[0].path}
        if not raw:
            raw = {"title": self.title} if self.title else {}
        return bounded(raw)

    @property
    def tool_call(self) -> ToolCall:
        """The call for the history."""
        return ToolCall(self.call_id, self.tool, self.arguments)

    def command(self, settings: AgentSettings) -> str:
        """Return the shell command of the call; empty if it is another call, or unknown."""
        _, command = _command_in(self.raw)
        if command:
            return command
        return self.title if settings.title_is_command and self.kind == "execute" else ""

    def rest(self, command: str) -> dict[str, Any]:
        """Return the arguments that neither the changes nor the command show."""
        raw = self.raw if isinstance(self.raw, dict) else {} if self.raw is None else {"input": self.raw}
        name, told = _command_in(raw)
        hidden = {name} if told and told == command else set()
        if self.changes and tuple(_changes_of(raw)) == self.changes:
            hidden |= {_name_in(raw, names) for names in (_PATHS, _BEFORE, _AFTER)} - {""}
        return bounded({name: value for name, value in raw.items() if name not in hidden})

    def is_of_server(self, name: str, settings: AgentSettings, options: Any = ()) -> bool:
        """Return True if the call is one of a tool of this MCP server, which the agent got from us.

        Only fields that the agent's program fills count. Its model writes arguments, and the titles of most agents. A
        call with a diff is another one.
        """
        if self.announced:
            return False
        if settings.server_option:
            return any(one.get("optionId") == settings.server_option for one in dicts(options))
        if settings.title_is_tool and self.kind == "other" and not (self.raw or self.changes):
            return re.fullmatch(rf"{re.escape(name)}_\w+", self.title) is not None
        meta = self.data.get("_meta", {})
        claude = meta.get("claudeCode")
        server = claude.get("mcpServer") if isinstance(claude, dict) else None
        if isinstance(server, dict):
            return bool(server.get("name") == name and server.get("source") == "dynamic")
        raw = self.raw if isinstance(self.raw, dict) else {}
        is_ours = meta.get("is_mcp_tool_approval") is True and raw.get("server") == name
        return is_ours and not _command_in(raw)[0]

    def as_approved(self, settings: AgentSettings, folder: Path) -> ApprovedCall:
        """Return the parts of the call that an approval covers now."""
        raw = self.raw if isinstance(self.raw, dict) else {}
        arguments = {name: canonical_or_repr(value) for name, value in raw.items()}
        changes = [*self.changes, *_changes_of(raw)]
        paths = frozenset(absolute(one.path, folder) for one in changes)
        return ApprovedCall(arguments, self.command(settings), paths)

    def texts(self) -> str:
        """Return the texts of its content, such as arguments that are sent as text."""
        return "\n".join(_texts_in(self.data.get("content")))

    def outcome(self) -> str:
        """Return the result as a text."""
        parts = [self.texts()]
        parts += [f"{'Created' if one.before is None else 'Changed'} {one.path}" for one in self.changes]
        output = self.data.get("rawOutput")
        if not parts[0] and output is not None:
            parts.append(output if isinstance(output, str) else canonical_or_repr(output))
        late = self.committed_arguments is not None and self.arguments != self.committed_arguments
        parts += [f"Called with: {canonical_or_repr(self.arguments)}"] if late else []
        return sound("\n".join(filter(None, parts)))


def sound(text: str) -> str:
    """Return a text that can be stored: without lone surrogates and zero characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def bounded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that can be stored. If they are too large, return their beginning as one text."""
    text = canonical_or_repr(arguments)
    if len(text) > _LONGEST_ARGUMENTS:
        return {CUT: f"{text[:_LONGEST_ARGUMENTS]} … ({len(text):,} characters)"}
    data = dict(json.loads(sound(json.dumps(dict(arguments), ensure_ascii=False))))
    try:
        canonical_json(data)
    except ContentError:  # such as NaN, which some agents send
        return {"input": text}
    return data


def canonical_or_repr(value: Any) -> str:
    """Return JSON data as a text. Numbers that JSON does not have are allowed."""
    try:
        return sound(canonical_json(value))
    except ContentError:  # such as NaN
        return sound(repr(value))


def _word(value: Any) -> str:
    """Return a name with characters that all providers accept; empty for anything else."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", value)[:_NAME_LENGTH] if isinstance(value, str) else ""


def dicts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the dicts in a list. An agent may send anything."""
    yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def _changes_in(content: Any) -> Iterator[AnnouncedChange]:
    for one in dicts(content):
        path, before, after = one.get("path"), one.get("oldText"), one.get("newText")
        if one.get("type") == "diff" and isinstance(path, str) and isinstance(after, str):
            yield AnnouncedChange(
                sound(path), sound(before) if isinstance(before, str) else None, sound(after)
            )


def _changes_of(raw: Any) -> Iterator[AnnouncedChange]:
    """Yield the change that arguments describe, such as a path and a text."""
    if not isinstance(raw, dict):
        return
    names = [_name_in(raw, some) for some in (_PATHS, _BEFORE, _AFTER)]
    path, before, after = (raw[name] if name else None for name in names)
    if path is not None and after is not None:
        yield AnnouncedChange(sound(path), None if before is None else sound(before), sound(after))


def _name_in(raw: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of the names whose argument is a text; empty for none."""
    return next((name for name in names if isinstance(raw.get(name), str)), "")


def _command_in(raw: Any) -> tuple[str, str]:
    """Return the name and the text of the argument that is a shell command; empty for none."""
    name = "command" if isinstance(raw, dict) and "command" in raw else "cmd"
    value = raw.get(name) if isinstance(raw, dict) else None
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return name, sound(shlex.join(value))
    return (name, sound(value)) if isinstance(value, str) and value.strip() else ("", "")


def _texts_in(content: Any) -> Iterator[str]:
    for one in dicts(content):
        inner = one.get("content")
        text = inner.get("text") if isinstance(inner, dict) else None
        if isinstance(text, str):
            yield sound(text)
