"""The definition of a tool: a named callable with a JSON Schema, traits and an owner."""

from __future__ import annotations

import functools
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
from tract_jupyter.toolkit.code_identity import CodeIdentity, code_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from docstring_parser import Docstring

    from tract_jupyter.models.schema import ParameterSet
    from tract_jupyter.review import CodeBlock, ValueTable


def check_function(function: object) -> None:
    """Check that a tool can be made from a function: it accepts named values and is synchronous."""
    is_partial = isinstance(function, functools.partial)  # from Python 3.14, `isroutine` accepts it
    if is_partial or not inspect.isroutine(function):
        raise SpecError(f"a tool needs a function, not {brief_repr(function)}")
    try:
        inspect.signature(function)
    except ValueError:
        raise SpecError(
            f"Python does not know the parameters of {function.__name__}; call it in your own function"
        ) from None
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise SpecError(
            f"{function.__name__} is asynchronous, and tools are synchronous; define it with 'def', and call "
            "asyncio.run in a separate thread"
        )


def checked_name(name: object) -> str:
    """Return the name of a tool, if it is valid."""
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise SpecError(f"{brief_repr(name)} is not a name for a tool; pass one, such as name='search'")
    if printable(name) != name:
        raise SpecError(f"the tool name {name!a} has unprintable characters; use only printable ones")
    return name


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and its descriptions of the parameters.

    It understands the styles of Google, numpy and Sphinx. For any other style, it returns only the first paragraph.
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
    """Return the parsed docstring in each style that fits."""
    from docstring_parser import DocstringStyle, parse

    read = []
    for style in (DocstringStyle.REST, DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.EPYDOC):
        with suppress(Exception):  # ParseError, or IndexError for a truncated docstring
            read.append(parse(text, style))
    return read


def _first_paragraph(text: str) -> str:
    return text.partition("\n\n")[0].strip()


def check_json_types(function: Callable[..., Any]) -> None:
    """Check that every parameter accepts only values with a JSON form, because models send JSON."""
    hints = hints_of(function)
    for name in inspect.signature(function).parameters:  # without the first one of a bound method
        wrong = without_json_form(hints[name]) if name in hints else None
        if wrong is not None:
            raise SpecError(
                f"{function.__name__}: {name!r} takes {type_text(wrong)}, which a model cannot send; use str, "
                "int, float, bool, None, list, dict[str, ...], Literal, a TypedDict of such, or unions of them"
            )


BUILT_IN: Final = "tract"
"""The owner of the tools that are always available."""
OWN: Final = "user"
"""The owner of the tools that the user's code adds."""

NOTEBOOK: Final = "notebook"
"""The owner of the tools for the cells of the notebook. They act outside of the tract."""

_LONGEST_DESCRIPTION: Final = 4_000


@dataclass(frozen=True, slots=True)
class Traits:
    """The effects that calling a tool can have, in the words of MCP's tool annotations."""

    read_only: bool = False
    """It changes nothing."""
    destructive: bool = False
    """It may remove something permanently."""
    open_world: bool = False
    """It reaches beyond this store: the network, a model, other programs."""


class CallDetails(NamedTuple):
    """Additional tables and texts that explain the arguments of a call to the user."""

    tables: tuple[ValueTable, ...] = ()
    blocks: tuple[CodeBlock, ...] = ()
    shown: frozenset[str] = frozenset()
    """The names of arguments that the tables and blocks show completely. The request does not show them again."""


