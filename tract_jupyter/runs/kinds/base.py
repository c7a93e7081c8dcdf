"""The protocol of kinds of operations: what they may use, and what they may return.

A kind is a black box with explicit effects (R1): it checks `params` when a profile is saved, and prepares a function
from the context to an `OperationOutput`. Whatever that function raises becomes an error in `attempt`, so a kind raises
`OperationFailed` where a code of its own says more, and `concurrency.Stopped` where it stops since it was told to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.models import shortened
from tract_jupyter.runs.reading import in_words
from tract_jupyter.runs.templates.engine import parse, render
from tract_jupyter.runs.terms import Data, ErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic_core import ErrorDetails

    from tract_jupyter.llm import Models
    from tract_jupyter.models import LLMClient
    from tract_jupyter.runs.kinds.decisions import RunDecisions
    from tract_jupyter.runs.model import Operation, OperationContext


P = TypeVar("P", bound=Data)

_NAMED: Final = 5


def read_params(kind: type[P], params: Mapping[str, Any]) -> P:
    """Return an operation's parameters as their class.

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
    """Return all that is wrong with parameters.

    Args:
        kind: their class.
        params: the given parameters.
        rules: the rule's name for a problem of `field`, or of anything within it as `field.*`; `params` otherwise.
        more: returns problems of several fields together.
    """
    try:
        found = kind.from_dict(dict(params))
    except ValidationError as error:
        return _problems(error, rules)
    return more(found)


def check_template(text: str, field: str) -> list[Problem]:
    """Return the problem that keeps a template from being read, if there is one."""
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
class OperationOutput:
    """The result of an operation.

    Attributes:
        value: of its artifact, from which the effects are made (X04). Any JSON.
        effects: used instead of a value by an operation that states its effects itself, as effects or their JSON.
        debug: details for diagnosis; bounded, without secrets.
        usage: what it consumed: `prompt_tokens`, `completion_tokens`, `costUsd`, ...
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
    """The outcome of an operation that decided to do nothing (R38). Not an error; no effects (R36, R37)."""

    reason: str = SkippedReason.CONDITION_FALSE
    condition: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """The outcome of an operation that needs a person's decision first, about the pending `pending_id`."""

    pending_id: str


class OperationFailed(Exception):  # noqa: N818 # it leads to a result, and never leaves an operation
    """The failure of an operation, with a stable code (R55).

    Args:
        code: one of `ErrorCode`, or a code of the kind's own in lower snake case (G31); otherwise it is replaced by
            `operation_error`.
        message: what happened, why, and what to do; no secrets.
        details: more of it, as JSON.
        inputs, outputs: what the log records nevertheless.
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
        """Return the error for an operation whose parameters or result are wrong."""
        return cls(ErrorCode.VALIDATION, message)


KindOutcome = OperationOutput | Skipped | Waits
Runner = Callable[["OperationContext"], KindOutcome]
"""Does an operation's work once. It may be called from several threads, and again for another attempt."""


@dataclass(frozen=True, slots=True)
class Services:
    """The means that a host gives to kinds. Each is None where the host has none; a kind that needs it then fails.

    Attributes:
        llm: the client that is asked if an operation names no other.
        models: others, by the names that operations give as `providerRef` and `credentialRef`.
        call_tool: name and arguments of a tool, `actor`, perhaps `approval` -> its result; permissions are the
            executor's business, and this is its `execute`.
        functions: of kind `compute`, by name; each gets the context and the parameters.
        search: query, how many, and filters -> documents, best first; see `runs.kinds.rag`.
        decisions: the pendings of operations that need a decision.
    """

    llm: LLMClient | None = None
    models: Models | None = None
    call_tool: Callable[..., Any] | None = None
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    search: Callable[..., Any] | None = None
    decisions: RunDecisions | None = None


class ModelRef(NamedTuple):
    """The model and the credential that an operation names; None for the tract's own."""

    provider: str | None
    credential: str | None = None


class OperationKind(Protocol):
    """A kind of operation.

    It may also have

    * `configured(config)`: returns the configuration that the engine uses;
    * `is_computed`: true if it only computes, within bounds, waits for nothing and changes nothing that it is given.
      Then it runs at once, on the thread that waits for the run;
    * `model_ref(operation)`: the `ModelRef` that it names, if any: it must be there before anything is called;
    * `parameters`: the classes of its `params`, whose fields are offered where an operation is typed.
    """

    @property
    def name(self) -> str:
        """The name that `OperationDefinition.kind` has."""
        ...

    @property
    def anywhere(self) -> bool:
        """True if what `prepare` returns can be pickled and run in another process."""
        ...

    def check(self, operation: Operation) -> list[Problem]:
        """Return all that is wrong with an operation's configuration, before it is saved. Nothing is run."""
        ...

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Make what is run. It may raise `OperationFailed`, as running it may.

        If it may wait for a person, it has `resume(context, pending_id)` too, which goes on after a decision about the
        pending that `Waits` named; that may still be undecided.
        """
        ...


_ALONE: Final = re.compile(r"\s*\{\{-?((?:(?!\{\{|\}\}|\{%).)*?)-?\}\}\s*", re.DOTALL)


def filled(value: Any, context: OperationContext) -> Any:
    """Return a JSON value with its templates rendered. A text that is one `{{ expression }}` becomes its value.

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
        return render(value, context)
    return json.loads(render("{{" + alone[1] + " | json }}", context))


def check_filled(
    kind: type[P], operation: Operation, *, only: Collection[str] | None = None
) -> list[Problem]:
    """Return what is wrong with an operation's parameters and with their templates (of `only` these parameters)."""
    params = operation.config.params
    templates = {key: one for key, one in params.items() if only is None or key in only}
    return check_params(kind, params, {}, lambda _: check_templates(templates, "params"))


def check_templates(value: Any, path: str) -> list[Problem]:
    """Return what is wrong with the templates in a JSON value, each with its place."""
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
