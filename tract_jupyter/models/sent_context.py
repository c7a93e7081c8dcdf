"""Context attached to a message, stored between marks that the text cannot contain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.models.canonical import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTEXT: Final = re.compile(
    r'<context id="([0-9a-f]{8})" of="([^"\n]{0,200})" what="([^"\n]{0,200})">\n(.*?)\n</context \1>\n\n',
    re.DOTALL,
)


class SentContext(NamedTuple):
    """A piece of context for a message.

    Attributes:
        name: the user's name for it, such as `df`.
        what: a short description.
        text: the text for the model.
    """

    name: str
    what: str
    text: str

    def delimited(self) -> str:
        """Return the text in its form within a message: between marks that it cannot contain."""
        mark = sha256(self.text.encode("utf-8", "replace"))[:8]
        name, what = (" ".join(text.replace('"', "'").split())[:200] for text in (self.name, self.what))
        return f'<context id="{mark}" of="{name}" what="{what}">\n{self.text}\n</context {mark}>\n\n'


def message_with(sent: Iterable[SentContext], text: str) -> str:
    """Return a message with its attached context before the text."""
    return "".join(context.delimited() for context in sent) + text


def parse_message(message: str) -> tuple[list[SentContext], str]:
    """Return the attached context and the text of a message."""
    sent: list[SentContext] = []
    at = 0
    while match := _CONTEXT.match(message, at):
        sent.append(SentContext(match[2], match[3], match[4]))
        at = match.end()
    return sent, message[at:]
