"""What is sent with a message beside its text, and how a message holds it: between marks that its text cannot hold."""

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
    """Something that is sent with a message.

    Attributes:
        name: what the person named it by, such as `df`.
        what: what it is, in a few words.
        text: what the model reads.
    """

    name: str
    what: str
    text: str

    def delimited(self) -> str:
        """Return it as the message has it: between marks that its text cannot hold."""
        mark = sha256(self.text.encode("utf-8", "replace"))[:8]
        name, what = (" ".join(one.replace('"', "'").split())[:200] for one in (self.name, self.what))
        return f'<context id="{mark}" of="{name}" what="{what}">\n{self.text}\n</context {mark}>\n\n'


def message_with(sent: Iterable[SentContext], text: str) -> str:
    """Return a message with what is sent beside it, before it."""
    return "".join(one.delimited() for one in sent) + text


def parse_message(message: str) -> tuple[list[SentContext], str]:
    """Return what was sent beside a message, and its text."""
    sent: list[SentContext] = []
    at = 0
    while found := _CONTEXT.match(message, at):
        sent.append(SentContext(found[2], found[3], found[4]))
        at = found.end()
    return sent, message[at:]
