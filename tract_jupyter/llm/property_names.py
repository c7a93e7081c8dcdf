"""Replace names of properties that a provider refuses: in schemas of requests, and back in arguments of calls."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tract_jupyter.exceptions import SpecError
from tract_jupyter.models.schema import JsonSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Rename = Callable[[str], str]
    RenameIn = Callable[[dict[str, Any], Any], Any]

_LONGEST: Final = 64
_ALLOWED: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_BY_PROPERTY: Final = frozenset({"properties", "dependentSchemas", "dependentRequired", "dependencies"})
"""Keywords whose value has an entry for each property."""
_BY_NAME: Final = frozenset({"$defs", "definitions", "patternProperties"})
"""Keywords whose value has an entry for each name of something else."""
_VALUES: Final = frozenset({"default", "const", "enum", "examples"})
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("items", "additionalItems", "unevaluatedItems", "contains")


class PropertyNames:
    """The names of properties in one request, by tool, on all levels of its schema."""

    def __init__(self) -> None:
        self._renamings: dict[str, _Renaming] = {}

    def schema(self, tool: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a tool with names that the provider accepts. A new name has the old one as its title."""
        original: dict[str, str] = {}
        _renamed(schema, lambda name: original.setdefault(name, name), lambda _, value: value)
        sent: dict[str, str] = {}
        for name in original:
            if not _ALLOWED.fullmatch(name):
                sent[name] = _free(_REFUSED.sub("_", name)[:_LONGEST] or "_", {*original, *sent.values()})
        if not sent:
            return schema
        try:
            renaming = _Renaming(schema, sent)
        except SpecError:  # arguments cannot be matched with the schema
            return schema
        self._renamings[tool] = renaming
        return renaming.schema(schema)

    def sent(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with the names of the request."""
        renaming = self._renamings.get(tool)
        return renaming.value(arguments) if renaming else arguments

    def restored(self, tool: str, arguments: str) -> str:
        """Return the arguments of a model's call, a JSON text, with the names of the tool's schema."""
        renaming = self._renamings.get(tool)
        if renaming is None or not any(name in arguments for name in renaming.sent.values()):
            return arguments
        try:
            return json.dumps(renaming.value(json.loads(arguments), restores=True), ensure_ascii=False)
        except (ValueError, RecursionError):  # the reader of the arguments reports that
            return arguments


class _Renaming:
    """The new names of properties in one schema, and in values. A key of free-form data keeps its name.

    Args:
        schema: with the names of the tool.
        sent: the new names by those.
    """

    def __init__(self, schema: dict[str, Any], sent: dict[str, str]) -> None:
        self.sent = sent
        self._root = JsonSchema(schema).root

    def schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the new names."""
        renamed: dict[str, Any] = _renamed(schema, self._rename, self._value_of)
        return renamed

    def value(self, value: Any, *, restores: bool = False) -> Any:
        """Return a value with the new names, or with `restores`, with the tool's original names."""
        return self._value(value, [self._root], restores=restores)

    def _value_of(self, schema: dict[str, Any], value: Any) -> Any:
        return self._value(value, [self._root.within(schema)])

    def _rename(self, name: str) -> str:
        return self.sent.get(name, name)

    def _value(self, value: Any, nodes: Iterable[Any], *, restores: bool = False) -> Any:
        nodes = _of_the_same_value(nodes)
        if isinstance(value, list):
            return [
                self._value(item, _items(nodes, place), restores=restores) for place, item in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        names: set[str] = {name for node in nodes for name in _names_in(node.schema)}
        known = {self._rename(name): name for name in names}
        renamed: dict[str, Any] = {}
        for key, item in value.items():
            name = str(known.get(key, key) if restores else key)
            new = name if restores or key not in names else self._rename(key)
            if new != key and new in value:  # the value has both names
                new = key
            renamed[new] = self._value(item, _properties(nodes, name), restores=restores)
        return renamed


def _of_the_same_value(nodes: Iterable[Any]) -> list[Any]:
    """Return the schemas, and all that apply to the same value as one of them."""
    schemas: dict[int, Any] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node.schema, dict) and id(node.schema) not in schemas:
            schemas[id(node.schema)] = node
            waiting += node.of_the_same_value()
    return list(schemas.values())


def _names_in(schema: Any) -> Iterator[str]:
    """Yield the names of properties in a schema."""
    yield from schema.get("required", ())
    for keyword in _BY_PROPERTY:
        for name, part in schema.get(keyword, {}).items():
            yield from (name, *(part if isinstance(part, list) else ()))


def _properties(nodes: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield the schemas of a property. Patterns are not matched, so the result includes the schemas of all patterns."""
    for node in nodes:
        schema = node.schema
        parts = [*schema.get("patternProperties", {}).values()]
        if name in schema.get("properties", {}):
            parts.append(schema["properties"][name])
        else:
            parts += (schema[keyword] for keyword in _OTHERS if keyword in schema)
        yield from map(node.within, parts)


def _items(nodes: Iterable[Any], place: int) -> Iterator[Any]:
    """Yield the schemas of an item of a list."""
    for node in nodes:
        keywords = [node.schema.get(keyword) for keyword in ("prefixItems", "items")]
        first = next((value for value in keywords if isinstance(value, list)), [])
        parts = [first[place]] if place < len(first) else [node.schema.get(keyword) for keyword in _ITEMS]
        yield from map(node.within, (part for part in parts if isinstance(part, dict)))


def _free(name: str, used: set[str]) -> str:
    """Return a name that is not taken."""
    candidate, number = name, 1
    while candidate in used:
        number += 1
        candidate = f"{name[: _LONGEST - 4]}_{number}"
    return candidate


def _renamed(schema: Any, rename: Rename, rename_in: RenameIn) -> Any:
    """Return a schema, or a list of schemas, with other names of properties.

    Args:
        schema: the schema.
        rename: returns another name.
        rename_in: returns a value of a schema with other names.
    """
    renamed = partial(_renamed, rename=rename, rename_in=rename_in)
    if isinstance(schema, list):
        return list(map(renamed, schema))
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _VALUES:
            is_list = keyword in {"enum", "examples"} and isinstance(value, list)
            result[keyword] = (
                [rename_in(schema, item) for item in value] if is_list else rename_in(schema, value)
            )
        elif keyword == "required":
            result[keyword] = _renamed_list(value, rename)
        elif keyword == "$ref" and isinstance(value, str):
            result[keyword] = _renamed_reference(value, rename)
        elif keyword in _BY_NAME and isinstance(value, dict):
            result[keyword] = {name: renamed(item) for name, item in value.items()}
        elif keyword in _BY_PROPERTY and isinstance(value, dict):
            result[keyword] = {
                rename(name): _renamed_list(item, rename)
                if isinstance(item, list)
                else _titled(name, rename, renamed(item))
                for name, item in value.items()
            }
        else:
            result[keyword] = renamed(value)
    return result


def _titled(name: str, rename: Rename, schema: Any) -> Any:
    return {"title": name, **schema} if isinstance(schema, dict) and rename(name) != name else schema


def _renamed_list(names: Any, rename: Rename) -> Any:
    return (
        [rename(name) if isinstance(name, str) else name for name in names]
        if isinstance(names, list)
        else names
    )


def _renamed_reference(reference: str, rename: Rename) -> str:
    parts = reference.split("/")
    for place, part in enumerate(parts[1:], 1):
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if parts[place - 1] == "properties" and rename(name) != name:
            parts[place] = rename(name)
    return "/".join(parts)
