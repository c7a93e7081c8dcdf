"""Reasoning between tags in the text: it is not part of the answer and is not sent back."""

from __future__ import annotations

import json

import pytest

from tests.llm.dialects import ALL, HELLO, TOOL, Chat, Said, made, pieces
from tests.llm.providers import Answer, chunk, provider, sse
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import LLMRequestError, LLMResponseError
from tract_jupyter.llm import Reply, split_thought
from tract_jupyter.models import Delta

THOUGHT = "The user wants a bird, `</think>` is no bird."
TAGGED = [
    ("<think>\nhm\n</think>\n\nA crow.", "hm", "A crow."),
    (" \n<think>hm</think>A crow.", "hm", "A crow."),
    ("<think>hm</think> a crow", "hm", "a crow"),
    ("<THINK>hm</THINK>A crow.", "hm", "A crow."),
    ("<thinking>hm</thinking>\nA crow.", "hm", "A crow."),
    ("<thought>hm</thought>A crow.", "hm", "A crow."),
    ("<seed:think>hm</seed:think>A crow.", "hm", "A crow."),
    ("[THINK]hm[/THINK]A crow.", "hm", "A crow."),
    ("◁think▷hm◁/think▷A crow.", "hm", "A crow."),
    ("<think></think>\n\nA crow.", "", "A crow."),
    ("<think>a</think>\n<think>b</think>A crow.", "a\n\nb", "A crow."),
    (f"<think>{THOUGHT}</think>A crow.", THOUGHT, "A crow."),
    ("<think>hm", "hm", ""),
    ("<think>hm\n```\n</think>\nA crow.", "hm\n```", "A crow."),
    ("A jay.\n<think>\nhm\n</think>\nOr a crow.", "hm", "A jay.\nOr a crow."),
]
"""Texts with an opening tag, each with its reasoning and its answer."""
ENDED = [
    ("Well, hm.\n</think>\n\nA crow.", "Well, hm.", "A crow."),
    ("hm</think>A crow.", "hm", "A crow."),
    ("2 + 2 is 4</think>4", "2 + 2 is 4", "4"),
    ("Well. </think> A crow.", "Well.", "A crow."),
    ("hm\n</think> a crow", "hm", "a crow"),
    ('hm</think>{"bird": 1}', "hm", '{"bird": 1}'),
    ("They ask about `<think>`.\n</think>\n\nIt is a tag.", "They ask about `<think>`.", "It is a tag."),
    ("\n</think>\n\nA crow.", "", "A crow."),
    ("hm.\n</think>", "hm.", ""),
    ("- a\n    - b.</think>A crow.", "- a\n    - b.", "A crow."),
    ("1. a\n    - b\n        - c.</think>A crow.", "1. a\n    - b\n        - c.", "A crow."),
    ("So it goes,\n    and so on.</think>A crow.", "So it goes,\n    and so on.", "A crow."),
    ("    x = 1\n</think>\nA crow.", "x = 1", "A crow."),
    ("They want <code>.\n</think>\nUse <code>x</code>.", "They want <code>.", "Use <code>x</code>."),
    ("They want <code>x</code>.\n</think>\nA crow.", "They want <code>x</code>.", "A crow."),
]
"""Texts with only a closing tag."""
MENTIONED = [
    "Use the <think> tag.",
    "The tag </think> ends it.",
    "Wrap it in <think></think>.",
    "Close it with </think>",
    "Close it with </think>.",
    'It ends with "</think>" there.',
    "It is a tag (</think>) of Qwen.",
    "</think> closes the reasoning.",
    "`<think>` begins and `</think>` ends it.",
    "```\n<think>\nhm\n</think>\n```\nThat is all.",
    "As in\n```\nhm\n</think>\n```",
    "Tags:\n<think> and </think> are tags.",
    "- </think> closes it",
    "<thinker>hm</thinker>",
    "  plain\n",
    "",
]
"""Texts that stay as they are."""


@pytest.mark.parametrize(
    ("text", "thought", "said"), [*TAGGED, *ENDED, *((text, "", text) for text in MENTIONED)]
)
def test_reasoning_is_separated_from_text(text, thought, said):
    assert split_thought(text) == (thought, said)
    assert split_thought(said, thought).text == said


@pytest.mark.slow
def test_the_time_is_bounded():
    for text in (
        "<think></think>",
        "</think> ",
        "a\n<think>",
        "`</think>",
        "a\n    </think>",
        "<code></think>",
        "<code>",
    ):
        split_thought(text * 300_000)


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "thought", "said"), [TAGGED[0], TAGGED[4], ENDED[0]])
def test_each_dialect_gives_it_as_reasoning(dialect, streamed, text, thought, said):
    body = dialect.stream(Said(text)) if streamed else dialect.whole(Said(text))
    with provider(Answer(body)) as there:
        response = made(dialect, there).chat(HELLO, **({"on_delta": lambda _: None} if streamed else {}))
    read = Reply.of(response)
    assert (read.text, read.reasoning) == (said, thought)
    assert response["choices"][0]["message"]["content"] == said


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("text", "thought", "said"), [one for one in TAGGED[:11] if one[1] != THOUGHT])
def test_reasoning_in_stream_pieces_is_separated_from_text(size, text, thought, said):
    told = {"text": "", "reasoning": ""}

    def note(delta):
        told[delta.kind] += delta.text

    chunks = [chunk({"content": one}) for one in pieces(text, size)]
    with provider(Answer(sse(*chunks, chunk(finish="stop")))) as there:
        made(Chat, there).chat(HELLO, on_delta=note)
    assert told["text"] == said
    assert "".join(told["reasoning"].split()) == "".join(thought.split())


