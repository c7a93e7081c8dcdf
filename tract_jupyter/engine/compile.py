"""From commits to messages.

The chain is read oldest first; an edit replaces its target's content in the target's place, the newest edit wins;
what is annotated `skip` is left out. An edited message keeps the target's priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models.commit import APPROXIMATE, CommitInfo, CommitOperation
from tract_jupyter.models.content import DialogueContent, validate_content
from tract_jupyter.models.context import CompiledContext, Message
from tract_jupyter.models.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.content import Content
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database

# What OpenAI's chat format adds: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
_PER_MESSAGE = 4  # three around it, one for the role
_PER_CONTEXT = 3


class Compiler:
    """Compiles the contexts of one tract."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows

    def compile(self, head: str | None) -> CompiledContext:
        """The context at commit `head`; an empty one for None. Two SQL statements up to 500 distinct contents."""
        if head is None:
            return CompiledContext((), 0, APPROXIMATE, None)
        with self._database.read() as connection:
            chain = self._rows.chain(connection, head)
            effective = effective_commits(chain)
            payloads = self._rows.payloads(connection, [current.content_hash for _, current in effective])
        messages = tuple(
            _message(original, current, validate_content(payloads[current.content_hash]))
            for original, current in effective
        )
        counters = {current.token_counter for _, current in effective}
        source = counters.pop() if len(counters) == 1 else APPROXIMATE
        tokens = sum(m.token_count for m in messages) + (_PER_CONTEXT if messages else 0)
        return CompiledContext(messages, tokens, source, head)


def effective_commits(chain: Sequence[CommitInfo]) -> list[tuple[CommitInfo, CommitInfo]]:
    """Pair each commit that shows with the version of it that counts, oldest first.

    Args:
        chain: newest first, as the store gives it.
    """
    newest_edit: dict[str, CommitInfo] = {}
    for info in chain:
        if info.edit_target is not None:
            newest_edit.setdefault(info.edit_target, info)
    return [
        (info, newest_edit.get(info.commit_hash, info))
        for info in reversed(chain)
        if info.operation is CommitOperation.APPEND and info.priority is not Priority.SKIP
    ]


def _message(original: CommitInfo, current: CommitInfo, content: Content) -> Message:
    return Message(
        role=content.message_role(),
        content=content.message_text(),
        name=content.name if isinstance(content, DialogueContent) else None,
        commit_hash=original.commit_hash,
        priority=original.priority,
        token_count=current.token_count + _PER_MESSAGE,
    )
