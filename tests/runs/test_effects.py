from __future__ import annotations

import pytest

from tests.runs.running import check_effect, check_effects
from tract_jupyter.exceptions import ContentError
from tract_jupyter.runs import (
    MAX_EFFECTS,
    MAX_ERROR_TEXT,
    MAX_TEXT,
    ArtifactSpec,
    ArtifactUpsert,
    ErrorCode,
    Hook,
    SystemUpdate,
    allowed_effects,
    checked_effect,
    checked_value,
    effects_of,
)

SYSTEM = {"type": "prompt.system_update", "mode": "append", "payload": "x"}
WELL_FORMED = {
    "prompt.append_after_last_user": {"role": "system", "content": "x"},
    "prompt.system_update": {"mode": "append", "payload": "x"},
    "prompt.insert_at_depth": {"depthFromEnd": -1, "role": "user", "content": "x"},
    "turn.user.replace_text": {"text": "x"},
    "turn.assistant.replace_text": {"text": "x"},
    "artifact.upsert": {"tag": "t", "value": 1},
    "ui.inline": {"role": "user", "content": "x"},
}
ONLY_BEFORE = {"prompt.append_after_last_user", "prompt.system_update", "prompt.insert_at_depth"}
ONLY_AFTER = {"turn.assistant.replace_text"}


def artifact(tag="t", **fields):
    return {"type": "artifact.upsert", "tag": tag, "value": 1, **fields}


def codes(effects, hook=Hook.BEFORE):
    error = check_effects(effects, hook)
    return None if error is None else error.code


@pytest.mark.parametrize("hook", Hook)
@pytest.mark.parametrize("kind", WELL_FORMED)
def test_each_hook_allows_its_effects_and_no_others(kind, hook):
    """R41, R48, E4: the prompt before, the reply after; the user's message, artifacts and notes at both."""
    is_allowed = kind not in (ONLY_AFTER if hook is Hook.BEFORE else ONLY_BEFORE)
    error = check_effect({"type": kind, **WELL_FORMED[kind]}, hook)
    assert (error.code if error else None) == (None if is_allowed else ErrorCode.POLICY)
    assert (kind in allowed_effects(hook)) is is_allowed


