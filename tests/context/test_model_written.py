"""Texts that a model writes into the history: maximum length, required content, retries, notifications."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient, reply
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import CompressionError, ContentError, SessionError, UndecidedError

LONG = "word " * 2_000


@pytest.fixture
def talk(tract):
    """A long message, a pinned one, and two more."""
    tract.user("The bridge is 42 m long and was built in 1893. " * 10)
    tract.annotate(tract.user("Keep this.").commit_hash, "pinned")
    tract.assistant("It is made of steel. " * 20)
    tract.user("And who built it? " * 20)
    return tract


def texts(tract):
    return [message.content for message in tract.compile().messages]


def asked(client, number=-1):
    return client.asked[number][0][-1]["content"]


def test_a_summary_longer_than_its_messages_is_retried_and_never_used(talk):
    talk.configure_llm(ScriptedClient(LONG, "a bridge", "steel, who built it?"))
    talk.compress()
    assert texts(talk) == ["a bridge", "Keep this.", "steel, who built it?"]
    assert "the maximum is" in asked(talk.llm, 1)
    talk.undo()
    before = talk.head
    talk.configure_llm(ScriptedClient(*[LONG] * 4))
    with pytest.raises(CompressionError, match=r"2,000 tokens.*4 attempts.*nothing was changed"):
        talk.compress()
    assert talk.head == before


def test_target_and_tolerance_are_enforced(talk):
    talk.configure_llm(ScriptedClient("one two three four five six", "one two", "three four"))
    talk.compress(target_tokens=2, token_tolerance=1)
    assert texts(talk) == ["one two", "Keep this.", "three four"]
    assert "the target is 2" in asked(talk.llm, 1)
    with pytest.raises(CompressionError, match="token_tolerance must be a whole number"):
        talk.compress(content="x", token_tolerance=-1)


@pytest.mark.parametrize("no", [False, (False, "no number"), "no number"])
def test_a_validator_may_answer_in_any_way(talk, no):
    client = ScriptedClient("a bridge", "a bridge of 42 m", "steel, 42")
    talk.configure_llm(client)
    talk.compress(validator=lambda text: "42" in text or no)
    assert texts(talk)[0] == "a bridge of 42 m"
    assert ("no number" in asked(client, 1)) is (no is not False)


def test_the_number_of_retries_is_bounded(talk):
    client = ScriptedClient("bad", "bad", "bad")
    talk.configure_llm(client)
    with pytest.raises(CompressionError, match="2 attempts"):
        talk.compress(validator=lambda _: "not good", max_retries=1)
    assert len(client.asked) == 2


@pytest.mark.parametrize("way", ["proposed", "hooked"])
def test_before_a_person_is_asked_it_is_written_again_as_often(talk, way):
    """If the text is too long or the validator refuses it. The user can repair the last attempt."""
    client = ScriptedClient(LONG, "a bridge", "a bridge of 42 m", LONG, "still a bridge")
    talk.configure_llm(client)
    seen = []
    talk.on("compress", seen.append)
    options = {"one_summary": True, "validator": lambda text: "42" in text or "no number", "max_retries": 2}
    for made in ("a bridge of 42 m", "still a bridge"):
        if way == "proposed":
            pending = talk.propose_compress(**options)
        else:
            with pytest.raises(UndecidedError):
                talk.compress(**options)
            pending = seen.pop()
        assert pending.summaries == [made]
        options["max_retries"] = 1
    assert "2,000 tokens" in asked(client, 1)
    assert "no number" in asked(client, 2)
    assert len(client.asked) == 5
    pending.edit_summary(0, "a bridge of 42 m, of steel")
    pending.approve()
    assert texts(talk)[0] == "a bridge of 42 m, of steel"


def test_one_summary_can_span_a_pinned_message(talk):
    talk.configure_llm(ScriptedClient("a steel bridge"))
    result = talk.compress(one_summary=True)
    assert texts(talk) == ["a steel bridge", "Keep this."]
    assert [len(group) for group in result.source_commits] == [3]
    talk.expand(result.summary_commits[0])
    assert len(texts(talk)) == 4
    talk.undo()
    talk.undo()
    pending = talk.propose_compress(content="in short", one_summary=True)
    pending.approve()
    assert texts(talk) == ["in short", "Keep this."]


def test_the_context_and_other_words_about_the_task(talk):
    client = ScriptedClient("a", "b")
    talk.configure_llm(client)
    talk.compress(include_context=True, system_prompt="Be a poet.")
    assert client.asked[0][0][0]["content"] == "Be a poet."
    assert "Keep this." in asked(client, 0)
    assert asked(client, 0).count("The bridge is 42 m long") == 10


def test_a_proposal_says_its_price_and_holds_to_its_length(talk):
    pending = talk.propose_compress(content=["short", "short too"], target_tokens=5, token_tolerance=0)
    assert "saves" in pending.summary()
    pending.edit_summary(0, LONG)
    with pytest.raises(CompressionError, match="summary 0 has 2,000 tokens"):
        pending.approve()
    assert len(texts(talk)) == 4


def test_the_compress_event_names_its_trigger(talk):
    talk.compress(content=["a", "b"], triggered_by="policy tidy")
    assert talk.events("compress")[0].data["triggered_by"] == "policy tidy"
    talk.on("compress", lambda pending: pending.approve())
    talk.compress(content="all", triggered_by="policy tidier", one_summary=True)
    assert talk.events("compress")[0].data["triggered_by"] == "policy tidier"


# --- tool results


@pytest.fixture
def called(tract):
    tract.user("look")
    tract.assistant(
        "",
        tool_calls=[
            {"id": "a", "name": "look", "arguments": {}},
            {"id": "b", "name": "read", "arguments": {}},
        ],
    )
    return tract


def answers(tract):
    return [message.content for message in tract.compile().messages if message.role == "tool"]


def test_answers_are_shortened_by_the_configured_model(called):
    called.tool_result("a", "look", "a long answer " * 50)
    with pytest.raises(CompressionError, match="pass content"):
        called.tool_results.compress()
    client = ScriptedClient(LONG, "short")
    called.configure_llm(client)
    called.tool_results.compress(instructions="keep names", triggered_by="me")
    assert answers(called) == ["short"]
    assert "keep names" in asked(client)
    assert "the maximum is" in asked(client)
    assert called.events("compress tool calls")[0].data["triggered_by"] == "me"


def test_rules_for_the_answers_of_tools(called):
    client = ScriptedClient("looked", "read")
    called.configure_llm(client)
    called.tool_results.configure_summarization(
        {"look": "keep names"}, auto_threshold=50, default_instructions="in short"
    )
    called.tool_result("a", "look", "the answer")
    info = called.tool_result("b", "read", "page " * 100)
    assert answers(called) == ["looked", "read"]
    assert "keep names" in asked(client, 0)
    assert "in short" in asked(client, 1)
    assert info.metadata["original_content"] == "page " * 100


def test_tool_results_without_a_rule_or_a_shorter_text_are_kept(called):
    called.configure_llm(ScriptedClient(*[LONG] * 4))
    called.tool_results.configure_summarization({"look": "keep names"}, auto_threshold=1_000)
    called.tool_result("a", "look", "the answer")
    called.tool_result("b", "read", "page")
    assert answers(called) == ["the answer", "page"]
    called.tool_results.configure_summarization()
    assert called.hooks.list() == {}


class Down:
    """A client that is not reachable."""

    def chat(self, messages, **options):
        raise OSError("the line is dead")


def test_no_answer_is_lost_because_the_model_is_not_there(called):
    called.configure_llm(Down())
    called.tool_results.configure_summarization({"look": "keep names"})
    called.tool_result("a", "look", "the answer")
    assert answers(called) == ["the answer"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_tokens": 0},
        {"auto_threshold": -1},
        {"auto_threshold": "many"},
        {"default_instructions": 5},
        {"system_prompt": 5},
        {"instructions": ["look"]},
        {"instructions": {"look": 5}},
    ],
)
def test_a_rule_that_could_never_work_is_refused_when_it_is_made(called, wrong):
    with pytest.raises(ContentError):
        called.tool_results.configure_summarization(**wrong)
    assert called.hooks.list() == {}


# --- the outcome of a child


def test_a_childs_outcome_is_written_by_the_configured_model_and_checked(tmp_path):
    with Session.open(tmp_path / "s.db") as session:
        parent = session.create_tract()
        parent.user("question")
        child = session.spawn(parent, purpose="look")
        child.user("found it in the attic " * 30)
        with pytest.raises(SessionError, match="configured model"):
            session.collapse(child, parent)
        client = ScriptedClient("", "in the attic")
        parent.configure_llm(client)
        session.collapse(child, parent, validator=lambda text: "attic" in text, triggered_by="me")
        assert texts(parent)[-1] == "in the attic"
        assert "is empty" in asked(client)
        assert parent.events("collapse")[0].data["triggered_by"] == "me"


# --- advice in errors


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (
            {"content": LONG, "target_tokens": 10},
            "Shorten it, or set a larger target_tokens or token_tolerance",
        ),
        (
            {"summarizer": lambda *_: LONG},
            "Shorten it: it must not be longer than the replaced messages",
        ),
        ({"content": " "}, "Pass a text, or a summarizer that returns one"),
        (
            {"content": "It is 42 m long.", "validator": lambda _: (False, "dull")},
            "or the validator",
        ),
        ({"content": "It is long."}, "annotate the important message without retain_match"),
    ],
)
def test_the_advice_of_an_error_matches_its_cause(tract, given, advice):
    tract.user("The bridge is 42 m long. " * 3, priority="important", retain_match=["42 m"])
    with pytest.raises(CompressionError) as caught:
        tract.compress(max_retries=0, **given)
    assert advice in str(caught.value)
    assert ("retain_match" in str(caught.value)) is ("retain_match" in advice)


# --- provider counts


def test_reported_usage_corrects_the_estimate(tract):
    tract.user("word " * 100)
    before = tract.status()
    usage = {"prompt_tokens": 2 * before.token_count, "completion_tokens": 1}
    tract.configure_llm(ScriptedClient(reply("ok", usage=usage)))
    tract.generate()
    status = tract.status()
    assert status.corrected_by[0] == "scripted-1"
    assert status.corrected_by[1] == pytest.approx(2, rel=0.1)
    assert status.tokens.startswith("≈2")
    assert "as scripted-1 counts" in status.tokens


def test_requests_for_a_retry_count_in_the_token_correction(tract):
    """The provider also counts the refused replies and the explanations sent after them."""
    estimated = []

    class Counting(ScriptedClient):
        def chat(self, messages, **options):
            estimated.append(sum(tract.tokenizer.count_text(one["content"]) + 4 for one in messages))
            self.replies = [reply(f"reply {len(estimated)}", usage={"prompt_tokens": estimated[-1]})]
            return super().chat(messages, **options)

    tract.configure_llm(Counting())
    tract.user("Where?")
    tract.generate(
        validator=lambda text: None if text == "reply 3" else "not good, as it says too little " * 20
    )
    assert estimated[2] > 10 * estimated[0]
    assert tract.status().corrected_by.factor == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(
    "usage", [{}, {"prompt_tokens": "many"}, {"prompt_tokens": 0}, {"prompt_tokens": True}]
)
def test_usage_that_says_nothing_corrects_nothing(tract, usage):
    tract.user("hello")
    tract.configure_llm(ScriptedClient(reply("ok", usage=usage)))
    tract.generate()
    assert tract.status().corrected_by is None


def test_a_tool_io_message_names_its_tool_and_direction(tract):
    for direction in ("call", "result"):
        tract.commit(
            {
                "content_type": "tool_io",
                "tool_name": "look",
                "direction": direction,
                "payload": {"content": "x"},
            }
        )
    call, result = tract.compile().messages
    assert (call.name, call.direction) == ("look", "call")
    assert (result.name, result.direction) == ("look", "result")
    assert [message["content"] for message in tract.compile().to_dicts()] == [
        "Call of the tool look:\nx",
        "From the tool look:\nx",
    ]


# --- the author of a summary


def writer(info):
    return info.generation_config, info.metadata.get("usage")


USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
NOBODY = ({}, None)
WROTE = ({"model": "scripted-1"}, USAGE)


def test_a_summary_records_its_model_and_usage(talk):
    talk.configure_llm(ScriptedClient(LONG, "a bridge", "steel, who built it?"))
    result = talk.compress()
    first, second = (talk.get_commit(commit) for commit in result.summary_commits)
    assert writer(first) == (WROTE[0], {**USAGE, "failed_tries": [USAGE]})  # the first text was too long
    assert writer(second) == WROTE
    assert talk.costs.of(second.commit_hash).tokens == 12
    assert [one.text for one in talk.costs.turns()] == []  # a summary is no reply


def test_a_summary_by_the_user_records_no_model(talk):
    talk.configure_llm(ScriptedClient())
    result = talk.compress(content=["a bridge", "steel"])
    assert writer(talk.get_commit(result.summary_commits[0])) == NOBODY


def test_a_proposed_summary_says_it_unless_a_person_changes_it(talk):
    talk.configure_llm(ScriptedClient("a long bridge", "some steel", "steel, who built it?"))
    pending = talk.propose_compress()
    assert [one["generation_config"] for one in pending.writers] == [{"model": "scripted-1"}] * 2
    pending.retry(1)
    pending.edit_summary(0, "a long, long bridge")
    result = pending.approve()
    first, second = (talk.get_commit(commit) for commit in result.summary_commits)
    assert writer(first) == NOBODY
    assert writer(second) == (WROTE[0], {**USAGE, "failed_tries": [USAGE]})


def test_a_proposed_summary_says_it_also_in_another_process(tmp_path):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("The bridge is 42 m long. " * 10)
        tract.configure_llm(ScriptedClient("a long bridge"))
        tract.propose_compress()
    with Tract.open(tmp_path / "s.db") as tract:
        pending = tract.operations.rebuild(tract.review.inbox()[0])
        result = pending.approve()
        assert writer(tract.get_commit(result.summary_commits[0])) == WROTE


def test_shortened_answers_of_tools_say_it(talk):
    talk.configure_llm(
        ScriptedClient(
            reply(None, {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}})
        )
    )
    talk.generate()
    talk.configure_llm(ScriptedClient("sunny", "fair"))
    pending = talk.propose_tool_result("c1", "look", "sunny " * 200)
    pending.summarize()
    assert writer(pending.approve()) == WROTE
    talk.tool_results.compress()
    (answer,) = (one for one in talk.log(None) if one.content_type == "tool_io" and one.operation == "edit")
    assert writer(answer) == WROTE
    talk.tool_results.compress(content=["grey"])
    newest = next(one for one in talk.log(None) if one.content_type == "tool_io")
    assert writer(newest) == NOBODY


def test_the_outcome_of_a_child_says_it():
    with Session.open() as session:
        parent = session.create_tract()
        parent.user("Find out.")
        child = session.spawn(parent, purpose="find out")
        child.user("The bridge is 42 m long. " * 10)
        parent.configure_llm(ScriptedClient("42 m"))
        assert writer(session.collapse(child, into=parent).commit) == WROTE
