"""The effects of operations, as data: a union with a `type`.

Sources: the seed's sections on prompt effects, canonicalization and artifacts (R41 to R52); `ui.inline` is X05.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, TypeAdapter

from tract_jupyter.runs.terms import (
    MAX_TEXT,
    ArtifactUsage,
    Data,
    Format,
    Persistence,
    Role,
    Tagged,
    WriteMode,
    tag,
)

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Note = Annotated[str, Field(max_length=1_000)]
Tag = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]


class _Effect(Tagged):
    note: Note | None = None


class AppendAfterLastUser(_Effect):
    """Adds a message after the current user message, in this call's prompt only (R42)."""

    type: Literal["prompt.append_after_last_user"] = tag("prompt.append_after_last_user")
    role: Role
    content: Text
    source: str | None = None


class SystemUpdate(_Effect):
    """Changes the first system message, in this call's prompt only (R43)."""

    type: Literal["prompt.system_update"] = tag("prompt.system_update")
    mode: Literal["prepend", "append", "replace"]
    payload: Text
    source: str | None = None


class InsertAtDepth(_Effect):
    """Inserts a message counted from the prompt's end: 0 is the end, -N is N messages before it (R44)."""

    type: Literal["prompt.insert_at_depth"] = tag("prompt.insert_at_depth")
    depth_from_end: int = 0
    role: Role
    content: Text
    source: str | None = None


class UserReplaceText(_Effect):
    """Replaces the current user message permanently (R49)."""

    type: Literal["turn.user.replace_text"] = tag("turn.user.replace_text")
    text: Text


class AssistantReplaceText(_Effect):
    """Replaces the reply of this turn permanently; allowed after the main call only (R48)."""

    type: Literal["turn.assistant.replace_text"] = tag("turn.assistant.replace_text")
    text: Text


class ArtifactHistory(Data):
    """The number of stored values of an artifact, including the current one."""

    enabled: bool = True
    max_items: Annotated[int, Field(ge=1, le=1_000)] = 20


class ArtifactUpsert(_Effect):
    """Creates or changes an artifact (R50, R52). The value is any JSON."""

    type: Literal["artifact.upsert"] = tag("artifact.upsert")
    tag: Tag
    value: Any = None
    persistence: Persistence = Persistence.RUN_ONLY
    format: Format = Format.MARKDOWN
    semantics: Annotated[str, Field(min_length=1, max_length=64)] = "intermediate"
    usage: ArtifactUsage = ArtifactUsage.INTERNAL
    write_mode: WriteMode = WriteMode.REPLACE
    history: ArtifactHistory = ArtifactHistory()


class UiInline(_Effect):
    """A note for readers of the run; it is never part of a prompt (X05)."""

    type: Literal["ui.inline"] = tag("ui.inline")
    role: Role
    content: Text
    anchor: Literal["after_last_user", "depth_from_end"] = "after_last_user"
    depth_from_end: int = 0
    format: Format = Format.MARKDOWN


PromptEffect = AppendAfterLastUser | SystemUpdate | InsertAtDepth
Effect = Annotated[
    AppendAfterLastUser
    | SystemUpdate
    | InsertAtDepth
    | UserReplaceText
    | AssistantReplaceText
    | ArtifactUpsert
    | UiInline,
    Field(discriminator="type"),
]

PROMPT_EFFECTS: Final = (AppendAfterLastUser, SystemUpdate, InsertAtDepth)
EFFECT_TYPES: Final = tuple(
    get_args(one.model_fields["type"].annotation)[0]
    for one in (*PROMPT_EFFECTS, UserReplaceText, AssistantReplaceText, ArtifactUpsert, UiInline)
)
EFFECT_LAYERS: Final = frozenset(one.partition(".")[0] for one in EFFECT_TYPES)

NO_APPEND: Final = (
    "writeMode 'append' does not join values: each write replaces the value, and art.<tag>.history has all values. "
    "Leave writeMode out."
)
NOT_HERE: Final = {
    "prompt.insert_after_last_user": "Use prompt.append_after_last_user.",
    "turn.user_variant.upsert_and_select": "Use turn.user.replace_text, which selects a new variant of the message.",
    "turn.assistant_variant.patch": "Use turn.assistant.replace_text, which makes a variant of the whole reply.",
    "turn.assistant_blocks.update": "A reply has no blocks here. Use turn.assistant.replace_text.",
    "turn.assistant_meta.update": "Metadata of a commit never changes. Write an artifact instead.",
}
"""Effects that other documents name, and their replacements here."""

EFFECTS: Final[TypeAdapter[Effect]] = TypeAdapter(Effect)
"""Reads one effect."""
