"""Messages with attachments are sent to models: in each dialect, within the budget, on a cassette."""

from __future__ import annotations

import base64
import json

import pytest

from tests.attachments import pdf, png
from tests.llm.dialects import ALL, Chat, Messages, Responses, Said, made
from tests.llm.providers import Answer, provider
from tests.review.scripted import ScriptedClient, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import CassetteError, LLMBudgetError, LLMRequestError
from tract_jupyter.models import AttachedFile

DOT = AttachedFile.of("dot.png", png(300, 250))
PAPER = AttachedFile.of("paper.pdf", pdf(2))
NOTES = AttachedFile.of("notes.md", b"# Notes")
FILES = [DOT, PAPER, NOTES]
TOKENS = 100 + 4_000


def data(file):
    return base64.b64encode(file.data).decode()


IMAGE = f"data:image/png;base64,{data(DOT)}"
FILE = f"data:application/pdf;base64,{data(PAPER)}"
TEXT = NOTES.text.rstrip()
SENT = {
    Chat: [
        {"type": "image_url", "image_url": {"url": IMAGE}},
        {"type": "file", "file": {"filename": "paper.pdf", "file_data": FILE}},
        {"type": "text", "text": TEXT},
        {"type": "text", "text": "Look"},
    ],
    Responses: [
        {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
        {"type": "input_file", "filename": "paper.pdf", "file_data": FILE},
        {"type": "input_text", "text": TEXT},
        {"type": "input_text", "text": "Look"},
    ],
    Messages: [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data(DOT)}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data(PAPER)},
         "title": "paper.pdf"},
        {"type": "text", "text": TEXT},
        {"type": "text", "text": "Look"},
    ],
}  # fmt: skip
all_dialects = pytest.mark.parametrize("dialect", ALL)


@all_dialects
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_attachments_are_sent_in_each_dialect_and_again_with_the_next_message(dialect, streamed):
    said = Said("A dot.")
    body = dialect.stream(said) if streamed else dialect.whole(said)
    with provider(Answer(body)) as there, Tract.open() as t:
        t.models.use(made(dialect, there))
        on_delta = (lambda _: None) if streamed else None
        t.chat("Look", attachments=FILES, on_delta=on_delta)
        t.chat("And?", on_delta=on_delta)
    first, second = there.bodies
    (message,) = first.get("messages") or first["input"]
    assert message == {"role": "user", "content": SENT[dialect]}
    assert (second.get("messages") or second["input"])[0]["content"] == SENT[dialect]


@all_dialects
@pytest.mark.parametrize("said", [
    "Invalid content type. image_url is only supported by certain models.",
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "Failed to deserialize the JSON body: messages[0]: unknown variant `image_url`, expected `text`",
    "At most 0 image(s) may be provided in one request.", "m-1 is not a multimodal model",
    "No endpoints found that support image input", "Unknown part type: file", "This model does not support PDF files",
])  # fmt: skip
def test_the_error_of_a_model_without_image_input_advises_another_model(dialect, said):
    with provider(Answer(dialect.error("invalid_request_error", said), 400)) as there, Tract.open() as t:
        t.models.use(made(dialect, there))
        with pytest.raises(
            LLMRequestError,
            match="does not accept such attachments: use one that does, as in tract.models.use",
        ):
            t.chat("Look", attachments=[DOT])
        assert len(t.compile()) == 0  # without the message, later requests do not fail


def test_other_failures_say_nothing_of_attachments():
    with (
        provider(Answer(Chat.error("invalid_request_error", "Unknown parameter: 'x'"), 400)) as there,
        Tract.open() as t,
    ):
        t.models.use(made(Chat, there))
        with pytest.raises(LLMRequestError) as caught:
            t.chat("Look")
        assert "attachments" not in str(caught.value)


def test_a_custom_client_gets_attachments_as_parts():
    client = ScriptedClient("A dot.")
    with Tract.open(model=client) as t:
        t.chat("Look", attachments=FILES)
    (messages, _), *_ = client.asked
    assert messages == [{"role": "user", "content": SENT[Chat]}]


