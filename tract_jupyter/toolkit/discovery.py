"""Search for tools, and a ranking by likely need.

A model that calls tools from scripts receives few schemas. It finds other tools with `tools_search` and reads their
documentation with `tools_describe`. Scripts can call both, because they are ordinary tools.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Final

from tract_jupyter.exceptions import ContentError, UnknownToolError, nearest
from tract_jupyter.models import one_line
from tract_jupyter.models.schema import stub_source
from tract_jupyter.toolkit.ambient import call_context
from tract_jupyter.toolkit.callers import current_caller
from tract_jupyter.toolkit.definitions import BUILT_IN, ToolDefinition, Traits
from tract_jupyter.toolkit.names import all_functions
from tract_jupyter.toolkit.profiles import CODE_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.profiles import ToolProfile

_MOST_FOUND: Final = 5
_MOST_DESCRIBED: Final = 10
_LONGEST_LINE: Final = 120

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
_PASSED_OVER: Final = frozenset(
    _WORD.findall(
        "a an and are as at be by can do for from get has have how i in into is it its me my of on or our that the "
        "their them then there this to up us use we what when where which with would you your"
    )
)
_IN_NAME: Final = 3.0
_IN_DESCRIPTION: Final = 1.0
_IN_ARGUMENTS: Final = 0.5
_SHORTEST_BEGINNING: Final = 4
_BEGINNING: Final = 0.6
"""The weight of a word that only shares its beginning with the query: `expenses` and `expense`."""


class _Indexed:
    """A tool as its descriptive words, each with a weight."""

    def __init__(self, name: str, tool: ToolDefinition) -> None:
        arguments = " ".join(f"{key} {p.description}" for key, p in tool.parameters.arguments.items())
        self.weights: dict[str, float] = {}
        for text, weight in (
            (arguments, _IN_ARGUMENTS), (tool.description, _IN_DESCRIPTION), (f"{name} {tool.name}", _IN_NAME),
        ):  # fmt: skip
            self.weights.update(dict.fromkeys(_words(text), weight))

    def weight(self, word: str) -> float:
        """Return the weight of a query word in this tool; 0 if the tool has no similar word."""
        exact = self.weights.get(word, 0.0)
        if exact or len(word) < _SHORTEST_BEGINNING:
            return exact
        alike = (weight for other, weight in self.weights.items() if _is_alike(word, other))
        return _BEGINNING * max(alike, default=0.0)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _is_alike(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    return len(short) >= _SHORTEST_BEGINNING and long.startswith(short)


def relevance(query: str, functions: Mapping[str, ToolDefinition]) -> dict[str, float]:
    """Return the relevance of tools for a query. Irrelevant tools are missing.

    A word weighs more in a tool's name than in its description. A word that few tools have weighs more. Of a long
    query, only the first words count.
    """
    query_words = [word for word in dict.fromkeys(_words(query[:4_000])) if word not in _PASSED_OVER]
    indexed = {name: _Indexed(name, tool) for name, tool in functions.items()}
    scores: dict[str, float] = {}
    for word in query_words:
        matches = {name: weight for name, each in indexed.items() if (weight := each.weight(word))}
        rarity = math.log1p(len(functions) / len(matches)) if matches else 0.0
        for name, weight in matches.items():
            scores[name] = scores.get(name, 0.0) + weight * rarity
    return scores


def ranked(functions: Mapping[str, ToolDefinition], uses: Mapping[str, int], query: str = "") -> list[str]:
    """Return the names of tools, with the most likely needed ones first.

    The most relevant and the most used tools alternate. In a tie, the user's tools precede the built-in ones.
    """
    used = {name: float(uses.get(tool.name, 0)) for name, tool in functions.items()}
    likely: dict[str, float] = dict.fromkeys(functions, 0.0)
    for scores in (relevance(query, functions), used):
        relevant = sorted(
            (name for name, score in scores.items() if score), key=lambda name: (-scores[name], name)
        )
        for position, name in enumerate(relevant):
            likely[name] += 1 / (1 + position)
    return sorted(functions, key=lambda name: (-likely[name], functions[name].owner == BUILT_IN, name))


def callable_functions(
    executor: ToolExecutor, actor: str, profile: ToolProfile | None
) -> dict[str, ToolDefinition]:
    """Return the tools that an actor's code may call, by their names after `tools.`, as the profile describes them.

    Tools that always refuse the call (locked, not permitted, not in the profile) are missing. The tools that run
    scripts and find tools are missing as well, because the caller already knows them or cannot call them.
    """
    tools = executor.tools()
    in_code = None if profile is None else profile.in_code
    offered = tools.values() if in_code is None else in_code.filter_tools(tools.values())
    described = {
        tool.name: tool
        for tool in offered
        if tool.name not in CODE_MODE and not executor.is_barred(tool, actor, in_code)
    }
    return {
        short: described[tool.name] for short, tool in all_functions(tools).items() if tool.name in described
    }


Query = Annotated[str, "Your task in a few words, or a part of the name."]
Names = Annotated[str | list[str], "One tool, or a list of up to 10."]


def discovery_tools(
    executor: Callable[[], ToolExecutor], count: Callable[[ToolProfile, str], object]
) -> list[ToolDefinition]:
    """Return the tools that find tools.

    `count` receives the text that a model in code mode received in a separate request, outside of a script.
    """
    tools = _DiscoveryTools(executor, count)
    reads = Traits(read_only=True)
    return [
        ToolDefinition.built_in(tools.tools_search, traits=reads, told_actor=True),
        ToolDefinition.built_in(tools.tools_describe, traits=reads, told_actor=True),
    ]


class _DiscoveryTools:
    def __init__(
        self, executor: Callable[[], ToolExecutor], count: Callable[[ToolProfile, str], object]
    ) -> None:
        self._executor = executor
        self._count = count

    def tools_search(self, actor: str, /, query: Query) -> list[str]:
        """Find out if there is a tool or function that you could use, and which.

        Look for it in a few words; it lists up to 5, the likeliest first. Not for how to call one:
        tools_describe.
        """
        executor = self._executor()
        functions = callable_functions(executor, actor, call_context().profile)
        scores = relevance(query, functions)

        def place(name: str) -> tuple[float, int, str]:
            return -scores[name], -executor.uses[functions[name].name], name

        lines = [
            f"{name}: {one_line(functions[name].description, _LONGEST_LINE)}"
            for name in sorted(scores, key=place)[:_MOST_FOUND]
        ]
        self._counted("\n".join([query, *lines]))
        return lines

    def tools_describe(self, actor: str, /, names: Names) -> str:
        """Read the documentation of a tool in detail: arguments, parameters, types, defaults, how exactly to call it.

        Not to look for one: tools_search.
        """
        functions = callable_functions(self._executor(), actor, call_context().profile)
        requested = dict.fromkeys([names] if isinstance(names, str) else names)
        if len(requested) > _MOST_DESCRIBED:
            raise ContentError(f"too many tools: {len(requested)}; ask for up to {_MOST_DESCRIBED} at once")
        text = stub_source({name: functions[name] for name in _resolved(requested, functions)})
        self._counted("\n".join([*requested, text]))
        return text

    def _counted(self, exchanged: str) -> None:
        profile = call_context().profile
        if (
            profile is not None
            and profile.callable_from_code is not None
            and current_caller(self._executor()) is None
        ):
            self._count(profile, exchanged)


def _resolved(names: Iterable[str], functions: Mapping[str, ToolDefinition]) -> list[str]:
    """Return the names after `tools.` for tool names of either form."""
    names_by_tool = {tool.name: name for name, tool in functions.items()}
    resolved = []
    for name in names:
        short = name.removeprefix("tools.")
        known = short if short in functions else names_by_tool.get(short)
        if known is None:
            close = nearest(short, functions)
            raise UnknownToolError(f"no tool {one_line(name, 80)!r}.{close} Use tools_search to find tools")
        resolved.append(known)
    return resolved
