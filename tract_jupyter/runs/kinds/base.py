"""The protocol of kinds of operations: their services and their outcomes.

A kind is a black box with explicit effects (R1). It checks `params` when a profile is saved, and makes a function from
the context to an `OperationOutput`. `attempt` turns exceptions of that function into errors. A kind raises
`OperationFailed` with its own error code, and `concurrency.Stopped` when it stops after a signal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from tract_jupyter.exceptions import ContentError, TemplateError
from tract_jupyter.models import MAX_SECONDS, patterns, plain, shortened
from tract_jupyter.runs.reading import in_words
from tract_jupyter.runs.templates.engine import parse, render
from tract_jupyter.runs.terms import MAX_TEXT, Data, ErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
        OperationFailed: `validation_error`; the parameters are invalid.
    """
    try:
        return kind.from_dict(dict(params))
    except ValidationError as error:
        raise OperationFailed.invalid("; ".join(message for _, message in _problems(error, {}))) from None


def valid_params(kind: type[P], params: Mapping[str, Any]) -> P | None:
    """Return an operation's parameters as their class; None if they are invalid."""
    try:
        return read_params(kind, params)
    except OperationFailed:
        return None


def check_params(
    kind: type[P],
    params: Mapping[str, Any],
    rules: Mapping[str, str],
    more: Callable[[P], list[Problem]],
) -> list[Problem]:
    """Return all problems of parameters.

    Args:
        kind: the class of the parameters.
        params: the parameters.
        rules: the rule's name for a problem of `field`, or of anything within it as `field.*`; `params` by default.
        more: returns problems that concern several fields.
    """
    try:
        parsed = kind.from_dict(dict(params))
    except ValidationError as error:
        return _problems(error, rules)
    return more(parsed)


def check_template(text: str, field: str) -> list[Problem]:
    """Return the problem of a template that cannot be parsed, if any."""
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
        message = in_words(one)
        problems.append(
            (
                rules.get(where) or rules.get(f"{field}.*") or rules.get(field) or _otherwise(one),
                shortened(f"{where}: {message}" if "." in where else message, 500),
            )
        )
    return problems


def _otherwise(error: ErrorDetails) -> str:
    return "unknown_field" if error["type"] == "extra_forbidden" else "params"


Problem = tuple[str, str]
"""A problem of an operation: the rule's name, such as `timeout_range`, and a message."""


@dataclass(frozen=True, slots=True)
class OperationOutput:
    """The result of an operation.

    Attributes:
        value: the value of its artifact, from which the effects are made (X04). Any JSON.
        effects: explicit effects, or their JSON; they replace the value.
        debug: details for diagnosis; bounded, without secrets.
        usage: consumed resources: `prompt_tokens`, `completion_tokens`, `costUsd`, ...
        inputs, outputs: summaries for the log (R56): hashes and sizes instead of texts.
    """

    value: Any = None
    effects: Any = None
    debug: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """The outcome of an operation that decided to do nothing (R38): no error, no effects (R36, R37)."""

    reason: str = SkippedReason.CONDITION_FALSE
    condition: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """The outcome of an operation that needs the user's decision about the pending `pending_id`."""

    pending_id: str


class OperationFailed(Exception):  # noqa: N818 # it becomes a result, and never leaves an operation
    """The failure of an operation, with a stable code (R55).

    Args:
        code: an `ErrorCode`, or a code of the kind's own in lower snake case (G31); others become `operation_error`.
        message: the problem, its cause and the remedy; no secrets.
        details: more facts, as JSON.
        inputs, outputs: summaries for the log.
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
        """Return the error for invalid parameters or an invalid result."""
        return cls(ErrorCode.VALIDATION, message)


def json_result(value: Any, of: str) -> Any:
    """Return the result of a function, tool or operation as JSON.

    Raises:
        OperationFailed: `validation_error`; it has no JSON form.
    """
    try:
        return plain(value)
    except ContentError as error:
        raise OperationFailed.invalid(f"The result of {of!r} has no JSON form: {error}") from None


KindOutcome = OperationOutput | Skipped | Waits
Runner = Callable[["OperationContext"], KindOutcome]
"""Does the work of an operation once. Several threads may call it, and a retry calls it again."""


@dataclass(frozen=True, slots=True)
class Services:
    """The services of the host for kinds. If a service is None, a kind that needs it fails.

    Attributes:
        llm: the client for operations that name no model. By default, the model for `chat` in `models`.
        models: the models by `providerRef` and `credentialRef`.
        call_tool: `ToolExecutor.execute`: takes the name and arguments of a tool, `actor` and maybe `approval`, and
            returns the result.
        functions: functions of the kind `compute` by name; each takes the context and the arguments.
        search: takes a query, a number and filters, and returns documents, best first; see `runs.kinds.rag`.
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

    Optional members:

    * `configured(config)`: returns the configuration for the engine;
    * `is_computed`: True if it only computes within limits, never waits and changes none of its inputs. Then it runs
      at once, on the run's own thread;
    * `model_ref(operation)`: the `ModelRef` that an operation names. It must exist before any call;
    * `parameters`: the classes of its `params`, whose fields are offered as completions.
    """

    @property
    def name(self) -> str:
        """The name in `OperationDefinition.kind`."""
        ...

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of an operation's configuration before it is saved. Nothing runs."""
        ...

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return the function to run. Both may raise `OperationFailed`.

        If the function may wait for the user, it also has `resume(context, pending_id)`, which continues after the
        decision about the pending in `Waits`. The pending may still be undecided then.
        """
        ...


_ALONE: Final = re.compile(r"\s*\{\{-?((?:(?!\{\{|\}\}|\{%).)*?)-?\}\}\s*", re.DOTALL)


def filled(value: Any, context: OperationContext) -> Any:
    """Return a JSON value with its templates rendered.

    A text that is only `{{ expression }}` becomes the value of the expression.

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
    """Return the problems of an operation's parameters and their templates; with `only`, of these templates."""
    params = operation.config.params
    templates = {key: one for key, one in params.items() if only is None or key in only}
    return check_params(kind, params, {}, lambda _: check_templates(templates, "params"))


def check_templates(value: Any, path: str) -> list[Problem]:
    """Return the problems of the templates in a JSON value, each with its place."""
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


def replace_matches(pattern: str, replacement: str, text: str) -> str:
    r"""Replace all matches; `\1` and `\g<name>` in the replacement are groups.

    Raises:
        OperationFailed: the pattern or the replacement is invalid, it takes too long, or the text becomes too large.
    """
    parts, place, size = [], 0, 0
    for match in _matches(pattern, text):
        try:
            new = match.expand(replacement)
        except (IndexError, ValueError, LookupError) as error:
            raise OperationFailed.invalid(f"Invalid replacement {replacement[:60]!r}: {error}") from None
        parts += [text[place : match.start()], new]
        size, place = size + len(parts[-2]) + len(new), match.end()
        if size > MAX_TEXT:
            raise OperationFailed.invalid(
                f"The text would have more than {MAX_TEXT} characters. Replace less."
            )
    return "".join([*parts, text[place:]])


def first_match(pattern: str, text: str) -> str | None:
    """Return the first non-empty group of the first match, or the whole match; None without a match.

    Raises:
        OperationFailed: the pattern is invalid, or takes too long.
    """
    for match in _matches(pattern, text):
        group_text: str = next((group for group in match.groups() if group is not None), match[0])
        return group_text
    return None


def _matches(pattern: str, text: str) -> Iterator[Any]:
    try:
        yield from patterns.matches(pattern, text, MAX_SECONDS)
    except ContentError as error:
        raise OperationFailed.invalid(str(error)) from None
