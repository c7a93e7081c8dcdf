"""Decisions about a compression: by the user, by handlers, after changes, and on a changed history."""

from __future__ import annotations

import pytest

from tract_jupyter import Tract
from tract_jupyter.context import BranchHistory
from tract_jupyter.exceptions import (
    CompressionError,
    FingerprintError,
    LLMConfigError,
    RejectedError,
    UndecidedError,
)


@pytest.fixture
def talk(tract):
    """Three messages, the last one pinned."""
    for text in ("What is a tract?", "A versioned context. Its number is 42.", "Keep this."):
        info = tract.user(text)
    tract.annotate(info.commit_hash, "pinned")
    return tract


def texts(tract):
    return [message["content"] for message in tract.compile().to_dicts()]


def told(messages, criteria, instructions, target_tokens):
    return f"summary of {len(messages)}: {instructions}"


def actions(pending):
    return [row.action for row in pending.tract.reviewer.ledger.decisions(pending.pending_id)]


def test_nothing_happens_before_it_is_approved(talk):
    before = talk.head
    pending = talk.propose_compress(content="a short summary")
    assert (talk.head, pending.summaries) == (before, ["a short summary"])
    assert (len(pending.source_commits[0]), len(pending.preserved_commits)) == (2, 1)
    assert pending.original_tokens > pending.estimated_tokens > 0
    result = pending.approve()
    assert texts(talk) == ["a short summary", "Keep this."]
    assert result.new_head == talk.head
    talk.undo()
    assert talk.head == before


def test_summaries_are_edited_and_written_again_first(talk):
    pending = talk.propose_compress(summarizer=told, guidance="numbers", instructions="be brief")
    assert pending.list_summaries()[0] == "summary of 2: Guidance:\nnumbers\n\nbe brief"
    assert pending.retry(0, guidance="names") == "summary of 2: Guidance:\nnames\n\nbe brief"
    pending.edit_guidance("both")
    assert (pending.get_guidance(), pending.guidance_source) == ("both", "user")
    pending.retry(0)
    assert pending.list_summaries() == ["summary of 2: Guidance:\nboth\n\nbe brief"]
    pending.edit_summary(0, "by hand: 42")
    pending.approve()
    assert texts(talk)[0] == "by hand: 42"
    assert actions(pending) == ["retry", "edit_guidance", "retry", "edit_summary", "approve"]


def test_a_skipped_and_preserved_message_separates_two_summaries(talk):
    first, second, third = (info.commit_hash for info in reversed(talk.log(3, op_filter="append")))
    talk.annotate(second, "skip")
    talk.annotate(third, "normal")
    how = {"commits": [first, third], "preserve": [second]}
    pending = talk.propose_compress(**how, content=["the first summary", "the second summary"])
    assert pending.preserved_commits == [second]
    pending.approve()
    assert texts(talk) == ["the first summary", "the second summary"]


def test_the_fingerprint_binds_the_summaries(talk):
    pending = talk.propose_compress(content="first summary")
    before = pending.fingerprint
    pending.edit_summary(0, "other summary")
    assert pending.fingerprint != before


@pytest.mark.parametrize(
    ("text", "words"), [("", "is empty"), ("short", "too short"), ("word " * 3_000, "the target is 5")]
)
def test_validate_reports_the_problem_of_a_summary(talk, text, words):
    pending = talk.propose_compress(content=text, target_tokens=5)
    assert not pending.validate()
    assert words in pending.validate().diagnosis
    assert pending.validate().index == 0


def test_a_summary_must_pass_the_users_validator_and_retain_match(talk):
    first = talk.log(10)[-2].commit_hash
    talk.annotate(first, "important", retain_match=["42"])
    pending = talk.propose_compress(
        content="a summary in which it is missing",
        validator=lambda text: None if "tract" in text else "no tract",
    )
    assert "must contain '42'" in pending.validate().diagnosis
    pending.edit_summary(0, "a summary with 42")
    assert "no tract" in pending.validate().diagnosis
    with pytest.raises(CompressionError, match="no tract"):
        pending.approve()
    assert (pending.status, len(texts(talk))) == ("failed", 3)
    pending.edit_summary(0, "a tract has the number 42")
    assert pending.validate()
    pending.approve()
    assert len(texts(talk)) == 2


def test_a_handler_decides_and_the_call_gives_the_result_or_raises(talk):
    seen = []
    talk.on("compress", lambda p: (seen.append(p.summaries), p.reject("not now")), name="no")
    with pytest.raises(RejectedError, match="handler:no: not now") as caught:
        talk.compress(content="a short summary")
    assert caught.value.pending.rejection_reason == "not now"
    assert (seen, len(texts(talk))) == ([["a short summary"]], 3)
    talk.off("compress")
    talk.on("compress", lambda p: (p.edit_summary(0, "the handler's own"), p.approve()))
    assert talk.compress(content="a short summary").summary_commits
    assert texts(talk)[0] == "the handler's own"


def test_a_compression_left_open_by_a_handler_waits_in_the_inbox(talk):
    talk.on("compress", lambda p: None)
    with pytest.raises(UndecidedError, match="inbox") as caught:
        talk.compress(content="a short summary")
    assert [stored.operation for stored in talk.review.inbox()] == ["compress"]
    caught.value.pending.approve()
    assert texts(talk)[0] == "a short summary"


def test_an_observer_of_everything_sees_it_and_it_is_done(talk):
    seen = []
    talk.on("*", lambda p: seen.append(p.operation))
    talk.compress(content="a short summary")
    assert (seen, texts(talk)[0]) == (["compress"], "a short summary")