@pytest.mark.parametrize("text", MENTIONED[:-1])
def test_stream_pieces_of_plain_text_are_unchanged(text):
    told = []
    chunks = [chunk({"content": one}) for one in pieces(text, 2)]
    with provider(Answer(sse(*chunks, chunk(finish="stop")))) as there:
        made(Chat, there).chat(HELLO, on_delta=told.append)
    assert "".join(delta.text for delta in told if delta.kind == "text") == text


class Own(ScriptedClient):
    """A custom client that streams in pieces of three characters."""

    def chat(self, messages, on_delta=None, **options):
        response = super().chat(messages, **options)
        for piece in pieces(response["choices"][0]["message"]["content"] or "") if on_delta else ():
            on_delta(Delta("text", piece))
        return response


@pytest.mark.parametrize("client", [ScriptedClient, Own])
@pytest.mark.parametrize(("text", "thought", "said"), [*TAGGED[:12], *ENDED[:7]])
def test_a_client_of_the_user_is_read_in_the_same_way(tract, client, text, thought, said):
    told = []
    tract.configure_llm(client(reply(text), "ok"))
    response = tract.chat("A bird?", on_delta=told.append)
    assert response.text == said
    assert tract.compile().messages[-1].content == said
    assert tract.compile().messages[-1].provider_fields.get("reasoning", "") == thought
    if (text, thought, said) in TAGGED and thought != THOUGHT:
        assert "".join(one.text for one in told if one.kind == "text").strip() in {said, ""}
    tract.chat("Another?")
    assert tract.llm.last_messages[1] == {"role": "assistant", "content": said}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_of_such_a_client_is_kept_and_not_sent_back(tract, field):
    given = reply("A crow.")
    given["choices"][0]["message"][field] = "hm"
    tract.configure_llm(ScriptedClient(given, "ok"))
    tract.chat("A bird?")
    assert tract.compile().messages[-1].provider_fields["reasoning"] == "hm"
    tract.chat("Another?")
    assert "hm" not in json.dumps(tract.llm.last_messages)


def test_reasoning_before_a_call_is_not_sent_back(tract):
    tract.loop.tools = "self"
    tract.configure_llm(
        ScriptedClient(reply("<think>hm</think>\n", call("status", {})), "<think>so</think>Done.")
    )
    assert tract.chat("Go.").text == "Done."
    assert "hm" not in json.dumps(tract.llm.last_messages)


def test_a_reply_with_only_reasoning_is_an_error(tract):
    tract.configure_llm(ScriptedClient(reply("<think>hm</think>\n")))
    with pytest.raises(LLMResponseError, match="is empty"):
        tract.chat("A bird?")


@pytest.mark.parametrize(
    ("came", "kept"),
    [
        (["<think>hm, a c"], None),
        (["<think>hm</think>", "A c"], "A c"),
        (["Well, hm.\n</think>", "A c"], "A c"),
    ],
)
def test_of_a_stopped_reply_the_text_is_kept(tract, came, kept):
    class Stopped:
        def chat(self, messages, on_delta=None, **options):
            for piece in came:
                on_delta(Delta("text", piece))
            tract.loop.stop()
            raise LLMRequestError("ended", code="cancelled")

    tract.configure_llm(Stopped())
    assert tract.chat("A bird?", on_delta=lambda _: None).outcome == "stopped"
    said = [one.content for one in tract.compile().messages if one.role == "assistant"]
    assert said == ([] if kept is None else [kept])


def test_extra_content_of_a_call_after_tagged_reasoning_is_sent_back():
    tagged = Chat.whole(Said("<think>hm</think>I look.", [("c1", "get_weather", "{}")]))
    tagged["choices"][0]["message"]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "s"}}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    with provider(Answer(tagged)) as there:
        client = made(Chat, there)
        message = client.chat(HELLO, tools=[TOOL])["choices"][0]["message"]
        sent = client.as_sent([*HELLO, message, answer], tools=[TOOL])["messages"][1]
    assert sent["content"] == "I look."
    assert sent["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}


def test_summaries_are_without_it(tract):
    for number in range(4):
        tract.user(f"number {number}")
    tract.configure_llm(ScriptedClient("<think>hm</think>They counted."))
    tract.compress()
    assert "hm" not in json.dumps(Tract.compile(tract).to_dicts())


@pytest.mark.parametrize(
    "text",
    [
        "The closing tag is ``` ``</think>`` ``` and ends it.",
        "Use ``a ` </think> b`` here.",
        "Like this:\n~~~\n<think>\nfoo\n</think>\n~~~\nDone.",
        "Like this:\n````md\n```\n</think>\n```\n````\nDone.",
        "Like this:\n```\n</think>\n```\nDone.",
        "<code></think></code>",
        "It is <code></think></code>.\n\nDone.",
        "Like this:\n<pre><code class='x'>\n</think>\n</code></pre>\n\nDone.",
        "<PRE>\n<think>\nfoo\n</think>\n</PRE>\nDone.",
        "Press <kbd></think></kbd>",
        "Like this:\n\n    </think>\n\nDone.",
        "Like this:\n    </think>\nDone.",
        "Like this:\n\n\t</think>\n\nDone.",
        "Like this:\n\n    <think>\n    foo\n    </think>\n\nDone.",
        "Like this:\n\n    print(1) </think>\n\nDone.",
        "Like this:\n\n    x = 1\n\n    y = 2 </think>\n\nDone.",
        "- Like this:\n\n      </think>\n\nDone.",
        "1. Like this:\n    ```\n    </think>\n    ```\nDone.",
        "> Like this:\n> ```\n> hm.\n> </think>\n\n> ```\nDone.",
        "- ```\n  </think>\n  ```\nDone.",
    ],
)
def test_a_tag_in_any_form_of_code_is_text(text):
    assert split_thought(text) == ("", text)
