from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.models.shapes import check_anthropic, check_openai, contexts
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import (
    NO_TEXT,
    OPENING,
    CompiledContext,
    Message,
    Rendering,
    ToolCall,
    anthropic_messages,
    anthropic_tool,
    openai_message,
    openai_messages,
    sent_messages,
)

CALL = ToolCall("a", "weather", {"city": "Oslo"})
USER = Message("user", "hi")
ASKS = Message("assistant", "", tool_calls=(CALL,))
ANSWER = Message("tool", "rain", name="weather", tool_call_id="a")
OPENAI_CALL = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
NOTE = '(The tool weather was called with {"city":"Oslo"}; its answer is not shown here.)'


@pytest.mark.slow
@settings(max_examples=100)
@given(contexts)
def test_openai_accepts_whatever_a_context_holds(messages: list[Message]):
    shaped = openai_messages(messages)
    check_openai(shaped)
    assert len(shaped) == len(messages)


@pytest.mark.slow
@settings(max_examples=100)
@given(contexts)
def test_anthropic_accepts_whatever_a_context_holds(messages: list[Message]):
    check_anthropic(anthropic_messages(messages), empty=not messages)


@given(contexts)
def test_every_text_reaches_both(messages: list[Message]):
    openai = "\n".join(message["content"] or "" for message in openai_messages(messages))
    anthropic = str(anthropic_messages(messages))
    for message in messages:
        assert message.content in openai
        assert str(message.content.strip())[1:-1] in anthropic or "\\" in repr(message.content)


@given(contexts)
def test_a_context_gives_the_same_shapes(messages: list[Message]):
    context = CompiledContext(messages, 0, "approximate", None)
    assert context.to_openai() == context.to_dicts() == openai_messages(messages)
    assert context.to_anthropic() == anthropic_messages(messages)


class Growing(list):
    """A list of messages that only grows, like the one in a context."""

    def __init__(self, messages, rendering):
        super().__init__(messages)
        self.rendering = rendering


@given(contexts)
def test_cached_rendering_equals_fresh_rendering(messages: list[Message]):
    rendering = Rendering()
    for count in [*range(len(messages) + 1), len(messages) // 2]:
        now = messages[:count]
        sent = sent_messages(Growing(now, rendering))
        assert sent == sent_messages(now)
        assert [{**one, "is_error": None} for one in sent] == [
            {**one, "is_error": None} for one in openai_messages(now)
        ]


def test_a_call_without_a_json_form_leaves_nothing_behind():
    rendering = Rendering()
    wrong = ASKS._replace(tool_calls=(ToolCall("a", "weather", {"city": object()}),))
    with pytest.raises(ContentError):
        sent_messages(Growing([USER, ASKS, ANSWER, wrong, ANSWER], rendering))
    assert sent_messages(Growing([USER, ASKS, ANSWER], rendering)) == openai_messages([USER, ASKS, ANSWER])


def test_the_error_flag_is_only_in_formats_that_support_it():
    messages = [USER, ASKS, ANSWER._replace(is_error=True)]
    assert [one.get("is_error") for one in sent_messages(messages)] == [None, None, True]
    assert "is_error" not in openai_messages(messages)[-1]


def test_changes_by_the_caller_do_not_change_the_cached_rendering():
    rendering, messages = Rendering(), [USER, ASKS, ANSWER]
    sent = sent_messages(Growing(messages, rendering))
    sent[0]["content"] = sent[1]["tool_calls"][0]["function"]["arguments"] = "other"
    sent.pop()
    assert sent_messages(Growing(messages, rendering)) == openai_messages(messages)


def test_the_plain_conversation():
    messages = [Message("system", "be brief"), Message("user", "hi", name="ann"), Message("assistant", "ho")]
    assert openai_messages(messages) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi", "name": "ann"},
        {"role": "assistant", "content": "ho"},
    ]
    assert anthropic_messages(messages) == {
        "system": "be brief",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
    }


def test_a_call_and_its_answer():
    assert openai_messages([USER, ASKS, ANSWER])[1:] == [
        {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
        {"role": "tool", "content": "rain", "tool_call_id": "a"},
    ]
    use = {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "rain"}
    assert anthropic_messages([USER, ASKS, ANSWER, Message("user", "so?")])["messages"][1:] == [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "so?"}]},
    ]


def test_an_answer_moves_up_to_its_call():
    shaped = openai_messages([ASKS, USER, ANSWER])
    assert [message["role"] for message in shaped] == ["assistant", "tool", "user"]


def test_a_repeated_call_id_belongs_to_the_latest_call_and_is_renamed():
    first, second = ANSWER, Message("tool", "sun", tool_call_id="a")
    _, one, _, two = openai_messages([ASKS, first, ASKS, second])
    assert (one["content"], two["content"]) == ("rain", "sun")
    assert one["tool_call_id"] == "a" != two["tool_call_id"]
    check_anthropic(anthropic_messages([ASKS, first, ASKS, second]))


def test_two_calls_of_one_message_with_one_id_are_answered_in_order():
    asks = Message("assistant", "", tool_calls=(ToolCall("a", "f"), ToolCall("a", "g")))
    _, one, two = openai_messages([asks, ANSWER, Message("tool", "sun", tool_call_id="a")])
    assert (one["content"], two["content"]) == ("rain", "sun")


