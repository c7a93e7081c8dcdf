"""The definition of a tool: a named callable with a JSON Schema, traits and an owner."""

from __future__ import annotations

import inspect
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ParameterError, SpecError
from tract_jupyter.models import brief_repr, digest, printable, shortened
from tract_jupyter.models.schema import (
    Parameters,
    SchemaParameters,
    hints_of,
    type_text,
    without_json_form,
    without_nulls,
)
from tract_jupyter.toolkit.code_identity import code_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from docstring_parser import Docstring

    from tract_jupyter.models.schema import ParameterSet
    from tract_jupyter.review import CodeBlock, ValueTable


def check_function(function: object) -> None:
    """Check that something can be called with named values and answers at once.

    Raises:
        SpecError: it is no function, an asynchronous one, or one whose parameters are not known.
    """
    if not inspect.isroutine(function):
        raise SpecError(f"a tool is made of a function, not of {brief_repr(function)}")
    try:
        inspect.signature(function)
    except ValueError:
        raise SpecError(
            f"Python does not tell what {function.__name__} takes; call it in your own function"
        ) from None
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise SpecError(
            f"{function.__name__} is asynchronous, and a tool answers at once; define it with 'def', and run what has "
            "to be awaited with asyncio.run in a thread of its own"
        )


def checked_name(name: object) -> str:
    """Return the name of a tool, if it is valid.

    Raises:
        SpecError: it is not a text, is empty, cannot be shown, or is that of a lambda.
    """
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise SpecError(
            f"a tool needs a name, such as 'search'; {brief_repr(name)} is not one: give name='...'"
        )
    if printable(name) != name:
        raise SpecError(f"the name of a tool has only characters that can be shown, and {name!a} has others")
    return name


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and what it says about each parameter.

    Google's style, numpy's and Sphinx's are known. Of a docstring that follows none of them, there is the first
    paragraph alone.
    """
    readings = _readings(text or "")
    if not readings:
        return _first_paragraph(inspect.cleandoc(text or "")), {}
    read = max(readings, key=lambda reading: len(reading.meta))
    about: dict[str, str] = {}
    for parameter in read.params:
        for name in parameter.arg_name.split(","):  # numpy's style describes several at once
            about[name.strip().lstrip("*")] = " ".join((parameter.description or "").split())
    return _first_paragraph(read.description or ""), about


def _readings(text: str) -> list[Docstring]:
    """Return what a docstring says in each style that it can be read in."""
    from docstring_parser import DocstringStyle, parse

    read = []
    for style in (DocstringStyle.REST, DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.EPYDOC):
        with suppress(Exception):  # ParseError, and an IndexError for some that are cut off
            read.append(parse(text, style))
    return read


def _first_paragraph(text: str) -> str:
    return text.partition("\n\n")[0].strip()


def check_json_types(function: Callable[..., Any]) -> None:
    """Check that every value that fits a parameter can be written as JSON, which is what models send.

    Raises:
        SpecError: one has another type, such as a date, or a type hint means nothing.
    """
    hints = hints_of(function)
    for name in inspect.signature(function).parameters:  # without the first one of a bound method
        wrong = without_json_form(hints[name]) if name in hints else None
        if wrong is not None:
            raise SpecError(
                f"{function.__name__}: {name!r} takes {type_text(wrong)}, which a model cannot send; a tool takes str, "
                "int, float, bool, None, list, dict[str, ...], Literal, a TypedDict of such, or unions of them"
            )


BUILT_IN: Final = "tract"
"""The owner of the tools that are always there."""
OWN: Final = "user"
"""The owner of those that a person's own code brought."""

_LONGEST_DESCRIPTION: Final = 4_000


@dataclass(frozen=True, slots=True)
class Traits:
    """The effects that calling a tool can have, in the words of MCP's tool annotations."""

    read_only: bool = False
    """It changes nothing."""
    destructive: bool = False
    """What it takes away may be gone for good."""
    open_world: bool = False
    """It reaches beyond this store: the network, a model, other programs."""


class CallDetails(NamedTuple):
    """What a person is shown of a call besides its arguments: tables and texts that explain."""

    tables: tuple[ValueTable, ...] = ()
    blocks: tuple[CodeBlock, ...] = ()


