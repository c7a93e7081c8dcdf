"""kill -9 at every point of a run: another process resumes it, with the same result as without the kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context

import pytest

from tests.review.scripted import ScriptedClient
from tests.runs.running import end_state, story, without_parts
from tract_jupyter import Tract
from tract_jupyter.exceptions import RunError, RunFailedError, StoreError, UnknownRunError
from tract_jupyter.runs import Hook, RunOptions
from tract_jupyter.runs.profile import OperationProfile, run_operation
from tract_jupyter.storage import Database

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["tests.runs.test_running_killed"])  # the import takes longer than a run
STEPS = [7, pytest.param(1, marks=pytest.mark.slow)]
"""At every so many points; at each of them it takes longer."""


class CountingClient(ScriptedClient):
    """Return always the same reply, and write a mark to a file for each call."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def chat(self, messages, **options):
        with self.path.open("a") as marks:
            marks.write("x")
        self.replies = ["On the mat."]
        return super().chat(messages, **options)


def prepared(folder):
    """A store with one earlier run, so that artifacts and counters have a history."""
    with opened(folder) as tract:
        tract.user("Who lives here?")
        tract.generate(profile=story(), run=RunOptions(concurrency=1))
        tract.user("Where is it?")
    return folder


def opened(folder):
    tract = Tract.open(folder / "t.db")
    tract.configure_llm(CountingClient(folder / "marks"))
    return tract


def calls(folder):
    return len((folder / "marks").read_text())


def go(folder, **how):
    """Execute the run in this process."""
    with opened(folder) as tract:
        return tract.generate(profile=story(), run=RunOptions(concurrency=1), **how)


