"""Kind `transform`: derives a value from another value, in deterministic steps.

`params`: `{"input": ..., "steps": [{"type": "trim"}, ...]}`; texts in the input may be templates, such as
`{{ art.notes }}` or `{{ lastUserMessage }}`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, model_validator
from typing_extensions import override

from tract_jupyter.context import ApproximateCounter
from tract_jupyter.models import MAX_PATTERN, problem_of, read_strict_json
from tract_jupyter.runs.kinds.base import (
    OperationFailed,
    OperationOutput,
    check_filled,
    check_templates,
    filled,
    first_match,
    read_params,
    replace_matches,
)
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.templates.engine import render
from tract_jupyter.runs.templates.values import MISSING, as_json, item_of, text_of
from tract_jupyter.runs.terms import MAX_TEXT, Data, ErrorCode, Tagged, tag

if TYPE_CHECKING:
    from tract_jupyter.runs.kinds.base import KindOutcome, Problem, Runner, Services
    from tract_jupyter.runs.model import Operation, OperationContext


Matching = TypeVar("Matching", "Replace", "Extract")
Render = Callable[[str, Any], str]
"""Renders a template with `value` as a variable."""
_DEEPEST: Final = 100
_COUNTER: Final = ApproximateCounter()  # independent of installed vocabularies


class _Step(Tagged):
    def apply(self, value: Any, fill: Render) -> Any:
        """Return the new value."""
        raise NotImplementedError


_CHANGES: Final[dict[str, Callable[[str], str]]] = {"trim": str.strip, "lower": str.lower, "upper": str.upper}


class ChangeText(_Step):
    """Removes the white space around a text, or changes its case."""

    type: Literal["trim", "lower", "upper"]

    @override
    def apply(self, value: Any, fill: Render) -> str:
        return _CHANGES[self.type](_text(value, self.type))


class Replace(_Step):
    """Replaces all matches of a pattern, or all occurrences of a text if `literal`."""

    type: Literal["replace"] = tag("replace")
    pattern: Annotated[str, Field(min_length=1, max_length=MAX_PATTERN)]
    replacement: Annotated[str, Field(max_length=10_000)] = ""
    literal: bool = False

    @model_validator(mode="after")
    def _can_be_used(self) -> Replace:
        return self if self.literal else _checked(self)

    @override
    def apply(self, value: Any, fill: Render) -> str:
        text = _text(value, self.type)
        if not self.literal:
            return replace_matches(self.pattern, self.replacement, text)
        growth = text.count(self.pattern) * (len(self.replacement) - len(self.pattern))
        _check_size(len(text) + growth)
        return text.replace(self.pattern, self.replacement)


class Extract(_Step):
    """Takes the first group of the first match, or the match if there are no groups; null without a match."""

    type: Literal["extract"] = tag("extract")
    pattern: Annotated[str, Field(min_length=1, max_length=MAX_PATTERN)]

    @model_validator(mode="after")
    def _can_be_used(self) -> Extract:
        return _checked(self)

    @override
    def apply(self, value: Any, fill: Render) -> str | None:
        return first_match(self.pattern, _text(value, self.type))


class Pick(_Step):
    """Takes the value at a path of an object or list: `["items", 0, "name"]`, or `items.0.name`."""

    type: Literal["pick"] = tag("pick")
    path: str | tuple[str | int, ...]

    @override
    def apply(self, value: Any, fill: Render) -> Any:
        parts = self.path.split(".") if isinstance(self.path, str) else self.path
        for part in parts:
            is_place = isinstance(value, list) and isinstance(part, str) and part.lstrip("-").isdecimal()
            value = item_of(value, int(part) if is_place and len(str(part)) < _DEEPEST else part)
            if value is MISSING:
                raise OperationFailed.invalid(f"pick: there is no {part!r} on the path {self.path!r}")
        return value


class Join(_Step):
    """Joins a list to one text."""

    type: Literal["join"] = tag("join")
    separator: Annotated[str, Field(max_length=1_000)] = "\n"

    @override
    def apply(self, value: Any, fill: Render) -> str:
        if not isinstance(value, list):
            raise OperationFailed.invalid(f"join needs a list, not {_kind(value)}")
        texts = [text_of(one) for one in value]
        _check_size(sum(map(len, texts)) + len(self.separator) * len(texts))
        return self.separator.join(texts)


class Truncate(_Step):
    """Cuts a text to a number of characters or tokens. Tokens are estimated.

    Counts of providers are not used, so a replay gives the same text.
    """

    type: Literal["truncate"] = tag("truncate")
    characters: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    keep: Literal["start", "end"] = "start"

    @model_validator(mode="after")
    def _has_one_limit(self) -> Truncate:
        if (self.characters is None) == (self.tokens is None):
            raise ValueError("truncate needs characters or tokens, and not both")
        return self

    @override
    def apply(self, value: Any, fill: Render) -> str:
        text = _text(value, self.type)
        size = self._fitting(text) if self.characters is None else min(self.characters, len(text))
        return self._part(text, size)

    def _part(self, text: str, size: int) -> str:
        return text[:size] if self.keep == "start" else text[len(text) - size :]

    def _fitting(self, text: str) -> int:
        """Return the largest number of characters within the token limit, by bisection."""
        most, fits, too_many = self.tokens or 0, 0, len(text) + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if _COUNTER.count_text(self._part(text, middle)) <= most:
                fits = middle
            else:
                too_many = middle
        return fits


class ParseJson(_Step):
    """Reads a JSON text."""

    type: Literal["parse_json"] = tag("parse_json")

    @override
    def apply(self, value: Any, fill: Render) -> Any:
        try:
            return read_strict_json(_text(value, self.type))
        except (ValueError, RecursionError) as error:
            raise OperationFailed(
                ErrorCode.OUTPUT_PARSE, f"parse_json: the text is not JSON: {error}"
            ) from None


class ToJson(_Step):
    """Writes a value as JSON text."""

    type: Literal["to_json"] = tag("to_json")

    @override
    def apply(self, value: Any, fill: Render) -> str:
        return as_json(value)


class FillIn(_Step):
    """Renders a template with the current value as `value`."""

    type: Literal["template"] = tag("template")
    template: Annotated[str, Field(max_length=MAX_TEXT)]

    @override
    def apply(self, value: Any, fill: Render) -> str:
        return fill(self.template, value)


Step = Annotated[
    ChangeText | Replace | Extract | Pick | Join | Truncate | ParseJson | ToJson | FillIn,
    Field(discriminator="type"),
]


def transformed(value: Any, steps: tuple[Step, ...], fill: Render) -> Any:
    """Apply the steps to a value, in order.

    Raises:
        OperationFailed: a step does not fit its input, or its output is too large.
    """
    for step in steps:
        value = step.apply(value, fill)
        if isinstance(value, str):
            _check_size(len(value))
    return value


def _checked(step: Matching) -> Matching:
    wrong = problem_of(step.pattern)
    if wrong is not None:
        raise ValueError(wrong)
    return step


def _text(value: Any, step: str) -> str:
    if not isinstance(value, str):
        raise OperationFailed.invalid(f"{step} needs a text, not {_kind(value)}. Use join or to_json first.")
    return value


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", type(None): "null", str: "a text"}.get(
        type(value), repr(value)[:40]
    )


def _check_size(characters: int) -> None:
    if characters > MAX_TEXT:
        raise OperationFailed.invalid(
            f"The text would have {characters} characters; the limit is {MAX_TEXT}."
        )


class TransformParams(Data):
    """The input, and the steps."""

    input: Any
    steps: Annotated[tuple[Step, ...], Field(max_length=50)] = ()


class TransformKind:
    """The kind that transforms values."""

    name = "transform"
    parameters = (TransformParams,)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters, including patterns and templates."""
        problems = check_filled(TransformParams, operation, only=["input"])
        if problems:
            return problems
        steps = read_params(TransformParams, operation.config.params).steps
        templates = {place: one.template for place, one in enumerate(steps) if isinstance(one, FillIn)}
        return check_templates(templates, "params.steps")

    def prepare(self, operation: Operation, services: Services) -> Runner:  # noqa: ARG002
        """Return the steps as a function of the context."""
        return partial(_transform, read_params(TransformParams, operation.config.params))


def _transform(params: TransformParams, context: OperationContext) -> KindOutcome:
    def fill(template: str, value: Any) -> str:
        return render(template, context, value=value)

    rendered = filled(params.input, context)
    debug = {"input": quoted(rendered, context.snapshot_characters)}
    return OperationOutput(transformed(rendered, params.steps, fill), debug=debug)
