"""The result of a run does not depend on the speed of its operations; and a replay reproduces it."""

from __future__ import annotations

import random
import threading
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from tests.review.scripted import ScriptedClient
from tests.runs.running import compute, without_parts
from tract_jupyter import Tract
from tract_jupyter.concurrency import stopped_by
from tract_jupyter.exceptions import RunError, RunFailedError, StoreCorruptError, UnknownRunError
from tract_jupyter.runs import RunOptions, result_of
from tract_jupyter.runs.profile import OperationProfile, run_operation

USER = {"type": "prompt_message", "role": "system", "anchor": "after_last_user"}
SYSTEM = {"type": "prompt_part", "target": "system", "mode": "append"}
MESSAGE = {"type": "turn_rewrite", "target": "current_user_main"}
REPLY = {"type": "turn_rewrite", "target": "assistant_output_main"}


class Shuffled:
    """Workers that end concurrent operations in a random order."""

    capacity = None

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.left = []
        self.ticks = count()

    def now(self):
        return next(self.ticks)

    def submit(self, key, job, abort):
        self.left.append((key, job, abort))

    def wait(self, timeout):
        key, job, abort = self.left.pop(self.random.randrange(len(self.left)))
        with stopped_by(abort):
            result = result_of(job.context, partial(job.function, job.context))
        return [(key, result)]

    def wake(self):
        """Do nothing: no thread waits here."""


def work(context, arguments):
    """Return the visible context of an operation; or fail."""
    if arguments.get("fails"):
        raise ValueError("it fails")
    told = sorted((name, one.value) for name, one in context.artifacts.items())
    return f"{context.operation_id} of {context.messages[-1].content!r} and {told}"


def unsteady(context, arguments):
    """Return the same value after a while, without reading a clock."""
    for _ in range(random.randrange(9)):
        threading.Event().wait(0)  # yields to other threads
    return work(context, arguments)


@st.composite
def profiles(draw):
    """Profiles with random dependencies, places and failures."""
    operations = []
    for when in ("before", "after"):
        names = [f"{when[0]}{number}" for number in range(draw(st.integers(0, 5)))]
        for place, name in enumerate(names):
            exposures = [USER, SYSTEM, MESSAGE] if when == "before" else [REPLY, MESSAGE]
            operations.append(compute(
                name, "work",
                when=when,
                order=draw(st.integers(0, 3)),
                after=draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=2)) if place else [],
                arguments={"fails": draw(st.integers(0, 5)) == 0},
                artifact={"tag": name, "exposures": draw(st.lists(st.sampled_from(exposures), max_size=2)),
                          "persistence": draw(st.sampled_from(["persisted", "run_only"]))},
            ))  # fmt: skip
    return OperationProfile.of("p", operations)


def outcome(profile, work=work, **options):
    """The whole result of a run, in a store of its own."""
    with Tract.open() as tract:
        tract.configure_llm(ScriptedClient("On the mat."))
        tract.functions.register("work")(work)
        tract.user("Where is it?")
        run = tract.generate(profile=profile, run=RunOptions(**options)).run
        assert tract.verify() == []
        replay = tract.runs.replay(run.run_id)
        assert (replay.root_hash, replay.prompt) == (run.root_hash, run.prompt)
        started = tract.runs.events(run.run_id)[0].data
        return {
            "root": run.root_hash,
            "statuses": {
                (one.hook, one.operation_id): (one.status, one.error_code) for one in run.operations
            },
            "reports": list(map(without_parts, run.reports)),
            "prompt": [one.model_copy(update={"key": None}) for one in run.prompt],
            "sent": tract.llm.asked[0][0],
            "artifacts": dict(tract._parts.engine.artifacts.load(started.session_key)),
            "turn": [(one.role, one.content) for one in tract.compile().messages],
            "commits": [one.content_hash for one in tract.log()],
        }


@pytest.mark.slow
@given(
    profile=profiles(), seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)), concurrency=st.integers(1, 3)
)
def test_the_order_in_which_operations_end_changes_nothing(profile, seeds, concurrency):
    """R58, R60, G8, G9, G20: in two stores, with all or a few at once: equal commits, prompts,
    artifacts, root hashes."""
    one, other = map(Shuffled, seeds)
    assert outcome(profile, workers=one) == outcome(profile, workers=other, concurrency=concurrency)


def test_threads_change_nothing_either():
    """R58: many dependent operations on real threads, in any schedule."""
    names = [f"n{number}" for number in range(30)]
    profile = OperationProfile.of("p", [
        compute(name, "work", order=place % 4, after=[f"n{place // 2}"] if place > 1 else [],
                artifact={"tag": name, "exposures": [USER, SYSTEM], "persistence": "persisted"})
        for place, name in enumerate(names)
    ])  # fmt: skip
    assert outcome(profile, unsteady) == outcome(profile, unsteady) == outcome(profile, concurrency=1)


