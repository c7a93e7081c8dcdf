"""Named, typed, described values: an operation's fields, an action's parameters, a tool's arguments.

One class serves all three, so a panel's form, a model's JSON Schema and the validator always agree. Validation is
strict: `True` is not an `int`, `"7"` is not a number, every element of a list is checked, and all problems are reported
at once. `schema_parameters` has the same for arguments of a foreign JSON Schema.
"""

from __future__ import annotations

import inspect
import typing
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, Optional

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from tract_jupyter.exceptions import ParameterError, SpecError, nearest
from tract_jupyter.models.schema.types import type_text
from tract_jupyter.models.text import brief_repr, safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

REQUIRED: Final = inspect.Parameter.empty
"""The default of a required parameter."""

MAX_PROBLEMS: Final = 10
"""The maximum number of reported problems of one call."""

_MAX_NAMES = 30


@dataclass(frozen=True)
class Parameter:
    """One named value: its type, default (or `REQUIRED`) and description."""

    name: str
    annotation: Any = Any
    default: Any = REQUIRED
    description: str = ""

    @property
    def required(self) -> bool:
        """True if the parameter has no default."""
        return self.default is REQUIRED

    @property
    def optional(self) -> bool:
        """True if the default is None, so the parameter can be omitted."""
        return self.default is None

    @property
    def default_text(self) -> str:
        """` = <default>`; empty for a required parameter."""
        return "" if self.required else f" = {safe_repr(self.default)}"

    @property
    def accepted(self) -> Any:
        """The annotation, including None if None is the default."""
        return Optional[self.annotation] if self.optional and self.annotation is not Any else self.annotation  # noqa: UP045

    def fits(self, value: Any) -> bool:
        """Return True if a value is of the type."""
        try:
            self._validate(value, strict=True)
        except ValidationError:
            return False
        return True

    @cached_property
    def _validate(self) -> Callable[..., object]:
        return TypeAdapter(self.accepted, config=None).validator.validate_python

    def with_default(self, value: Any) -> Parameter:
        """Return the parameter with another default. A wider default makes its type `Any`."""
        return replace(self, default=value, annotation=self.annotation if self.fits(value) else Any)


class ParameterSet(ABC):
    """An ordered set of parameters, with types from any source.

    Attributes:
        subject: the owner of the parameters; errors begin with it.
        arguments: the parameters by their names in Python, which may differ from the validated names. Required ones
            come first, because Python requires it.
    """

    subject: str
    arguments: Mapping[str, Parameter]

    @property
    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of an object with these properties."""

    @property
    def object_schema(self) -> dict[str, Any]:
        """The schema in the form for providers of models. It may be less precise."""
        return self.json_schema

    @abstractmethod
    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new dict of `values` with defaults filled in (fresh copies of mutable ones).

        Raises:
            ParameterError: values are missing, unknown or ill-typed; every problem is listed.
        """

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.arguments.values())

    def __len__(self) -> int:
        return len(self.arguments)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the signature."""
        return tuple(p.name for p in self)

    def types(self) -> dict[str, Any]:
        """Return the type of each name, in full."""
        return {p.name: p.annotation for p in self}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Assign names to positional arguments, as a Python call does."""
        if not args:
            return kwargs
        positional = self._positional
        if len(args) > len(positional):
            raise ParameterError(
                self.subject,
                [f"takes at most {len(positional)} by position ({', '.join(positional)}), got {len(args)}"],
            )
        twice = [name for name in positional[: len(args)] if name in kwargs]
        if twice:
            raise ParameterError(
                self.subject, [f"got {name!r} twice, by position and by name" for name in twice]
            )
        return {**dict(zip(positional, args, strict=False)), **kwargs}

    @property
    def takes_others(self) -> bool:
        """True if names outside the parameters may be accepted."""
        return False

    def misnamed(self, names: Collection[str]) -> list[str]:
        """Return the problems of a call that are certain from the names of its arguments."""
        missing = [self._missing(p.name) for p in self if p.required and p.name not in names]
        unknown = [] if self.takes_others else [name for name in names if name not in self.names]
        return [*missing, *map(self._unknown, unknown)]

    def signature(self, *leading: str) -> inspect.Signature:
        """Return the signature of a Python function with these parameters, after the `leading` names."""
        items = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in leading]
        items += [
            inspect.Parameter(name, self._kind(p), default=p.default, annotation=p.annotation)
            for name, p in self.arguments.items()
        ]
        return inspect.Signature(items)

    def signature_text(self, *leading: str) -> str:
        """Return the signature in Python syntax: `(pending, strict: bool = False)`."""
        return f"({', '.join(signature_parts(self.signature(*leading), _argument_text))})"

    def _missing(self, name: str) -> str:
        for argument, p in self.arguments.items():
            if p.name == name and p.required:
                written = "" if argument == name else f"; in Python {argument!r}"
                return f"{name!r} is missing ({type_text(p.annotation)}{written})"
        return f"{name!r} is missing"

    def _unknown(self, name: str) -> str:
        more = ", …" if len(self.names) > _MAX_NAMES else ""
        known = f"It takes {', '.join(self.names[:_MAX_NAMES])}{more}." if self.names else "It takes none."
        return f"{name!r} is unknown.{nearest(name, self.names)} {known}"

    def _kind(self, p: Parameter) -> Any:  # noqa: ARG002 # others tell
        return inspect.Parameter.POSITIONAL_OR_KEYWORD

    @cached_property
    def _positional(self) -> tuple[str, ...]:
        by_name = inspect.Parameter.KEYWORD_ONLY
        return tuple(name for name, p in self.arguments.items() if self._kind(p) is not by_name)


