"""The model's instructions about scripts: how to write them, and the tools it probably needs, within a token limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tract_jupyter import prompts
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import check_limit, check_text, one_line
from tract_jupyter.models.schema import stub_source
from tract_jupyter.toolkit import DISCOVERY, callable_functions, ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.toolkit import ToolDefinition, ToolExecutor, ToolProfile

_MOST_NAMES: Final = 50
_MOST_SPACES: Final = 10
_LONGEST_DESCRIPTION: Final = 300
_MISSES: Final = 5
"""The number of tools that may be too large before the search for more tools ends."""


def instructions(
    executor: ToolExecutor, profile: ToolProfile, count: Callable[[str], int], max_tokens: int, query: str
) -> str:
    """Return instructions for writing scripts. See `Scripts.get_system_instructions`."""
    max_tokens = check_limit(max_tokens)
    check_text(query, "query")
    functions = callable_functions(executor, "agent", profile)
    tools = executor.tools()
    can_search = all(name in tools and profile.in_code.has(tools[name]) for name in DISCOVERY)
    head = prompts.SCRIPTS + (prompts.SEARCH if can_search else "")
    least = count(head)
    if least > max_tokens:
        raise ContentError(f"the instructions need at least {least} tokens; max_tokens is {max_tokens}")
    full_text = _text(head, stub_source(functions), "")
    if count(full_text) <= max_tokens:
        return full_text
    listed = _likeliest(functions, ranked(functions, executor.uses, query), count, max_tokens - least)
    while listed:
        rest = [name for name in functions if name not in listed]
        text = _text(head, stub_source(listed, argument_docs=False), _rest_line(rest, can_search=can_search))
        if count(text) <= max_tokens:
            return text
        listed.popitem()
    return head


def _likeliest(
    functions: Mapping[str, ToolDefinition], names: Iterable[str], count: Callable[[str], int], room: int
) -> dict[str, ToolDefinition]:
    """Return the first tools that fit, each with its description. Skip a large tool for smaller ones."""
    listed: dict[str, ToolDefinition] = {}
    misses = 0
    for name in names:
        tool = functions[name]
        short = replace(tool, description=one_line(tool.description, _LONGEST_DESCRIPTION))
        size = count(stub_source({name: short}, argument_docs=False))
        if size <= room:
            listed[name], room = short, room - size
        else:
            misses += 1
            if misses == _MISSES:
                break
    return listed


def _text(head: str, stubs: str, rest: str) -> str:
    return head + prompts.SCRIPT_TOOLS.format(stubs=stubs + rest)


def _rest_line(names: list[str], *, can_search: bool) -> str:
    if not names:
        return ""
    if can_search:
        spaces = Counter(name.partition(".")[0] for name in names if "." in name).most_common(_MOST_SPACES)
        listed = ", ".join(f"tools.{space} ({number})" for space, number in spaces)
        return prompts.TO_BE_FOUND.format(
            count=len(names), spaces=f", for example in {listed}" if listed else ""
        )
    listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return prompts.NAMED.format(count=len(names), names=listed)
