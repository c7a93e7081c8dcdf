"""Checking effects before any is applied, and making them of an operation's value.

Sources: which hook allows what (R41, R48, E4), what is checked (E5), one tag for each operation (R51), exposures (X04).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import brief_repr, canonical_json, shortened
from tract_jupyter.runs.effect_types import (
    EFFECTS,
    NOT_HERE,
    AppendAfterLastUser,
    ArtifactUpsert,
    AssistantReplaceText,
    InsertAtDepth,
    SystemUpdate,
    UiInline,
    UserReplaceText,
)
from tract_jupyter.runs.model import InlineNote, PromptMessage, PromptPart, ResultError
from tract_jupyter.runs.terms import (
    MAX_EFFECTS,
    MAX_ERROR_TEXT,
    MAX_TEXT,
    ArtifactUsage,
    ErrorCode,
    Hook,
    Tagged,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.model import ArtifactSpec, Exposure

_BOTH: Final = (UserReplaceText, ArtifactUpsert, UiInline)
_ALLOWED: Final = {
    Hook.BEFORE: (AppendAfterLastUser, SystemUpdate, InsertAtDepth, *_BOTH),
    Hook.AFTER: (AssistantReplaceText, *_BOTH),
}
_TYPE: Final = {
    kind: kind.model_fields["type"].default for kind in (*_ALLOWED[Hook.BEFORE], AssistantReplaceText)
}
_KNOWN: Final = frozenset(_TYPE.values())
_UPSERT: Final = _TYPE[ArtifactUpsert]
_ALLOWED_TYPES: Final = {hook: tuple(_TYPE[kind] for kind in kinds) for hook, kinds in _ALLOWED.items()}
_WITHOUT_TAG: Final = tuple(kind for kind in _TYPE if kind is not ArtifactUpsert)
_PROBLEMS: Final = 3
_ESCAPED: Final = 6  # characters that one becomes in JSON, at most


def allowed_effects(hook: Hook) -> tuple[str, ...]:
    """Return the types of effects that a hook allows (R33, E4)."""
    return _ALLOWED_TYPES[hook]


def effect_type(effect: Effect | object) -> str:
    """Return the type that an effect says it has, whatever it is; empty if it has none."""
    if isinstance(effect, Tagged):
        given = getattr(effect, "type", None)
    else:
        given = effect.get("type") if isinstance(effect, dict) else None
    if isinstance(given, str) and given in _KNOWN:
        return given
    return shortened(given, 64).encode("utf-8", "replace").decode() if isinstance(given, str) else ""


def checked_effect(effect: Effect | object, hook: Hook) -> Effect | ResultError:
    """Return the effect as data that nobody else can change, or why it cannot be applied.

    An unknown type and anything malformed or too large are a `validation_error` (G24), what the hook forbids is a
    `policy_error`.
    """
    found = getattr(effect, "type", None) if isinstance(effect, Tagged) else None
    if not isinstance(found, str) or found not in _KNOWN:
        found = effect_type(effect)
    if found not in _KNOWN:
        instead = NOT_HERE.get(found) or f"use one of {', '.join(sorted(_KNOWN))}"
        return _invalid(f"there is no effect of type {brief_repr(found)}; {instead}")
    allowed = _ALLOWED_TYPES[hook]
    if found not in allowed:
        return ResultError(
            code=ErrorCode.POLICY, message=f"{found} is not allowed in {hook}; it allows {', '.join(allowed)}"
        )
    try:
        return _read_once(effect)
    except ValidationError as error:
        return _invalid(_told(error))
    except ContentError as error:
        return _invalid(f"{found}: {error}")


def check_effect(effect: Effect | object, hook: Hook) -> ResultError | None:
    """Return why one effect cannot be applied at a hook; None if it can."""
    found = checked_effect(effect, hook)
    return found if isinstance(found, ResultError) else None


def check_together(effects: Sequence[Effect | object]) -> ResultError | None:
    """Return why all effects of one operation are refused together: too many, or two tags (R51, G23)."""
    if len(effects) > MAX_EFFECTS:
        return _invalid(f"an operation has at most {MAX_EFFECTS} effects, and this one has {len(effects)}")
    tags = set()
    for one in effects:
        tag = None if isinstance(one, _WITHOUT_TAG) else _tag(one)
        if tag is not None:
            tags.add(tag)
    if len(tags) > 1:
        named = ", ".join(brief_repr(tag) for tag in sorted(tags))
        return ResultError(
            code=ErrorCode.ARTIFACT_CONFLICT,
            message=shortened(f"an operation writes at most one artifact, and this one writes {named}; "
            "make an operation for each", MAX_ERROR_TEXT),
        )  # fmt: skip
    return None


def check_effects(effects: Sequence[Effect | object], hook: Hook) -> ResultError | None:
    """Return the first reason why the effects of one operation cannot all be applied; None if they can."""
    refused = check_together(effects)
    return refused or next((error for one in effects if (error := check_effect(one, hook))), None)


def checked_value(value: Any) -> Any:
    """Return a copy of an artifact's value, as it would be read back.

    Raises:
        ContentError: it has no JSON form, or has more than `MAX_TEXT` characters in it.
    """
    if type(value) is str and value.isascii() and _ESCAPED * len(value) < MAX_TEXT:
        return value
    if _least_length(value) > MAX_TEXT:
        raise _too_long()
    text = canonical_json(value)
    if len(text) > MAX_TEXT:
        raise _too_long()
    return json.loads(text)


def effects_of(artifact: ArtifactSpec, value: Any) -> tuple[Effect, ...]:
    """Return the effects of a value: the artifact first, then one for each exposure, in order (X04).

    Raises:
        ContentError: the value cannot be an artifact's.
    """
    kept = checked_value(value)
    text = text_of(value)
    write = ArtifactUpsert(
        tag=artifact.tag,
        value=kept,
        persistence=artifact.persistence,
        format=artifact.format,
        semantics=artifact.semantics,
        usage=artifact.usage or usage_of(artifact.exposures),
        write_mode=artifact.write_mode,
        history=artifact.history,
    )
    if type(kept) is str:  # nobody can change it any more
        write.once("checked", _itself)
    return (write, *[_exposed(one, text, artifact) for one in artifact.exposures])


def _itself(effect: Effect) -> Effect:
    return effect


def text_of(value: Any) -> str:
    """Return a value as a text: as JSON, unless it is a text already."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def usage_of(exposures: Iterable[Exposure]) -> ArtifactUsage:
    """Whom an artifact is for, as its exposures tell."""
    kinds = {type(one) for one in exposures}
    in_prompt, in_ui = bool(kinds & {PromptPart, PromptMessage}), InlineNote in kinds
    if in_prompt:
        return ArtifactUsage.PROMPT_AND_UI if in_ui else ArtifactUsage.PROMPT_ONLY
    return ArtifactUsage.UI_ONLY if in_ui else ArtifactUsage.INTERNAL


