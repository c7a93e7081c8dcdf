"""What a kind of operation is, what it may use, and what it may give back.

A kind is a black box with explicit effects (R1): it checks `params` when a profile is saved, and prepares a function
from the context to an `Output`. Whatever that function raises becomes an error in `perform`, so a kind raises
`OperationFailed` where a code of its own says more, and `workers.Aborted` where it stops since it was told to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.models.text import shortened
from tract_jupyter.runs.reading import in_words
from tract_jupyter.runs.templates import parse
from tract_jupyter.runs.templates.engine import functions_of, variables_of
from tract_jupyter.runs.terms import Data, ErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic_core import ErrorDetails

    from tract_jupyter.llm.connections import Models
    from tract_jupyter.protocols import LLMClient
    from tract_jupyter.runs.model import Operation, OperationContext


P = TypeVar("P", bound=Data)

_NAMED: Final = 5


def read_params(kind: type[P], params: Mapping[str, Any]) -> P:
    """An operation's parameters.

    Raises:
        OperationFailed: `validation_error`; they are wrong.
    """
    try:
        return kind.from_dict(dict(params))
    except ValidationError as error:
        raise OperationFailed.invalid("; ".join(message for _, message in _problems(error, {}))) from None


def check_params(
    kind: type[P],
    params: Mapping[str, Any],
    rules: Mapping[str, str],
    more: Callable[[P], list[Problem]],
) -> list[Problem]:
    """All that is wrong with parameters.

    Args:
        kind: what they should be.
        params: as they are.
        rules: the rule's name for what is wrong with `field`, or within it with `field.*`; `params` otherwise.
        more: finds what no single field shows.
    """
    try:
        found = kind.from_dict(dict(params))
    except ValidationError as error:
        return _problems(error, rules)
    return more(found)


def check_template(text: str, field: str) -> list[Problem]:
    """What keeps a template from being read."""
    try:
        parse(text)
    except TemplateError as error:
        return [("template_syntax", f"{field}: {error}")]
    return []


def _problems(error: ValidationError, rules: Mapping[str, str]) -> list[Problem]:
    problems = []
    for one in error.errors(include_url=False)[:_NAMED]:
        where = ".".join(map(str, one["loc"]))
        field = str(one["loc"][0]) if one["loc"] else ""
        told = in_words(one)
        problems.append(
            (
                rules.get(where) or rules.get(f"{field}.*") or rules.get(field) or _otherwise(one),
                shortened(f"{where}: {told}" if "." in where else told, 500),
            )
        )
    return problems


def _otherwise(error: ErrorDetails) -> str:
    return "unknown_field" if error["type"] == "extra_forbidden" else "params"


Problem = tuple[str, str]
"""What is wrong with an operation: the rule's name, such as `timeout_range`, and a sentence."""


@dataclass(frozen=True, slots=True)
class Output:
    """What an operation made.

    Attributes:
        value: of its artifact, from which the effects are made (X04). Any JSON.
        effects: given instead of a value by an operation that says itself what it wants, as effects or their JSON.
        debug: for whoever looks closer; bounded, without secrets.
        usage: what it took: `prompt_tokens`, `completion_tokens`, `costUsd`, ...
        inputs, outputs: summaries for the log (R56): hashes and sizes rather than texts.
    """

    value: Any = None
    effects: Any = None
    debug: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """The operation decided not to do anything (R38). That is no error, and has no effects (R36, R37)."""

    reason: str = SkippedReason.CONDITION_FALSE
    condition: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """A person has to decide first: `pending_id` names what about."""

    pending_id: str


class OperationFailed(Exception):  # noqa: N818 # it leads to a result, and never leaves an operation
    """The operation failed, with a stable code (R55).

    Args:
        code: one of `ErrorCode`, or a code of the kind's own in lower snake case (G31); otherwise it is replaced by
            `operation_error`.
        message: what happened, why, and what to do; no secrets.
        details: more of it, as JSON.
        inputs, outputs: what the log shall tell nevertheless.
    """

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = str(code)
        self.message = message
        self.details = dict(details or {})
        self.inputs = dict(inputs or {})
        self.outputs = dict(outputs or {})

    @classmethod
    def invalid(cls, message: str) -> OperationFailed:
        """The operation's parameters, or what it made, are wrong."""
        return cls(ErrorCode.VALIDATION, message)


KindOutcome = Output | Skipped | Waits
Runner = Callable[["OperationContext"], KindOutcome]
"""Does an operation's work once. It may be called from several threads, and again for another attempt."""


