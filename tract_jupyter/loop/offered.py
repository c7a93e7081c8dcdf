"""What a conversation offers its model: the list of tools that it began with, and what has become of them since.

Providers bind their cache, and what a model thought, to the list. So it stays as it was first sent: the commits of
replies are linked to it, and another process finds it there. What has changed is told in messages.
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
"""The key of a reply's metadata that says which tool profile it was made with."""
_TOLD: Final = "told_tools"
"""The key of the metadata of what a model is told about its tools: of which list, and all tools then, by digest."""
_RUNS_SCRIPTS: Final = "notebook_execute"


class ToolNews(NamedTuple):
    """What a model is to be told about its tools: the text, and what its commit says besides."""

    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class OfferedTools:
    """The tools of a toolset, as the conversation on the current branch offers them.

    Attributes:
        schemas: what each request is sent with, in OpenAI's shape.
        news: what the model has not been told yet; None if it knows all.
    """

    schemas: list[dict[str, Any]]
    news: ToolNews | None = None

    @classmethod
    def of(cls, repository: Repository, toolset: Toolset, *, is_anew: bool = False) -> OfferedTools:
        """Return the list of the newest reply with the same tool profile; if there is none, the tools as they are.

        Args:
            repository: has the conversation.
            toolset: the tools as they are.
            is_anew: whether the list is made anew all the same.
        """
        schemas: list[dict[str, Any]] = plain(toolset.schemas())
        sent = None if is_anew else _sent(repository, toolset.profile.name)
        if sent is None:
            return cls(schemas)
        kept = list(repository.toolsets.get(sent))
        told = _told(repository, sent)
        return cls(kept, _news(toolset, sent, _named(kept), _named(schemas), told))

    @property
    def names(self) -> frozenset[str]:
        """Return the names that stand in the list."""
        return frozenset(_named(self.schemas))


def news_of(repository: Repository, toolset: Toolset) -> ToolNews | None:
    """Return what the model is to be told about its tools: nothing before its first reply, which tells it all."""
    if _sent(repository, toolset.profile.name) is None:
        return None
    return OfferedTools.of(repository, toolset).news


def _sent(repository: Repository, profile: str) -> str | None:
    """Return the hash of the list that the newest reply with a tool profile was made with; None if there is none."""
    replies = _said_by(repository, "assistant")
    return next((one.tools_hash for one in replies if one.metadata.get(OFFERED) == profile), None)


def _told(repository: Repository, sent: str) -> dict[str, str] | None:
    """Return the tools that the model was told about last, by digest, in a conversation that keeps a list."""
    for info in _said_by(repository, "system"):
        note = info.metadata.get(_TOLD)
        if isinstance(note, dict) and note.get("list") == sent and isinstance(note.get("tools"), dict):
            return dict(note["tools"])
    return None


def _said_by(repository: Repository, role: str) -> Iterator[CommitInfo]:
    """Yield the commits of the messages of a role that are sent, newest first."""
    here = repository.refs.position.commit_hash
    messages = () if here is None else repository.compiler.of(here).messages
    for message in reversed(messages):
        if message.role == role and message.commit_hash:
            yield repository.commits.get(message.commit_hash)


def _news(
    toolset: Toolset,
    sent: str,
    kept: Mapping[str, Any],
    now: Mapping[str, Any],
    told: Mapping[str, str] | None,
) -> ToolNews | None:
    """Return what differs from what the model knows.

    Args:
        toolset: the tools as they are.
        sent: the hash of the list that is sent.
        kept: that list, by name.
        now: the schemas of the tools as they are, by name.
        told: those that there were when the model was told last, by digest; None if it never was.
    """
    there = {name: digest(schema) for name, schema in now.items()}
    known = {name: digest(schema) for name, schema in kept.items()} if told is None else told
    other = [name for name in there if known.get(name) != there[name]]
    gone = {name: toolset.why_not(name) for name in known if name not in there}
    if not other and not gone:
        return None
    text = tools_changed(
        new=[_text(now[name]) for name in other if name not in kept],
        changed=[_text(now[name]) for name in other if name in kept and kept[name] != now[name]],
        back=[name for name in other if kept.get(name) == now[name]],
        gone=gone,
        runs_scripts=_RUNS_SCRIPTS in kept and _RUNS_SCRIPTS in now,
    )
    return ToolNews(text, {_TOLD: {"list": sent, "tools": there}})


def _named(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {schema["function"]["name"]: schema for schema in schemas}


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema["function"], ensure_ascii=False)