def test_a_hit_of_rag_counts_with_its_commit(any_tract):
    """R58: results are covered as they are, so another store has another root; a replay has the same root."""
    search = run_operation("past", "rag", order=1, query="cat", tag="past")

    def root(tract):
        tract.configure_llm(ScriptedClient("On the mat."))
        said = tract.user("The cat is grey.")
        tract.assistant("Noted.")
        tract.user("Where is it?")
        run = tract.generate(profile=OperationProfile.of("p", [search])).run
        assert said.commit_hash in str(tract.runs.events(run.run_id))
        assert tract.runs.replay(run.run_id).root_hash == run.root_hash
        return run.root_hash

    with Tract.open() as other:
        assert root(any_tract) != root(other)


# --- replay


@pytest.fixture
def recorded(any_tract):
    """A tract with a run that has each kind of effect."""
    any_tract.configure_llm(ScriptedClient("On the mat."))
    any_tract.user("Where is it?")
    any_tract.generate(profile=OperationProfile.of("p", [
        run_operation("mood", order=10, text="Be kind.", into=["system", "user", "tail"]),
        run_operation("diary", order=20, text="sunny", tag="diary", keep=True, into="message"),
        run_operation("polish", order=10, text="It sleeps.", into="reply", when="after"),
    ]))  # fmt: skip
    return any_tract


def test_a_replay_gives_the_same_and_does_nothing(recorded):
    """R13, R58, E8: equal reports and root hash, without a request, a commit or an event."""
    run = recorded.runs()[0]
    before = (recorded.log(), recorded.runs.events(run.run_id), len(recorded.llm.asked))
    replay = recorded.runs.replay(run.run_id)
    assert [without_parts(one) for one in replay.reports] == [without_parts(one) for one in run.reports]
    assert (replay.root_hash, replay.status, replay.reply) == (run.root_hash, run.status, run.reply)
    assert [one.content for one in replay.prompt] == [one.content for one in run.prompt]
    assert (recorded.log(), recorded.runs.events(run.run_id), len(recorded.llm.asked)) == before


TAMPERED = {
    "a result": ("operation.finished", "Be kind.", "Be rude."),
    "the prompt": ("main_llm.started", "Be kind.", "Be rude."),
    "the reply": ("main_llm.finished", "On the mat.", "On the cat."),
    "the user": ("run.started", "Where is it?", "Where are you?"),
    "an artifact": ("commit.finished", "sunny", "rainy"),
    "the end": ("run.finished", '"done"', '"failed"'),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TAMPERED)
def test_a_changed_event_is_found_by_verify_and_replay(recorded, what):
    """R15, R57: the error names the run."""
    run = recorded.runs()[0]
    event, old, new = TAMPERED[what]
    with recorded._repository.database.write() as connection:
        changed = connection.execute(
            text(
                "UPDATE run_events SET data_json = replace(data_json, :old, :new) WHERE event_type = :event"
            ),
            {"old": old, "new": new, "event": event},
        )
        assert changed.rowcount
    (damage, *_) = recorded.verify()
    assert run.run_id in str(damage)
    with pytest.raises(RunError, match="The replay differs from run"):
        recorded.runs.replay(run.run_id)


@pytest.mark.parametrize("kept", [0, 5])
def test_a_missing_event_is_found_by_verify_and_replay(recorded, kept):
    """R15: only the end of a log may be missing, as after a crash."""
    run = recorded.runs()[0]
    with recorded._repository.database.write() as connection:
        connection.execute(text("DELETE FROM run_events WHERE seq = :seq"), {"seq": kept + 1})
    assert any("missing" in str(one) for one in recorded.verify())
    with pytest.raises(UnknownRunError if kept == 0 else StoreCorruptError):
        recorded.runs.replay(run.run_id)


def test_replaying_an_aborted_run_is_an_error(tract):
    """E12, E14: an aborted run has no end to compare with."""
    tract.configure_llm(ScriptedClient())
    tract.user("Where is it?")

    def interrupt(messages, **options):
        raise KeyboardInterrupt

    tract.llm.chat = interrupt
    with pytest.raises(KeyboardInterrupt):
        tract.generate(profile=OperationProfile.of("p", [run_operation("x", order=1, text="x", into="tail")]))
    with pytest.raises(RunError, match="was aborted, so it cannot be replayed"):
        tract.runs.replay(tract.runs()[0].run_id)


def test_a_run_that_could_not_be_planned_is_replayed_too(tract):
    """G6: it failed before any operation ran, and the replay fails in the same way."""
    tract.configure_llm(ScriptedClient())
    tract.user("Where is it?")
    circle = OperationProfile.of(
        "p", [run_operation("a", order=1, text="x"), run_operation("b", order=2, text="x", after="a")]
    )
    first = circle.operations[0]
    config = first.config.model_copy(update={"depends_on": ("b",)})
    operations = (first.model_copy(update={"config": config}), circle.operations[1])
    with pytest.raises(RunFailedError, match="before the main call") as caught:
        tract.generate(profile=circle.model_copy(update={"operations": operations}))
    run = caught.value.run
    assert (run.status, run.failed_type, tract.llm.asked) == ("failed", "before_barrier", [])
    assert tract.runs.replay(run.run_id).root_hash == run.root_hash
