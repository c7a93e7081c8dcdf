"""An agent as data: name, instructions, model, tools and budget, and the limits of all agents.

A definition never contains code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AgentError, ContentError, nearest
from tract_jupyter.models import Allowance, brief_repr, counted, digest, twice_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_LONGEST_NAME: Final = 64
_LONGEST_DESCRIPTION: Final = 1_000
_LONGEST_INSTRUCTIONS: Final = 50_000
_LARGEST: Final = 10**12
"""The maximum for any limit. Sums of larger numbers are not exact."""
_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))]
)
_ROLES: Final = frozenset(
    [
        "agent",
        "agents",
        "user",
        "orchestrator",
        "script",
        "system",
        "assistant",
        "tool",
        "tools",
        "tract",
        "developer",
        # toolsets of agents
        "self",
        "code",
        "dynamic_agents",
    ]
)
UNKNOWN_USE: Final = ("tokens", "usd")
"""The limits that an outside agent cannot be held to."""
BUDGET_KEYS: Final = tuple(one.name for one in fields(Allowance))
"""The limits that a budget can set."""


@dataclass(frozen=True, kw_only=True)
class AgentDefinition:
    """The definition of an agent. The constructor validates it.

    Attributes:
        name: 1 to 64 letters, digits, `_` and `-`, starting with a letter. An invalid name is never corrected.
        instructions: the first message to the agent's model. The text stays exactly the same.
        description: purpose of the agent, for its callers.
        model: a model from the host's menu. None means the caller's model.
        compatible_models: patterns such as `openai/*`. If `model` is None, the caller's model must match one of them.
        tools: names of the tools that the agent may call.
        toolsets: sets of tools; see `t.agents.toolsets`.
        budget: limit for all calls of the agent together. None means the default.
        runtime: an outside agent that does the work with its own model and tools, such as `claude`. None for a model.

    Raises:
        AgentError: a value is invalid.
    """

    name: str
    instructions: str
    description: str = ""
    model: str | None = None
    compatible_models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    toolsets: tuple[str, ...] = ()
    budget: Allowance | None = None
    runtime: str | None = None

    def __post_init__(self) -> None:
        """Validate the definition."""
        check_name(self.name)
        _check_text("instructions", self.instructions, _LONGEST_INSTRUCTIONS)
        if not self.instructions.strip():
            raise AgentError(
                "no_instructions", f"the agent {self.name!r} has no instructions; give it a text"
            )
        _check_text("description", self.description, _LONGEST_DESCRIPTION)
        if self.model is not None:
            _check_text("model", self.model, 200)
        if self.budget == Allowance():  # the default, like a file without a budget
            object.__setattr__(self, "budget", None)
        for name in ("compatible_models", "tools", "toolsets"):
            object.__setattr__(self, name, checked_names(name, getattr(self, name)))
        if self.model is not None and self.compatible_models:
            raise AgentError(
                "two_models", "an agent cannot have both model and compatible_models; leave one out"
            )
        if self.runtime is not None:
            self._check_runtime()

    def _check_runtime(self) -> None:
        """Check that the definition promises nothing that an outside agent does not hold."""
        _check_text("runtime", self.runtime, _LONGEST_NAME)
        names = ("model", "compatible_models")
        if given := [name for name in names if getattr(self, name)]:
            raise AgentError(
                "runtime",
                f"the agent {self.name!r} runs on an outside agent, which has its own model, so "
                f"{' and '.join(given)} would have no effect; leave them out",
            )
        limited = {} if self.budget is None else self.budget.to_dict()
        if given := [name for name in UNKNOWN_USE if limited.get(name) is not None]:
            raise AgentError(
                "runtime",
                f"the use of {' and '.join(given)} by an outside agent is not known, so a budget cannot limit it; use "
                "steps, calls and seconds",
            )

    @property
    def task_hash(self) -> str:
        """Hash that must match to resume a call. It covers everything except the budget."""
        return digest([{**self.front_matter(), "budget": None}, self.instructions])

    def front_matter(self) -> dict[str, Any]:
        """Return the front matter of the file: everything except the instructions, without empty values."""
        values: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "model": self.model,
            "compatible_models": list(self.compatible_models),
            "tools": list(self.tools),
            "toolsets": list(self.toolsets),
            "budget": {} if self.budget is None else self.budget.to_dict(),
            "runtime": self.runtime,
        }
        return {
            key: value for key, value in values.items() if key == "name" or value not in (None, "", [], {})
        }


def check_name(name: object) -> None:
    """Check that a name is valid for an agent. The check never changes the name."""
    if not isinstance(name, str):
        raise AgentError("bad_name", f"an agent name must be a string, not {brief_repr(name)}")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        wished = (
            re.sub(r"[^A-Za-z0-9_-]+", "_", name.strip()).strip("_-").lstrip("0123456789_-")[:_LONGEST_NAME]
        )
        hint = f" The name was not changed; use {wished!r}, for example" if wished else ""
        raise AgentError(
            "bad_name",
            f"invalid agent name {brief_repr(name)}. Use 1 to {_LONGEST_NAME} characters: a letter first, then "
            f"letters, digits, '_' and '-'.{hint}",
        )
    if key_of(name) in _DEVICES | _ROLES:
        raise AgentError("reserved_name", f"{name!r} is reserved; choose another name for the agent")


def key_of(name: str) -> str:
    """Return the key for comparing names. Names that differ only in case or in `-` and `_` are the same."""
    return name.casefold().replace("-", "_")


def checked_names(what: str, value: object) -> tuple[str, ...]:
    """Return a list of unique names as a tuple."""
    if not isinstance(value, list | tuple):
        raise AgentError("bad_list", f"{what}: expected YAML list, or a Python list, not {brief_repr(value)}")
    for name in value:
        if not isinstance(name, str) or not name.strip():
            raise AgentError("bad_list", f"{what}: expected non-empty string, not {brief_repr(name)}")
        _check_text(what, name, 300)
    twice = twice_in(value)
    if twice is not None:
        noun = {"tools": "tool", "toolsets": "toolset"}.get(what, what)
        raise AgentError("twice", f"Duplicate {noun} entry {twice!r}; list each name once")
    return tuple(value)


def check_keys(what: str, keys: Iterable[object], allowed: Sequence[str], code: str) -> None:
    """Check that all keys are known."""
    for key in keys:
        if key not in allowed:
            message = f"{what} has no key {brief_repr(key)}.{nearest(str(key), allowed)} Allowed: {', '.join(allowed)}"
            raise AgentError(code, message, allowed)


def read_budget(budget: object) -> Allowance | None:
    """Return a budget from `{steps, calls, tokens, usd, seconds}` or an `Allowance`."""
    if budget is None or isinstance(budget, Allowance):
        return budget
    if not isinstance(budget, Mapping):
        raise AgentError(
            "bad_budget",
            f"budget must be a dict such as {{'steps': 20}}, not {brief_repr(budget)}",
            BUDGET_KEYS,
        )
    check_keys("budget", budget, BUDGET_KEYS, "bad_budget")
    try:
        limits = Allowance(**budget)
    except ContentError as error:
        raise AgentError("bad_budget", f"budget: {error}", BUDGET_KEYS) from None
    large = next((name for name, value in limits.to_dict().items() if value > _LARGEST), None)
    if large is not None:
        raise AgentError(
            "bad_budget",
            f"budget: {large} must be at most {_LARGEST:,}; leave it out for no limit",
            BUDGET_KEYS,
        )
    return limits


def changed_definition(definition: AgentDefinition, changes: dict[str, Any]) -> AgentDefinition:
    """Return a copy of a definition with some values changed. A change of None keeps the old value."""
    values = {name: value for name, value in changes.items() if value is not None}
    if "budget" in values:
        values["budget"] = read_budget(values["budget"])
    if "model" in values and definition.compatible_models:
        values["compatible_models"] = ()
    return replace(definition, **values)


def listed_names(names: Any) -> Any:
    """Return names as a list for the tools. A string stays a string, and the tool then rejects it."""
    return names if isinstance(names, str) else list(names)


def budget_data(budget: Any) -> Any:
    """Return a budget in the form that the tools accept."""
    return budget.to_dict() if isinstance(budget, Allowance) else budget


def unknown(what: str, wrong: Iterable[str], allowed: Iterable[str], code: str) -> AgentError:
    """Return the error for unknown names. It lists the allowed names."""
    names, there = list(wrong), sorted(allowed)
    listing = f"Allowed: {', '.join(there)}" if there else f"No {what}s exist"
    near = nearest(names[0], there)
    return AgentError(code, f"there is no {what} {', '.join(map(repr, names))} here.{near} {listing}", there)


def _check_text(what: str, text: object, longest: int) -> None:
    if not isinstance(text, str):
        raise AgentError("bad_text", f"{what} must be a string, not {brief_repr(text)}")
    if len(text) > longest:
        raise AgentError("too_long", f"{what} has {len(text):,} characters; the maximum is {longest:,}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise AgentError(
            "bad_text", f"{what} contains a lone surrogate, which a file cannot store; remove it"
        ) from None
    if "\0" in text:
        raise AgentError(
            "bad_text", f"{what} contains a NUL character, which the store cannot save; remove it"
        )


@dataclass(frozen=True, kw_only=True)
class TreeLimits:
    """The limits for all agents of a tract together. Assign an instance to `t.agents.limits`.

    Attributes:
        depth: longest chain of agent calls. With 1, the agents that you or your chat call cannot call other agents.
        count: how many agents may be active at once.
        budget: limit for all calls of all agents together, until the tract is closed.
        agent: limit for all calls of one agent that defines no budget.
    """

    depth: int = 3
    count: int = 20
    budget: Allowance = field(default=Allowance(steps=500))  # it is frozen
    agent: Allowance = field(default=Allowance(steps=50))  # the same

    def __post_init__(self) -> None:
        """Validate the limits."""
        for name in ("depth", "count"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise AgentError(
                    "bad_limit",
                    f"{name} must be a whole number of at least 1, not {brief_repr(getattr(self, name))}",
                )
        for name in ("budget", "agent"):
            if not isinstance(getattr(self, name), Allowance):
                raise AgentError(
                    "bad_limit",
                    f"{name} must be an Allowance, such as Allowance(steps=100), not {brief_repr(getattr(self, name))}",
                )


def used_text(used: dict[str, float]) -> str:
    """Return a call's usage in words. The text leaves out the time, because it differs in each run."""
    parts = [
        counted(int(used.get("steps", 0)), "request"),
        counted(int(used.get("calls", 0)), "tool call"),
        counted(int(used.get("tokens", 0)), "token"),
    ]
    return ", ".join([*parts, *([f"{used['usd']:.4f} USD"] if used.get("usd") else [])])
