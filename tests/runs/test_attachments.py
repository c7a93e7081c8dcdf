"""Runs whose question has attachments: they are sent, counted, and kept by rewrites of the question."""

from __future__ import annotations

import json

import pytest

from tests.attachments import pdf, png
from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.models import AttachedFile
from tract_jupyter.notebook.runs import inspect_prompt
from tract_jupyter.runs.profile import OperationProfile, run_operation

FILES = [AttachedFile.of("dot.png", png(300, 250)), AttachedFile.of("paper.pdf", pdf(2))]
NAMES = ("dot.png", "paper.pdf")


@pytest.fixture
def asked(tract):
    tract.configure_llm(ScriptedClient(*["A dot."] * 9))
    return tract


def profile(**how):
    return OperationProfile.of("p", [run_operation("o", order=1, **how)])


def kinds(tract):
    (content,) = (one["content"] for one in tract.llm.last_messages if isinstance(one["content"], list))
    return [part["type"] for part in content], content[-1]["text"]


def test_a_run_sends_them(asked):
    run = asked.chat("Look", attachments=FILES, profile=profile(text="Be kind.", into="system")).run
    assert kinds(asked) == (["image_url", "file", "text"], "Look")
    (message,) = (one for one in run.prompt if one.role == "user")
    assert tuple(one.name for one in message.attachments) == NAMES
    assert "base64" not in json.dumps([event.data for event in asked.events()], default=str)
    assert asked.runs.replay(run.run_id).root_hash == run.root_hash
    assert asked.verify() == []


def test_a_question_that_is_rewritten_keeps_them(asked):
    asked.chat("Look", attachments=FILES, profile=profile(text="Look closely", into="message"))
    assert kinds(asked) == (["image_url", "file", "text"], "Look closely")
    question = asked.compile().messages[0]
    assert (question.content, tuple(one.name for one in question.attachments)) == ("Look closely", NAMES)


def test_a_preview_counts_and_names_them(asked):
    asked.user("Look", attachments=FILES)
    preview = asked.runs.preview(profile=profile(text="Be kind.", into="system"))
    assert 4_100 < preview.tokens < 4_150
    shown = inspect_prompt(preview.run, asked.tokenizer.count_text, "approximate", asked.attachment_tokens)
    assert 4_100 < shown.tokens < 4_150
    assert asked.attachment_tokens([one.attachment for one in FILES]) == 4_100


def test_token_counts_of_the_provider_correct_the_estimates_after_a_run():
    usage = {"prompt_tokens": 2_060, "completion_tokens": 1}
    client = ScriptedClient({"choices": [{"message": {"content": "A dot."}}], "usage": usage})
    with Tract.open(model=client) as tract:
        tract.chat("Look", attachments=FILES, profile=profile(text="Be kind.", into="system"))
        assert tract.compile().corrected_by.factor == pytest.approx(0.5, rel=0.02)


def test_a_waiting_reply_stores_no_attachment_bytes_and_can_be_retried(asked):
    asked.on("generate", lambda pending: None)
    asked.user("Look", attachments=FILES)
    pending = asked.propose_generate()
    pending.retry("In more words.")
    assert kinds(asked)[0] == ["image_url", "file", "text"]
    assert "base64" not in json.dumps(pending.fields, default=str)
    pending.approve()
    assert asked.compile().messages[-1].content == "A dot."


def test_a_fork_sends_the_attachments_again(asked):
    asked.chat("Look", attachments=FILES)
    asked.chat("And?")
    fork = asked.fork(asked.log()[-1].commit_hash)
    assert fork.outcome == "answer"
    assert kinds(asked)[0] == ["image_url", "file", "text"]
