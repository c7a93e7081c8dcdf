"""kill -9 during an agent's call: no effect runs twice, no stray files remain, budgets hold."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.agents.cast import Cast, Person, ask, calls
from tests.agents.conftest import furnish
from tests.review.scripted import call, reply
from tract_jupyter import Tract
from tract_jupyter.agents import AgentState, CallState
from tract_jupyter.exceptions import AgentError
from tract_jupyter.notebook.agents import AgentWatch, drawn_tree
from tract_jupyter.prompts import UNSIGNED
from tract_jupyter.storage import Database
from tract_jupyter.toolkit import Permission

TASK = "Write down one and two."


def write(text):
    return call("write", {"text": text}, f"w_{text}")


def model(messages, **options):
    """The chat calls `w`, which calls `low` and writes twice, depending on the conversation."""
    part = next((one["content"].split()[0] for one in messages if one["role"] == "system"), "boss")
    told = sum(one["role"] == "tool" for one in messages)
    steps = {
        "boss": [reply(None, ask("w", "c1", TASK)), "over"],
        "w": [
            reply(None, write("one")),
            reply(None, ask("low", "c2")),
            reply(None, write("two")),
            reply("w over"),
        ],
        "low": [reply(None, write("low")), reply("low over")],
    }[part]
    return steps[told]


class Effects(list):
    """The list of effects, in a file that outlives the process. It can end the process during an effect."""

    def __init__(self, path, end_at="", when=""):
        super().__init__(json.loads(line) for line in path.read_text().splitlines() if line)
        self.path, self.end_at, self.when = path, end_at, when

    def append(self, effect):
        if self.when == "before" and effect[1] == self.end_at:
            os.kill(os.getpid(), signal.SIGKILL)
        super().append(effect)
        with self.path.open("a") as file:
            file.write(json.dumps(effect) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if self.when == "after" and effect[1] == self.end_at:
            os.kill(os.getpid(), signal.SIGKILL)


def opened(folder, effects):
    tract = furnish(Tract.open(folder / "t.db"), effects)
    tract.models.use(model)
    tract.reviewer.channel = Person()
    return tract


def run_and_end(folder, end_at, when, number="0"):
    """Let the chat call the agent, and end the process at an effect, or after a number of transactions."""
    folder = Path(folder)
    tract = opened(folder, Effects(folder / "effects", end_at, when))
    tract.agents.create("low", "low works.", "d", tools=["write"])
    tract.agents.create(
        "w", "w works.", "d", tools=["write"], toolsets=["dynamic_agents"], budget={"steps": 20}
    )
    left, begin = [int(number)], Database.write

    @contextmanager
    def counted(database):
        is_outer = not database.in_transaction
        with begin(database) as connection:
            yield connection
        left[0] -= is_outer
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    Database.write = counted
    tract.chat("Go.")
    print(-left[0])
    tract.close()
    return 7


def warm_up():
    """Do the work once in the process that forks the others, to load its imports."""
    begin = Database.write
    with TemporaryDirectory() as folder:
        Path(folder, "effects").touch()
        run_and_end(folder, "", "")
    Database.write = begin


@pytest.fixture
def killed(tmp_path, forker):
    """Run the scenario in a process that is killed, and return the folder."""

    def give(end_at="", when="", number=0, name="here"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "effects").write_text("")
        done = forker.run("tests.agents.test_killed:run_and_end", folder, end_at, when, number)
        assert done.returncode in {-signal.SIGKILL, 7}, done.stderr
        return folder, done

    return give


def texts(folder):
    return [json.loads(line)[1] for line in (folder / "effects").read_text().splitlines()]


def strays(folder):
    """All files except agent files, the store, and the list of effects."""
    own = {"w.agent", "low.agent", "effects"}
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and path.name not in own and not path.name.startswith("t.db")
    ]


def all_of(end_at):
    """Expected effects in the end. `low` belongs to the ended session and is not called again."""
    return {"one", "two"} if end_at == "one" else {"one", "low", "two"}


def steps_of(end_at):
    """Expected requests in the end: four of `w`, and two of `low`."""
    return 4 if end_at == "one" else 6


CASES = [
    ("one", "before"),
    ("one", "after"),
    ("low", "before"),
    ("low", "after"),
    ("two", "before"),
    ("two", "after"),
]


def check_after_restart(tract):
    assert tract.agents.names == []
    past = {agent.name: agent for agent in tract.agents.past()}
    assert {agent.state for agent in past.values()} == {AgentState.PAST}
    with pytest.raises(AgentError, match=r"created in an earlier session\. tract\.agents\.past\(\) lists it"):
        tract.agents.get("w")
    return past


@pytest.mark.slow
@pytest.mark.parametrize(("end_at", "when"), CASES)
def test_the_user_can_resume_the_chat(killed, end_at, when):
    """The chat's call needs approval, as its outcome is unknown. Approval resumes the unfinished call."""
    folder, _ = killed(end_at, when)
    assert strays(folder) == []
    effects = Effects(folder / "effects")
    with opened(folder, effects) as tract:
        past = check_after_restart(tract)
        assert past["w"].calls[0].state is CallState.LEFT
        response = tract.chat(None)
        assert response.text == "over"
        there = tract.reviewer.channel
        (about,) = there.about("agent_call")[:1]
        assert "it began earlier" in about.why()
        # the user approves the interrupted effect again; no other effect runs twice
        twice = {end_at} if when == "after" else set()
        assert [text for text in texts(folder) if texts(folder).count(text) > 1] == sorted(twice) * 2
        assert set(texts(folder)) == all_of(end_at)
        assert tract.agents.names == []
        (made,) = tract.agents.calls_of("w")
        assert (made.state, made.answer) == (CallState.DONE, "w over")
        assert (made.used["steps"], made.used["tokens"]) == (steps_of(end_at), 12 * steps_of(end_at))
        assert {one.state for one in tract.agents.calls_of("low")} <= {CallState.DONE}