def _exposed(exposure: Exposure, text: str, artifact: ArtifactSpec) -> Effect:
    if isinstance(exposure, PromptPart):
        return SystemUpdate(mode=exposure.mode, payload=text, source=exposure.source)
    if isinstance(exposure, PromptMessage):
        role, source = exposure.role, exposure.source
        if exposure.anchor == "after_last_user":
            return AppendAfterLastUser(role=role, content=text, source=source)
        depth = exposure.depth_from_end
        return InsertAtDepth(role=role, content=text, source=source, depth_from_end=depth)
    if isinstance(exposure, InlineNote):
        return UiInline(
            role=exposure.role,
            content=text,
            anchor=exposure.anchor,
            depth_from_end=exposure.depth_from_end,
            format=artifact.format,
        )
    if exposure.target == "current_user_main":
        return UserReplaceText(text=text)
    return AssistantReplaceText(text=text)


def _read_once(effect: Effect | object) -> Effect:
    """Read an effect; one that nobody can change any more is read once, however often it is checked."""
    if not isinstance(effect, Tagged) or type(getattr(effect, "value", "")) is not str:
        return _read(effect)
    found = effect.once("checked", _read)
    return found if found is effect else found.once("checked", _itself)


def _read(effect: Effect | object) -> Effect:
    # an effect that was made without checks is checked here
    found = EFFECTS.validate_python(dict(effect) if isinstance(effect, Tagged) else effect)
    if isinstance(found, UserReplaceText | AssistantReplaceText) and not found.text.strip():
        raise ContentError("a message of the turn is not replaced by an empty text, which no model is sent")
    if isinstance(found, ArtifactUpsert):
        value = checked_value(found.value)
        return found if value is found.value else found.model_copy(update={"value": value})
    return found


def _tag(effect: Effect | object) -> str | None:
    """Return the tag that an effect says it writes, whatever it is."""
    if isinstance(effect, Tagged):
        tag = getattr(effect, "tag", None) if getattr(effect, "type", None) == _UPSERT else None
    elif isinstance(effect, dict):
        tag = effect.get("tag") if effect.get("type") == _UPSERT else None
    else:
        tag = None
    return tag if isinstance(tag, str) else None


def _least_length(value: Any) -> int:
    """Return a lower bound of the JSON's length. Counting stops once it is too long: a huge value costs little."""
    length, todo = 0, [value]
    while todo and length <= MAX_TEXT:
        one = todo.pop()
        if isinstance(one, str):
            length += len(one)
        elif isinstance(one, dict):
            length += 5 * len(one)
            if length <= MAX_TEXT:
                todo.extend(one)
                todo.extend(one.values())
        elif isinstance(one, list | tuple):
            length += 2 * len(one)
            if length <= MAX_TEXT:
                todo.extend(one)
        else:
            length += 1
    return length


def _too_long() -> ContentError:
    return ContentError(
        f"an artifact's value has at most {MAX_TEXT:,} characters as JSON; store a part of it, or a reference"
    )


def _told(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_PROBLEMS])
    return f"{told}; and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else told


def _invalid(message: str) -> ResultError:
    safe = message.encode("utf-8", "replace").decode()
    return ResultError(code=ErrorCode.VALIDATION, message=shortened(safe, MAX_ERROR_TEXT))
