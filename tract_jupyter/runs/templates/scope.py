"""What a rendering knows: variables, functions, what was assigned, and what is left of its budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.limits import Budget, Limits
from tract_jupyter.runs.templates.values import MISSING, item_of

Function = Callable[..., Any]


class Scope:
    """Of one rendering.

    Args:
        variables: by name, plain data.
        functions: by name; they get what is in the brackets.
        strict: whether a variable that is missing is an error.
        seed: of all that is random.
        now: the run's clock, as ISO 8601.

    Attributes:
        counters: what `increment` and `decrement` count.
        turns: whose turn it is in each `cycle`.
        reached: how far each loop came, for `offset: continue`.
        shown: what the last `ifchanged` wrote.
    """

    def __init__(
        self,
        variables: Mapping[str, Any],
        functions: Mapping[str, Function],
        *,
        strict: bool,
        limits: Limits,
        seed: object = 0,
        now: str = "",
    ) -> None:
        self.budget = Budget(limits)
        self.random = Random(str(seed))  # noqa: S311 # dice, not secrets
        self.now = now
        self.counters: dict[str, int] = {}
        self.turns: dict[str, int] = {}
        self.reached: dict[str, int] = {}
        self.shown = ""
        self._assigned: dict[str, Any] = {}
        self._frames: list[dict[str, Any]] = []
        self._variables, self._functions, self._strict = variables, functions, strict

    def find(self, name: str) -> Any:
        """A variable's value; that of the innermost loop first."""
        for names in (*reversed(self._frames), self._assigned, self._variables, self.counters):
            if name in names:
                return names[name]
        return self.missing(name)

    def part(self, value: Any, key: Any, path: str) -> Any:
        """What a value has under a key."""
        found = item_of(value, key)
        return self.missing(path) if found is MISSING else found

    def missing(self, path: str) -> Any:
        """Nothing is there: an error if strict."""
        if self._strict:
            raise TemplateError(f"there is no {path!r}, and variables are strict")
        return MISSING

    def call(self, name: str, arguments: list[Any]) -> Any:
        """The result of a function."""
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(sorted(self._functions)) or "none"
            raise TemplateError(f"there is no function {name!r}; there are: {known}")
        for argument in arguments:
            self.budget.weigh(argument)
        try:
            found = function(*arguments)
        except (TypeError, ValueError, ArithmeticError) as error:
            # without the name that it has in this program
            reason = str(error).rpartition("() ")[2]
            raise TemplateError(f"the function {name!r} cannot be called like this: {reason}") from None
        self.budget.weigh(found)
        return found

    def assign(self, name: str, value: Any) -> None:
        """Keep a value for the rest of the template."""
        self._assigned[name] = value

    def around(self, name: str) -> Any:
        """What the innermost loop that has this name has under it, or None."""
        return next((frame[name] for frame in reversed(self._frames) if name in frame), None)

    def enter(self, frame: dict[str, Any]) -> None:
        """Names of a loop, until `leave`."""
        self._frames.append(frame)

    def leave(self) -> None:
        """Forget the innermost loop's names."""
        self._frames.pop()