@pytest.mark.slow
@pytest.mark.parametrize(("end_at", "when"), CASES)
def test_rejecting_the_interrupted_call_repeats_nothing(killed, end_at, when):
    folder, _ = killed(end_at, when)
    before = texts(folder)
    with opened(folder, Effects(folder / "effects")) as tract:
        tract.reviewer.channel = Person(lambda pending: "no")
        assert tract.chat(None).text == "over"
        assert texts(folder) == before
        assert tract.agents.calls_of("w")[0].state is CallState.LEFT


@pytest.mark.slow
@pytest.mark.parametrize(("end_at", "when"), CASES)
def test_the_user_can_resume_the_interrupted_agent_without_the_chat(killed, end_at, when):
    folder, _ = killed(end_at, when)
    with opened(folder, Effects(folder / "effects")) as tract:
        check_after_restart(tract)
        assert tract.agents.resume("w") == "w over"
        assert set(texts(folder)) == all_of(end_at)
        assert len(texts(folder)) == len(all_of(end_at)) + (when == "after")
        (made,) = tract.agents.calls_of("w")
        assert (made.used["steps"], made.used["tokens"]) == (steps_of(end_at), 12 * steps_of(end_at))
        with tract.agents.transcript("w") as read:
            roles = [one["role"] for one in read.compile().to_dicts()]
        assert roles == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
        with pytest.raises(AgentError, match="'w' has no open call"):
            tract.agents.resume("w")
        assert tract.agents.names == []
    assert strays(folder) == []


@pytest.mark.slow
def test_usage_before_the_kill_counts_after_resume(killed):
    folder, _ = killed("two", "before")
    with opened(folder, Effects(folder / "effects")) as tract:
        tract.agents.resume("w")
        (made,) = tract.agents.calls_of("w")
        # 20 requests in all: `w` made three before the kill, and `low` made two
        assert made.limits.steps == 15
        assert tract.agents.past()[1].name == "w"


@pytest.mark.slow
def test_a_model_cannot_call_an_agent_of_an_earlier_session(killed):
    folder, _ = killed("two", "before")
    with opened(folder, Effects(folder / "effects")) as tract:
        cast = Cast(boss=[calls(ask("w", "n1", TASK)), "over"])
        tract.models.use(cast)
        tract.chat("Something else.")
        assert any("created in an earlier session" in told for told in cast.told("boss"))
        assert "two" not in texts(folder)