@dataclass(frozen=True)
class ToolDefinition:
    """One tool.

    Attributes:
        name: as models call it; any text.
        description: for models and for help.
        parameters: validates arguments and gives the JSON Schema.
        handler: called with the validated arguments by name.
        owner: who brought it: `tract` (built in), `operation:<name>`, `user`.
        version: what else tells its code from another one's, where the handler is the same for several.
        told_actor: whether the handler is told who calls, as its first argument.
        told_choice: whether the handler is told, as its second argument, what a person chose about the call: an
            `ActionChoice`, or None where nobody was asked.
        namespace: the part of the name before its first dot, if its function is `tools.<namespace>.<rest>`.
        returns: the type of what it gives back, or a JSON Schema of that; not checked, only told in stubs.
        asks_itself: whether the handler has a person asked where that is due; the call itself is not asked about.
        asks_always: returns, given the arguments, whether the handler always asks a model's user, and shows all of the
            call. Then a call in doubt is not asked about twice.
        needs_person: whether a person is asked also where a level of autonomy would allow the call.
        check: is given the validated arguments and the actor before anybody is asked, and raises what is wrong.
        details: returns what a person is shown besides the arguments, given the same.
        title: returns what a call is in words, a verb first, given its arguments: `Create agent checker`.
        binds: returns what a call is about besides its arguments, as that is now, such as a version: an approval of the
            call counts for that alone.
        lane: returns, of the arguments, what the call has to wait for: calls of one step that change something are
            made one after the other, but those of different lanes side by side.
    """

    name: str
    description: str
    parameters: ParameterSet
    handler: Callable[..., Any]
    traits: Traits = field(default_factory=Traits)
    owner: str = BUILT_IN
    version: str = ""
    told_actor: bool = False
    told_choice: bool = False
    namespace: str = ""
    returns: Any = Any
    asks_itself: bool = False
    asks_always: Callable[[Mapping[str, Any]], bool] | None = None
    needs_person: bool = False
    check: Callable[[Mapping[str, Any], str], None] | None = None
    details: Callable[[Mapping[str, Any], str], CallDetails] | None = None
    lane: Callable[[Mapping[str, Any]], str] | None = None
    binds: Callable[[Mapping[str, Any]], str] | None = None
    title: Callable[[Mapping[str, Any]], str] | None = None

    @property
    def is_of_tract(self) -> bool:
        """True if it is built in, or fires an operation: what it does is a part of the history."""
        return self.owner == BUILT_IN or self.owner.startswith("operation:")

    @property
    def is_built_in(self) -> bool:
        """True if it is a tool of this package."""
        return self.owner == BUILT_IN

    @property
    def writes_history(self) -> bool:
        """True if it changes the current branch, as the built-in tools do that do not only read."""
        return self.owner == BUILT_IN and not self.traits.read_only

    @property
    def own_name(self) -> str:
        """The name within its namespace."""
        return self.name.removeprefix(f"{self.namespace}.") if self.namespace else self.name

    @property
    def definition_hash(self) -> str:
        """64 hex digits over schema, traits and code: an approval of one version does not cover another.

        The code is the part of the user's code that the handler reaches (see docs/tools.md). It is examined each
        time, as the user may redefine a helper. The code of this package does not change.
        """
        if self.is_of_tract:
            return self._first_hash
        return digest([self._first_hash, code_identity(self.handler, with_objects=True).digest])

    @property
    def code_doubt(self) -> str:
        """The reason why other code may run than what `definition_hash` covers; empty if that is certain.

        Then no standing approval counts.
        """
        return "" if self.is_of_tract else code_identity(self.handler).doubt

    @property
    def code_hash(self) -> str:
        """64 hex digits like `definition_hash`, but the same in each process: objects count with their types.

        By it, the result of a call that was made is found again.
        """
        return self._first_hash if self.is_of_tract else self._hash(code_identity(self.handler).digest)

    @cached_property
    def _first_hash(self) -> str:
        """The hash as of the first time, with what containers held then."""
        return self._hash(code_identity(self.handler, with_state=True, with_objects=True).digest)

    def _hash(self, code: str) -> str:
        return digest([self._declaration, code, self.version])

    @cached_property
    def _declaration(self) -> str:
        traits = asdict(self.traits)
        return digest([self.name, self.description, self.parameters.json_schema, traits, self.owner])

    def bound_to(self, instance: object) -> ToolDefinition:
        """Return the same tool, whose handler is a method, of another instance. That is quicker than making it anew."""
        made = copy(self)
        made.__dict__.pop("_first_hash", None)
        object.__setattr__(made, "handler", MethodType(self.handler.__func__, instance))  # type: ignore[attr-defined]
        return made

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with defaults. A null may replace an omitted argument.

        Raises:
            ParameterError: they do not fit.
        """
        try:
            return self.parameters.validate(arguments)
        except ParameterError:
            given = without_nulls(arguments, self.parameters.json_schema)
        return self.parameters.validate(given)

    def hash_for(self, values: Mapping[str, Any]) -> str:
        """Return what an approval of a call counts for: 64 hex digits over the tool, and what the call is about."""
        return (
            self.definition_hash if self.binds is None else digest([self.definition_hash, self.binds(values)])
        )

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        traits: Traits | None = None,
        owner: str = OWN,
        told_actor: bool = False,
        asks_itself: bool = False,
        **more: Any,
    ) -> ToolDefinition:
        """Make a tool of a Python function; its type hints and docstring say everything.

        Args:
            function: what is called. Each parameter is described by `Annotated[T, "text"]`, or in the docstring, in
                Google's, numpy's or Sphinx's style.
            name: instead of the function's own.
            description: instead of the first paragraph of its docstring.
            traits: what calling it can do.
            owner: who brought it.
            told_actor: the function's first argument is the actor who calls; it is no parameter of the tool.
            asks_itself: see `ToolDefinition`.
            more: `asks_always`, `binds`, `check`, `details`, `lane`, `namespace`, `needs_person`, `title` and
                `version`; see there, too.

        Raises:
            SpecError: it is no plain function, has a parameter without a name (`*args`), or one that JSON has no form
                for.
        """
        told, about = "", dict[str, str]()
        if owner != BUILT_IN:
            check_function(function)
            told, about = parse_docstring(function.__doc__)
        parameters, returns = _declared(function, about, skip=int(told_actor))
        return cls(
            checked_name(function.__name__ if name is None else name),
            told if description is None else description,
            parameters,
            function,
            traits=traits or Traits(),
            owner=owner,
            told_actor=told_actor,
            returns=returns,
            asks_itself=asks_itself,
            **more,
        )

    @classmethod
    def built_in(cls, function: Callable[..., Any], **options: Any) -> ToolDefinition:
        """Make a tool that is always there; its description is the function's whole docstring.

        Args:
            function: see `from_function`.
            **options: see `from_function`.
        """
        described = " ".join((function.__doc__ or "").split())
        return cls.from_function(function, **{"description": described, "owner": BUILT_IN, **options})

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        *,
        traits: Traits | None = None,
        owner: str = OWN,
        output_schema: dict[str, Any] | None = None,
    ) -> ToolDefinition:
        """Make a tool of what a server or another library says about it.

        Args:
            name: as models call it.
            description: for models and for help; it is cut after 4,000 characters.
            schema: JSON Schema of the arguments; see `SchemaParameters`.
            handler: called with the arguments by the names that the schema has for them, whatever they are. So it takes
                `**arguments`, and where it has a parameter of its own, that is positional-only.
            traits: what calling it can do.
            owner: who brought it.
            output_schema: JSON Schema of what it gives back.

        Raises:
            SpecError: the schema cannot be used.
        """
        return cls(
            name, shortened(description, _LONGEST_DESCRIPTION), SchemaParameters(name, schema), handler,
            traits=traits or Traits(), owner=owner, returns=Any if output_schema is None else output_schema,
        )  # fmt: skip


_KNOWN: Final[dict[tuple[Any, int], tuple[Parameters, Any]]] = {}
"""What methods of built-in tools declare, by the function: each tract has them, bound to parts of its own."""


def _declared(function: Callable[..., Any], about: dict[str, str], *, skip: int) -> tuple[Parameters, Any]:
    """Return the parameters of a function, and what it returns.

    Raises:
        SpecError: a model cannot send a value for one of them.
    """
    known_as = None if about else getattr(function, "__func__", None)
    found = _KNOWN.get((known_as, skip))
    if known_as is None or found is None:
        check_json_types(function)
        returns = hints_of(function).get("return", Any)
        found = Parameters.of(function, skip=skip, descriptions=about), returns
        if known_as is not None and function.__module__.startswith("tract_jupyter."):
            _KNOWN[known_as, skip] = found
    return found
