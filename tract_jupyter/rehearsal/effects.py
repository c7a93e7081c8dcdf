"""The effects of a rehearsal as one value: variables, files, output, tool calls, refused attempts and settings.

All texts are printable and bounded. `to_data` and `effects_from_data` write and read the JSON form that is stored with
a request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from tract_jupyter.exceptions import ContentError, RehearsalError
from tract_jupyter.models import counted, cut, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Action = Literal["created", "changed", "deleted"]
Ending = Literal["finished", "raised", "asked", "stopped", "limit", "crashed"]
OutputKind = Literal["text", "error", "display", "result", "figure"]

FOREIGN: Final = ", because its owner or group is not yours"
RANDOM_STATES: Final = ("random state of random", "random state of numpy")
"""Settings that looking may change: a sample of rows advances a generator."""

_MOST_NAMES: Final = 4  # of one sentence
_LONGEST_NAME: Final = 60


class _Stored:
    """A value that is stored with a request. An unknown field is an error of its reading."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid"}


class RowChange(NamedTuple):
    """A row of a table that differs, with its cells as text.

    Attributes:
        kind: The row was added, removed or changed.
        row: Its position from 0, after the change; for a removed row, before it.
        before: The cells before, in the order of the columns. Empty for an added row.
        after: The cells after. Empty for a removed row.
    """

    kind: Literal["added", "removed", "changed"]
    row: int | None
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableChange(_Stored):
    """The difference between two versions of a table.

    Attributes:
        rows_before: The number of rows before. None if there was no table.
        rows_after: The number of rows after. None if the table was deleted.
        columns: The columns of `sample`.
        added_columns: Names of new columns.
        removed_columns: Names of columns that no longer exist.
        new_types: (column, type before, type after) for each column whose type changed.
        added_rows: The number of new rows.
        removed_rows: The number of removed rows.
        changed_cells: (column, number of changed cells) for the rows that exist before and after.
        sample: Some of the rows that differ.
        is_reordered: The rows that exist before and after have another order.
    """

    rows_before: int | None = None
    rows_after: int | None = None
    columns: tuple[str, ...] = ()
    added_columns: tuple[str, ...] = ()
    removed_columns: tuple[str, ...] = ()
    new_types: tuple[tuple[str, str, str], ...] = ()
    added_rows: int = 0
    removed_rows: int = 0
    changed_cells: tuple[tuple[str, int], ...] = ()
    sample: tuple[RowChange, ...] = ()
    is_reordered: bool = False

    @property
    def summary(self) -> str:
        """One line: `date becomes datetime64; 23 rows removed; 57 values of name changed`."""
        parts = [
            *(f"{cut(name, _LONGEST_NAME)} becomes {kind}" for name, _, kind in self.new_types[:_MOST_NAMES]),
            _columns(self.added_columns, "added"),
            _columns(self.removed_columns, "removed"),
            f"{counted(self.added_rows, 'row')} added" if self.added_rows else "",
            f"{counted(self.removed_rows, 'row')} removed" if self.removed_rows else "",
            *(
                f"{counted(number, 'value')} of {cut(name, _LONGEST_NAME)} changed"
                for name, number in self.changed_cells[:_MOST_NAMES]
            ),
            _more(len(self.new_types) - _MOST_NAMES, "column"),
            _more(len(self.changed_cells) - _MOST_NAMES, "changed column"),
            "rows in another order" if self.is_reordered else "",
        ]
        return "; ".join(part for part in parts if part)


def _columns(names: Sequence[str], action: str) -> str:
    if not names:
        return ""
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {_joined(names)} {action}"


def _more(number: int, noun: str) -> str:
    return f"{number:,} more {noun}{'s' if number > 1 else ''}" if number > 0 else ""


@dataclass(frozen=True, slots=True)
class VariableEffect(_Stored):
    """The effect on one variable.

    Attributes:
        name: The variable.
        action: Created, changed or deleted.
        before: A description of the old value: `DataFrame, 432 × 4`. Empty if there was none.
        after: A description of the new value. Empty if the variable was deleted.
        detail: The difference in one line. May be empty.
        table: The difference between two tables.
        problem: The reason why the new value cannot be kept. Empty if it can.
        aliases: Other names that refer to the object that would be replaced.
        is_import: True if the code's own `import` binds a name that had no value. Such an effect does not count as an
            effect to keep.
        is_left_out: True if the new value is a drawing, such as a `Figure` or `Axes`. Its picture is in the outputs. It
            has no safe form, so keeping the effects leaves the variable as it is.
    """

    name: str
    action: Action
    before: str = ""
    after: str = ""
    detail: str = ""
    table: TableChange | None = None
    problem: str = ""
    aliases: tuple[str, ...] = ()
    is_import: bool = False
    is_left_out: bool = False


