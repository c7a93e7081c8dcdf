from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import (
    ArtifactContent,
    Content,
    DialogueContent,
    FreeformContent,
    InstructionContent,
    OutputContent,
    Priority,
    ReasoningContent,
    SessionContent,
    ToolIOContent,
    default_priority,
    plain_content,
    role_of,
    text_of,
    validate_content,
)

# model, role of its message, text of its message, initial priority
KINDS: list[tuple[Content, str, str, Priority]] = [
    (InstructionContent(text="be brief"), "system", "be brief", Priority.PINNED),
    (DialogueContent(role="user", text="hi", name="ann"), "user", "hi", Priority.NORMAL),
    (
        ToolIOContent(tool_name="f", direction="call", payload={"b": 1, "a": "é"}, status="ok"),
        "tool",
        '{"a":"é","b":1}',
        Priority.NORMAL,
    ),
    (ReasoningContent(text="hm"), "assistant", "hm", Priority.SKIP),
    (
        ArtifactContent(artifact_type="code", content="x = 1", language="python"),
        "assistant",
        "x = 1",
        Priority.NORMAL,
    ),
    (OutputContent(text="# done", format="markdown"), "assistant", "# done", Priority.NORMAL),
    (FreeformContent(payload={"k": [1, None]}), "assistant", '{"k":[1,null]}', Priority.NORMAL),
    (
        SessionContent(session_type="handoff", summary="halfway", decisions=["use x"], next_steps=["a", "b"]),
        "system",
        "Session handoff: halfway\n\nDecisions:\n- use x\n\nNext steps:\n- a\n- b",
        Priority.PINNED,
    ),
]


@pytest.mark.parametrize(("model", "role", "text", "priority"), KINDS)
def test_each_kind_knows_its_message(model: Content, role: str, text: str, priority: Priority):
    assert (role_of(dict(model)), text_of(dict(model)), default_priority(model.content_type)) == (
        role,
        text,
        priority,
    )


@pytest.mark.parametrize("model", [kind[0] for kind in KINDS])
def test_a_model_and_its_dict_are_the_same(model: Content):
    assert validate_content(model) == validate_content(dict(model)) == model


def test_there_are_eight_kinds():
    ours = {kind for kind in Content.__subclasses__() if kind.__module__ == Content.__module__}
    assert {type(model) for model, *_ in KINDS} == ours
    assert len({model.content_type for model, *_ in KINDS}) == 8


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_dialogue_has_four_roles(role: str):
    assert role_of({"content_type": "dialogue", "role": role, "text": ""}) == role


INVALID: list[tuple[Any, str]] = [
    ({}, "content_type"),
    ({"content_type": "poem", "text": "x"}, "dialogue"),  # the error suggests a valid type
    ({"content_type": "dialogue", "text": "x"}, "role: Field required"),
    ({"content_type": "dialogue", "role": "robot", "text": "x"}, "role"),
    ({"content_type": "dialogue", "role": "user", "text": 5}, "text: Input should be a valid string"),
    ({"content_type": "dialogue", "role": "user", "text": None}, "text"),
    ({"content_type": "dialogue", "role": "user", "text": "x", "colour": "red"}, "colour"),
    ({"content_type": "tool_io", "tool_name": "f", "direction": "up", "payload": {}}, "direction"),
    ({"content_type": "tool_io", "tool_name": "f", "direction": "call", "payload": []}, "payload"),
    ({"content_type": "freeform", "payload": {1: "x"}}, "payload"),
    ({"content_type": "output", "text": "x", "format": "pdf"}, "format"),
    ({"content_type": "session", "session_type": "pause", "summary": ""}, "session_type"),
    ({"content_type": "session", "session_type": "end", "summary": "", "decisions": "one"}, "decisions"),
    ("just text", "not str"),
    (None, "not NoneType"),
    ([("content_type", "output")], "not list"),
]


@pytest.mark.parametrize(("content", "part"), INVALID)
def test_invalid_content_is_refused_and_the_part_named(content: Any, part: str):
    with pytest.raises(ContentError, match=part):
        validate_content(content)


def test_a_model_that_was_never_validated_is_validated():
    unchecked = DialogueContent.model_construct(role="robot", text="x", name=None)
    with pytest.raises(ContentError, match="role"):
        validate_content(unchecked)


def test_the_base_class_and_custom_content_types_are_refused():
    # otherwise they could be committed, and the history could not be compiled
    class Poem(Content):
        content_type: str = "poem"
        text: str = ""

    class Verse(DialogueContent):
        metre: str = "iambic"

    for content in (Content(content_type="dialogue"), Poem(), Verse(role="user", text="x")):
        with pytest.raises(ContentError):
            validate_content(content)


def test_models_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        InstructionContent(text="a").text = "b"


class Text(str):
    """A subclass of str."""

    __slots__ = ()


DIALOGUE = {"content_type": "dialogue", "role": "user", "text": "hi"}


@pytest.mark.parametrize(
    "content",
    [
        {"content_type": "instruction", "text": "é"},
        {"content_type": "instruction", "text": ""},
        DIALOGUE,
        DIALOGUE | {"name": "ann"},
        DIALOGUE | {"name": None},
        DIALOGUE | {"text": Text("hi"), "role": Text("user")},
        DIALOGUE | {"text": "\ud800"},
        DIALOGUE | {"text": None},
        DIALOGUE | {"text": b"hi"},
        DIALOGUE | {"role": "narrator"},
        DIALOGUE | {"role": ["user"]},
        DIALOGUE | {"name": 1},
        DIALOGUE | {"attachments": ()},
        DIALOGUE | {"more": "x"},
        {"content_type": "instruction", "text": "hi", "name": "ann"},
        {"content_type": Text("dialogue"), "role": "user", "text": "hi"},
        MappingProxyType(DIALOGUE),
    ],
    ids=repr,
)
def test_a_text_is_valid_exactly_if_its_model_is(content: Any):
    """Most contents are texts, which are validated without their models."""
    try:
        valid = validate_content(content)
    except ContentError as error:
        with pytest.raises(ContentError, match=f"^{re.escape(str(error))}$"):
            plain_content(content)
        return
    plain = plain_content(content)
    assert plain == {name: value for name, value in dict(valid).items() if name != "attachments"}
    assert {type(value) for value in plain.values()} <= {str, type(None)}