def finish(folder):
    """Do what another process does: resume the run, or begin it if there is none."""
    with opened(folder) as tract:
        (newest, *_) = tract.runs()
        if newest.status != "done":
            assert newest.status == "running"
            response = tract.runs.resume(newest.run_id)
        elif len(tract.runs()) == 1:
            response = tract.generate(profile=story(), run=RunOptions(concurrency=1))
        else:
            response = None
        run = tract.runs()[0]
        assert response is None or (response.text, response.run) == ("It sleeps.", run)
        replay = tract.runs.replay(run.run_id)
        assert (replay.root_hash, list(map(without_parts, replay.reports))) == (
            run.root_hash, list(map(without_parts, run.reports)),
        )  # fmt: skip
        return end_state(tract, run)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of an undisturbed run, and its events."""
    with pytest.MonkeyPatch.context() as patch:  # `data_dir` belongs to a single test
        patch.setenv("JUPYTER_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        folder = prepared(tmp_path_factory.mktemp("undisturbed"))
        events = []
        go(folder, on_event=lambda event: events.append(event.type))
        assert calls(folder) == 2
        return finish(folder), events


def as_this_user(act, data_dir):
    """Call a function with the signing secret of this test: the server has the environment of an
    earlier test."""
    os.environ["JUPYTER_DATA_DIR"] = data_dir
    act()


def killed_in(folder, act):
    """Call a function in a process that is killed during the call."""
    child = SERVER.Process(target=as_this_user, args=(act, os.environ["JUPYTER_DATA_DIR"]))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    return finish(folder)


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def go_dying_at(number, folder):
    """Execute the run in this process, which is killed at one of its events."""
    go(folder, on_event=lambda event: die() if event.seq == number else None)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at_any_event_gives_the_same_result_after_resume(undisturbed, tmp_path_factory, step):
    """R13, R15, R58, E1: effects once; one request for the reply, unless the request itself was killed."""
    expected, events = undisturbed
    assert len(events) > 25
    for number, kind in list(enumerate(events, 1))[::step]:
        folder = prepared(tmp_path_factory.mktemp("killed"))
        found = killed_in(folder, partial(go_dying_at, number, folder))
        assert found == expected, (number, kind)
        assert calls(folder) == 2, (number, kind)


class Dying:
    """Replaces write transactions: the process is killed at one, before or after its commit."""

    def __init__(self, number, is_after):
        self.left = number
        self.is_after = is_after

    def __call__(self, write):
        def dying(database):
            transaction = write(database)
            outer = not database.in_transaction
            self.left -= outer
            if self.left < 0 and outer and not self.is_after:
                die()
            return _DiesAfter(transaction) if self.left < 0 and outer else transaction

        return dying


class _DiesAfter:
    def __init__(self, transaction):
        self.transaction = transaction

    def __enter__(self):
        return self.transaction.__enter__()

    def __exit__(self, *error):
        self.transaction.__exit__(*error)
        die()


class Failing:
    """Replaces write transactions: those named by `fails` fail before anything is written."""

    def __init__(self, fails):
        self.fails, self.seen = fails, 0

    def __call__(self, write):
        def failing(database):
            if not database.in_transaction:
                self.seen += 1
                if self.fails(self.seen - 1):
                    raise StoreError("the store is read-only; nothing was written")
            return write(database)

        return failing


def writes(folder):
    """The number of write transactions of an undisturbed run."""
    with pytest.MonkeyPatch.context() as patch, opened(folder) as tract:
        counting = Failing(lambda _: False)
        patch.setattr(Database, "write", counting(Database.write))
        tract.generate(profile=story(), run=RunOptions(concurrency=1))
    return counting.seen


def go_dying(folder, number, is_after):
    with opened(folder) as tract:
        Database.write = Dying(number, is_after)(Database.write)
        tract.generate(profile=story(), run=RunOptions(concurrency=1))


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at_any_write_gives_the_same_result_after_resume(
    undisturbed, tmp_path_factory, is_after, step
):
    """R13, E1, E8: in particular between execution and commit, and around the commits and the reply."""
    expected, _ = undisturbed
    many = writes(prepared(tmp_path_factory.mktemp("counted")))
    assert many > 6
    made = []
    for number in range(0, many, step):
        folder = prepared(tmp_path_factory.mktemp("killed"))
        assert killed_in(folder, partial(go_dying, folder, number, is_after)) == expected, number
        made.append(calls(folder))
    # only a reply that was lost before it was stored is requested again
    assert step > 1 or made.count(3) == (0 if is_after else 1)
    assert set(made) <= {2, 3}


FAILS = {
    "one": lambda number: lambda seen: seen == number,
    "all from one on": lambda number: lambda seen: seen >= number,
    # the report of a failed commit is stored, and then the process ends
    "one, and all after the next": lambda number: lambda seen: seen >= number and seen != number + 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("fails", FAILS)
@pytest.mark.parametrize("step", STEPS)
def test_a_store_that_refuses_any_write_loses_nothing(tmp_path_factory, fails, step):
    """R59, E6, G21: the run resumes with the same result, or its report has the refused effects."""
    many = writes(prepared(tmp_path_factory.mktemp("counted")))
    ended = set()
    for number in range(0, many, step):
        folder = prepared(tmp_path_factory.mktemp("refused"))
        with pytest.MonkeyPatch.context() as patch, opened(folder) as tract:
            patch.setattr(Database, "write", Failing(FAILS[fails](number))(Database.write))
            try:
                tract.generate(profile=story(), run=RunOptions(concurrency=1))
            except (StoreError, RunFailedError) as error:
                ended.add(type(error).__name__)
        with opened(folder) as tract:
            newest = tract.runs()[0]
            if newest.status == "running":
                with suppress(RunFailedError):  # its main call had failed
                    tract.runs.resume(newest.run_id)
                newest = tract.runs.get(newest.run_id)
            assert tract.verify() == []
            assert tract.runs.replay(newest.run_id).root_hash == newest.root_hash
            ended.add(newest.status)
    assert "StoreError" in ended
    assert "done" in ended


class Interrupting:
    """Replaces write transactions: Ctrl-C at one, before or after its commit."""

    def __init__(self, number, is_after):
        self.number, self.is_after, self.seen = number, is_after, 0

    def __call__(self, write):
        @contextmanager
        def interrupting(database):
            is_it = False
            if not database.in_transaction:
                self.seen += 1
                is_it = self.seen - 1 == self.number
            if is_it and not self.is_after:
                raise KeyboardInterrupt
            with write(database) as connection:
                yield connection
            if is_it:
                raise KeyboardInterrupt

        return interrupting


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_at_any_write_comes_through_and_leaves_the_store_whole(tmp_path_factory, is_after, step):
    """E14, R15: the run is recorded as aborted with its results, or had not begun, or had ended."""
    many = writes(prepared(tmp_path_factory.mktemp("counted")))
    for number in range(0, many, step):
        folder = prepared(tmp_path_factory.mktemp("interrupted"))
        with opened(folder) as tract:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Database, "write", Interrupting(number, is_after)(Database.write))
                with pytest.raises(KeyboardInterrupt):
                    tract.generate(profile=story(), run=RunOptions(concurrency=1))
            newest, *before = tract.runs()
            assert newest.status == ("aborted" if before and number < many - 1 else "done"), number
            assert tract.verify() == []
            events = tract.runs.events(newest.run_id)
            told = {one.data.hook for one in events if one.type == "commit.finished"}
            reports = tract._parts.engine.reports
            assert told == {hook for hook in Hook if reports.find(newest.run_id, hook) is not None}, number
            assert (newest.reply_commit is None) is (reports.find(newest.run_id, "main_llm") is None)
            with pytest.raises(RunError, match="has ended"):
                tract.runs.resume(newest.run_id)
            assert tract.generate(profile=story()).run.status == "done"


# --- two processes, one run

HOLD = """
import sys
from pathlib import Path
from tests.runs.test_running_killed import opened
from tests.runs.running import story
with opened(Path(sys.argv[1])) as tract:
    tract.llm.chat = lambda *_, **__: (print(tract.runs()[0].run_id, flush=True), sys.stdin.read())[1]
    tract.generate(profile=story())
"""


@pytest.mark.slow
def test_a_run_belongs_to_one_process_until_that_has_ended(tmp_path):
    """R13: a run of a live process cannot be resumed elsewhere; after its end any process may resume it."""
    prepared(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        run_id = process.stdout.readline().strip()
        with opened(tmp_path) as tract:
            with pytest.raises(RunError, match=f"is being run by process {process.pid}"):
                tract.runs.resume(run_id)
            assert tract.runs.get(run_id).status == "running"
            process.kill()
            process.wait()
            assert tract.runs.resume(run_id).text == "It sleeps."
            assert tract.verify() == []


def test_an_ended_or_unknown_run_cannot_be_resumed(tract):
    """R13: the end of a run is final."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.user("Where is it?")
    profile = OperationProfile.of("p", [run_operation("x", order=1, text="x", into="tail")])
    run = tract.generate(profile=profile).run
    with pytest.raises(RunError, match="has ended"):
        tract.runs.resume(run.run_id)
    for unknown in ("", "f" * 32, "%", "run 1"):
        with pytest.raises(UnknownRunError):
            tract.runs.resume(unknown)
