"""The state of runs belongs to its commit: undo, reset, checkout and branches find their own state."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlalchemy import text

from tests.review.scripted import ScriptedClient, said
from tests.runs.running import compute
from tract_jupyter import Tract
from tract_jupyter.exceptions import RunFailedError
from tract_jupyter.runs.profile import OperationProfile, run_operation

DIARY = OperationProfile.of("diary", [
    run_operation("before", order=1, text="{{ art.before.value }}+", tag="before", keep=True, into="tail"),
    run_operation("after", order=1, text="{{ art.after.value }}#", tag="after", keep=True, when="after"),
    run_operation("third", order=2, text="now", into="tail", activation={"everyNTurns": 3}),
])  # fmt: skip


class Obliging(ScriptedClient):
    """Reply with the number of requests, except for requests counted in `fails`."""

    fails = 0

    def chat(self, messages, **options):
        if self.fails:
            self.fails -= 1
            raise OSError("the line is dead")
        self.replies = [f"reply {len(self.asked) + 1}"]
        return super().chat(messages, **options)


@pytest.fixture
def talk(tract):
    tract.configure_llm(Obliging())
    tract.profiles.save(DIARY, activate=True)
    return tract


def remembered(tract, question="What else?", **options):
    """Send a message; return both artifacts of earlier turns as the operations saw them, and
    whether it was the third turn."""
    run = tract.chat(question, **options).run
    before = next(one.content for one in run.prompt if set(one.content) == {"+"})
    after = tract._parts.engine.artifacts.load(tract.runs.events(run.run_id)[0].data.session_key)[
        "after"
    ].value
    return before, after, any(one.content == "now" for one in run.prompt)


def test_undo_also_undoes_the_run_state(talk):
    assert [remembered(talk) for _ in range(2)] == [("+", "#", False), ("++", "##", False)]
    talk.undo()
    talk.undo()
    assert talk.compile().messages[-1].content == "reply 1"
    assert remembered(talk) == ("++", "##", False)
    assert remembered(talk) == ("+++", "###", True)


def test_a_reply_that_is_taken_back_was_no_turn(talk):
    remembered(talk)
    talk.undo()
    assert said(talk) == [("user", "What else?")]
    assert [one.content for one in talk.generate().run.prompt][-1] == "+"
    assert remembered(talk) == ("++", "##", False)
    assert remembered(talk) == ("+++", "###", True)


def test_reset_and_checkout_use_the_run_state_of_their_commit(talk):
    remembered(talk)
    first = talk.head
    assert [remembered(talk), remembered(talk)] == [("++", "##", False), ("+++", "###", True)]
    third = talk.head
    talk.reset(first)
    assert remembered(talk) == ("++", "##", False)
    talk.reset(third)
    assert remembered(talk) == ("++++", "####", False)
    talk.checkout(first)
    talk.branch("aside")
    assert remembered(talk) == ("++", "##", False)


def test_a_new_branch_starts_with_the_run_state_of_its_commit_and_then_has_its_own(talk):
    remembered(talk)
    talk.branch("side")
    assert [remembered(talk), remembered(talk)] == [("++", "##", False), ("+++", "###", True)]
    talk.switch("main")
    assert remembered(talk) == ("++", "##", False)
    talk.switch("side")
    assert remembered(talk) == ("++++", "####", False)


def test_a_rewritten_history_remembers_as_much(talk):
    """After a compression, and within it: each copy of a commit has the state of the original."""
    for _ in range(3):
        remembered(talk)
    oldest = talk.log(limit=None)[-2:]
    talk.compress(commits=[one.commit_hash for one in oldest], content="They talked.")
    assert remembered(talk) == ("++++", "####", False)
    talk.undo()
    talk.undo()
    talk.undo()
    assert remembered(talk) == ("++++", "####", False)
    talk.undo()
    talk.undo()
    talk.compress(content="All of it.")
    assert remembered(talk) == ("++++", "####", False)


def test_a_rebase_keeps_the_run_state_of_the_branch(talk):
    remembered(talk)
    talk.branch("side")
    remembered(talk)
    talk.switch("main")
    talk.system("Be brief.")
    talk.switch("side")
    talk.rebase("main")
    assert remembered(talk) == ("+++", "###", True)
    talk.switch("main")
    assert remembered(talk) == ("++", "##", False)


def test_another_session_of_a_profile_begins_with_nothing(talk):
    remembered(talk)
    talk.profiles.save(DIARY.with_new_session(), activate=True)
    assert remembered(talk)[:2] == ("+", "#")
    talk.profiles.save(DIARY, activate=True)
    assert remembered(talk)[:2] == ("++", "##")


@pytest.mark.parametrize("times", [1, 2])
def test_a_turn_that_failed_and_was_tried_again_is_one(talk, times):
    """Neither its artifacts nor its counters include the failed attempts."""
    assert remembered(talk) == ("+", "#", False)
    talk.llm.fails = times
    for _ in range(times):
        with pytest.raises(RunFailedError):
            talk.chat("And now?")
    assert remembered(talk, "And now?") == ("++", "##", False)
    assert remembered(talk) == ("+++", "###", True)


def test_run_state_survives_a_restart(tmp_path):
    def opened():
        tract = Tract.open(tmp_path / "t.db")
        tract.configure_llm(Obliging())
        return tract

    with opened() as tract:
        tract.profiles.save(DIARY, activate=True)
        remembered(tract)
        first = tract.head
    with opened() as tract:
        assert remembered(tract) == ("++", "##", False)
    with opened() as tract:
        tract.reset(first)
        assert remembered(tract) == ("++", "##", False)
        assert tract.verify() == []


def test_events_name_artifacts_and_do_not_repeat_them(talk):
    """Each value of an artifact is stored once, for any number of runs that read it."""
    talk.functions.register("note")(lambda context, _: context.run_id * 40)
    profile = OperationProfile.of(
        "notes", [compute("note", artifact={"tag": "note", "persistence": "persisted"})]
    )
    runs = [talk.chat("Go on.", profile=profile).run for _ in range(4)]
    with talk._repository.database.read() as connection:
        rows = connection.execute(text("SELECT event_type, data_json FROM run_events")).all()
        objects = connection.execute(text("SELECT body_json FROM run_objects")).scalars().all()
    snapshots = [data for kind, data in rows if kind in {"run.started", "commit.finished"}]
    for run in runs:
        assert not any(run.run_id * 2 in data for data in snapshots)
        assert sum(run.run_id * 2 in body for body in objects) == 1
    (*_, last) = runs
    started = talk.runs.events(last.run_id)[0].data
    assert started.artifacts["note"].history == tuple(run.run_id * 40 for run in runs[:-1])
    assert talk.runs.replay(last.run_id).root_hash == last.root_hash


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM run_objects WHERE name IN (SELECT run_state FROM commits)",
        "DELETE FROM run_objects WHERE body_json LIKE '%\"settings\"%'",
        "DELETE FROM run_objects WHERE body_json = '\"#\"'",
        "UPDATE run_objects SET body_json = replace(body_json, '[1,', '[2,')",
        "UPDATE run_objects SET body_json = '\"##\"' WHERE body_json = '\"#\"'",
        "UPDATE commits SET run_state = 'nobody' WHERE run_state IS NOT NULL",
        "UPDATE commits SET run_state = (SELECT name FROM run_objects WHERE body_json = '\"#\"' LIMIT 1)",
    ],
)
def test_verify_reports_damaged_run_state(talk, statement):
    remembered(talk)
    assert talk.verify() == []
    with talk._repository.database.write() as connection:
        assert connection.execute(text(statement)).rowcount
    commits = {one.commit_hash for one in talk.log(limit=None)}
    told = [one for one in talk.verify() if one.where in commits]
    assert told
    assert all("damaged in the store" in one.problem for one in told)


# --- rewrites of the user message

POLITE = run_operation("polite", order=1, text="{{ lastUserMessage }} please", into="message")
CAPITALS = run_operation(
    "capitals", order=2, text="{{ lastUserMessage | upcase }}", into="message", after="polite"
)


@pytest.mark.parametrize("operations", [[POLITE], [POLITE, CAPITALS]], ids=["one", "two"])
def test_a_rewrite_starts_from_the_original(talk, operations):
    """For any number of regenerations, and after a failed attempt."""
    profile = OperationProfile.of("p", operations)
    wanted = "go on PLEASE".upper() if len(operations) > 1 else "go on please"
    talk.user("go on")
    talk.llm.fails = 1
    with suppress(RunFailedError):
        talk.generate(profile=profile)
    talk.generate(profile=profile)
    for _ in range(2):
        run = talk.generate(profile=profile, trigger="regenerate").run
        assert said(talk)[0] == ("user", wanted)
        assert run.prompt[-1].content == wanted
        assert run.plain_prompt[-1].content == "go on"
    assert talk.verify() == []
    assert talk.runs.replay(run.run_id).root_hash == run.root_hash


def test_after_a_users_edit_the_edited_text_is_the_original(talk):
    profile = OperationProfile.of("p", [POLITE])
    question = talk.user("go on").commit_hash
    talk.generate(profile=profile)
    talk.user("go back", edit=question)
    talk.generate(profile=profile, trigger="regenerate")
    assert said(talk)[0] == ("user", "go back please")


def test_a_rewrite_is_kept_if_its_operation_does_not_run_again(talk):
    once = OperationProfile.of("p", [
        run_operation("polite", order=1, text="{{ lastUserMessage }} please", into="message", triggers=["generate"])
    ])  # fmt: skip
    talk.user("go on")
    talk.generate(profile=once)
    run = talk.generate(profile=once, trigger="regenerate").run
    assert run.prompt[-1].content == said(talk)[0][1] == "go on please"


def test_if_a_rewrite_fails_on_regenerate_the_context_has_the_sent_original(talk):
    fails = []
    talk.functions.register("polite")(
        lambda context, _: fails.pop() if fails else context.messages[-1].content + "!"
    )
    profile = OperationProfile.of("p", [compute("polite", artifact={
        "tag": "polite", "exposures": [{"type": "turn_rewrite", "target": "current_user_main"}],
    })])  # fmt: skip
    talk.user("go on")
    talk.generate(profile=profile)
    assert said(talk)[0] == ("user", "go on!")
    talk.functions.register("polite", replace=True)(lambda *_: 1 / 0)
    run = talk.generate(profile=profile, trigger="regenerate").run
    assert run.prompt[-1].content == said(talk)[0][1] == "go on"
    assert talk.verify() == []
