"""Checks of effects before they are applied, and the effects of an operation's value.

Sources: which hook allows what (R41, R48, E4), the checks (E5), one tag per operation (R51), exposures (X04).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import brief_repr, canonical_json, shortened
from tract_jupyter.runs.effect_types import (
    EFFECT_TYPES,
    EFFECTS,
    NOT_HERE,
    PROMPT_EFFECTS,
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
_TYPE: Final = dict(
    zip(
        (*PROMPT_EFFECTS, UserReplaceText, AssistantReplaceText, ArtifactUpsert, UiInline),
        EFFECT_TYPES,
        strict=True,
    )
)
_KNOWN: Final = frozenset(_TYPE.values())
_UPSERT: Final = _TYPE[ArtifactUpsert]
_ALLOWED_TYPES: Final = {hook: tuple(_TYPE[kind] for kind in kinds) for hook, kinds in _ALLOWED.items()}
_WITHOUT_TAG: Final = tuple(kind for kind in _TYPE if kind is not ArtifactUpsert)
_PROBLEMS: Final = 3
REWRITES: Final = (UserReplaceText, AssistantReplaceText)
_ESCAPED: Final = 6  # most JSON characters of one character


def allowed_effects(hook: Hook) -> tuple[str, ...]:
    """Return the effect types that a hook allows (R33, E4)."""
    return _ALLOWED_TYPES[hook]


def effect_type(effect: Effect | object) -> str:
    """Return the type that an effect names, shortened; empty if it has none."""
    if isinstance(effect, Tagged):
        kind = getattr(effect, "type", None)
    else:
        kind = effect.get("type") if isinstance(effect, dict) else None
    if isinstance(kind, str) and kind in _KNOWN:
        return kind
    return shortened(kind, 64).encode("utf-8", "replace").decode() if isinstance(kind, str) else ""


def checked_effect(effect: Effect | object, hook: Hook) -> Effect | ResultError:
    """Return the effect as immutable data, or the reason why it cannot be applied.

    Unknown types, and malformed or too large effects, are a `validation_error` (G24). Types that the hook forbids are a
    `policy_error`.
    """
    kind = getattr(effect, "type", None) if isinstance(effect, Tagged) else None
    if not isinstance(kind, str) or kind not in _KNOWN:
        kind = effect_type(effect)
    if kind not in _KNOWN:
        instead = NOT_HERE.get(kind) or f"Use one of {', '.join(sorted(_KNOWN))}."
        return _invalid(f"Unknown effect type {brief_repr(kind)}. {instead}")
    allowed = _ALLOWED_TYPES[hook]
    if kind not in allowed:
        return ResultError(
            code=ErrorCode.POLICY, message=f"{kind} is not allowed in {hook}. Allowed: {', '.join(allowed)}."
        )
    try:
        return _read_once(effect)
    except ValidationError as error:
        return _invalid(_describe(error))
    except ContentError as error:
        return _invalid(f"{kind}: {error}")


def check_together(effects: Sequence[Effect | object]) -> ResultError | None:
    """Return the reason why all effects of an operation are refused: too many, or two tags (R51, G23)."""
    if len(effects) > MAX_EFFECTS:
        return _invalid(f"An operation may have at most {MAX_EFFECTS} effects; this one has {len(effects)}.")
    tags = set()
    for one in effects:
        tag = None if isinstance(one, _WITHOUT_TAG) else _tag(one)
        if tag is not None:
            tags.add(tag)
    if len(tags) > 1:
        named = ", ".join(brief_repr(tag) for tag in sorted(tags))
        return ResultError(
            code=ErrorCode.ARTIFACT_CONFLICT,
            message=shortened(f"An operation may write one artifact; this one writes {named}. "
            "Make an operation for each.", MAX_ERROR_TEXT),
        )  # fmt: skip
    return None


def checked_value(value: Any) -> Any:
    """Return a copy of an artifact's value, as the store would return it.

    Raises:
        ContentError: it has no JSON form, or more than `MAX_TEXT` characters in it.
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
    """Return the effects of a value: the artifact, then one per exposure, in order (X04).

    Raises:
        ContentError: an artifact cannot have this value.
    """
    stored = checked_value(value)
    text = text_of(value)
    write = ArtifactUpsert(
        tag=artifact.tag,
        value=stored,
        persistence=artifact.persistence,
        format=artifact.format,
        semantics=artifact.semantics,
        usage=artifact.usage or usage_of(artifact.exposures),
        write_mode=artifact.write_mode,
        history=artifact.history,
    )
    effects = (write, *[_exposed(one, text, artifact) for one in artifact.exposures])
    for one in effects:
        # these classes have checked it, and it is immutable
        if not isinstance(one, REWRITES) and (one is not write or type(stored) is str):
            one.remember("checked", one)
    return effects


def text_of(value: Any) -> str:
    """Return a value as text; values other than texts become JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def usage_of(exposures: Iterable[Exposure]) -> ArtifactUsage:
    """Return the usage of an artifact with these exposures."""
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
    """Read an effect. Immutable effects are read only once."""
    if not isinstance(effect, Tagged) or type(getattr(effect, "value", "")) is not str:
        return _read(effect)
    checked = effect.once("checked", _read)
    if checked is not effect:
        checked.remember("checked", checked)
    return checked


def _read(effect: Effect | object) -> Effect:
    # pydantic may have built the effect without checks
    checked = EFFECTS.validate_python(dict(effect) if isinstance(effect, Tagged) else effect)
    if isinstance(checked, REWRITES) and not checked.text.strip():
        raise ContentError(
            "A message of the turn cannot be replaced with an empty text. Empty texts are never sent."
        )
    if isinstance(checked, ArtifactUpsert):
        value = checked_value(checked.value)
        return checked if value is checked.value else checked.model_copy(update={"value": value})
    return checked


def _tag(effect: Effect | object) -> str | None:
    """Return the tag that an effect writes, without checking the effect."""
    if isinstance(effect, Tagged):
        tag = getattr(effect, "tag", None) if getattr(effect, "type", None) == _UPSERT else None
    elif isinstance(effect, dict):
        tag = effect.get("tag") if effect.get("type") == _UPSERT else None
    else:
        tag = None
    return tag if isinstance(tag, str) else None


def _least_length(value: Any) -> int:
    """Return a lower bound of the JSON's length. Counting stops at the limit, so a huge value costs little."""
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
        f"An artifact's value may have at most {MAX_TEXT:,} characters as JSON. Store a part of it or a reference."
    )


def _describe(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_PROBLEMS])
    return f"{text}; and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else text


def _invalid(message: str) -> ResultError:
    safe = message.encode("utf-8", "replace").decode()
    return ResultError(code=ErrorCode.VALIDATION, message=shortened(safe, MAX_ERROR_TEXT))
