"""Values in templates: truth, equality, parts and text forms; and the scope and budget of a rendering."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.terms import MAX_TEXT


class Missing:
    """The value of a variable that does not exist. It is false, empty, and equal to nil."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Missing)

    def __hash__(self) -> int:
        return hash(None)


class Empty:
    """`empty` and `blank`: equal to values without elements; `blank` also equals white space."""

    def __init__(self, *, blank: bool) -> None:
        self._blank = blank

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return not (other.strip() if self._blank else other)
        if isinstance(other, list | tuple | dict):
            return not other
        return self._blank and (other is None or other is False or isinstance(other, Missing))

    __hash__ = None  # type: ignore[assignment]


MISSING: Final = Missing()
_SCALARS = (str, int, float, bool, type(None))


def is_true(value: Any) -> bool:
    """Return Liquid's truth: all values but nil and false are true."""
    return value is not None and value is not False and not isinstance(value, Missing)


def text_of(value: Any) -> str:
    """Return the text of a value: booleans as in JSON, nil empty, lists of scalars joined, others as JSON."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Missing | Empty):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        written = str(value)
        return written.replace("e", ".0e") if "e" in written and "." not in written else written  # 1.0e+20
    if isinstance(value, list | tuple) and all(isinstance(one, _SCALARS) for one in value):
        return "".join(map(text_of, value))
    return as_json(value)


def as_json(value: Any) -> str:
    """Return a value as JSON, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=text_of)


def item_of(value: Any, key: Any) -> Any:
    """Return `value.key` or `value[key]`: elements only, never Python attributes. MISSING if there is none."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        if key == "first":
            return list(next(iter(value.items()), ())) or MISSING
        return len(value) if key == "size" else MISSING
    if isinstance(value, list | tuple):
        return _element(value, key)
    return len(value) if isinstance(value, str) and key == "size" else MISSING


def _element(value: Any, key: Any) -> Any:
    if key == "size":
        return len(value)
    index = {"first": 0, "last": -1}.get(key, key) if isinstance(key, str) else key
    if isinstance(index, int) and not isinstance(index, bool) and -len(value) <= index < len(value):
        return value[index]
    return MISSING


def elements(value: Any) -> list[Any]:
    """Return the items of a loop: elements of a list, pairs of an object; a text is one item."""
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return [[key, one] for key, one in value.items()]
    return [value] if isinstance(value, str) and value else []


def flat(value: Any) -> list[Any]:
    """Return the items for a list filter, with nested lists flattened."""
    if isinstance(value, list | tuple) and not any(isinstance(one, list | tuple) for one in value):
        return list(value)
    items: list[Any] = []
    waiting = [] if value is None or isinstance(value, Missing) or value == "" else [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list | tuple):
            waiting.extend(reversed(one))
        else:
            items.append(one)
    return items


def same(left: Any, right: Any) -> bool:
    """Return True if two values are equal; a boolean never equals a number."""
    if isinstance(left, bool) != isinstance(right, bool) and not isinstance(left, Empty):
        return isinstance(right, Empty) and bool(right == left)
    return bool(right == left if isinstance(right, Empty | Missing) else left == right)


def contains(left: Any, right: Any) -> bool:
    """Return True if a text has a part, a list an element, or an object a key."""
    if isinstance(left, str):
        return is_true(right) and text_of(right) in left
    if isinstance(left, list | tuple):
        return any(same(one, right) for one in left)
    return isinstance(left, dict) and isinstance(right, str) and right in left


def number(value: Any) -> int | float:
    """Return a number, or the number in a text.

    Raises:
        TemplateError: it is not a number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 40:  # noqa: PLR2004 # longer texts are no useful numbers
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    if value is None or isinstance(value, Missing):
        return 0
    raise TemplateError(f"expected a number, not {text_of(value)[:40]!r}")


MAX_SOURCE: Final = 200_000
"""Characters of a text with placeholders."""

_ELEMENT: Final = 32
"""The budget of a list element in characters: both take about the same time."""

MAX_DEPTH: Final = 30
"""Nested blocks, and nested brackets."""


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """The limits of one rendering.

    Attributes:
        steps: nodes, look-ups, filters and iterations; a million take about a second.
        work: characters that filters and comparisons read or write.
        output: characters of the result.
    """

    steps: int = 200_000
    work: int = 8_000_000
    output: int = MAX_TEXT


