"""The manual page of an analysis rule as HTML: the little of Markdown that such pages are written in."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tract_jupyter.notebook.markup import escaped, heading

if TYPE_CHECKING:
    from tract_jupyter.analysis.rules import Rule

_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_HEADING = re.compile(r"#+ (.*)")


@cache
def page_html(rule: Rule) -> str:
    """Everything that the page says, everything escaped."""
    parts = []
    # of a split by one group, every second part is what the group found
    for number, part in enumerate(_FENCED.split(rule.manual())):
        parts.append(f"<pre>{_as_typed(part)}</pre>" if number % 2 else _prose_html(part))
    return f'<div class="tract-page">{"".join(parts)}</div>'


def _prose_html(text: str) -> str:
    """Headings and paragraphs; a heading may stand right above its paragraph."""
    parts = []
    for block in filter(None, re.split(r"\n{2,}|(?<=\n)(?=#+ )", text.strip("\n"))):
        first, _, rest = block.partition("\n")
        title = _HEADING.fullmatch(first)
        parts.append(heading(title[1], 5) if title else "")
        paragraph = (rest if title else block).strip()
        parts.append(f"<p>{_inline_html(paragraph)}</p>" if paragraph else "")
    return "".join(parts)


def _inline_html(text: str) -> str:
    parts, position = [], 0
    for found in _CODE.finditer(text):
        parts += [escaped(text[position : found.start()]), f"<code>{escaped(found[2])}</code>"]
        position = found.end()
    return "".join(parts) + escaped(text[position:])


def _as_typed(code: str) -> str:
    return escaped(code.rstrip("\n"))
