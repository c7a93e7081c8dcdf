"""What a model is told about scripts and the tools they call, within a bound of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import ContentError
from tract_jupyter.prompts import scripts as prompts
from tract_jupyter.toolkit.namespaces import all_functions
from tract_jupyter.toolkit.stub_source import stub_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition

_MOST_NAMES = 50


def instructions(tools: Mapping[str, ToolDefinition], count: Callable[[str], int], max_tokens: int) -> str:
    """How to write scripts, and the signatures of the tools.

    Where that is too long, descriptions are left out first, then the signatures of the last tools, which are named.

    Args:
        tools: those that the model has, by name.
        count: counts tokens.
        max_tokens: of the whole text.

    Raises:
        ContentError: not even the words about scripts fit.
    """
    least = count(prompts.SYSTEM)
    if least > max_tokens:
        raise ContentError(f"the instructions need at least {least} tokens; max_tokens is {max_tokens}")
    for text in _shorter_and_shorter(all_functions(tools)):
        if count(text) <= max_tokens:
            return text
    return prompts.SYSTEM


def _shorter_and_shorter(functions: Mapping[str, ToolDefinition]) -> Iterator[str]:
    yield _text(stub_source(functions))
    yield _text(stub_source(functions, docs=False))
    kept = len(functions)
    while kept > 1:
        kept = kept * 3 // 4
        names = list(functions)
        shown = stub_source({name: functions[name] for name in names[:kept]}, docs=False)
        rest = names[kept:]
        listed = ", ".join(rest[:_MOST_NAMES]) + (", ..." if len(rest) > _MOST_NAMES else "")
        yield _text(shown + prompts.LEFT_OUT.format(count=len(rest), names=listed))


def _text(stubs: str) -> str:
    return prompts.SYSTEM + prompts.TOOLS.format(stubs=stubs)