def test_a_call_without_an_answer_becomes_a_note():
    assert openai_messages([ASKS]) == [{"role": "assistant", "content": NOTE}]
    both = Message("assistant", "I look.", tool_calls=(CALL, ToolCall("b", "time")))
    first, answer = openai_messages([both, Message("tool", "noon", tool_call_id="b")])
    assert first["content"] == f"I look.\n\n{NOTE}"
    assert [call["id"] for call in first["tool_calls"]] == [answer["tool_call_id"]] == ["b"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (ANSWER, "From the tool weather:\nrain"),
        (
            Message("tool", "no net", name="weather", tool_call_id="a", is_error=True),
            "Error from the tool weather:\nno net",
        ),
        (Message("tool", "rain", tool_call_id="z"), "From a tool:\nrain"),
        (Message("tool", '{"x":1}', name="f"), 'From the tool f:\n{"x":1}'),
    ],
)
def test_an_answer_without_its_call_is_the_users(message: Message, text: str):
    assert openai_messages([message]) == [{"role": "user", "content": text}]
    assert anthropic_messages([message]) == {"messages": [{"role": "user", "content": text}]}


def test_a_result_before_its_call_is_sent_as_a_user_message():
    assert [m["role"] for m in openai_messages([ANSWER, ASKS])] == ["user", "assistant"]


def test_one_message_alone_keeps_its_calls():
    assert (
        openai_message(ASKS)
        == ASKS.to_dict()
        == {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
    )
    assert openai_message(ANSWER) == {"role": "tool", "content": "rain", "tool_call_id": "a"}
    assert openai_message(Message("tool", "x", name="f"))["role"] == "user"


def test_only_the_assistant_calls():
    shaped = openai_messages([Message("user", "x", tool_calls=(CALL,), tool_call_id="a")])
    assert shaped == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(
    ("given_name", "name"), [("Ann Smith", "Ann_Smith"), ("x" * 80, "x" * 64), ("日本", None), ("", None)]
)
def test_a_name_is_made_to_fit(given_name: str, name: str | None):
    assert openai_message(Message("user", "hi", name=given_name)).get("name") == name


@pytest.mark.parametrize("given_id", ["functions.f:0", "x" * 90])
def test_an_id_is_made_to_fit(given_id: str):
    messages = [
        USER,
        Message("assistant", "", tool_calls=(ToolCall(given_id, "f"),)),
        Message("tool", "x", tool_call_id=given_id),
    ]
    check_openai(openai_messages(messages))
    check_anthropic(anthropic_messages(messages))


def test_call_ids_of_compatible_servers_are_sent_to_openai_unchanged():
    call = ToolCall("functions.f:0", "f")
    assert (
        openai_message(Message("assistant", "", tool_calls=(call,)))["tool_calls"][0]["id"] == "functions.f:0"
    )


def test_systems_texts_come_together():
    messages = [Message("system", "a"), USER, Message("system", " "), Message("system", "b")]
    assert anthropic_messages(messages) == {
        "system": "a\n\nb",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_the_user_begins():
    opening = {"role": "user", "content": OPENING}
    assert anthropic_messages([Message("assistant", "ho")])["messages"][0] == opening
    assert anthropic_messages([Message("system", "be brief")])["messages"] == [opening]
    assert anthropic_messages([Message("user", " ")])["messages"] == [opening]
    assert anthropic_messages([]) == {"messages": []}


def test_the_last_answer_is_trimmed():
    messages = [USER, Message("assistant", "ho \n"), Message("assistant", "so: ")]
    assert anthropic_messages(messages)["messages"][1]["content"] == [
        {"type": "text", "text": "ho \n"},
        {"type": "text", "text": "so:"},
    ]


@pytest.mark.parametrize(
    ("text", "is_error", "parts"),
    [
        ("no net", True, {"content": "no net", "is_error": True}),
        ("", True, {"content": NO_TEXT, "is_error": True}),
        (" ", False, {}),
    ],
)
def test_results_of_anthropic(text: str, is_error: bool, parts: dict[str, object]):
    answer = Message("tool", text, tool_call_id="a", is_error=is_error)
    (block,) = anthropic_messages([USER, ASKS, answer])["messages"][2]["content"]
    assert block == {"type": "tool_result", "tool_use_id": "a", **parts}


def test_a_tool_for_anthropic():
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "weather", "description": "The weather.", "parameters": parameters}
    assert anthropic_tool({"type": "function", "function": function}) == {
        "name": "weather",
        "description": "The weather.",
        "input_schema": parameters,
    }
    bare = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
    assert anthropic_tool({"type": "function", "function": {"name": "now"}}) == bare


@pytest.mark.parametrize(
    "tool", [{}, {"name": "f", "input_schema": {}}, {"function": "f"}, {"function": {"name": 1}}]
)
def test_an_invalid_tool_is_refused(tool: dict[str, object]):
    with pytest.raises(ContentError, match="not a tool in OpenAI's shape"):
        anthropic_tool(tool)