@dataclass(frozen=True, slots=True)
class FileEffect(_Stored):
    """The effect on one file of the workspace.

    Attributes:
        path: The path below the workspace, with `/`.
        action: Created, changed or deleted.
        size_before: Bytes before. None if there was no file.
        size_after: Bytes after. None if the file was deleted.
        detail: The difference in one line. May be empty.
        diff: A unified diff of a text file, cut if it is long.
        table: The difference by rows, for a table file.
        problem: The reason why the file cannot be kept. Empty if it can.
    """

    path: str
    action: Action
    size_before: int | None = None
    size_after: int | None = None
    detail: str = ""
    diff: str = ""
    table: TableChange | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Output(_Stored):
    """A piece of output, in the order of the output.

    Attributes:
        kind: Printed text, a traceback, a display, the result of the last expression, or a figure.
        text: The output as text.
        data: The MIME bundle of a rich output. The values of binary types are bytes.
    """

    kind: OutputKind
    text: str = ""
    data: Mapping[str, str | bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RehearsedCall(_Stored):
    """A tool call that the code made.

    Attributes:
        tool: The name of the tool.
        arguments: The arguments as text.
        is_answered: False if the call needs approval. The rehearsal ended there.
    """

    tool: str
    arguments: str = ""
    is_answered: bool = True


@dataclass(frozen=True, slots=True)
class RefusedAttempt(_Stored):
    """An attempt that the containment refused.

    Attributes:
        action: The attempt, as a command: `connect to api.example.com:443`.
        times: The number of attempts.
        line: The line of the code, from 1. None if unknown.
    """

    action: str
    times: int = 1
    line: int | None = None

    @property
    def is_foreign(self) -> bool:
        """True if the reason is the owner or the group of a file."""
        return self.action.endswith(FOREIGN)


@dataclass(frozen=True, slots=True)
class SettingEffect(_Stored):
    """A changed setting of the process: `os.environ['X']`, `working folder`, `plt.rcParams['figure.dpi']`.

    Attributes:
        name: The setting.
        before: The old value as text. Empty if there was none.
        after: The new value as text. Empty if it was removed.
        problem: The reason why the setting cannot be kept. Empty if it can.
    """

    name: str
    before: str = ""
    after: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Effects(_Stored):
    """All effects of one rehearsal.

    Attributes:
        level: The containment: `full`, or `basic` without writing of files.
        engine: A fork of the kernel, or a fresh worker.
        ending: How the code ended: finished, raised an error, asked for approval of a tool call, stopped by the user,
            stopped by a limit, or crashed.
        ending_note: The error, the limit or the signal in one line.
        seconds: Duration of the rehearsal.
        variables: Created, changed and deleted variables.
        files: Created, changed and deleted files.
        outputs: The output.
        calls: Tool calls.
        refused: Attempts that were refused.
        settings: Changed settings of the process.
        digest: SHA-256 over the code and all received data. An approval binds it.
    """

    level: Literal["full", "basic"] = "full"
    engine: Literal["fork", "worker"] = "fork"
    ending: Ending = "finished"
    ending_note: str = ""
    seconds: float = 0.0
    variables: tuple[VariableEffect, ...] = ()
    files: tuple[FileEffect, ...] = ()
    outputs: tuple[Output, ...] = ()
    calls: tuple[RehearsedCall, ...] = ()
    refused: tuple[RefusedAttempt, ...] = ()
    settings: tuple[SettingEffect, ...] = ()
    digest: str = ""

    @property
    def is_complete(self) -> bool:
        """The code finished, all its tool calls were answered, and nothing was refused."""
        return self.ending == "finished" and not self.refused and all(call.is_answered for call in self.calls)

    @property
    def is_empty(self) -> bool:
        """The code only looked: complete, and no file, setting or kept variable would change."""
        has_variables = not all(variable.is_import or variable.is_left_out for variable in self.variables)
        has_settings = not all(setting.name in RANDOM_STATES for setting in self.settings)
        return self.is_complete and not (has_variables or self.files or has_settings)

    @property
    def can_be_kept(self) -> bool:
        """The code is complete, and each effect has a safe form."""
        return self.is_complete and not self.problems

    @property
    def defines_functions(self) -> bool:
        """A kept effect is a function, whose body runs later. So the code must be read before it is kept."""
        return any(one.after.startswith("function ") and not one.is_import for one in self.variables)

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons why effects cannot be kept: `model: a LinearRegression has no safe form`."""
        named = [(variable.name, variable.problem) for variable in self.variables]
        named += [(file.path, file.problem) for file in self.files]
        named += [(setting.name, setting.problem) for setting in self.settings]
        return tuple(f"{name}: {problem}" for name, problem in named if problem)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of variables whose new values are drawings. Keeping the effects does not change these variables."""
        return tuple(one.name for one in self.variables if one.is_left_out)

    @property
    def headline(self) -> str:
        """The effects as short sentences, without the details of a table."""
        sentences = [
            *self._ending(),
            *_variables([one for one in self.variables if not (one.is_import or one.is_left_out)]),
            *_files(self.files),
            *self._others(),
        ]
        return " ".join(sentences) or "No effects."

    def _ending(self) -> Iterable[str]:
        note = self.ending_note.rstrip(".")
        sentence = _ENDINGS[self.ending]
        if sentence:
            yield f"{sentence}: {note}." if note else f"{sentence}."
        if self.refused:
            actions = [refusal.action for refusal in self.refused]
            yield f"Was refused: {_joined(actions)}."
        waiting = [call.tool for call in self.calls if not call.is_answered]
        if waiting:
            yield f"Needs approval to call {_joined([f'`{tool}`' for tool in waiting])}."

    def _others(self) -> Iterable[str]:
        settings = [setting.name for setting in self.settings if setting.name not in RANDOM_STATES]
        if settings:
            yield f"Changes {_joined(settings)}."
        figures = sum(output.kind == "figure" for output in self.outputs)
        if figures:
            yield "Shows a figure." if figures == 1 else f"Shows {figures} figures."
        if self.left_out:
            yield f"Not kept: {_joined([f'`{name}`' for name in self.left_out])}."

    def text(self, limit: int = 20_000) -> str:
        """Return the output in order, as text of at most `limit` characters."""
        parts: list[str] = []
        for output in self.outputs:
            if parts and output.kind != "text" and not parts[-1].endswith("\n"):
                parts.append("\n")
            parts.append(output.text or _mime_text(output))
        return cut("".join(parts), limit)

    def to_data(self) -> dict[str, Any]:
        """Return the JSON form. Binary output is Base64."""
        data: dict[str, Any] = _as_data(self)
        return data


_ENDINGS: Final[dict[Ending, str]] = {
    "finished": "",
    "raised": "Raises an error",
    "asked": "",
    "stopped": "Was stopped",
    "limit": "Reached a limit",
    "crashed": "Crashed",
}
_VERBS: Final[dict[Action, str]] = {"created": "Creates", "changed": "Changes", "deleted": "Deletes"}
_FILE_VERBS: Final[dict[Action, str]] = {"created": "Creates", "changed": "Overwrites", "deleted": "Deletes"}


def _joined(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b, c, d and 3 more`."""
    return _joined_whole([cut(name, _LONGEST_NAME) for name in names])


def _variables(effects: Sequence[VariableEffect]) -> Iterable[str]:
    for action, verb in _VERBS.items():
        chosen = [effect for effect in effects if effect.action == action]
        if not chosen:
            continue
        if action == "changed" and len(chosen) == 1 and chosen[0].detail:
            yield f"Changes `{cut(chosen[0].name, _LONGEST_NAME)}`: {chosen[0].detail}."
            continue
        names = [f"`{cut(effect.name, _LONGEST_NAME)}`" for effect in chosen]
        if action == "created":
            names = [f"{name} ({_short(one.after)})" for name, one in zip(names, chosen, strict=True)]
        yield f"{verb} {_joined_whole(names)}."


def _joined_whole(names: Sequence[str]) -> str:
    """Join parts that are bounded already."""
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _short(description: str) -> str:
    """Return `409 × 4` for `DataFrame, 409 × 4`, and other descriptions in full."""
    kind, _, shape = description.partition(", ")
    return shape if kind in {"DataFrame", "Table"} and shape else cut(description, _LONGEST_NAME)


def _files(effects: Sequence[FileEffect]) -> Iterable[str]:
    for action, verb in _FILE_VERBS.items():
        chosen = [effect for effect in effects if effect.action == action]
        if not chosen:
            continue
        if len(chosen) == 1 and chosen[0].detail:
            yield f"{verb} {cut(chosen[0].path, _LONGEST_NAME)}: {chosen[0].detail}."
            continue
        yield f"{verb} {_joined([effect.path for effect in chosen])}."


def _mime_text(output: Output) -> str:
    kinds = [
        f"{mime}, {size_text(len(value))}" if isinstance(value, bytes) else mime
        for mime, value in output.data.items()
    ]
    return f"[{output.kind}: {'; '.join(kinds) or 'empty'}]\n"


# The JSON form. Each class has its fields by name. Bytes are an object with their Base64.


def _as_data(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {key: _as_data(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_as_data(item) for item in value]
    if is_dataclass(value):
        return {each.name: _as_data(getattr(value, each.name)) for each in fields(value)}
    return value


def effects_from_data(data: Any) -> Effects:
    """Return the effects of the JSON form.

    Raises:
        RehearsalError: the data does not have this form.
    """
    try:
        outputs = [_read_output(output) for output in data.get("outputs", ())]
        effects: Effects = _read(Effects, {**data, "outputs": []})
    except (AttributeError, TypeError, ValueError, KeyError, ContentError) as error:
        raise RehearsalError(
            f"The stored effects cannot be read: {error}. Another version may have written them. Rehearse again."
        ) from None
    return replace(effects, outputs=tuple(outputs))


def _read_output(data: Any) -> Output:
    bundle = data.get("data", {})
    texts = {mime: value for mime, value in bundle.items() if isinstance(value, str)}
    output: Output = _read(Output, {**data, "data": texts})
    contents = {mime: texts[mime] if mime in texts else _read_bytes(value) for mime, value in bundle.items()}
    return replace(output, data=contents)


def _read(kind: type, data: dict[str, Any]) -> Any:
    from tract_jupyter.models import read_as  # it loads pydantic

    return read_as(kind, data, ContentError)


def _read_bytes(data: Any) -> bytes:
    return base64.b64decode(data["base64"], validate=True)