@dataclass(frozen=True)
class ToolDefinition:
    """One tool.

    Attributes:
        name: the name for models; any text.
        description: the description for models and for help.
        parameters: validates arguments and returns the JSON Schema.
        handler: the function. It receives the validated arguments by name.
        owner: the source of the tool: `tract` (built in), `operation:<name>`, `notebook`, `user`.
        version: distinguishes the code of tools that share one handler.
        told_actor: whether the handler receives the actor of the call as its first argument.
        told_choice: whether the handler receives the user's choice about the call as its second argument: an
            `ActionChoice`, or None if there was no request.
        namespace: the part of the name before its first dot, if its function is `tools.<namespace>.<rest>`.
        returns: the type of the result, or a JSON Schema. It is not checked; only stubs show it.
        asks_itself: whether the handler asks the user when necessary. The executor then does not ask about the call.
        asks_always: returns, for the arguments, whether the handler always asks a model's user and shows the complete
            call. The executor then does not ask again about a call in doubt.
        reads_freely: for a tool that reads data of the user: returns, for the arguments and the actor, whether a call
            needs no request.
        needs_person: whether the user must decide even if a level of autonomy would allow the call.
        check: receives the validated arguments and the actor before any request, and raises an error for invalid
            ones.
        details: receives the same, and returns additional information for the request.
        title: returns a short title of a call from its arguments, with the verb first: `Create agent checker`.
        binds: returns the current state that a call depends on, such as a version, from its arguments. An approval of
            the call covers only this state.
        revert: the tool that takes back a call of this one, for the undo of a turn; see `revert_of`.
        remains: says what an undo of the turn leaves of a call, if the tool is a part of the tract; empty if nothing.
        lane: returns the lane of a call from its arguments. Within a lane, the calls of one step that change
            something run one after the other. Different lanes run in parallel.
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
    reads_freely: Callable[[Mapping[str, Any], str], bool] | None = None
    needs_person: bool = False
    check: Callable[[Mapping[str, Any], str], None] | None = None
    details: Callable[[Mapping[str, Any], str], CallDetails] | None = None
    lane: Callable[[Mapping[str, Any]], str] | None = None
    binds: Callable[[Mapping[str, Any]], str] | None = None
    title: Callable[[Mapping[str, Any]], str] | None = None
    revert: ToolDefinition | None = None
    remains: str = ""

    @property
    def is_final(self) -> bool:
        """True if a call may change something outside of the context that the undo of a turn cannot take back."""
        return self.acts_outside and self.revert is None

    @property
    def acts_outside(self) -> bool:
        """True if a call may change something outside of the context."""
        records_itself = (
            self.owner == NOTEBOOK and self.asks_itself
        )  # the script that it runs has the records
        return not (self.traits.read_only or self.is_of_tract or records_itself)

    @property
    def is_of_tract(self) -> bool:
        """True if it is built in or fires an operation. The history records its effect."""
        return self.owner == BUILT_IN or self.owner.startswith("operation:")

    @property
    def _is_of_package(self) -> bool:
        """True if its code is a part of this package, which does not change."""
        return self.is_of_tract or self.owner == NOTEBOOK

    @property
    def is_built_in(self) -> bool:
        """True if it is a tool of this package."""
        return self.owner == BUILT_IN

    @property
    def writes_history(self) -> bool:
        """True if it changes the current branch: a built-in tool that does not only read."""
        return self.owner == BUILT_IN and not self.traits.read_only

    @property
    def own_name(self) -> str:
        """The name within its namespace."""
        return self.name.removeprefix(f"{self.namespace}.") if self.namespace else self.name

    @property
    def definition_hash(self) -> str:
        """64 hex digits over schema, traits and code. An approval covers only one version.

        The code is the part of the user's code that the handler reaches (see docs/tools.md). Each access examines it
        again, because the user may redefine a helper. The code of this package does not change.
        """
        return self.examine().digest

    @property
    def code_doubt(self) -> str:
        """The reason why code outside `definition_hash` may run; empty if that is impossible.

        If there is a doubt, no standing approval applies.
        """
        return self.examine().doubt

    def examine(self) -> CodeIdentity:
        """Examine the code once, and return `definition_hash` and `code_doubt`."""
        first_hash = self._first_hash
        if self._is_of_package:
            return CodeIdentity(first_hash)
        code = code_identity(self.handler, with_objects=True)
        return code._replace(digest=digest([first_hash, code.digest]))

    @property
    def code_hash(self) -> str:
        """64 hex digits like `definition_hash`, but equal in all processes. Objects count by their types only.

        It identifies the stored result of an earlier call.
        """
        return self._first_hash if self._is_of_package else self._hash(code_identity(self.handler).digest)

    @cached_property
    def _first_hash(self) -> str:
        """The hash at the first access, with the contents of containers at that time."""
        if self.owner == NOTEBOOK:
            return self._hash("")
        return self._hash(code_identity(self.handler, with_state=True, with_objects=True).digest)

    def _hash(self, code: str) -> str:
        return digest([self._declaration, code, self.version])

    @cached_property
    def _declaration(self) -> str:
        traits = asdict(self.traits)
        return digest([self.name, self.description, self.parameters.json_schema, traits, self.owner])

    def bound_to(self, instance: object) -> ToolDefinition:
        """Return this tool with its handler, a method, bound to another instance. This is faster than a new tool."""
        bound = copy(self)
        bound.__dict__.pop("_first_hash", None)
        object.__setattr__(bound, "handler", MethodType(self.handler.__func__, instance))  # type: ignore[attr-defined]
        return bound

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with defaults. A null may replace an omitted argument."""
        try:
            return self.parameters.validate(arguments)
        except ParameterError:
            shortened = without_nulls(arguments, self.parameters.json_schema)
        return self.parameters.validate(shortened)

    def hash_for(self, values: Mapping[str, Any], definition_hash: str = "") -> str:
        """Return the 64 hex digits that an approval of a call covers: the tool, and the state that `binds` returns.

        `definition_hash` is the hash of this moment, if the caller has just examined the tool.
        """
        tool_hash = definition_hash or self.definition_hash
        return tool_hash if self.binds is None else digest([tool_hash, self.binds(values)])

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
        revert: Callable[..., Any] | None = None,
        **more: Any,
    ) -> ToolDefinition:
        """Make a tool from a Python function, its type hints and its docstring.

        Args:
            function: the handler. `Annotated[T, "text"]` describes a parameter, or the docstring does, in the style
                of Google, numpy or Sphinx.
            name: replaces the function's name.
            description: replaces the first paragraph of its docstring.
            traits: the possible effects of a call.
            owner: the source of the tool.
            told_actor: the function's first argument is the actor of the call. It is not a parameter of the tool.
            asks_itself: see `ToolDefinition`.
            revert: the function that takes back a call; see `revert_of`.
            more: `asks_always`, `binds`, `check`, `details`, `lane`, `namespace`, `needs_person`,
                `reads_freely`, `title` and `version`; see `ToolDefinition`.

        Raises:
            SpecError: it is not a plain function, or it has a parameter without a name (`*args`) or without a JSON
                form.
        """
        summary, about = "", dict[str, str]()
        if owner != BUILT_IN:
            check_function(function)
            summary, about = parse_docstring(function.__doc__)
        parameters, returns = _declared(function, about, skip=int(told_actor))
        name = checked_name(function.__name__ if name is None else name)
        return cls(
            name,
            summary if description is None else description,
            parameters,
            function,
            traits=traits or Traits(),
            owner=owner,
            told_actor=told_actor,
            returns=returns,
            asks_itself=asks_itself,
            revert=None if revert is None else revert_of(name, revert, parameters),
            **more,
        )

    @classmethod
    def built_in(cls, function: Callable[..., Any], **options: Any) -> ToolDefinition:
        """Make a tool that is always available. Its description is the function's whole docstring."""
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
        """Make a tool from the declaration of a server or another library.

        The description is cut after 4,000 characters. `handler` receives the arguments by their names in the schema,
        which can be any names. It therefore takes `**arguments`, and its own parameters are positional-only.
        """
        return cls(
            name, shortened(description, _LONGEST_DESCRIPTION), SchemaParameters(name, schema), handler,
            traits=traits or Traits(), owner=owner, returns=Any if output_schema is None else output_schema,
        )  # fmt: skip