@pytest.mark.parametrize(
    "effect",
    [
        {"type": "prompt.delete_message"}, {"type": ""}, {"type": None}, {"type": ["x"]}, {}, None, "x", 3, [], object(),
        {"type": "x" * 1_000_000}, {"type": "\ud800"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("hook", Hook)
def test_an_unknown_type_is_a_validation_error(effect, hook):
    """G24, E5: for any other value in place of an effect."""
    error = check_effect(effect, hook)
    assert error.code == ErrorCode.VALIDATION
    assert len(error.message) <= MAX_ERROR_TEXT
    error.message.encode()


@pytest.mark.parametrize(
    "effect",
    [
        {"type": "prompt.system_update"},
        {**SYSTEM, "mode": "insert"},
        {**SYSTEM, "payload": 3},
        {**SYSTEM, "payload": None},
        {**SYSTEM, "payload": "\ud800"},
        {**SYSTEM, "payload": "x" * (MAX_TEXT + 1)},
        {**SYSTEM, "note": "x" * 1_001},
        {**SYSTEM, "surprise": 1},
        {"type": "prompt.append_after_last_user", "role": "tool", "content": "x"},
        {"type": "prompt.insert_at_depth", "role": "user", "content": "x", "depthFromEnd": 0.5},
        {"type": "prompt.insert_at_depth", "role": "user", "content": "x", "depthFromEnd": float("nan")},
        {"type": "turn.user.replace_text"},
        {"type": "ui.inline", "role": "user", "content": "x", "anchor": "here"},
    ],
)
def test_a_malformed_effect_is_a_validation_error(effect):
    """E5: a missing, wrong, unknown or too long field."""
    assert check_effect(effect, Hook.BEFORE).code == ErrorCode.VALIDATION


@pytest.mark.parametrize(
    "tag", ["", " ", "A", "1a", "_a", "a-b", "a.b", "a\n", "\u00e4", "a" * 65, None, 3, ["a"]]
)
def test_a_tag_is_lower_snake_case(tag):
    """R6, E5: it is read as `art.<tag>`."""
    assert check_effect(artifact(tag), Hook.AFTER).code == ErrorCode.VALIDATION


@pytest.mark.parametrize("tag", ["a", "a1", "world_state", "a" * 64])
def test_a_good_tag_is_taken(tag):
    """R6: a letter, then letters, digits and underscores."""
    assert check_effect(artifact(tag), Hook.AFTER) is None


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def itself():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), {"a": [float("-inf")]}, "\ud800", {"\ud800": 1}, {1: 2}, {1, 2}, object(), b"x",
        nested(100_000), itself(), "x" * MAX_TEXT, ["x" * 600_000] * 2, [0] * 5_000_000, {"k": "\n" * 600_000},
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_without_json_form_or_too_large_is_a_validation_error(value):
    """R52, E5: also tens of megabytes, and a value that contains itself."""
    assert check_effect(artifact(value=value), Hook.BEFORE).code == ErrorCode.VALIDATION
    with pytest.raises(ContentError):
        effects_of(ArtifactSpec(tag="t"), value)


@pytest.mark.parametrize(
    "value", [None, True, 0, 1.5, "", "x" * (MAX_TEXT - 2), [], {"a": [{"b": None}]}, 10**30]
)
def test_any_other_json_is_a_value(value):
    """R52: null too."""
    effect = checked_effect(artifact(value=value), Hook.BEFORE)
    assert (effect.value, type(effect.value)) == (value, type(value))


def test_a_checked_effect_is_independent_of_the_given_value():
    """R58: later changes of the value by an operation change no commit."""
    value = {"a": [1]}
    effects = [artifact(value=value), ArtifactUpsert(tag="t", value=value)]
    checked = [checked_effect(one, Hook.BEFORE) for one in effects]
    value["a"].append(2)
    assert [one.value for one in checked] == [{"a": [1]}] * 2


def test_an_effect_that_was_made_without_checks_is_checked():
    """E5: pydantic allows objects without validation."""
    made = SystemUpdate.model_construct(mode="append", payload="\ud800")
    assert check_effect(made, Hook.BEFORE).code == ErrorCode.VALIDATION


@pytest.mark.parametrize("hook", Hook)
def test_two_tags_of_one_operation_are_a_conflict(hook):
    """R51, R63, G23: for all its effects together, even if another effect is invalid."""
    assert codes([artifact("a"), artifact("b")], hook) == ErrorCode.ARTIFACT_CONFLICT
    assert codes([{"type": "nothing"}, artifact("a"), artifact("b")], hook) == ErrorCode.ARTIFACT_CONFLICT


def test_several_effects_of_one_tag_are_fine():
    """R51: there is only one tag."""
    assert codes([artifact("a"), SYSTEM, artifact("a")]) is None
    assert codes([]) is None


def test_there_are_only_so_many_effects():
    """E5: the number is bounded."""
    assert codes([SYSTEM] * MAX_EFFECTS) is None
    assert codes([SYSTEM] * (MAX_EFFECTS + 1)) == ErrorCode.VALIDATION


def test_the_first_invalid_effect_is_reported():
    """R54, R55: with a stable code and a remedy."""
    assert codes([SYSTEM, {"type": "turn.assistant.replace_text", "text": "x"}, {}]) == ErrorCode.POLICY
    error = check_effects([{"type": "nothing"}], Hook.BEFORE)
    assert "Use one of artifact.upsert, " in error.message


def test_a_checked_value_is_plain_json():
    """R52: as a copy."""
    value = {"b": 1, "a": ("x",)}
    assert checked_value(value) == {"a": ["x"], "b": 1}


# --- exposures


def exposed(*exposures, value="v", **spec):
    return effects_of(ArtifactSpec.from_dict({"tag": "t", "exposures": list(exposures), **spec}), value)


PART = {"type": "prompt_part", "mode": "prepend"}
MESSAGE = {"type": "prompt_message", "role": "user"}
NOTE = {"type": "ui_inline", "anchor": "depth_from_end", "depthFromEnd": -2}


def test_the_artifact_comes_first_and_exposures_follow_in_order():
    """R40, R51: exactly one artifact, in addition to the exposures of its value."""
    deep = {**MESSAGE, "anchor": "depth_from_end", "depthFromEnd": -3, "source": "art.t"}
    user, reply = (
        {"type": "turn_rewrite", "target": one} for one in ("current_user_main", "assistant_output_main")
    )
    effects = exposed(NOTE, deep, MESSAGE, PART, user, reply)
    assert [one.type for one in effects] == [
        "artifact.upsert", "ui.inline", "prompt.insert_at_depth", "prompt.append_after_last_user",
        "prompt.system_update", "turn.user.replace_text", "turn.assistant.replace_text",
    ]  # fmt: skip
    assert (effects[1].depth_from_end, effects[2].depth_from_end, effects[2].source) == (-2, -3, "art.t")
    assert effects[4].mode == "prepend"
    assert [one.type for one in exposed()] == ["artifact.upsert"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\n", "a\n"),
        ({"b": 1, "a": "\u00e4"}, '{"b":1,"a":"\u00e4"}'),
        (None, "null"),
        (True, "true"),
        ([1, 2], "[1,2]"),
        (1.5, "1.5"),
    ],
)
def test_a_value_that_is_not_text_is_exposed_as_json(value, text):
    """R45: in prompts; the artifact keeps the value itself."""
    write, message = exposed(MESSAGE, value=value)
    assert (write.value, message.content) == (value, text)


@pytest.mark.parametrize(
    ("exposures", "usage"),
    [
        ([], "internal"),
        ([PART], "prompt_only"),
        ([MESSAGE], "prompt_only"),
        ([NOTE], "ui_only"),
        ([NOTE, PART], "prompt+ui"),
    ],
)
def test_the_usage_is_derived_from_the_exposures(exposures, usage):
    """R52: unless it is given."""
    assert exposed(*exposures)[0].usage == usage
    assert exposed(*exposures, usage="internal")[0].usage == "internal"


def test_the_artifact_takes_everything_of_its_specification():
    """R52, E24: persistence, format, semantics, history and write mode."""
    settings = {
        "persistence": "persisted", "format": "json", "semantics": "state", "writeMode": "append",
        "history": {"maxItems": 3},
    }  # fmt: skip
    write = exposed(NOTE, **settings)[0].to_dict()
    assert settings.items() <= write.items()
    assert exposed(NOTE, **settings)[1].format == "json"


@pytest.mark.parametrize("kind", ["prompt.append_after_last_user", "prompt.insert_at_depth"])
@pytest.mark.parametrize(
    ("message", "code"),
    [
        *(({"role": role, "content": "x"}, None) for role in ("system", "developer", "user", "assistant")),
        ({"role": "system", "content": "x", "source": "art.world_state"}, None),
        ({"role": "narrator", "content": "x"}, ErrorCode.VALIDATION),
        ({"role": "system"}, ErrorCode.VALIDATION),
        ({"content": "x"}, ErrorCode.VALIDATION),
        ({"role": "system", "content": "x", "name": "Ada"}, ErrorCode.VALIDATION),
    ],
)
def test_a_message_has_one_of_four_roles_and_content(kind, message, code):
    """R45, G19: it may name its source, and has no other fields."""
    assert codes([{"type": kind, **message}]) == code