def test_later_messages_are_kept_after_the_summary(talk):
    pending = talk.propose_compress(content="a short summary")
    talk.user("one more")
    pending.approve()
    assert texts(talk) == ["a short summary", "Keep this.", "one more"]


CHANGES = {
    "edited": lambda t, first: t.user("What else?", edit=first),
    "pinned": lambda t, first: t.annotate(first, "pinned"),
    "to be kept": lambda t, first: t.annotate(first, "important", retain="the number"),
    "taken away": lambda t, first: t.reset(first),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_compression_of_changed_messages_is_refused(talk, change):
    first = list(talk.log())[-1].commit_hash
    pending = talk.propose_compress(content="a short summary")
    change(talk, first)
    before = texts(talk)
    with pytest.raises(FingerprintError):
        pending.approve()
    assert (pending.status, texts(talk)) == ("pending", before)
    pending.reject("outdated")


def test_a_compression_is_approved_only_on_its_own_branch(talk):
    pending = talk.propose_compress(content="a short summary")
    talk.branch("other")
    with pytest.raises(FingerprintError, match=r"switch\('main'\)"):
        pending.approve()
    talk.switch("main")
    pending.approve()
    assert texts(talk)[0] == "a short summary"


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_editing_a_missing_summary_is_refused(talk, index):
    pending = talk.propose_compress(content="a short summary")
    with pytest.raises(CompressionError, match=f"no summary {index}"):
        pending.edit_summary(index, "x")


def test_without_a_summarizer_nothing_can_be_written_again(talk):
    pending = talk.propose_compress(content="a short summary")
    with pytest.raises(CompressionError, match="pass content, or a summarizer"):
        pending.retry(0)


def test_another_process_can_do_it(tmp_path):
    with Tract.open(tmp_path / "t.db") as t:
        t.user("one")
        t.user("two")
        t.reviewer.keep(t.propose_compress(content="a short summary"))
    with Tract.open(tmp_path / "t.db") as t:
        pending = t.operations.rebuild(t.review.inbox()[0])
        assert pending.summary().startswith("2 messages of 'main'")
        pending.approve()
        assert (texts(t), t.review.inbox()) == (["a short summary"], [])


# --- summaries by a model


class Model:
    """A client with fixed replies that records its requests."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def chat(self, messages, **options):
        self.asked.append([message["content"] for message in messages])
        return {"choices": [{"message": {"role": "assistant", "content": self.replies.pop(0)}}]}


def test_the_configured_model_writes_the_summary_by_default(talk):
    model = Model("a summary by the model")
    talk.configure_llm(model)
    talk.compress(target_tokens=50, instructions="keep numbers")
    assert texts(talk) == ["a summary by the model", "Keep this."]
    (asked,) = model.asked
    assert "Its number is 42" in asked[1]
    assert "keep numbers" in asked[1]
    assert "at most 50 tokens" in asked[1]


@pytest.mark.parametrize("gated", [False, True])
def test_two_stage_compression_asks_for_guidance_first(talk, gated):
    model = Model("the number matters", "the number is 42")
    talk.configure_llm(model)
    if gated:
        pending = talk.propose_compress(two_stage=True)
        assert (pending.get_guidance(), pending.guidance_source) == ("the number matters", "llm")
        pending.approve()
    else:
        talk.compress(two_stage=True)
    assert "Guidance:\nthe number matters" in model.asked[1][1]
    assert texts(talk)[0] == "the number is 42"


@pytest.mark.parametrize("gated", [False, True])
def test_two_stage_compression_accepts_iterators_of_commits(talk, gated):
    first, second, _ = (info.commit_hash for info in reversed(talk.log(3, op_filter="append")))
    talk.configure_llm(Model("the number matters", "the number is 42"))
    call = talk.propose_compress if gated else talk.compress
    done = call(two_stage=True, commits=iter([first, second]), preserve=iter([first]))
    if gated:
        done.approve()
    assert texts(talk) == ["What is a tract?", "the number is 42", "Keep this."]


def test_in_two_stages_the_history_is_read_once(talk, monkeypatch):
    read = []
    real = BranchHistory.read
    monkeypatch.setattr(BranchHistory, "read", lambda *args: read.append(args) or real(*args))
    talk.configure_llm(Model("the number matters", "the number is 42"))
    talk.compress(two_stage=True)
    assert len(read) == 1


NO_TEXTS = {
    "summarizer": {"summarizer": lambda *_: None},
    "content": {"content": [3]},
    "bytes": {"summarizer": lambda *_: b"bytes"},
}


@pytest.mark.parametrize("given", NO_TEXTS.values(), ids=NO_TEXTS)
@pytest.mark.parametrize("way", ["plain", "hooked", "proposed"])
def test_a_summary_that_is_not_text_is_refused(talk, given, way):
    if way == "hooked":
        talk.on("compress", lambda p: p.approve())
    with pytest.raises(CompressionError, match="not a text; nothing was changed"):
        (talk.propose_compress if way == "proposed" else talk.compress)(**given)
    assert (len(texts(talk)), talk.review.inbox()) == (3, [])


def test_a_retry_without_text_keeps_the_old_summary(talk):
    replies = ["a short summary", None]
    pending = talk.propose_compress(summarizer=lambda *_: replies.pop(0))
    tokens, before = pending.estimated_tokens, pending.fingerprint
    with pytest.raises(CompressionError, match="NoneType, not a text"):
        pending.retry(0)
    assert (pending.summaries, pending.estimated_tokens) == (["a short summary"], tokens)
    assert pending.fingerprint == before


def test_two_stages_without_a_model_are_refused(talk):
    with pytest.raises(LLMConfigError, match="configure_llm"):
        talk.compress(content="a short summary", two_stage=True)
    assert len(texts(talk)) == 3
