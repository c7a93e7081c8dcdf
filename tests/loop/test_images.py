"""Images in the results of tools: sent to a model that accepts images, and always described."""

from __future__ import annotations

import base64
import json

import pytest

from tests.attachments import jpeg, png
from tests.llm.sdk import problems_of
from tests.loop.conftest import told
from tests.review.scripted import call, reply
from tests.toolkit.servers import scripted
from tract_jupyter import AnthropicClient, OpenAIClient, ResponsesClient
from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.loop import CallAnswer, ImageBudget
from tract_jupyter.models import OF_RESULTS, AttachedFile
from tract_jupyter.toolkit import ToolResult

DRAW, SHOT, LOOK = (
    call("raw_draw", {}, "c1"),
    call("raw_shot", {}, "c2"),
    call("look", {"city": "Rome"}, "c3"),
)
PICTURE, PHOTO = (base64.b64encode(data).decode() for data in (png(300, 250), jpeg(30, 20)))
ANSWERS = {
    "draw": {"content": [{"type": "text", "text": "Here:"}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}],
             "structuredContent": {"ok": True}},
    "shot": {"content": [{"type": "resource", "resource": {"uri": "a://b", "blob": PHOTO, "mimeType": "image/jpeg"}},
                         {"type": "image", "data": "bm8gaW1hZ2U=", "mimeType": "image/png"}]},
}  # fmt: skip
DESCRIBED = f"Here:\n[image, image/png, {len(png(300, 250)):,} bytes]"


@pytest.fixture
def server(talk, tmp_path):
    """A trusted server whose read-only tools return images."""
    hints = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    program = scripted(tmp_path, [{"name": name, **hints} for name in ANSWERS], ANSWERS)
    yield talk.mcp.add("raw", program, trust_annotations=True)
    talk.close()


def images(messages):
    """The images of each message with images, in base64."""
    parts = [
        [part for part in one["content"] if part["type"] == "image_url"]
        for one in messages
        if isinstance(one["content"], list)
    ]
    return [[part["image_url"]["url"].partition("base64,")[2] for part in found] for found in parts]


def test_an_image_follows_the_results_and_is_described_in_them(talk, script, server):
    client = script(reply(None, DRAW, SHOT, LOOK), "ok", "again")
    assert talk.chat("Draw.").outcome == "answer"
    assert told(client)[0] == DESCRIBED
    roles = [one["role"] for one in client.last_messages]
    assert roles[-5:] == ["assistant", "tool", "tool", "tool", "user"]
    assert images(client.last_messages) == [[PICTURE, PHOTO]]
    assert client.last_messages[-1]["content"][-1]["text"].startswith(OF_RESULTS)
    talk.chat("And now?")
    assert images(client.last_messages) == [[PICTURE, PHOTO]]
    assert client.last_messages[-1] == {"role": "user", "content": "And now?"}
    assert [turn.text for turn in talk.loop.turns()] == ["Draw.", "And now?"]


def test_a_result_image_is_stored_counted_and_verified_like_a_user_image(talk, script, server):
    script(reply(None, DRAW), "ok")
    talk.chat("Draw.")
    (answer,) = [message for message in talk.compile().messages if message.role == "tool"]
    (attached,) = answer.attachments
    assert (attached.name, attached.media_type) == ("raw.draw image 1", "image/png")
    assert answer.token_count > 100
    assert talk.verify() == []
    edited = talk.tool_result("c1", "raw_draw", "shorter", edit=answer.commit_hash)
    assert edited.commit_hash
    (answer,) = [message for message in talk.compile().messages if message.role == "tool"]
    assert (answer.content, answer.attachments) == ("shorter", ())


@pytest.mark.parametrize(
    ("words", "is_remembered"),
    [
        ("This model does not support image input.", True),
        ("image input is not supported - hint: you may need to provide the mmproj", True),
        ("messages.3.content.0.image.source: Could not process image", False),
    ],
)
def test_a_model_that_refuses_images_is_asked_without_them(talk, script, server, words, is_remembered):
    refusal = LLMRequestError(words, code="provider_error")
    client = script(reply(None, DRAW), refusal, "ok", *([] if is_remembered else [refusal]), "again")
    assert talk.chat("Draw.").outcome == "answer"
    assert images(client.last_messages) == []
    assert told(client) == [f"{DESCRIBED}\n\n[You do not see its image]"]
    talk.chat("And now?")
    assert images(client.last_messages) == []
    assert client.replies == []


def test_another_error_is_not_answered_by_asking_again(talk, script, server):
    client = script(reply(None, DRAW), LLMRequestError("out of credit", code="provider_error"), "ok")
    with pytest.raises(LLMRequestError):
        talk.chat("Draw.")
    assert client.replies == ["ok"]


