"""Stub text: functions as the text of a `.pyi` file, for prompts, type checkers and sandboxes.

Nothing in it is executed. Names are generated here. Text from a schema or a server appears only in literals, docstrings
and comments, and cannot end them.
"""

from __future__ import annotations

import math
import re
import textwrap
import typing
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, Optional, Protocol, Required, TypedDict

from typing_extensions import is_typeddict

from tract_jupyter.exceptions import SpecError
from tract_jupyter.models.schema.json_schema import JsonSchema
from tract_jupyter.models.schema.parameters import signature_parts
from tract_jupyter.models.schema.types import CONTAINERS, Record, RecordMember, TypeReader, type_text
from tract_jupyter.models.text import identifier, one_line, printable, unused

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterator, Mapping

    from tract_jupyter.models.schema.parameters import Parameter, ParameterSet

_BUILTINS: Final = CONTAINERS | {str, int, float, bool, bytes}
_TYPING: Final[dict[Any, str]] = {
    Any: "Any", Literal: "Literal", NotRequired: "NotRequired", TypedDict: "TypedDict",
}  # fmt: skip
_KNOWN: Final[dict[Any, str]] = {**{kind: kind.__name__ for kind in _BUILTINS}, **_TYPING}
_LONGEST_DEFAULT: Final = 40
_LONGEST_COMMENT: Final = 100
_LONGEST_NAME: Final = 60


class StubbedFunction(Protocol):
    """The parts of a function that a stub needs, such as a `ToolDefinition`."""

    @property
    def description(self) -> str:
        """The text of its docstring."""

    @property
    def parameters(self) -> ParameterSet:
        """Its parameters."""

    @property
    def returns(self) -> Any:
        """The type or the JSON Schema of its result."""


def stub_source(
    functions: Mapping[str, StubbedFunction], *, docs: bool = True, argument_docs: bool = True
) -> str:
    """Return the text. The same functions always give the same text.

    Args:
        functions: the functions by name. A name with a dot is a function in a class.
        docs: include descriptions of the functions and their arguments.
        argument_docs: include descriptions of the arguments, if `docs` is True.
    """
    return _StubWriter(functions, docs=docs, argument_docs=docs and argument_docs).text()


class _StubWriter:
    """The unfinished text of one stub: used names and required classes."""

    def __init__(self, functions: Mapping[str, StubbedFunction], *, docs: bool, argument_docs: bool) -> None:
        self._stubbed = functions
        self._docs = docs
        self._argument_docs = argument_docs
        words = {word for name in functions for word in name.split(".")}
        # a tool may be called `list`
        self._names = {kind: unused(name, words) for kind, name in _KNOWN.items()}
        self._used: set[Any] = set()
        self._taken = {*words, *self._names.values()}
        self._keys: set[str] = set()
        self._classes: list[str] = []
        self._class_names: dict[Record, str] = {}
        self._typed_dicts: dict[Any, Record] = {}
        self._same: dict[tuple[Any, ...], str] = {}

    def text(self) -> str:
        functions = list(self._functions())
        return "\n\n".join(filter(None, ["\n".join(self._imports()), *self._classes, *functions])) + "\n"

    def _imports(self) -> Iterator[str]:
        for module, kinds in (("builtins", _BUILTINS), ("typing", _TYPING)):
            named = sorted((_KNOWN[kind], self._names[kind]) for kind in self._used.intersection(kinds))
            if module == "builtins":
                named = [(name, alias) for name, alias in named if name != alias]
            if named:
                parts = (name if name == alias else f"{name} as {alias}" for name, alias in named)
                yield f"from {module} import {', '.join(parts)}"

    def _functions(self) -> Iterator[str]:
        """Yield the functions without a namespace, then a class for each namespace."""
        spaces: dict[str, list[str]] = {}
        for name in sorted(self._stubbed):
            space, dot, _ = name.partition(".")
            text = self._function(name, self._stubbed[name])
            if dot:
                spaces.setdefault(space, []).append(textwrap.indent(f"@staticmethod\n{text}", "    "))
            else:
                yield text
        for space, texts in spaces.items():
            yield "\n\n".join([f"class {space}:", *texts])

    def _function(self, name: str, function: StubbedFunction) -> str:
        returns = self._type(_returned(function), (name, "result"))
        head = f"def {name.rpartition('.')[2]}({', '.join(self._arguments(name, function))}) -> {returns}:"
        doc = _docstring(function, arguments=self._argument_docs) if self._docs else ""
        return f"{head}\n{textwrap.indent(doc, '    ')}" if doc else f"{head} ..."

    def _arguments(self, name: str, function: StubbedFunction) -> Iterator[str]:
        types, arguments = function.parameters.types(), function.parameters.arguments

        def text(parameter: inspect.Parameter) -> str:
            if parameter.name not in arguments:
                return f"{parameter.name}: {self._name((), Any)}"
            p = arguments[parameter.name]
            kind = types[p.name]
            accepted = Optional[kind] if p.optional and kind is not Any else kind  # noqa: UP045 # a value
            return f"{parameter.name}: {self._type(accepted, (name, p.name))}{_default(p)}"

        return signature_parts(function.parameters.signature(), text)

    def _type(self, annotation: Any, path: tuple[str, ...]) -> str:
        """Return the text of a type; `path` names the records in it."""
        return type_text(annotation, partial(self._name, path))

    def _name(self, path: tuple[str, ...], kind: Any) -> str:
        if kind is None or kind is type(None):
            return "None"
        if kind is ...:
            return "..."
        if is_typeddict(kind):
            path, kind = (kind.__name__,), self._typed_dicts.setdefault(kind, _record(kind))
        if isinstance(kind, Record):
            return self._record_name(kind, path)
        if not isinstance(kind, Hashable) or kind not in self._names:
            kind = Any
        self._used.add(kind)
        return self._names[kind]

    def _record_name(self, record: Record, path: tuple[str, ...]) -> str:
        if record in self._class_names:
            return self._class_names[record]
        name = self._class_names[record] = unused(_class_name(path), self._taken | self._keys)
        self._taken.add(name)
        members = {key: self._member(member, (*path, key)) for key, member in record.members.items()}
        # two classes that differ only in their own name share one definition
        parts = tuple((key, re.sub(rf"\b{name}\b", "", text), more) for key, (text, more) in members.items())
        same = self._same.setdefault(parts, name)
        if same == name:
            self._classes.append(self._class(name, members))
        self._class_names[record] = same
        return same

    def _member(self, member: RecordMember, path: tuple[str, ...]) -> tuple[str, str]:
        """Return the type of a member and its comment."""
        text = self._type(member.annotation, path)
        comment = one_line(member.description, _LONGEST_COMMENT) if self._argument_docs else ""
        return (
            text if member.required else f"{self._name((), NotRequired)}[{text}]",
            comment and f"  # {comment}",
        )

    def _class(self, name: str, members: Mapping[str, tuple[str, str]]) -> str:
        base = self._name((), TypedDict)
        if all(_can_be_written(key) and key not in self._taken for key in members):
            self._keys.update(members)  # a class of such a name would be hidden in this one
            lines = [f"    {key}: {text}{comment}" for key, (text, comment) in members.items()]
            return "\n".join([f"class {name}({base}):", *lines])
        lines = [f"    {key!r}: {text},{comment}" for key, (text, comment) in members.items()]
        return "\n".join([f"{name} = {base}({name!r}, {{", *lines, "})"])


