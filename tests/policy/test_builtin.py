"""Each built-in policy fires under its documented default, and stops after its action."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tract_jupyter.context.gc as gc_module
from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import MOMENTS, TokenBudget
from tract_jupyter.policy import CompressPolicy, PinPolicy, PolicyWarning, policy_types


def outcomes(tract, name):
    return [
        event.event_type.removeprefix("policy.")
        for event in tract.policies.log()
        if event.data["name"] == name
    ][::-1]


def say(tract, count, word="word"):
    for number in range(count):
        tract.user(f"{word} {number}")


def priority(tract, info):
    return tract.get_commit(info.commit_hash).priority


DEFAULTS = {
    "compress": {"fires_on": "compile", "priority": 200, "threshold": 0.9},
    "pin": {"fires_on": "commit", "priority": 100, "pin_types": ("instruction", "session"), "autonomy": "autonomous"},
    "branch": {"fires_on": "commit", "priority": 300, "content_type_window": 5, "switch_threshold": 4},
    "merge": {"fires_on": "commit", "target_branch": "main", "completion_commits": 5, "idle_seconds": 300},
    "rebase": {"fires_on": "commit", "priority": 400, "target_branch": "main", "divergence_commits": 20},
    "gc": {"fires_on": "commit", "priority": 450, "max_dead_commits": 50},
    "archive": {
        "fires_on": "compile", "priority": 500, "stale_days": 7, "min_commits": 3, "archive_prefix": "archive/",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", DEFAULTS)
def test_documented_defaults(kind):
    policy = policy_types()[kind]()
    assert policy.name == f"auto-{kind}"
    assert {key: getattr(policy, key) for key in DEFAULTS[kind]} == DEFAULTS[kind]
    if kind != "pin":
        assert policy.autonomy == "collaborative"


# --- compress


@pytest.fixture
def full(t):
    """A context just over nine tenths of its budget."""
    say(t, 20, "some more words in a message")
    t.budget = TokenBudget(int(t.status().token_count / 0.91))
    t.configure_llm(ScriptedClient("A summary."))
    return t


def test_compress_asks_and_stops_once_it_is_done(full):
    full.policies.add("compress")
    before = full.status().token_count
    full.compile()
    full.compile()
    assert (outcomes(full, "auto-compress"), full.status().waiting) == (["proposed"], 1)
    assert full.status().token_count == before
    full.reviewer.asked_here(full.review.inbox()[0].pending_id).approve()
    assert full.status().token_count < before / 2
    full.compile()
    assert full.status().waiting == 0
    assert len(outcomes(full, "auto-compress")) == 1


def test_autonomous_compress_keeps_the_newest_and_pinned_messages(full):
    full.policies.add("compress", autonomy="autonomous")
    full.annotate(full.log(None)[-1].commit_hash, "pinned")
    newest = [message.content for message in full.compile(at_commit="HEAD").messages][-4:]
    context = full.compile()
    texts = [message.content for message in context.messages]
    assert texts == ["first", "A summary.", *newest]
    assert outcomes(full, "auto-compress") == ["began", "executed"]
    full.compile()
    assert len(outcomes(full, "auto-compress")) == 2


def test_a_failed_compress_is_reported_and_not_retried_at_once(full):
    full.configure_llm(None)
    full.policies.add("compress", autonomy="autonomous")
    with pytest.warns(PolicyWarning, match="'compress' failed"):
        full.compile()
    full.compile()
    assert outcomes(full, "auto-compress") == ["began", "failed"]


def test_compress_wants_nothing_below_the_threshold_without_budget_or_without_messages(t):
    t.policies.add("compress")
    say(t, 20)
    t.compile()
    t.budget = TokenBudget(t.status().token_count * 2)
    t.compile()
    t.budget = TokenBudget(t.status().token_count)
    for info in t.log(None):
        t.annotate(info.commit_hash, "pinned")
    t.compile()
    assert t.policies.log() == []


# --- pin


def test_pin_fires_by_default_and_stops(t):
    t.policies.add("pin")
    info = t.system("Be brief.", priority="normal")
    assert priority(t, info) == "pinned"
    t.user("next")
    t.compile()
    assert outcomes(t, "auto-pin") == ["executed"]


def test_pin_does_not_change_a_priority_set_by_the_user(t):
    info = t.system("Be brief.", priority="normal")
    t.annotate(info.commit_hash, "normal")
    skipped = t.system("Old.", priority="skip")
    t.policies.add("pin")
    t.user("next")
    assert (priority(t, info), priority(t, skipped)) == ("normal", "skip")


def test_pin_also_checks_earlier_commits(t):
    early = [t.user("REMEMBER 1"), t.user("other"), t.user("please REMEMBER 2")]
    t.policies.add("pin", patterns=["REMEMBER \\d"])
    t.user("next")
    assert [priority(t, info) for info in early] == ["pinned", "normal", "pinned"]
    t.policies.off("auto-pin")
    late = t.user("REMEMBER 3")
    t.policies.on("auto-pin")
    t.user("next")
    assert priority(t, late) == "pinned"
    assert outcomes(t, "auto-pin") == ["executed"] * 3


def test_pin_sees_every_commit_of_a_batch(t):
    t.policies.add("pin", patterns=["KEEP"])
    t.user("next")
    with t.batch():
        infos = [t.user("KEEP this"), t.user("and that"), t.user("KEEP it too")]
    assert [priority(t, info) for info in infos] == ["pinned", "normal", "pinned"]


# --- branch


def switching(tract):
    for number in range(2):
        tract.user(f"said {number}")
        tract.commit({"content_type": "reasoning", "text": "thought"})
    tract.user("said again")


def test_branch_fires_by_default_and_stops(t):
    t.policies.add("branch", autonomy="autonomous")
    switching(t)
    assert t.current_branch.startswith("tangent/main/")
    made = [info.name for info in t.list_branches()]
    switching(t)
    assert [info.name for info in t.list_branches()] == made
    assert outcomes(t, "auto-branch") == ["executed"]


def test_branch_ignores_calls_of_tools(t):
    t.policies.add("branch", autonomy="autonomous")
    for number in range(4):
        t.assistant(f"said {number}")
        t.commit({"content_type": "tool_io", "tool_name": "f", "direction": "call", "payload": {}})
    assert t.current_branch == "main"


# --- merge


def test_merge_fires_at_the_next_commit_and_keeps_the_current_branch(t, clock):
    t.policies.add("merge", autonomy="autonomous")
    t.branch("topic")
    say(t, 6)
    assert t.policies.log() == []
    clock.forward(seconds=301)
    last = t.user("after a pause")
    assert outcomes(t, "auto-merge") == ["executed"]
    assert t.current_branch == "topic"
    assert t.resolve_commit("main") == t.head == last.commit_hash
    clock.forward(seconds=301)
    t.user("one more")
    t.compile()
    assert outcomes(t, "auto-merge") == ["executed"]


def test_merge_waits_for_enough_commits_and_for_a_pause(t, clock):
    t.policies.add("merge", autonomy="autonomous")
    t.branch("topic")
    say(t, 3)
    clock.forward(seconds=301)
    t.user("only four")
    clock.ahead = timedelta()
    say(t, 5)
    assert t.policies.log() == []


def test_a_merge_conflict_is_reported_and_changes_nothing(t, clock):
    t.policies.add("merge", autonomy="autonomous")
    first = t.log()[0].commit_hash
    t.branch("topic", switch=False)
    t.user("here", edit=first)
    tip = t.head
    t.switch("topic")
    t.user("there", edit=first)
    say(t, 6)
    clock.forward(seconds=301)
    with pytest.warns(PolicyWarning, match="'merge_into' failed"):
        t.user("go")
    assert (t.current_branch, t.resolve_commit("main")) == ("topic", tip)


# --- rebase


def test_rebase_fires_by_default_and_stops(t):
    t.policies.add("rebase", autonomy="autonomous")
    t.branch("topic")
    t.user("mine")
    t.switch("main")
    say(t, 20)
    t.switch("topic")
    t.user("mine, too")
    assert outcomes(t, "auto-rebase") == ["executed"]
    assert [message.content for message in t.compile().messages][-2:] == ["mine", "mine, too"]
    assert len(t.compile().messages) == 23
    say(t, 10)
    assert outcomes(t, "auto-rebase") == ["executed"]


def test_rebase_is_not_wanted_before(t):
    t.policies.add("rebase", autonomy="autonomous")
    t.branch("topic", switch=False)
    say(t, 19)
    t.switch("topic")
    say(t, 12)
    assert t.policies.log() == []


# --- gc


def test_gc_asks_by_default_and_stops(t, clock, monkeypatch):
    t.policies.add("gc", autonomy="autonomous")
    start = t.head
    say(t, 55)
    t.reset(start)
    t.user("young garbage stays")
    assert t.policies.log() == []
    monkeypatch.setattr(gc_module, "_now", lambda: datetime.now(UTC) + clock.ahead)
    clock.forward(days=8)
    t.user("now")
    assert outcomes(t, "auto-gc") == ["proposed"]  # destructive actions need approval at every level
    t.reviewer.asked_here(t.review.inbox()[0].pending_id).approve()
    clock.forward(hours=2)
    say(t, 5)
    clock.forward(hours=2)
    t.user("later")
    assert (outcomes(t, "auto-gc"), t.status().waiting) == (["proposed"], 0)
    assert t.gc(dry_run=True).commits == ()


# --- archive


def test_archive_fires_by_default_and_stops(t, clock):
    t.policies.add("archive", autonomy="autonomous")
    t.branch("old")
    say(t, 3)
    t.switch("main")
    t.branch("short", switch=False)
    t.compile()
    assert t.policies.log() == []
    clock.forward(days=8)
    t.compile()
    assert [info.name for info in t.list_branches()] == ["archive/old", "main", "short"]
    assert t.current_branch == "main"
    clock.forward(hours=2)
    t.compile()
    assert outcomes(t, "auto-archive") == ["executed"]


def test_all_policies_together_do_nothing_in_a_normal_conversation(t):
    for kind in DEFAULTS:
        t.policies.add(kind)
    t.system("Be brief.")
    for number in range(30):
        t.user(f"question {number}")
        t.assistant(f"answer {number}")
        t.compile()
    assert t.policies.log() == []
    assert [row.name for row in t.policies.list()] == [
        "auto-pin", "auto-compress", "auto-branch", "auto-merge", "auto-rebase", "auto-gc", "auto-archive",
    ]  # fmt: skip


# --- settings


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        (
            "compress",
            {"threshold": 2},
            "compress.threshold must be at most 1, not 2",
        ),
        ("compress", {"treshold": 0.5}, "no setting 'treshold'.*threshold"),
        ("pin", {"pin_types": "session"}, "pin.pin_types must be a list, not 'session'"),
        ("pin", {"patterns": ["("]}, "cannot be read"),
        ("merge", {"target_branch": ""}, "merge.target_branch must not be empty"),
        ("gc", {"max_dead_commits": 1.5}, "whole number"),
        ("rebase", {"autonomy": "full"}, "not a level of autonomy"),
        (
            "archive",
            {"cooldown": float("nan"), "keep": 3},
            r"archive.cooldown .*; archive.keep must be of type Sequence",
        ),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(t, kind, config, words):
    with pytest.raises(ContentError, match=words):
        t.policies.add(kind, **config)
    assert t.policies.list() == []


LEVELS = st.sampled_from(["manual", "collaborative", "autonomous"])
COMMON = {"priority": st.integers(0, 10_000), "autonomy": LEVELS, "cooldown": st.floats(0, 1e6)}
NAMES = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=20)
SETTINGS = {
    "compress": {
        "threshold": st.floats(0.01, 1), "keep_recent": st.integers(0, 99),
        "target_tokens": st.none() | st.integers(1, 10_000), "summary_content": st.none() | NAMES,
    },
    "pin": {"pin_types": st.lists(NAMES), "patterns": st.lists(NAMES)},
    "branch": {"content_type_window": st.integers(2, 50), "switch_threshold": st.integers(1, 9)},
    "merge": {"target_branch": NAMES, "completion_commits": st.integers(1, 99), "idle_seconds": st.floats(0, 1e6)},
    "rebase": {"target_branch": NAMES, "divergence_commits": st.integers(1, 99)},
    "gc": {"max_dead_commits": st.integers(1, 999), "orphan_retention_days": st.floats(0, 365)},
    "archive": {"stale_days": st.floats(0, 365), "min_commits": st.integers(1, 99), "archive_prefix": NAMES},
    "orchestrate": {
        "when": st.lists(
            st.fixed_dictionaries({"moment": st.sampled_from(MOMENTS)}, optional={
                "commits": st.integers(1, 99), "tokens": st.floats(0.1, 0.9), "seconds": st.floats(1, 1e6),
            }), min_size=1,
        ),
    },
}  # fmt: skip


@given(data=st.data(), kind=st.sampled_from(sorted(SETTINGS)), name=NAMES)
def test_a_policy_round_trips_through_its_settings(data, kind, name):
    config = {key: data.draw(some) for key, some in {**COMMON, **SETTINGS[kind]}.items()}
    policy = policy_types()[kind].from_config(name, config)
    assert policy_types()[kind].from_config(name, policy.to_config()) == policy
    assert {
        key: list(value) if isinstance(value, tuple) else value for key, value in policy.to_config().items()
    } | config == policy.to_config()


def test_policies_are_values():
    assert CompressPolicy(threshold=0.5) == CompressPolicy(threshold=0.5) != CompressPolicy()
    assert PinPolicy(pin_types={"b", "a"}) == PinPolicy(pin_types=["a", "b"])
    assert timedelta(0) == timedelta(seconds=PinPolicy().cooldown)
