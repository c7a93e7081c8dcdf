"""Parameters of a foreign JSON Schema, with the interface of every `ParameterSet`."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, ParameterError, SpecError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.schema.json_schema import JsonSchema, read_schema
from tract_jupyter.models.schema.parameters import (
    MAX_PROBLEMS,
    REQUIRED,
    Parameter,
    ParameterSet,
    misfit,
    no_dict,
    no_name,
)
from tract_jupyter.models.schema.providers import object_schema
from tract_jupyter.models.schema.types import JSON_TYPES, TypeReader
from tract_jupyter.models.text import argument_names, brief_repr, one_line, unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.models.schema.types import Member


_MOST: Final = 500
"""Parameters of a tool."""

_LONGEST_DESCRIPTION: Final = 500


class SchemaParameters(ParameterSet):
    """Parameters of a JSON Schema; see `JsonSchema` for its interpretation.

    They accept the same values as the schema, with two exceptions. An unknown name is refused, unless the schema
    describes other names or names none. None for an optional parameter means that it is omitted. A default is used if
    the schema accepts it. Required parameters can be positional. The others are keyword-only, because the order of
    properties has no meaning.

    Args:
        subject: the owner of the parameters; errors begin with it.
        schema: the schema of an object.

    Raises:
        SpecError: the schema is not for an object, or is invalid. The message gives the reason.
    """

    def __init__(self, subject: str, schema: Any) -> None:
        self.subject = subject
        try:
            self._schema = read_schema(schema)
            self._checked = JsonSchema(schema)
            self._read(TypeReader(self._checked.root))
        except SpecError as error:
            raise SpecError(f"{subject}: {error}") from None

    @property
    def json_schema(self) -> dict[str, Any]:
        """A copy of the original schema."""
        return copy.deepcopy(self._schema)

    @property
    def object_schema(self) -> dict[str, Any]:
        """A copy of the schema in the form for providers of models. It may be less precise."""
        return copy.deepcopy(object_schema(self._schema, self._checked.root))

    def types(self) -> dict[str, Any]:
        """Return the type of each name; an object is a `Record`."""
        reader = TypeReader(self._checked.root, records=True)
        return {name: reader.type_of(member) for name, member in reader.members().items()}

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new dict of copies of `values`, with defaults filled in."""
        arguments = self._copied(values)
        arguments = {
            **{n: copy.deepcopy(v) for n, v in self._needed.items() if n not in arguments},
            **arguments,
        }
        unknown = [] if self.takes_others else [name for name in arguments if name not in self.names]
        problems = [self._unknown(name) for name in unknown]
        complete = arguments
        try:
            problems += self._problems(arguments)
            filled = {**copy.deepcopy(self._defaults), **arguments}
            # a default may conflict with the passed values; then the tool handles it
            if len(filled) > len(arguments) and not self._checked.errors(filled):
                complete = filled
        except SpecError as error:
            problems.append(str(error))
        self._refuse(problems)
        return {name: complete[name] for name in (*self.names, *complete) if name in complete}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Assign the schema's names to the arguments of a Python call."""
        named: dict[str, Any] = {}
        for argument, value in super().bind(args, kwargs).items():
            name = self.arguments[argument].name if argument in self.arguments else argument
            if name in named:
                self._refuse([f"got {name!r} twice, also as {argument!r}"])
            named[name] = value
        return named

    @property
    def takes_others(self) -> bool:
        """True if the schema describes names that it does not list."""
        return self._describes_others

    def signature(self, *leading: str) -> inspect.Signature:
        """Return the signature. It has `**others` if the schema allows unknown names."""
        signature = super().signature(*leading)
        if not self._is_open:
            return signature
        name = unused("others", self.arguments)
        others = inspect.Parameter(name, inspect.Parameter.VAR_KEYWORD, annotation=Any)
        return signature.replace(parameters=[*signature.parameters.values(), others])

    def _kind(self, p: Parameter) -> Any:
        return inspect.Parameter.POSITIONAL_OR_KEYWORD if p.required else inspect.Parameter.KEYWORD_ONLY

    def _read(self, reader: TypeReader) -> None:
        members = self._members(reader)
        defaults = {name: m.described["default"] for name, m in members.items() if "default" in m.described}
        self._defaults = self._accepted(defaults)
        # zod, of many MCP servers, writes a property with a default as required
        self._needed = {name: value for name, value in self._defaults.items() if members[name].required}
        members |= {name: members[name]._replace(required=False) for name in self._needed}
        optional = {name: member.described for name, member in members.items() if not member.required}
        self._left_out_by_none = optional.keys() - self._accepted(dict.fromkeys(optional)).keys()
        self._describes_others, self._is_open = reader.describes_other_properties(), reader.is_open()
        parameters = [self._parameter(name, member, reader) for name, member in members.items()]
        self.arguments = _arguments(sorted(parameters, key=lambda p: not p.required))

    def _members(self, reader: TypeReader) -> dict[str, Member]:
        if any(error.validator == "type" and not error.absolute_path for error in self._checked.errors({})):
            raise SpecError("the schema of a tool's arguments describes an object, and this one does not")
        members = reader.members()
        if len(members) > _MOST:
            raise SpecError(f"the schema has {len(members):,} properties; the maximum is {_MOST}")
        return members

    def _parameter(self, name: str, member: Member, reader: TypeReader) -> Parameter:
        annotation, default = reader.type_of(member), self._defaults.get(name)
        if default is None and not member.required and annotation not in (Any, None):
            annotation = annotation | None
        description = one_line(str(member.described.get("description", "")), _LONGEST_DESCRIPTION)
        return Parameter(
            name, annotation, REQUIRED if member.required else copy.deepcopy(default), description
        )

    def _accepted(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values that their own schemas accept."""
        refused = {error.absolute_path[0] for error in self._checked.errors(values) if error.absolute_path}
        return {name: value for name, value in values.items() if name not in refused}

    def _copied(self, values: Any) -> dict[str, Any]:
        """Return copies of the values in JSON form. Values of None that mean "omitted" are removed."""
        if not isinstance(values, Mapping):
            self._refuse([no_dict(values)])
        problems = [no_name(name) for name in values if not isinstance(name, str)]
        copies: dict[str, Any] = {}
        for name, value in values.items():
            try:
                canonical_json([str(name), value])
                copies[name] = json.loads(json.dumps(value))
            except ContentError as error:
                problems.append(f"{name!r}: {error}")
        self._refuse(problems)
        return {n: v for n, v in copies.items() if v is not None or n not in self._left_out_by_none}

    def _problems(self, arguments: dict[str, Any]) -> Iterable[str]:
        """Yield the problems from the schema's validation. Problems with names have our own wording."""
        for error in self._checked.errors(arguments):
            path = error.absolute_path
            if error.validator == "required" and not path:
                yield from map(self._missing, missing_names(error))
            elif error.validator == "additionalProperties" and len(path) == 1:
                yield self._unknown(path[0])
            else:
                yield from problems_of([error])

    def _refuse(self, problems: Iterable[str]) -> None:
        """Raise an error if the values have problems."""
        different = list(dict.fromkeys(problems))
        more = [f"and {len(different) - MAX_PROBLEMS} more"] if len(different) > MAX_PROBLEMS else []
        if different:
            raise ParameterError(self.subject, [*different[:MAX_PROBLEMS], *more])


def _arguments(parameters: list[Parameter]) -> dict[str, Parameter]:
    """Return the parameters by their Python names, in order."""
    written = {name: argument for argument, name in argument_names(p.name for p in parameters).items()}
    return {written[p.name]: p for p in parameters}


_WANTED: Final = {
    "const": "{}", "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}", "pattern": "text that matches {}",
    "minLength": "at least {} characters long", "maxLength": "at most {} characters long",
    "minItems": "a list of at least {}", "maxItems": "a list of at most {}",
    "minProperties": "a dictionary of at least {}", "maxProperties": "a dictionary of at most {}",
    "uniqueItems": "a list without repetitions",
}  # fmt: skip


def problems_of(errors: Iterable[Any]) -> Iterator[str]:
    """Yield one sentence for each problem; `errors` are jsonschema's."""
    return chain.from_iterable(map(_problems, errors))


def missing_names(error: Any) -> list[str]:
    """Return the properties that an object lacks, from a `required` error."""
    return [name for name in error.validator_value if name not in error.instance]


def _problems(error: Any) -> Iterator[str]:
    keyword, place = error.validator, _place(error.absolute_path)
    if keyword == "required":
        yield from (f"{_place([*error.absolute_path, name])} is missing" for name in missing_names(error))
    elif keyword == "additionalProperties":
        yield f"{place} is unknown there"
    elif keyword in {"unevaluatedProperties", "unevaluatedItems", None}:
        yield f"{place} contains a value that is not allowed there"
    elif keyword in {"anyOf", "oneOf"} and error.context:
        yield from _no_branch(error, place)
    else:
        yield misfit(place, _wanted(error), error.instance)


def _no_branch(error: Any, place: str) -> Iterator[str]:
    """Yield the problems of the best matching branch, or the expectations of all branches."""
    branches = [list(branch) for _, branch in groupby(error.context, lambda e: list(e.schema_path)[:1])]
    deeper = [branch for branch in branches if all(e.path for e in branch)]
    if deeper:
        nearest = min(deeper, key=len)
        yield from problems_of(nearest)
    elif all(len(branch) == 1 and branch[0].validator != "required" for branch in branches):
        wanted = dict.fromkeys(_wanted(branch[0]) for branch in branches)
        yield misfit(place, " or ".join(wanted), error.instance)
    else:
        yield "; or ".join(" and ".join(problems_of(branch)) for branch in branches)


def _wanted(error: Any) -> str:
    keyword, value = error.validator, error.validator_value
    if keyword == "type":
        kinds = [value] if isinstance(value, str) else value
        return " or ".join(JSON_TYPES[kind].wanted if kind in JSON_TYPES else str(kind) for kind in kinds)
    if keyword == "enum":
        return f"one of {brief_repr(value)}"
    if keyword in _WANTED:
        return _WANTED[keyword].format(brief_repr(value))
    return f"what {keyword!r} of its schema says ({brief_repr(value)})"


def _place(path: Iterable[str | int]) -> str:
    """Return the path as text, such as `'filters'['lang']`."""
    first, *rest = [*path] or [""]
    return (repr(first) if first != "" else "the arguments") + "".join(f"[{part!r}]" for part in rest)