class Parameters(ParameterSet):
    """Parameters with Python types, which validate values and describe themselves.

    Args:
        subject: the owner of the parameters; errors begin with it.
        parameters: the parameters in the author's order. In the signature, required ones come first, because Python
            requires it.
        are_checked: True if they are parts of other sets. Each displayed request creates a form, and most forms
            validate nothing.

    Raises:
        SpecError: a default does not match its type, or a type cannot be checked.
    """

    def __init__(self, subject: str, parameters: Iterable[Parameter], *, are_checked: bool = False) -> None:
        self.subject = subject
        self.arguments = {p.name: p for p in sorted(parameters, key=lambda p: not p.required)}
        if are_checked:
            return
        try:
            self._validate  # noqa: B018 # computed now, because the author of the types must get the error
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise SpecError(f"{subject}: a type cannot be checked: {error.message}") from None
        self._check_defaults()

    @cached_property
    def _validate(self) -> Callable[[Any], dict[str, Any]]:
        return _adapter({p.name: _validated(p) for p in self}).validator.validate_python

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        skip: int = 0,
        descriptions: Mapping[str, str] = MappingProxyType({}),
    ) -> Parameters:
        """Return the parameters of a Python function, from its type hints. `Annotated[T, "text"]` adds a description.

        Args:
            function: a function without `*args` and `**kwargs`.
            skip: the number of leading parameters to leave out, such as `self`.
            descriptions: descriptions for parameters without one in their type hints.

        Raises:
            SpecError: a parameter has no name, or a type hint is invalid.
        """
        declared = getattr(function, "parameters", None)
        if isinstance(declared, Parameters):
            return declared
        hints = hints_of(function)
        inspected = list(inspect.signature(function).parameters.values())[skip:]
        if any(p.kind in {p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY} for p in inspected):
            raise SpecError(
                f"{function.__name__}: every parameter needs a name; '*args' and '**kwargs' have none"
            )
        described = (_described(p.name, hints.get(p.name, Any), p.default) for p in inspected)
        return cls(
            function.__name__,
            [p if p.description else replace(p, description=descriptions.get(p.name, "")) for p in described],
        )

    def without(self, names: Collection[str]) -> Parameters:
        """Return all parameters except the ones with these names."""
        return Parameters(self.subject, [p for p in self if p.name not in names], are_checked=True)

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new dict of `values` with defaults filled in (fresh copies of mutable ones)."""
        try:
            return self._validate(values)
        except ValidationError as error:
            raise ParameterError(self.subject, self._problems(error)) from None

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) of an object with these properties."""
        schema = _adapter({p.name: _documented(p) for p in self}).json_schema(schema_generator=_PlainSchema)
        return {"type": "object", "properties": schema.get("properties", {}),
                "required": schema.get("required", []), "additionalProperties": False,
                **({"$defs": schema["$defs"]} if "$defs" in schema else {})}  # fmt: skip

    def _check_defaults(self) -> None:
        for p in self:
            if not p.required and not p.fits(p.default):
                default, wanted = brief_repr(p.default), type_text(p.annotation)
                raise SpecError(
                    f"{self.subject}: the default {default} of {p.name!r} is not of type {wanted}"
                )

    def _problems(self, error: ValidationError) -> list[str]:
        details = error.errors(include_url=False, include_context=False)
        problems = [self._problem(d["type"], d["loc"], d["msg"], d["input"]) for d in details[:MAX_PROBLEMS]]
        if len(details) > MAX_PROBLEMS:
            problems.append(f"and {len(details) - MAX_PROBLEMS} more")
        return problems

    def _problem(self, kind: str, loc: tuple[int | str, ...], message: str, value: Any) -> str:
        name = str(loc[0]) if loc else ""
        if kind == "missing" and len(loc) == 1:
            return self._missing(name)
        if kind == "extra_forbidden" and len(loc) == 1:
            return self._unknown(name)
        if kind == "string_unicode":
            return f"{ascii(value)[:60]} is not valid Unicode"
        if not loc:
            return no_dict(value)
        if kind == "invalid_key":
            return no_name(name)
        place = repr(name) + "".join(f"[{part!r}]" for part in loc[1:] if _is_data(part))
        wanted = message.removeprefix("Input should be ").replace("Input should", "should")
        return misfit(place, wanted, value)


