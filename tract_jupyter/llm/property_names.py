"""Replace names of properties that a provider refuses: in schemas of requests, and back in arguments of calls."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable

    Rename = Callable[[str], str]

_LONGEST: Final = 64
_ALLOWED: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_BY_PROPERTY: Final = frozenset({"properties", "dependentSchemas", "dependentRequired", "dependencies"})
"""Keywords whose value has an entry for each property."""
_BY_NAME: Final = frozenset({"$defs", "definitions", "patternProperties"})
"""Keywords whose value has an entry for each name of something else."""
_VALUES: Final = frozenset({"default", "const", "enum", "examples"})


class PropertyNames:
    """The names of properties in one request, by tool, on all levels of its schema."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, str]] = {}

    def schema(self, tool: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a tool with names that the provider accepts. A new name has the old one as its title."""
        given: dict[str, str] = {}
        _renamed(schema, lambda name: given.setdefault(name, name))
        sent: dict[str, str] = {}
        for name in given:
            if not _ALLOWED.fullmatch(name):
                sent[name] = _free(_REFUSED.sub("_", name)[:_LONGEST] or "_", {*given, *sent.values()})
        if not sent:
            return schema
        self._sent[tool] = sent
        return _renamed(schema, lambda name: sent.get(name, name))  # type: ignore[no-any-return] # a dict

    def sent(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as the provider is sent them."""
        names = self._sent.get(tool)
        return _with_keys(arguments, lambda name: names.get(name, name)) if names else arguments

    def restored(self, tool: str, arguments: str) -> str:
        """Return the arguments of a model's call, a JSON text, with the names of the tool's schema."""
        names = {sent: name for name, sent in self._sent.get(tool, {}).items()}
        if not any(name in arguments for name in names):
            return arguments
        try:
            found = _with_keys(json.loads(arguments), lambda name: names.get(name, name))
            return json.dumps(found, ensure_ascii=False)
        except (ValueError, RecursionError):  # the reader of the arguments reports that
            return arguments


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name[: _LONGEST - 4]}_{number}"
    return found


def _renamed(schema: Any, rename: Rename) -> Any:
    """Return a schema, or a list of them, with other names of properties."""
    if isinstance(schema, list):
        return [_renamed(one, rename) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _VALUES:
            made[keyword] = _with_keys(value, rename)
        elif keyword == "required":
            made[keyword] = _renamed_list(value, rename)
        elif keyword == "$ref" and isinstance(value, str):
            made[keyword] = _renamed_reference(value, rename)
        elif keyword in _BY_NAME and isinstance(value, dict):
            made[keyword] = {name: _renamed(one, rename) for name, one in value.items()}
        elif keyword in _BY_PROPERTY and isinstance(value, dict):
            made[keyword] = {rename(name): _property(name, one, rename) for name, one in value.items()}
        else:
            made[keyword] = _renamed(value, rename)
    return made


def _property(name: str, value: Any, rename: Rename) -> Any:
    if isinstance(value, list):
        return _renamed_list(value, rename)
    made = _renamed(value, rename)
    return {"title": name, **made} if isinstance(made, dict) and rename(name) != name else made


def _renamed_list(names: Any, rename: Rename) -> Any:
    return (
        [rename(one) if isinstance(one, str) else one for one in names] if isinstance(names, list) else names
    )


def _renamed_reference(reference: str, rename: Rename) -> str:
    parts = reference.split("/")
    for place, part in enumerate(parts[1:], 1):
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if parts[place - 1] == "properties" and rename(name) != name:
            parts[place] = rename(name)
    return "/".join(parts)


def _with_keys(value: Any, rename: Rename) -> Any:
    """Return a JSON value with other keys, on all levels."""
    if isinstance(value, dict):
        return {rename(name): _with_keys(one, rename) for name, one in value.items()}
    return [_with_keys(one, rename) for one in value] if isinstance(value, list) else value
