"""The tools that a conversation offers its model: the list that it started with, and messages about later changes.

Providers bind their cache, and the model's reasoning, to the list. So every request of a conversation repeats the first
list. The commits of replies refer to it, so another process finds it there. Messages report later changes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import digest, plain
from tract_jupyter.prompts import tools_changed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tract_jupyter.context import Repository
    from tract_jupyter.models import CommitInfo
    from tract_jupyter.toolkit import Toolset

OFFERED: Final = "tool_profile"
"""Metadata key of a reply: its tool profile."""
_REPORTED: Final = "told_tools"
"""Metadata key of a message about changed tools: the list, and the digests of all tools at that time."""
_RUNS_SCRIPTS: Final = "notebook_execute"


class ToolNews(NamedTuple):
    """A message for the model about its changed tools: the text, and the metadata of its commit."""

    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class OfferedTools:
    """The tools of a toolset, as the conversation on the current branch offers them.

    Attributes:
        schemas: the tool list of each request, in OpenAI's shape.
        news: the changes that the model does not know yet; None for none.
    """

    schemas: list[dict[str, Any]]
    news: ToolNews | None = None

    @classmethod
    def of(cls, repository: Repository, toolset: Toolset, *, ignore_stored: bool = False) -> OfferedTools:
        """Return the list of the newest reply with the same tool profile; if there is none, the current tools.

        Args:
            repository: has the conversation.
            toolset: the current tools.
            ignore_stored: True to ignore the stored list.
        """
        schemas: list[dict[str, Any]] = plain(toolset.schemas())
        sent = None if ignore_stored else _sent(repository, toolset.profile.name)
        if sent is None:
            return cls(schemas)
        stored = list(repository.toolsets.get(sent))
        reported = _reported(repository, sent)
        return cls(stored, _news(toolset, sent, _named(stored), _named(schemas), reported))

    @property
    def names(self) -> frozenset[str]:
        """Return the names in the list."""
        return frozenset(_named(self.schemas))


def news_of(repository: Repository, toolset: Toolset) -> ToolNews | None:
    """Return the message about changed tools; None before the first reply, because the request lists all tools then."""
    if _sent(repository, toolset.profile.name) is None:
        return None
    return OfferedTools.of(repository, toolset).news


def _sent(repository: Repository, profile: str) -> str | None:
    """Return the hash of the tool list of the newest reply with a tool profile; None if there is none."""
    replies = _messages_by(repository, "assistant")
    return next((one.tools_hash for one in replies if one.metadata.get(OFFERED) == profile), None)


def _reported(repository: Repository, sent: str) -> dict[str, str] | None:
    """Return the digests of the tools in the last message about changes to this list."""
    for info in _messages_by(repository, "system"):
        note = info.metadata.get(_REPORTED)
        if isinstance(note, dict) and note.get("list") == sent and isinstance(note.get("tools"), dict):
            return dict(note["tools"])
    return None


def _messages_by(repository: Repository, role: str) -> Iterator[CommitInfo]:
    here = repository.refs.position.commit_hash
    messages = () if here is None else repository.compiler.of(here).messages
    for message in reversed(messages):
        if message.role == role and message.commit_hash:
            yield repository.commits.get(message.commit_hash)


def _news(
    toolset: Toolset,
    sent: str,
    stored: Mapping[str, Any],
    now: Mapping[str, Any],
    reported: Mapping[str, str] | None,
) -> ToolNews | None:
    """Compare the current tools with the ones that the model knows.

    Args:
        toolset: the current tools.
        sent: the hash of the list that is sent.
        stored: that list, by name.
        now: the schemas of the current tools, by name.
        reported: the digests of the tools in the last message about changes; None if there was none.
    """
    current = {name: digest(schema) for name, schema in now.items()}
    known = {name: digest(schema) for name, schema in stored.items()} if reported is None else reported
    other = [name for name in current if known.get(name) != current[name]]
    gone = {name: toolset.why_not(name) for name in known if name not in current}
    if not other and not gone:
        return None
    text = tools_changed(
        new=[_text(now[name]) for name in other if name not in stored],
        changed=[_text(now[name]) for name in other if name in stored and stored[name] != now[name]],
        back=[name for name in other if stored.get(name) == now[name]],
        gone=gone,
        runs_scripts=_RUNS_SCRIPTS in stored and _RUNS_SCRIPTS in now,
    )
    return ToolNews(text, {_REPORTED: {"list": sent, "tools": current}})


def _named(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {schema["function"]["name"]: schema for schema in schemas}


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema["function"], ensure_ascii=False)
