"""Provider counts correct only the estimates on display and the estimates that a budget checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.review.scripted import ScriptedClient, reply
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import BudgetExceededError
from tract_jupyter.models import TokenBudget


class Exact:
    """A custom tokenizer that counts words."""

    name = "words"

    def count_text(self, text: str) -> int:
        return len(text.split())


def counted_twice(tract):
    """Make a provider count twice as many tokens as the estimate."""
    usage = {"prompt_tokens": 2 * tract.status().token_count, "completion_tokens": 1}
    tract.configure_llm(ScriptedClient(*[reply("ok", usage=usage)] * 2))
    tract.generate()


@pytest.fixture
def corrected(tract):
    tract.user("word " * 100)
    tract.user("The bridge is 42 m long. " * 10)
    counted_twice(tract)
    return tract


def as_counted(tract):
    return tract.log(1)[0].context_tokens


def test_a_compiled_context_and_status_say_the_same(corrected):
    context, status = corrected.compile(), corrected.status()
    assert context.token_count == status.token_count == 2 * as_counted(corrected)
    assert context.corrected_by == status.corrected_by == ("scripted-1", 2)
    assert repr(context) == f"<CompiledContext: 3 messages, ≈{context.token_count:,} tokens>"
    assert status.tokens == f"≈{context.token_count:,} (as scripted-1 counts)"
    assert status.tokens_phrase == f"≈{context.token_count:,} tokens (as scripted-1 counts)"
    limited = replace(status, max_tokens=5_000, corrected_by=None)
    assert limited.tokens_phrase == f"≈{context.token_count:,} of 5,000 tokens"
    assert sum(message.token_count for message in context.messages) == pytest.approx(
        context.token_count, abs=10
    )
    assert context.messages[0].token_count == 2 * corrected.log()[-1].token_count + 8
    assert context.messages[:2] == tuple(context.messages)[:2]
    assert corrected.compile() == context


def test_other_ways_to_compile_are_corrected_as_well(corrected):
    context = corrected.compile()
    assert corrected.compile(include_reasoning=True) == context
    assert corrected.compile(at_commit=context.head) == context
    difference = corrected.diff(context.commit_hashes[0], context.commit_hashes[1])
    assert difference.stat.token_delta == context.messages[1].token_count
    assert (
        corrected.compile_records.newest()[0].token_count < context.token_count
    )  # from before the first report


def test_a_budget_goes_by_it(corrected):
    corrected.budget = TokenBudget(3 * as_counted(corrected), "reject")
    assert corrected.compile().max_tokens == 3 * as_counted(corrected)
    told = "the context would have ≈"
    with pytest.raises(BudgetExceededError, match=told):
        corrected.user("word " * 100)
    seen = []
    corrected.budget = TokenBudget(as_counted(corrected), "callback", lambda *tokens: seen.append(tokens))
    corrected.user("x")
    assert seen == [(corrected.compile().token_count, corrected.budget.max_tokens)]


def test_surgery_tells_corrected_figures(corrected):
    before = corrected.compile().token_count
    plan = corrected.preview_compress(to_commit=corrected.log()[1].commit_hash, content="A short one.")
    assert plan.before.token_count == before
    assert plan.price.saved_per_call == plan.before.token_count - plan.after.token_count
    assert plan.price.cache_kept + plan.price.read_anew == plan.after.token_count
    assert plan.diff.stat.token_delta == -plan.price.saved_per_call
    done = corrected.compress(to_commit=corrected.log()[1].commit_hash, content="A short one.")
    assert (done.tokens_before, done.tokens_after) == (before, corrected.compile().token_count)
    assert done.tokens_after == plan.after.token_count
    back = corrected.expand(done.summary_commits[0])
    assert (back.tokens_before, back.tokens_after) == (done.tokens_after, before)


def test_a_merge_and_a_restore_ask_the_budget_in_the_same_tokens(corrected):
    done = corrected.compress(to_commit=corrected.log()[1].commit_hash, content="A short one.")
    corrected.budget = TokenBudget(done.tokens_after + 150, "reject")
    with pytest.raises(BudgetExceededError):
        corrected.import_commits([done.source_commits[0][0]])


def test_nothing_is_corrected_with_an_exact_tokenizer(tmp_path):
    with Tract.open(tmp_path / "a.db", tokenizer=Exact()) as tract:
        tract.user("word " * 100)
        counted_twice(tract)
        context = tract.compile()
        assert context.token_count == as_counted(tract)
        assert context.corrected_by is None is tract.status().corrected_by
        tract.budget = TokenBudget(as_counted(tract) + 20, "reject")
        tract.user("word")
        with pytest.raises(BudgetExceededError, match="would have \\d"):
            tract.user("word " * 20)


def test_the_budget_of_an_exact_tokenizer_does_not_correct_older_estimates(tmp_path):
    with Tract.open(tmp_path / "a.db") as tract:
        tract.user("word " * 100)
        counted_twice(tract)
        counted = as_counted(tract)
    with Tract.open(tmp_path / "a.db", tokenizer=Exact()) as tract:
        assert tract.compile().token_count == tract.status().token_count == counted
        tract.budget = TokenBudget(counted + 50, "reject")
        tract.user("word")


def test_max_tokens_of_a_child_snapshot_uses_the_provider_count(tmp_path):
    with Session.open(tmp_path / "s.db") as session:
        parent = session.create_tract()
        for _ in range(4):
            parent.user("word " * 100)
        before = session.spawn(parent, purpose="look", inheritance="head_snapshot", max_tokens=300)
        counted_twice(parent)
        after = session.spawn(parent, purpose="look", inheritance="head_snapshot", max_tokens=300)
        assert after.compile().token_count < before.compile().token_count < 310


def test_the_size_of_a_tool_result_uses_the_corrected_count(corrected):
    corrected.tool_results.configure_summarization(auto_threshold=150)
    corrected.configure_llm(ScriptedClient("short"))
    corrected.assistant("", metadata={"tool_calls": [{"id": "1", "name": "look", "arguments": {}}]})
    told = corrected.propose_tool_result("1", "look", "word " * 100)
    assert f"≈{2 * told.token_count:,} tokens" in told.summary()
    corrected.tool_result("1", "look", "word " * 100)
    assert corrected.compile().messages[-1].content == "short"


def test_a_report_that_is_rolled_back_corrects_nothing(tract):
    tract.user("word " * 100)
    tract.budget = TokenBudget(as_counted(tract), "reject")
    with pytest.raises(BudgetExceededError):
        counted_twice(tract)
    assert tract.status().corrected_by is None


def test_the_proposal_of_a_compression_keeps_its_limits(corrected):
    """An approval covers the displayed numbers, so a later report must not change them."""
    pending = corrected.propose_compress(content="A short one.")
    fields = dict(pending.fields)
    counted_twice(corrected)
    assert dict(pending.fields) == fields


@pytest.mark.slow
@pytest.mark.parametrize("counted", [10**9, 10**320, 1, -3, True, "12", 0.5])
def test_a_count_that_cannot_be_about_this_prompt_corrects_nothing(any_store, counted):
    """Budgets use this count. A wrong one would make them refuse the reply and all later messages."""
    tract = any_store(budget=TokenBudget(max_tokens=1000, action="reject"))
    tract.configure_llm(ScriptedClient(reply("ok", usage={"prompt_tokens": counted})))
    tract.chat("word " * 100)
    tract.user("And now?")
    assert tract.status().corrected_by is None
    assert tract.status().token_count == as_counted(tract)
    assert tract.verify() == []
