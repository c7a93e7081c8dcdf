from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings

from tests.interchange.helpers import anthropic_requests, anything, compiled, openai_lists, seen
from tests.models.shapes import check_anthropic, check_openai
from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange import entry_of, read_anthropic, read_messages, read_openai

PNG = base64.b64encode(b"\x89PNG picture").decode()
DIGEST = hashlib.sha256(b"\x89PNG picture").hexdigest()
REFERENCE = f"[image/png, 12 B, sha256 {DIGEST[:12]}...]"
ATTACHED = {"media_type": "image/png", "bytes": 12, "sha256": DIGEST}


def call(call_id="a", name="weather", arguments='{"city":"Oslo"}'):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@settings(max_examples=40)
@given(openai_lists())
def test_openai_in_and_out(listed):
    check_openai(listed)
    entries = read_openai(listed)
    context = compiled(entries)
    assert context.to_openai() == listed
    assert read_openai(context.to_openai()) == entries
    assert read_messages(listed) == read_messages({"messages": listed}, "openai") == entries


@settings(max_examples=40)
@given(anthropic_requests())
def test_anthropic_in_and_out(request):
    check_anthropic(request)
    entries = read_anthropic(request["messages"], request.get("system"))
    context = compiled(entries)
    assert context.to_anthropic() == request
    assert read_messages(context.to_anthropic(), "anthropic") == entries
    assert read_messages(request, "anthropic") == entries


@settings(max_examples=20)
@given(openai_lists())
def test_messages_become_entries_that_become_the_same_messages(listed):
    context = compiled(read_openai(listed))
    assert seen(compiled([entry_of(message) for message in context.messages])) == seen(context)


@settings(max_examples=20)
@given(anthropic_requests())
def test_from_one_provider_to_the_other(request):
    context = compiled(read_messages(request))
    check_openai(context.to_openai())
    assert len(compiled(read_openai(context.to_openai()))) == len(context)


@settings(max_examples=150)
@given(anything)
def test_whatever_is_read_is_read_or_refused(data):
    for shape in ("auto", "openai", "anthropic"):
        for given_data in (
            data,
            [data],
            {"messages": data},
            {"messages": [{"role": "user", "content": [data]}]},
        ):
            try:
                read_messages(given_data, shape)
            except ContentError as error:
                assert str(error)


def test_openais_kinds():
    assert read_openai(
        [
            {"role": "developer", "content": "be brief"},
            {"role": "system", "content": "x", "name": "rules"},
            {"role": "user", "content": "hi", "name": "ann"},
            {"role": "assistant", "content": None, "tool_calls": [call()]},
            {"role": "tool", "content": "rain", "tool_call_id": "a"},
            {"role": "assistant", "content": "It rains.", "reasoning_content": "hm"},
            {"role": "assistant", "content": None, "refusal": "No."},
        ]
    ) == [
        {"content": {"content_type": "instruction", "text": "be brief"}},
        {"content": {"content_type": "dialogue", "role": "system", "text": "x", "name": "rules"}},
        {"content": {"content_type": "dialogue", "role": "user", "text": "hi", "name": "ann"}},
        {
            "content": {"content_type": "dialogue", "role": "assistant", "text": ""},
            "metadata": {"tool_calls": [{"id": "a", "name": "weather", "arguments": {"city": "Oslo"}}]},
        },
        {
            "content": {
                "content_type": "tool_io",
                "tool_name": "weather",
                "direction": "result",
                "payload": {"content": "rain"},
            },
            "metadata": {"tool_call_id": "a", "name": "weather"},
        },
        {"content": {"content_type": "reasoning", "text": "hm"}},
        {"content": {"content_type": "dialogue", "role": "assistant", "text": "It rains."}},
        {"content": {"content_type": "dialogue", "role": "assistant", "text": "No."}},
    ]


@pytest.mark.parametrize(
    ("part", "line", "attached"),
    [
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}, REFERENCE, ATTACHED),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "[https://example.org/a.png]", {"url": "https://example.org/a.png"}),
        ({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}, REFERENCE.replace("image/png", "audio/wav"), {**ATTACHED, "media_type": "audio/wav"}),
        ({"type": "file", "file": {"file_id": "file-1"}}, "[file-1]", {"url": "file-1"}),
        ({"type": "file", "file": {"file_data": f"data:image/png;base64,{PNG}"}}, REFERENCE, ATTACHED),
    ],
)  # fmt: skip
def test_parts_of_openai(part, line, attached):
    (entry,) = read_openai(
        [{"role": "user", "content": [{"type": "text", "text": "see"}, part, {"type": "text", "text": "?"}]}]
    )
    assert entry["content"]["text"] == f"see\n{line}\n?"
    assert entry["metadata"] == {"attachments": [attached]}