RESULT: Final = "result"
"""The parameter of a revert that gets the result of the call."""


def revert_of(name: str, function: Callable[..., Any], parameters: ParameterSet) -> ToolDefinition:
    """Return the tool that takes back a call of another tool.

    `function` takes arguments of that tool by their names, and `result`, the result of the call as JSON data.
    """
    tool = ToolDefinition.from_function(function, name=f"revert of {name}")
    known = {parameter.name for parameter in parameters} | {RESULT}
    unknown = [parameter.name for parameter in tool.parameters if parameter.name not in known]
    if unknown:
        raise SpecError(
            f"{brief_repr(function)} takes {unknown[0]!r}, so it cannot revert {name!r}; use {RESULT!r} or the names "
            f"of the tool's arguments: {', '.join(sorted(known - {RESULT})) or 'none'}"
        )
    return tool


_KNOWN: Final[dict[tuple[Any, int], tuple[Parameters, Any]]] = {}
"""The declarations of built-in methods, by function. Each tract binds the same functions to its own objects."""


def _declared(function: Callable[..., Any], about: dict[str, str], *, skip: int) -> tuple[Parameters, Any]:
    """Return the parameters of a function, and its return type."""
    known_as = None if about else getattr(function, "__func__", None)
    entry = _KNOWN.get((known_as, skip))
    if known_as is None or entry is None:
        check_json_types(function)
        returns = hints_of(function).get("return", Any)
        entry = Parameters.of(function, skip=skip, descriptions=about), returns
        if known_as is not None and function.__module__.startswith("tract_jupyter."):
            _KNOWN[known_as, skip] = entry
    return entry
