"""Prompts for a model whose reply was not good enough."""

from __future__ import annotations

from typing import Final

RETRY: Final = """\
That reply was not accepted{colon}
{diagnosis}
Reply again, with this put right. Give the whole reply, and do not mention this correction."""
PLACE: Final = "{diagnosis}"
"""Where what was wrong goes in a retry prompt of the user's own."""


def retry_text(diagnosis: str, template: str | None = None) -> str:
    """Return the text that asks for another reply.

    Args:
        diagnosis: what was wrong; empty if nobody said.
        template: the user's own words, in which `{diagnosis}` stands for what was wrong; without it, that follows.
    """
    if template is None:
        text = RETRY.replace("{colon}", ":" if diagnosis else ".").replace(PLACE, diagnosis)
        return "\n".join(line for line in text.splitlines() if line)
    if PLACE in template or not diagnosis:
        return template.replace(PLACE, diagnosis)
    return f"{template}\n\n{diagnosis}"
