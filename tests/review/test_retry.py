"""`auto_retry` repeats an action until validation passes, for each kind of pending with `validate`."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import ContentError, PendingError, RejectedError
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import auto_retry
from tract_jupyter.review.builtin import ValidationResult


@pytest.fixture
def check(tract, spec):
    """A pending of an operation with `validate` and `retry`. The texts in `tries` are its drafts."""

    def make(*tries, validate="return None if 'good' in pending.fields['text'] else pending.fields['text']"):
        retry = (
            "tries = pending.fields['tries']\npending.fields['told'] = [*pending.fields['told'], guidance]\n"
            "pending.fields['text'], pending.fields['tries'] = tries[0], tries[1:]"
        )
        actions = {
            "validate": ActionDef("validate", "", {}, validate),
            "retry": ActionDef("retry", "", {"guidance": "str"}, retry),
        }
        fields = {
            "text": {"type": "str"},
            "tries": {"type": "list[str]"},
            "told": {"type": "list[str]", "default": []},
        }
        tract.register_operation(spec(name="draft", fields=fields, actions=actions))
        return tract.fire("draft", {"text": tries[0], "tries": list(tries[1:])}, review=True)

    return make


def test_auto_retry_repeats_with_the_problem_until_validation_passes(check):
    pending = check("bad 1", "bad 2", "good", "never reached")
    auto_retry(pending)
    assert pending.status == "approved"
    assert pending.fields["told"] == ["bad 1", "bad 2"]
    assert pending.fields["tries"] == ["never reached"]


@pytest.mark.parametrize(("retries", "status"), [(1, "rejected"), (2, "approved"), (0, "rejected")])
def test_the_last_attempt_is_looked_at_too(check, retries, status):
    pending = check("bad 1", "bad 2", "good")
    auto_retry(pending, max_retries=retries)
    assert pending.status == status
    assert len(pending.fields["told"]) == min(retries, 2)


def test_the_rejection_tells_all_that_was_wrong(check):
    pending = check("bad 1", "bad 2", "bad 3")
    auto_retry(pending, max_retries=2)
    assert pending.rejection_reason == "3 attempts, all invalid: (1) bad 1; (2) bad 2; (3) bad 3"


def test_auto_retry_refuses_a_pending_without_validate(tract):
    pending = tract.propose_gc()
    with pytest.raises(PendingError, match="offers no 'validate'"):
        auto_retry(pending)
    assert pending.status == "pending"


def test_auto_retry_rejects_an_invalid_pending_without_retry(tract, spec):
    validate = ActionDef("validate", "", {}, "return 'never good'")
    tract.register_operation(spec(fields={}, actions={"validate": validate}))
    tract.on("citation_check", auto_retry)
    pending = tract.fire("citation_check")
    assert (pending.status, pending.rejection_reason) == ("rejected", "never good")


def test_an_invalid_return_value_of_validate_is_an_error(check):
    pending = check("x", validate="return 3")
    with pytest.raises(ContentError, match="a validator must return None or True"):
        auto_retry(pending)
    assert pending.status == "pending"


def test_a_retry_that_raises_leaves_it_open(tract):
    tract.user("q")
    tract.configure_llm(ScriptedClient("bad", ConnectionError("down")))
    pending = tract.propose_generate(validator=lambda text: "no")
    with pytest.raises(ConnectionError):
        auto_retry(pending)
    assert (pending.status, pending.response_text) == ("pending", "bad")


def test_of_a_compression_only_the_bad_summary_is_written_again(tract):
    first = tract.user("alpha " * 30)
    tract.annotate(tract.user("keep this").commit_hash, "pinned")
    second = tract.user("beta " * 30)
    written = []

    def summarizer(messages, criteria, instructions, target_tokens):
        written.append((messages[0].content[:5].strip(), instructions))
        return "too bad" if len(written) == 2 else "a summary that is long enough"

    tract.on("compress", auto_retry)
    tract.compress(commits=[first.commit_hash, second.commit_hash], summarizer=summarizer)
    assert [which for which, _ in written] == ["alpha", "beta", "beta"]
    assert "too short" in written[2][1]


def test_as_a_handler_it_ends_in_a_refusal(tract):
    tract.user("q")
    tract.configure_llm(ScriptedClient("a", "b", "c", "d"))
    tract.on("generate", auto_retry)
    with pytest.raises(RejectedError, match="4 attempts"):
        tract.generate(validator=lambda text: f"{text} is wrong")


def test_validation_results_are_made_from_validator_return_values():
    assert ValidationResult.of(None)
    assert ValidationResult.of("")
    assert ValidationResult.of("no") == ValidationResult(passed=False, diagnosis="no")
    given = ValidationResult(passed=False, diagnosis="x", index=2)
    assert ValidationResult.of(given) is given