def test_blocks_of_anthropic():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    entries = read_messages(
        {
            "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "see"}, image]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "one"},
                        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                        {"type": "tool_use", "id": "b", "name": "g", "input": {"x": 1}},
                        {"type": "text", "text": "two"},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": [{"type": "text", "text": "t"}, image],
                        },
                        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
                    ],
                },
            ],
        }
    )
    shown = [
        (e["content"].get("text"), e.get("metadata"))
        for e in entries
        if e["content"]["content_type"] != "tool_io"
    ]
    assert shown == [
        ("a", None),
        ("b", None),
        ("see", None),
        (REFERENCE, {"attachments": [ATTACHED]}),
        ("hm", {"signature": "s"}),
        (
            "one",
            {
                "tool_calls": [
                    {"id": "a", "name": "f", "arguments": {}},
                    {"id": "b", "name": "g", "arguments": {"x": 1}},
                ]
            },
        ),
        ("two", None),
    ]
    first, second = entries[-2:]
    assert first["content"]["payload"] == {"content": f"t\n{REFERENCE}"}
    assert first["metadata"] == {"tool_call_id": "a", "name": "f", "attachments": [ATTACHED]}
    assert second["content"] == {"content_type": "tool_io", "tool_name": "g", "direction": "result", "payload": {"content": ""}, "status": "error"}  # fmt: skip
    assert second["metadata"] == {"tool_call_id": "b", "name": "g", "is_error": True}
    check_anthropic(compiled(entries).to_anthropic())


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            {"type": "text", "media_type": "text/plain", "data": "abc"},
            "[text/plain, 3 B, sha256 ba7816bf8f01...]",
        ),
        ({"type": "url", "url": "https://example.org/a.pdf"}, "[https://example.org/a.pdf]"),
        ({"type": "file", "file_id": "file_1"}, "[file_1]"),
    ],
)
def test_documents_of_anthropic(source, line):
    (entry,) = read_messages([{"role": "user", "content": [{"type": "document", "source": source}]}])
    assert entry["content"]["text"] == line


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([{"role": "user", "content": "x"}, "y"], "message 1: a message is an object, not str"),
        ([{"content": "x"}], "message 0: a role is text, not NoneType"),
        ([{"role": "function", "content": "x"}], "message 0: the role 'function' is not known; use system"),
        ([{"role": "user"}], "message 0: content is a list, not NoneType"),
        ([{"role": "user", "content": 5}], "message 0: content is a list, not int"),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            "message 0: the text of a part is text, not NoneType",
        ),
        (
            [{"role": "user", "content": [{"type": "video"}]}],
            "message 0: parts of type 'video' are not known",
        ),
        ([{"role": "user", "content": ["x"]}], "message 0: each of content is an object, not str"),
        ([{"role": "user", "content": "x", "name": 1}], "message 0: a name is text"),
        ([{"role": "user", "content": "\ud800"}], "message 0: the text has a lone surrogate"),
        (
            [{"role": "tool", "content": "x"}],
            "message 0: tool_call_id, of the call that a tool answers, is text",
        ),
        ([{"role": "assistant", "tool_calls": [call(arguments="{")]}], "message 0: this is not a tool call"),
        (
            [{"role": "assistant", "tool_calls": [call(arguments='{"x": NaN}')]}],
            "message 0: the value has no JSON form",
        ),
        ([{"role": "assistant", "tool_calls": "x"}], "message 0: tool_calls is a list"),
        (
            [{"role": "assistant", "function_call": {"name": "f"}}],
            "message 0: function_call is the shape of before",
        ),
    ],
)
def test_what_openai_did_not_write(messages, problem):
    with pytest.raises(ContentError) as caught:
        read_openai(messages)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([{"role": "system", "content": "x"}], "message 0: the role 'system' is not known; use user or assistant"),
        ([{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}], "message 0: a tool_use block is not the user's"),
        ([{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], "message 0: a tool_result block is not the assistant's"),
        ([{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}], "message 0: this is not a tool call"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "message 0: tool_use_id"),
        ([{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}], "message 0: a source's data"),
        ([{"role": "user", "content": None}], "message 0: content is a list"),
    ],
)  # fmt: skip
def test_what_anthropic_did_not_write(messages, problem):
    with pytest.raises(ContentError) as caught:
        read_anthropic(messages)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("data", "shape", "problem"),
    [
        ("hello", "auto", "these are not messages; use a list of them"),
        ({"choices": []}, "auto", "these are not messages"),
        ({"messages": "x"}, "openai", "these are not messages"),
        ([], "gemini", "'gemini' is not a shape of messages"),
        ({"system": 5, "messages": []}, "auto", "the system's text is a text or a list"),
        ({"system": "x", "messages": []}, "openai", "OpenAI's shape has no 'system'"),
    ],
)
def test_what_are_no_messages(data, shape, problem):
    with pytest.raises(ContentError, match=problem):
        read_messages(data, shape)


def test_nothing_is_nothing():
    assert read_messages([]) == read_messages({"messages": []}, "anthropic") == []
    assert read_anthropic([{"role": "user", "content": []}]) == [
        {"content": {"content_type": "dialogue", "role": "user", "text": ""}}
    ]
