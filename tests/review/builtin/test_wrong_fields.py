"""Wrong values in the fields of a built-in pending are named and block decisions until they are corrected."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import CommitNotFoundError, PendingError, RejectedError
from tract_jupyter.models import PendingStatus, Resolution
from tract_jupyter.review.builtin import PendingGC


def compression(tract):
    tract.user("first")
    tract.user("second")
    return tract.propose_compress(content="both of them")


def collection(tract):
    tract.user("kept")
    return tract.propose_gc()


def merging(tract):
    shared = tract.user("shared").commit_hash
    tract.branch("other")
    tract.user("theirs", edit=shared)
    tract.switch("main")
    tract.user("ours", edit=shared)
    return tract.propose_merge("other", resolver=lambda _conflict: Resolution("ours"))


def rebasing(tract):
    tract.user("shared")
    tract.branch("other")
    tract.user("theirs")
    tract.switch("main")
    tract.user("ours")
    return tract.propose_rebase("other")


def generation(tract):
    tract.user("How tall is Ben Nevis?")
    tract.configure_llm(ScriptedClient("1345 m"))
    return tract.propose_generate()


@pytest.mark.parametrize(
    ("propose", "field"),
    [
        (collection, "commits_to_remove"),
        (collection, "tokens_to_free"),
        (compression, "summaries"),
        (compression, "source_commits"),
        (compression, "branch"),
        (merging, "conflicts"),
        (merging, "resolutions"),
        (rebasing, "replay_plan"),
        (generation, "response_text"),
        (generation, "tool_calls"),
    ],
)
@pytest.mark.parametrize("value", [[5], None, "gone"])
def test_a_wrong_field_is_named_and_the_pending_stays_open_until_corrected(tract, propose, field, value):
    pending = propose(tract)
    before = dict(pending.fields)
    if isinstance(before[field], str) and value == "gone":
        del pending.fields[field]
    else:
        pending.fields[field] = value
    with pytest.raises(PendingError, match=rf"{field}.*Nothing was decided; correct them"):
        pending.approve()
    with pytest.raises(PendingError, match=rf"{field}.*Nothing was decided; correct them"):
        pending.review_request()
    assert (pending.status, pending.rounds) == (PendingStatus.PENDING, 0)
    pending.fields[field] = before[field]
    pending.approve()
    assert pending.status is PendingStatus.APPROVED


def test_a_built_in_pending_with_wrong_fields_can_be_rejected(tract):
    pending = collection(tract)
    pending.fields["commits_to_remove"] = 5
    pending.reject("no")
    assert pending.status is PendingStatus.REJECTED


def test_a_handler_that_sets_a_wrong_field_gets_an_error(tract):
    told = []

    def handler(pending):
        summaries = pending.summaries
        pending.fields["summaries"] = None
        with pytest.raises(PendingError, match="summaries: ") as caught:
            pending.approve()
        told.append(caught.value)
        pending.fields["summaries"] = summaries
        pending.reject("so much for that")

    tract.on("compress", handler)
    tract.user("first")
    tract.user("second")
    with pytest.raises(RejectedError, match="so much for that"):
        tract.compress(content="both of them")
    assert told


def test_a_failing_summary_does_not_hide_the_error_of_an_action(tract, monkeypatch):
    pending = collection(tract)

    def broken(self):
        raise TypeError("there is nothing to sum up")

    with monkeypatch.context() as patch:
        patch.setattr(PendingGC, "summary", broken)
        with pytest.raises(CommitNotFoundError):
            pending.exclude("f" * 64)
    assert pending.status is PendingStatus.PENDING
    pending.approve()
    assert pending.status is PendingStatus.APPROVED
