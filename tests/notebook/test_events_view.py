"""Events in plain words, with short hashes and readable times."""

from datetime import UTC, datetime, timedelta

import pytest

from tract_jupyter.notebook.views import EventsView, ago, in_words
from tract_jupyter.storage import Event

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
HASH = "6077c947594f1b05b365ae29d17b851b04b4dbac1486818e11d47784c4eeb1c2"


def event(kind, *, actor="user", at=NOW, **data):
    return Event(1, kind, actor, data, at)


@pytest.mark.parametrize(
    ("happened", "told"),
    [
        (event("decision", action="reject", title="deploy", reason="no"), "rejected deploy, because: no"),
        (event("decision", action="approve", title="deploy", reason=""), "approved deploy"),
        (event("decision", action="go", title="deploy", outcome="nothing ran"), "chose go for deploy (nothing ran)"),
        (event("merge", source_branch="x", branch="main", merge_type="clean"), "merged x into main"),
        (event("operation.activated", name="deploy", version="2", signature=HASH), "activated operation deploy, version 2"),
        (event("failed", action="go", error="no disk"), "go failed: no disk"),
        (event("gc", commits=1, tokens=1200), "removed 1 commit that no branch leads to, 1,200 tokens"),
        (event("custom:deploy", fields={"place": "here"}, pending_id=HASH), "ran deploy: place here"),
        (event("grant.revoked", name="deploy", grant_id=HASH), "grant deploy revoked: grant id 6077c947"),
        (event("decision"), "decision"),
        (event("rebase", old=HASH, new=None), "rebase: old 6077c947"),
    ],
)  # fmt: skip
def test_events_are_described_in_words(happened, told):
    assert in_words(happened) == told


def test_ages_are_words_and_old_times_are_dates():
    told = [ago(NOW - timedelta(seconds=s), NOW) for s in (3, 90, 7_200, 90_000, 200_000, 10**6)]
    assert told == ["just now", "1 min ago", "2 h ago", "1 day ago", "2 days ago", told[-1]]
    assert told[-1].startswith("2026-02-")
    assert ago(NOW + timedelta(days=2), NOW).startswith("2026-03-")


def test_a_line_has_the_exact_time_and_unfolds_to_the_data_of_the_event():
    view = EventsView([event("merge", actor="<b>", source_branch="x", branch="main", new=HASH)], NOW)
    page = view.to_html()
    assert f'title="{(NOW.astimezone()):%Y-%m-%d %H:%M:%S}' in page
    assert HASH in page.partition("</summary>")[2]
    assert HASH not in page.partition("</summary>")[0]
    assert ">&lt;b&gt;<" in page
    assert "&lt;b&gt;" in page
    assert HASH not in view.to_text()
    assert "None yet." in EventsView.of([]).to_text()