class Decisions(Protocol):
    """Knows the pendings that operations of runs have made."""

    def fire(self, name: str, fields: dict[str, Any], context: OperationContext) -> Any:
        """Fire a dynamic operation, and return its pending, which may be undecided yet."""
        ...

    def keep(self, pending: Any) -> None:
        """Remember a pending that somebody else made."""
        ...

    def find(self, pending_id: str) -> Any:
        """The pending, with what was decided about it meanwhile, wherever that was; None if nobody knows it."""
        ...

    def forget(self, pending_id: str) -> bool:
        """Do not remember a pending any more; whether it was remembered."""
        ...


class Resumable(Protocol):
    """A runner whose operation may wait for a person."""

    def __call__(self, context: OperationContext) -> KindOutcome:
        """Do the work once."""
        ...

    def resume(self, context: OperationContext, pending_id: str) -> KindOutcome:
        """Go on after a decision about the pending that `Waits` named; it may be that there is none yet."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What kinds may use of the world; each is None where the host has none, and a kind that needs it fails.

    Attributes:
        llm: the client that is asked if an operation names no other.
        models: others, by the names that operations give as `providerRef` and `credentialRef`.
        call_tool: name and arguments of a tool, `actor`, perhaps `is_approved` -> its result; permissions are the
            executor's business, and this is its `execute`.
        functions: of kind `compute`, by name; each gets the context and the parameters.
        search: query, how many, and filters -> documents, best first; see `runs.kinds.rag`.
        decisions: what operations fire, and what a person decides about; see `runs.deciding`.
    """

    llm: LLMClient | None = None
    models: Models | None = None
    call_tool: Callable[..., Any] | None = None
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    search: Callable[..., Any] | None = None
    decisions: Decisions | None = None


class ModelRef(NamedTuple):
    """The model and the credential that an operation names; None for the tract's own."""

    provider: str | None
    credential: str | None = None


class OperationKind(Protocol):
    """A kind of operation.

    It may also have

    * `configured(config)`: the configuration that the engine uses;
    * `is_computed`: whether it only computes, within bounds, waits for nothing and changes nothing that it is given.
      Then it is done at once, on the thread that waits for the run;
    * `model_ref(operation)`: the `ModelRef` that it names, if any: it must be there before anything is called.
    """

    @property
    def name(self) -> str:
        """As `OperationDefinition.kind` has it."""
        ...

    @property
    def anywhere(self) -> bool:
        """Whether what `prepare` returns can be pickled and run in another process."""
        ...

    def check(self, operation: Operation) -> list[Problem]:
        """Tell all that is wrong with an operation's configuration, before it is saved. Nothing is run."""
        ...

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Make what is run: a `Resumable` if it may wait. It may raise `OperationFailed`, as running it may."""
        ...


_ALONE: Final = re.compile(r"\s*\{\{-?((?:(?!\{\{|\}\}|\{%).)*?)-?\}\}\s*", re.DOTALL)


def filled(value: Any, context: OperationContext) -> Any:
    """A JSON value with its templates rendered. A text that is one `{{ expression }}` becomes that value itself.

    Raises:
        TemplateError: a template cannot be rendered.
    """
    if isinstance(value, dict):
        return {key: filled(one, context) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, context) for one in value]
    if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
        return value
    alone = _ALONE.fullmatch(value)
    if alone is None:
        return rendered(value, context)
    return json.loads(rendered("{{" + alone[1] + " | json }}", context))


def rendered(text: str, context: OperationContext, **more: Any) -> str:
    """A template, rendered with what the context has, and more variables.

    Raises:
        TemplateError: it cannot be read or rendered.
    """
    return parse(text).render(
        {**variables_of(context), **more}, functions_of(context),
        seed=f"{context.seed}:{context.operation_id}", now=context.now,
    )  # fmt: skip


def check_filled(
    kind: type[P], operation: Operation, *, only: Collection[str] | None = None
) -> list[Problem]:
    """All that is wrong with an operation's parameters, and with the templates in some of them; in all if left out."""
    params = operation.config.params
    templates = {key: one for key, one in params.items() if only is None or key in only}
    return check_params(kind, params, {}, lambda _: check_templates(templates, "params"))


def check_templates(value: Any, path: str) -> list[Problem]:
    """What is wrong with the templates in a JSON value, each with its place."""
    if isinstance(value, str):
        return check_template(value, path)
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    return [problem for key, one in inner for problem in check_templates(one, f"{path}.{key}")]
