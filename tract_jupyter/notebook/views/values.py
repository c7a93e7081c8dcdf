"""Values of the package as tables: the fields of a value, a list of values, and the methods of a part of a tract."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from inspect import getdoc, isfunction, signature
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import counted, local_time, one_line
from tract_jupyter.notebook.views.html import Grid, GridView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_ROWS: Final = 50
_MOST_COLUMNS, _FEW = 6, 3
_WIDE, _NARROW = 200, 60  # the widths of cells in a table of fields, and in a list of values
_HASH: Final = re.compile(r"[0-9a-f]{32,64}")
_SHORT_HASH: Final = 8
_CONTENTS: Final = frozenset({"ChatResponse", "ToolResult"})
_UNSAID: Final = frozenset({"tract_id", "token_counter"})  # the same in each row


def value_view(value: object) -> GridView:
    """Return a value as its sentence if it has one, else as a table of its fields."""
    if _has_description(value):
        sentence = str(value)
        heads = [getattr(value, name, None) for name in ("old_head", "new_head")]
        moved = " → ".join(head[:_SHORT_HASH] for head in heads if head)
        return GridView(sentence[:1].upper() + sentence[1:], (f"HEAD {moved}",) if moved else ())
    fields = _fields(value)
    several = {name: part for name, part in fields.items() if _is_table(part)}
    cells = {name: _cell(part, _WIDE) for name, part in fields.items() if name not in several}
    rows = tuple((_words(name), text) for name, text in cells.items() if text)
    grids = [Grid(("Field", "Value"), rows)]
    grids += [_grid(part[:MOST_ROWS], _words(name)) for name, part in several.items()]
    return GridView(_words(_noun(value)), () if rows else ("Empty.",), tuple(grids))


def list_view(values: Sequence[Any]) -> GridView:
    """Return values of one type as a table with a row for each."""
    note = f"The first {MOST_ROWS} are shown." if len(values) > MOST_ROWS else ""
    title = counted(len(values), _noun(values[0])).replace("entrys", "entries").replace("branchs", "branches")
    return GridView(title, (note,) if note else (), (_grid(values[:MOST_ROWS]),))


def part_view(part: object) -> GridView:
    """Return a part of a tract: its purpose, its state if it has a text, and its methods."""
    kind = type(part)
    purpose = (getdoc(kind) or "").partition("\n")[0]
    state = repr(part).strip("<>") if kind.__repr__ is not object.__repr__ else ""
    methods = {
        name: method for name, method in vars(kind).items() if not name.startswith("_") and isfunction(method)
    }
    methods = {
        name: method for name, method in methods.items() if "connection" not in signature(method).parameters
    }
    rows = tuple(
        (_call(name, method), (getdoc(method) or "").partition("\n")[0]) for name, method in methods.items()
    )
    grid = Grid(("Method", "Purpose"), rows, code=frozenset({"Method"}))
    return GridView(kind.__name__, tuple(filter(None, (purpose, state))), (grid,))


def is_shown(value: object) -> bool:
    """Return True for a value with fields whose class belongs to this package."""
    return type(value).__module__.startswith("tract_jupyter.") and _field_names(type(value)) is not None


def _grid(values: Sequence[Any], title: str = "") -> Grid:
    rows = [{name: _cell(part, _NARROW) for name, part in _fields(value).items()} for value in values]
    names = [name for name in rows[0] if name not in _UNSAID and any(row.get(name) for row in rows)][
        :_MOST_COLUMNS
    ]
    numbers = {name for name in names if all(_is_number(_fields(value).get(name)) for value in values)}
    heads = {name: _words(name) for name in names}
    body = tuple(tuple(row.get(name, "") for name in names) for row in rows)
    return Grid(tuple(heads.values()), body, title, right=frozenset(heads[name] for name in numbers))


def _fields(value: Any) -> Mapping[str, Any]:
    names = _field_names(type(value)) or ()
    return {name: getattr(value, name) for name in names if not name.startswith("_")}


def _field_names(kind: type) -> Sequence[str] | None:
    """Return the fields of a dataclass, a named tuple or a pydantic model; None for any other class."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    names = getattr(kind, "_fields", None) if issubclass(kind, tuple) else getattr(kind, "model_fields", None)
    return None if names is None else list(names)


def _is_table(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(is_shown, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any, limit: int) -> str:
    """Return a value as the text of a cell; empty for no value."""
    if value is None or (isinstance(value, str | list | tuple | dict | set | frozenset) and not value):
        return ""
    written = next((write for kind, write in _WRITTEN.items() if isinstance(value, kind)), None)
    if written is not None:
        return written(value)
    if is_shown(value) and not _has_description(value):
        value = _fields(value)
    if isinstance(value, dict):
        cells = {name: _cell(part, limit) for name, part in value.items()}
        return _shortened(", ".join(f"{name}={text}" for name, text in cells.items() if text), limit)
    if isinstance(value, list | tuple | set | frozenset) and not is_shown(value):
        is_short = len(value) <= _FEW
        return (
            _shortened(", ".join(_cell(part, limit) for part in value), limit)
            if is_short
            else counted(len(value), "item")
        )
    return _shortened(str(value).strip("<>"), limit)


_WRITTEN: Final[Mapping[type, Callable[[Any], str]]] = {
    bool: lambda value: "yes" if value else "no",
    Enum: lambda value: str(value.value),
    datetime: local_time,
    int: "{:,}".format,
    float: "{:,.4g}".format,
}


def _has_description(value: object) -> bool:
    """Return True if the text of a value describes it. The text of a reply or an output is its content instead."""
    kind = type(value)
    base_type = next(base for base in kind.__mro__ if "__str__" in vars(base))
    return base_type.__module__.startswith("tract_jupyter.") and kind.__name__ not in _CONTENTS


def _shortened(text: str, limit: int) -> str:
    return one_line(_HASH.sub(lambda found: found[0][:_SHORT_HASH], text), limit)


def _noun(value: object) -> str:
    """Return the name of a class in words: `CommitInfo` is a commit."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(value).__name__).lower()
    return words.removeprefix("stored ").removesuffix(" info")


def _words(name: str) -> str:
    words = name.replace("_", " ").removesuffix(" hash")
    return words[:1].upper() + words[1:]


def _call(name: str, method: Any) -> str:
    names = [parameter for parameter in signature(method).parameters if parameter != "self"]
    return f"{name}({', '.join(names[:_FEW])}{', …' if len(names) > _FEW else ''})"