def signature_parts(signature: inspect.Signature, text: Callable[[inspect.Parameter], str]) -> Iterator[str]:
    """Yield the parts of a parameter list: the `text` of each parameter, and the `*` and `**` markers."""
    only_by_name = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not only_by_name:
            only_by_name = True
            yield "*"
        yield f"**{text(parameter)}" if parameter.kind is parameter.VAR_KEYWORD else text(parameter)


def _argument_text(parameter: inspect.Parameter) -> str:
    if parameter.annotation is parameter.empty:
        return parameter.name
    default = "" if parameter.default is parameter.empty else f" = {safe_repr(parameter.default)}"
    return f"{parameter.name}: {type_text(parameter.annotation)}{default}"


def misfit(place: str, wanted: str, value: Any) -> str:
    """Return the problem of a value that does not fit."""
    return f"{place} should be {wanted}, got {brief_repr(value)} ({type(value).__name__})"


def no_dict(value: Any) -> str:
    """Return the problem of arguments that are not a dict."""
    return f"a dict of values is needed, got {type(value).__name__}"


def no_name(name: Any) -> str:
    """Return the problem of an argument's name that is not a string."""
    return f"{name!r} is not a name; names are strings"


def _validated(p: Parameter) -> Any:
    if p.required:
        return p.accepted
    # convert the default like a passed value: 0 for a float is 0.0, and both give the same request
    return NotRequired[Annotated[p.accepted, Field(default=p.default, validate_default=True)]]


def _documented(p: Parameter) -> Any:
    details: dict[str, Any] = {"description": p.description} if p.description else {}
    # a None default only means "optional": the plain type is more precise
    if not p.required and not p.optional:
        details["default"] = p.default
    annotation: Any = Annotated[p.annotation, Field(**details)]
    return annotation if p.required else NotRequired[annotation]


def _adapter(entries: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
    """Return an adapter for a TypedDict class: pydantic's public way to validate a dict with any keys."""
    typed: Any = TypedDict("Parameters", entries)  # type: ignore[misc] # the keys are data
    shape: Any = with_config(ConfigDict(strict=True, extra="forbid"))(typed)
    return TypeAdapter(shape)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type hints of a function, by name."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise SpecError(
            f"{function.__name__}: a type hint cannot be resolved ({error}); define its types in "
            "the module or cell of the function"
        ) from None


def _described(name: str, hint: Any, default: Any) -> Parameter:
    if typing.get_origin(hint) is not Annotated:
        return Parameter(name, hint, default)
    text = next((extra for extra in hint.__metadata__ if isinstance(extra, str)), "")
    constraints = tuple(extra for extra in hint.__metadata__ if not isinstance(extra, str))
    constrained = Annotated[(hint.__origin__, *constraints)] if constraints else hint.__origin__
    return Parameter(name, constrained, default, text)


class _PlainSchema(GenerateJsonSchema):
    """Leaves out titles: they only repeat the names, and cost a model tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _is_data(part: int | str) -> bool:
    # pydantic puts the branch of a union into the location, as 'list[str]' or 'int'
    return isinstance(part, int) or (
        not any(mark in part for mark in "[]()") and part not in {"str", "int", "none"}
    )
