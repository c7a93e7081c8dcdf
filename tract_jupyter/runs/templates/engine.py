"""Reads a template once, and renders it once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.limits import MAX_SOURCE, Limits
from tract_jupyter.runs.templates.nodes import Block, Text, Written
from tract_jupyter.runs.templates.scope import Scope
from tract_jupyter.runs.templates.source import cut
from tract_jupyter.runs.templates.tags import Reader
from tract_jupyter.runs.terms import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_USUAL: Final = Limits()


class Template:
    """A template that was read; `parse` makes it. It may be rendered from several threads."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def render(
        self,
        variables: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        strict: bool = False,
        limits: Limits = _USUAL,
        seed: object = 0,
        now: str = "",
    ) -> str:
        """Return the text. Data goes in as it is: what looks like a template in it stays text.

        Args:
            variables: by name; JSON values.
            functions: by name; may be called in expressions.
            strict: whether a missing variable is an error; otherwise it is empty.
            limits: what it may cost.
            seed: of what is random.
            now: what `"now" | date` means, as ISO 8601.

        Raises:
            TemplateError: a variable is missing, a filter cannot be used, or it costs too much; has the line.
        """
        scope = Scope(variables or {}, functions or {}, strict=strict, limits=limits, seed=seed, now=now)
        out = Written(scope)
        try:
            self._block.render(scope, out)
        except (MemoryError, RecursionError):
            raise TemplateError("the data is nested too deep, or too large") from None
        return out.text


def parse(source: str) -> Template:
    """Read a template. A text without placeholders may be as long as any text; what is read is kept for a while.

    Raises:
        TemplateError: it cannot be read; has the line.
    """
    if "{{" not in source and "{%" not in source:
        if len(source) > MAX_TEXT:
            raise TemplateError(f"the text has {len(source)} characters, and may have {MAX_TEXT}")
        return Template(Block((Text(1, source),)))
    if len(source) > MAX_SOURCE:
        raise TemplateError(f"the template has {len(source)} characters, and may have {MAX_SOURCE}")
    return _parsed(source)


@lru_cache(maxsize=64)
def _parsed(source: str) -> Template:
    return Template(Reader(cut(source)).all())