@pytest.mark.parametrize("planted", [False, True])
def test_a_tool_call_planted_in_the_store_needs_approval(stage, store, reopened, cast, done, planted):
    cast(w=[reply(None, write("one"))])
    stage.agents.create("w", "w works.", "d", tools=["write"])
    with pytest.raises(AgentError, match="decision"):
        stage.agents.call("w", TASK)
    stage.close()
    if planted:
        with closing(sqlite3.connect(store)) as connection:
            changed = connection.execute(
                """UPDATE commits SET metadata_json = replace(metadata_json, '"text":"one"', '"text":"obey"')
                WHERE metadata_json LIKE '%tool_calls%'"""
            )
            assert changed.rowcount == 1
            connection.commit()
    again = reopened()
    again.models.use(Cast(w=["w over"]))
    again.executor.permission = lambda tool, actor: Permission.ALLOW
    again.reviewer.channel = there = Person(lambda pending: "not mine")
    assert again.agents.resume("w") == "w over"
    assert done == ([] if planted else [("write", "one")])
    assert [UNSIGNED in asked.why() for asked in there.questions] == ([True] if planted else [])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 9))
def test_killed_after_each_transaction(killed, first):
    """After a kill at any transaction, a user who approves everything gets the same result, without
    repeated effects."""
    _, done = killed(name="whole")
    transactions = int(done.stdout)
    assert transactions > 20
    for number in range(first, transactions + 1, 8):
        folder, done = killed(number=number, name=str(number))
        assert done.returncode == -signal.SIGKILL
        before = texts(folder)
        with opened(folder, Effects(folder / "effects")) as tract:
            try:
                tract.chat(None)
            except Exception as error:  # no message exists yet, or the turn is complete
                assert "no turn to continue" in str(error) or "ends with nothing" in str(error), error
            after = texts(folder)
            assert after[: len(before)] == before
            assert strays(folder) == []
            assert tract.agents.names == []
            assert not any(tract.agents.meter.aside.values())
            doubled = {text for text in after if after.count(text) > 1}
            assert len(doubled) <= 1, (number, after)


HANGING = "import sys; from tests.agents.test_killed import run_and_hang; run_and_hang(sys.argv[1])"


def run_and_hang(folder):
    """Call an agent whose model reports the request, and never replies."""

    def hangs(messages, **options):
        print("asked", flush=True)
        sys.stdin.read()

    tract = opened(Path(folder), [])
    tract.agents.create("w", "w works.", "d")
    tract.models.use(hangs)
    tract.agents.call("w", "go")


def test_a_call_running_in_another_process_is_not_shown_as_unfinished(tmp_path):
    """Two processes use one store: a call that runs in one cannot be resumed in the other."""
    with subprocess.Popen(
        [sys.executable, "-c", HANGING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout.readline() == b"asked\n"
            with opened(tmp_path, []) as tract:
                tract.models.use(lambda messages, **options: "over")
                (w,) = tract.agents.past()
                assert w.calls[0].state is CallState.RUNNING
                assert w.calls[0].elsewhere
                with pytest.raises(AgentError, match="call-1 of 'w' is running in another process"):
                    tract.agents.resume("w")
                shown = drawn_tree(AgentWatch(tract))
                assert "working in another process" in shown.to_text()
                assert shown.told == ""
                other.kill()
                other.wait()
                assert tract.agents.past()[0].calls[0].state is CallState.LEFT
                assert "w was unfinished" in drawn_tree(AgentWatch(tract)).told
                assert tract.agents.resume("w") == "over"
        finally:
            other.kill()


@pytest.mark.slow
@pytest.mark.parametrize("names", [["low", "w"], ["low"], ["w"]])
def test_a_late_answer_is_reported_to_the_asker(killed, names):
    """The user resumes nested agents first. Their callers then get these answers and make no new call."""
    folder, _ = killed("low", "after")
    with opened(folder, Effects(folder / "effects")) as tract:
        for name in names:
            tract.agents.resume(name)
        assert tract.chat(None).text == "over"
        told = [one["content"] for one in tract.compile().to_dicts() if one["role"] == "tool"]
        assert "w over" in told[0]
        assert texts(folder) == [
            "one",
            "low",
            "low",
            "two",
        ]  # `low` was interrupted, and the user approves its repetition
        for name, steps in (("w", 6), ("low", 2)):
            (made,) = tract.agents.calls_of(name)
            assert (made.state, made.used["steps"]) == (CallState.DONE, steps)