def test_saying_the_same_again_tries_the_same_turn_again():
    client = ScriptedClient(OSError("gone"), "A dot.", OSError("gone"), "Nothing.")
    with Tract.open(model=client) as t:
        with pytest.raises(OSError, match="gone"):
            t.chat("Look", attachments=[DOT])
        t.chat("Look", attachments=[DOT])
        assert [one.role for one in t.compile().messages] == ["user", "assistant"]
        with pytest.raises(OSError, match="gone"):
            t.chat("Look", attachments=[DOT])
        t.chat("Look")  # without the attachment it is another request
        assert [(one.role, len(one.attachments)) for one in t.compile().messages] == [
            ("user", 1), ("assistant", 0), ("user", 0), ("assistant", 0),
        ]  # fmt: skip


@all_dialects
def test_the_budget_includes_attachments(dialect):
    with provider(Answer(dialect.whole(Said("A dot.")))) as there, Tract.open() as t:
        t.models.use(made(dialect, there))
        t.costs.set_budget(tokens=TOKENS)
        with pytest.raises(LLMBudgetError, match=r"would|could exceed"):
            t.chat("Look", attachments=FILES, max_tokens=10)
        assert there.bodies == []
        t.costs.set_budget(tokens=TOKENS + 200)
        t.chat("Look", attachments=FILES, max_tokens=10)


def test_an_estimate_of_a_request_has_them():
    client = ScriptedClient({"choices": [{"message": {"content": "A dot."}}]})
    with Tract.open(model=client) as t:
        t.chat("Look", attachments=FILES)
        text = t.tokenizer.count_text(f"{TEXT}\nLook")
        assert TOKENS + text <= sum(line.input_tokens for line in t.costs().lines) <= TOKENS + text + 20


def test_the_provider_count_corrects_messages_with_attachments():
    usage = {"prompt_tokens": 2_100, "completion_tokens": 1}
    with Tract.open(model=ScriptedClient(reply("A dot.", usage=usage))) as t:
        before = t.user("Look", attachments=[DOT, PAPER]).token_count
        t.generate()
        context = t.compile()
        assert before > TOKENS
        assert context.corrected_by is not None
        assert context.corrected_by.factor == pytest.approx(2_100 / before, rel=0.02)


# --- cassettes


def test_a_cassette_has_their_hashes_and_gives_the_same_commits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in FILES:
        (tmp_path / file.attachment.name).write_bytes(file.data)
    names = [file.attachment.name for file in FILES]
    cassette = tmp_path / "talk.cassette.jsonl"

    def talk(t):
        t.chat("Look", attachments=names)
        t.chat("And?")
        t.chat("Again", attachments=names)
        return t.cassette.stop()

    with Tract.open(record=cassette, model=ScriptedClient("A dot.", "Nothing.", "The same.")) as t:
        head = talk(t).head
    text = cassette.read_text()
    assert DOT.attachment.sha256 in text
    for file in FILES[:2]:
        assert data(file)[:40] not in text
    assert len(text) < 10_000
    with Tract.open(replay=cassette) as t:
        report = talk(t)
        assert (report.is_same, report.head) == (True, head)
    (tmp_path / "dot.png").write_bytes(png(3, 3))
    with Tract.open(replay=cassette) as t:
        with pytest.raises(CassetteError, match=r"messages\[0\].attachments\[0\].sha256"):
            t.chat("Look", attachments=names)
        t.cassette.stop()


def test_an_attachment_in_direct_client_calls_is_recorded_once(tmp_path):
    cassette = tmp_path / "talk.cassette.jsonl"
    with Tract.open(record=cassette, model=ScriptedClient("A dot.", "Nothing.")) as t:
        t.user("Look", attachments=[DOT])
        client = t.models.client_for("chat")
        messages = t.compile().to_dicts()
        client.chat(messages)
        client.chat([*messages, {"role": "user", "content": "And?"}])
        t.cassette.stop()
    assert cassette.read_text().count(data(DOT)) == 1
    assert json.loads(cassette.read_text().splitlines()[0])["cassette"] == 1