class TemplateBudget:
    """The remaining budget of a rendering."""

    def __init__(self, limits: TemplateLimits) -> None:
        self.limits = limits
        self._steps, self._work = limits.steps, limits.work

    def step(self, count: int = 1) -> None:
        """Use steps.

        Raises:
            TemplateError: the budget is used up.
        """
        self._steps -= count
        if self._steps < 0:
            raise TemplateError(f"the template takes more than {self.limits.steps} steps; use smaller loops")

    def charge(self, characters: int) -> None:
        """Use characters.

        Raises:
            TemplateError: the budget is used up.
        """
        self._work -= characters
        if self._work < 0:
            raise TemplateError(
                f"the template processes more than {self.limits.work} characters; use less data"
            )

    def weigh(self, value: Any) -> None:
        """Use the weight of a value: its characters, and `_ELEMENT` for each other part."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                self.charge(len(one))
            elif isinstance(one, list | tuple | dict):
                self.charge(_ELEMENT * (1 + len(one)))
                if isinstance(one, dict):
                    self.charge(sum(len(str(key)) for key in one))
                    one = one.values()
                waiting.extend(part for part in one if isinstance(part, str | list | tuple | dict))
            else:
                self.charge(_ELEMENT)


Function = Callable[..., Any]


class TemplateScope:
    """The variables, functions, loops and budget of one rendering.

    Args:
        variables: plain data by name.
        functions: functions by name.
        strict: True if a missing variable is an error.
        seed: the seed of random values.
        now: the run's clock, as ISO 8601.

    Attributes:
        counters: the counters of `increment` and `decrement`.
        turns: the next value of each `cycle`.
        reached: the end of each loop, for `offset: continue`.
        shown: the last output of `ifchanged`.
    """

    def __init__(
        self,
        variables: Mapping[str, Any],
        functions: Mapping[str, Function],
        *,
        strict: bool,
        limits: TemplateLimits,
        seed: object = 0,
        now: str = "",
    ) -> None:
        self.budget = TemplateBudget(limits)
        self._seed = seed
        self.now = now
        self.counters: dict[str, int] = {}
        self.turns: dict[str, int] = {}
        self.reached: dict[str, int] = {}
        self.shown = ""
        self._assigned: dict[str, Any] = {}
        self._frames: list[dict[str, Any]] = []
        self._variables, self._functions, self._strict = variables, functions, strict

    @cached_property
    def random(self) -> Random:
        """The random generator of this rendering."""
        return Random(str(self._seed))  # noqa: S311 # dice, not secrets

    def find(self, name: str) -> Any:
        """Return a variable's value; the innermost loop wins."""
        for names in (*reversed(self._frames), self._assigned, self._variables, self.counters):
            if name in names:
                return names[name]
        return self.missing(name)

    def part(self, value: Any, key: Any, path: str) -> Any:
        """Return the value under a key."""
        item = item_of(value, key)
        return self.missing(path) if item is MISSING else item

    def missing(self, path: str) -> Any:
        """Return MISSING, or raise an error if strict."""
        if self._strict:
            raise TemplateError(f"{path!r} is missing, and variables are strict")
        return MISSING

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Return the result of a function."""
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(sorted(self._functions)) or "none"
            raise TemplateError(f"unknown function {name!r}; known functions: {known}")
        for argument in arguments:
            self.budget.weigh(argument)
        try:
            result = function(*arguments)
        except (TypeError, ValueError, ArithmeticError) as error:
            # without the Python name of the function
            reason = str(error).rpartition("() ")[2]
            raise TemplateError(f"invalid call of the function {name!r}: {reason}") from None
        self.budget.weigh(result)
        return result

    def assign(self, name: str, value: Any) -> None:
        """Set a variable for the rest of the template."""
        self._assigned[name] = value

    def around(self, name: str) -> Any:
        """Return the value of this name in the innermost loop that has it; None if none has it."""
        return next((frame[name] for frame in reversed(self._frames) if name in frame), None)

    @contextmanager
    def frame(self) -> Iterator[dict[str, Any]]:
        """Add the variables of a loop, and remove them at its end."""
        self._frames.append({})
        try:
            yield self._frames[-1]
        finally:
            self._frames.pop()