def _returned(function: StubbedFunction) -> Any:
    """Return the type of a function's result, as far as it is known."""
    if not isinstance(function.returns, dict):
        return function.returns
    try:
        reader = TypeReader(JsonSchema(function.returns).root, records=True)
        return reader.read(reader.root)
    except SpecError:  # only for display
        return Any


def _record(typed_dict: Any) -> Record:
    try:
        hints = typing.get_type_hints(typed_dict, include_extras=True)
    except NameError:  # a name that exists only for the type checker
        hints = dict.fromkeys(typed_dict.__annotations__, Any)
    return Record({key: _record_member(typed_dict, key, hint) for key, hint in hints.items()})


def _record_member(typed_dict: Any, key: str, hint: Any) -> RecordMember:
    # the class cannot see the markers in string annotations
    marks = {NotRequired: False, Required: True}
    mark = typing.get_origin(hint)
    if mark in marks:
        return RecordMember(typing.get_args(hint)[0], marks[mark], "")
    return RecordMember(hint, key in typed_dict.__required_keys__, "")


def _class_name(path: tuple[str, ...]) -> str:
    words = re.split(r"[\W_]+", " ".join(path))
    return identifier("".join(word[:1].upper() + word[1:] for word in words)[:_LONGEST_NAME])


def _can_be_written(key: str) -> bool:
    return identifier(key) == key and not key.startswith("__")  # the names of a class with two are changed


def _default(p: Parameter) -> str:
    if p.required:
        return ""
    value = p.default
    is_plain = (
        value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    )
    text = repr(value) if is_plain and type(value).__module__ == "builtins" else "..."
    return f" = {text}" if len(text) <= _LONGEST_DEFAULT else " = ..."


def _docstring(function: StubbedFunction, *, arguments: bool) -> str:
    """Return the docstring literal; an empty text if there is nothing to say."""
    descriptions = function.parameters.arguments if arguments else {}
    described = [(name, one_line(p.description, 500)) for name, p in descriptions.items()]
    lines = [f"    {name}: {text}" for name, text in described if text]
    about = "\n".join(["Args:", *lines]) if lines else ""
    text = "\n\n".join(filter(None, [printable(function.description).strip(), about]))
    # escape backslashes, and quotes before another quote or the end
    escaped = re.sub(r'"(?="|\Z)', r"\"", text.replace("\\", "\\\\"))
    end = "\n" if lines else ""
    return f'"""{escaped}{end}"""' if text else ""