def test_images_of_the_user_are_not_left_out(talk, script):
    client = script(LLMRequestError("This model does not support image input.", code="provider_error"), "ok")
    with pytest.raises(LLMRequestError):
        talk.chat("Look.", attachments=[AttachedFile.of("dot.png", png(3, 2))])
    assert client.replies == ["ok"]


def test_a_handler_of_results_decides_about_texts_only(talk, script, server):
    talk.on(
        "tool_result", lambda pending: pending.edit_result(f"seen: {pending.content}") or pending.approve()
    )
    client = script(reply(None, DRAW), "ok")
    talk.chat("Draw.")
    why = "a handler decides about the texts of results"
    assert told(client) == [f"seen: {DESCRIBED}\n\n[You do not see its image: {why}]"]
    assert images(client.last_messages) == []


def test_a_result_on_a_cassette_has_its_images():
    file = AttachedFile.of("f image 1", png(3, 2))
    result = ToolResult("f", success=True, output={"ok": True}, told="Here", images=(file,))
    assert ToolResult.from_json("f", json.loads(json.dumps(result.to_json()))) == result


def test_a_turn_has_a_budget_for_images(talk, script, server):
    talk.loop.images = 1
    client = script(
        reply(None, DRAW, SHOT), reply(None, call("raw_draw", {}, "c3")), "ok", reply(None, DRAW), "ok"
    )
    talk.chat("Draw.")
    assert images(client.last_messages) == [[PICTURE]]
    why = "[You do not see its image: the results of one turn can send at most 1 image of 4.0 MB in total]"
    assert [text.endswith(why) for text in told(client)] == [False, True, True]
    talk.chat("Again.")
    assert images(client.last_messages) == [[PICTURE], [PICTURE]]


def test_a_resumed_turn_has_the_rest_of_its_budget(talk, script, server):
    talk.loop.images = 2
    failure = LLMRequestError("out of credit", code="provider_error")
    client = script(reply(None, DRAW), failure, reply(None, SHOT, call("raw_draw", {}, "c3")), "ok")
    with pytest.raises(LLMRequestError):
        talk.chat("Draw.")
    assert talk.chat(None).outcome == "answer"
    assert images(client.last_messages) == [[PICTURE], [PHOTO]]
    assert "at most 2 images" in told(client)[-1]


def test_images_can_be_switched_off(talk, script, server):
    talk.loop.images = 0
    client = script(reply(None, DRAW), "ok")
    talk.chat("Draw.")
    assert images(client.last_messages) == []
    assert told(client) == [f"{DESCRIBED}\n\n[You do not see its image: the user has switched images off]"]


def test_an_image_over_the_bytes_of_a_turn_is_not_sent():
    budget = ImageBudget(3)
    large, small = (AttachedFile.of("a.png", data) for data in (png(3, 2) + bytes(3_000_000), png(3, 2)))
    first = budget.fit(CallAnswer("drawn", images=(large, large, small)))
    assert first.images == (large, small)
    assert first.note.startswith("[You do not see 1 of its 3 images: ")
    assert budget.fit(CallAnswer("drawn", images=(large,))).note.startswith("[You do not see its image: ")


def test_hidden_values_are_neither_stored_nor_sent(talk, script, server):
    talk.loop.redact = lambda text: text.replace("Rome", "[hidden]").replace("Here", "[hidden]")
    client = script(
        reply(None, LOOK, DRAW), reply(None, call("read_result", {"tool_call_id": "c3"}, "c4")), "ok"
    )
    talk.chat("Draw.")
    assert told(client)[0] == "sunny in [hidden]"
    assert told(client)[1].startswith("[hidden]:\n[image")
    assert told(client)[1].endswith("[You do not see its image: the user has hidden values]")
    assert "Rome" not in told(client)[2]
    assert images(client.last_messages) == []


PATHS = {OpenAIClient: "/chat/completions", ResponsesClient: "/responses", AnthropicClient: "/messages"}


@pytest.mark.parametrize("kind", PATHS)
def test_every_dialect_has_a_place_for_them(talk, script, server, kind):
    client = script(reply(None, DRAW), "ok")
    talk.chat("Draw.")
    body = kind("m", base_url="http://127.0.0.1:1", api_key="").as_sent(client.last_messages, max_tokens=9)
    assert problems_of(PATHS[kind], body) == []
    text = json.dumps(body)
    assert text.count(PICTURE) == 1
    assert OF_RESULTS in text
    if kind is AnthropicClient:
        results = body["messages"][-1]["content"]
        assert [block["type"] for block in results] == ["tool_result", "image", "text"]
