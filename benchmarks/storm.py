"""Ctrl-C at random moments of commits, decisions, runs and scripts, while another process writes to the same store.

A session is a process that works in its main thread and gets real SIGINTs. Afterwards, no acknowledged work is lost,
nothing ran twice, nothing is stuck, and the memory of the process agrees with the store.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.places import open_store
from benchmarks.samples import CHECK
from benchmarks.timing import Row
from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import BranchMovedError, TractError
from tract_jupyter.runs.profile import OperationProfile, run_operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BETWEEN: Final = (0.0001, 0.012)  # seconds from one interrupt to the next
_LONGEST_WAIT: Final = 5.0
_PATIENCE: Final = 120.0  # seconds for a session to begin, and to end
_PROFILE: Final = OperationProfile.of(
    "kind", [run_operation("mood", order=10, text="Be kind.", into="system")]
)


class Session(NamedTuple):
    """The numbers of sent and raised interrupts, the problems, and the longest wait of the other process."""

    sent: int
    raised: int
    problems: list[str]
    waited: float
    written: int


def rows(sessions: int = 20, interrupts: int = 500) -> Iterator[Row]:
    """Run sessions with interrupts. Print problems to stderr."""
    seen = []
    for number in range(sessions):
        seen.append(survives(Path(f"storm{number}.db"), number, interrupts))
        for problem in seen[-1].problems:
            print(f"session {number}: {problem}", file=sys.stderr, flush=True)
    yield Row(f"interrupts, in {sessions} sessions", sum(one.sent for one in seen), "commits")
    yield Row("of them that came out", sum(one.raised for one in seen), "commits")
    yield Row("commits of the other process", sum(one.written for one in seen), "commits")
    yield Row("stuck, lost, or done twice", sum(len(one.problems) for one in seen), "commits", 0)
    yield Row("the longest wait of the other process", max(one.waited for one in seen), "s", _LONGEST_WAIT)


def survives(path: Path, seed: int, interrupts: int) -> Session:
    """Interrupt a session on a new store, and check the store.

    Args:
        path: The path of the new store.
        seed: The seed of the work and of the moments.
        interrupts: The number of interrupts.
    """
    chance = random.Random(seed)  # noqa: S311 # no secret
    open_store(path).close()
    stop = path.with_suffix(".stop")
    with _child("work", path, seed) as worker, _child("write", path, seed) as writer:
        for child in (worker, writer):
            child.stdout.readline()  # it is ready
        sent = 0
        while sent < interrupts and worker.poll() is None:
            time.sleep(chance.uniform(*_BETWEEN))
            worker.send_signal(signal.SIGINT)
            sent += 1
        stop.touch()
        told, wrote = _end(worker), _end(writer)
    if told is None or wrote is None:
        return Session(sent, 0, ["a process is stuck, or ended by itself; its error is on stderr"], 0.0, 0)
    problems = [*told["problems"], *_problems(path, told["done"], told["tried"])]
    return Session(sent, told["raised"], problems, wrote["longest"], wrote["count"])


@contextmanager
def _child(part: str, path: Path, seed: int) -> Iterator[Any]:
    command = [sys.executable, "-m", "benchmarks.storm", part, str(path.resolve()), str(seed)]
    root = Path(__file__).parents[1]  # a child finds this module in its working folder, whatever ours is
    child = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)  # noqa: S603 # this very module
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()  # type: ignore[union-attr]


def _end(child: Any) -> dict[str, Any] | None:
    try:
        told, _ = child.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(told.splitlines()[-1]) if child.returncode == 0 else None


def _problems(path: Path, done: list[str], tried: list[str]) -> Iterator[str]:
    """Yield the problems that a process finds in the store afterwards."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("PRAGMA integrity_check").fetchone()[0]
        unfinished = connection.execute(
            "SELECT count(*) FROM decisions WHERE claimed_by IS NOT NULL AND finished_at IS NULL"
        ).fetchone()[0]
        # the row of a run that has ended names nobody: it says that its question has no reply yet
        leases = connection.execute("SELECT count(*) FROM run_leases WHERE process != ''").fetchone()[0]
    if found != "ok":
        yield f"SQLite finds: {found}"
    if unfinished or leases:
        yield f"{unfinished} decisions and {leases} runs have no owner"
    try:
        with open_store(path) as tract:
            yield from map(str, tract.verify())
            said = Counter(str(message.content) for message in tract.compile().messages)
            tract.user("The next process continues.")
    except TractError as error:
        yield f"{type(error).__name__}: {error}"
        return
    yield from (f"{text!r} was acknowledged and is lost" for text in done if not said[text])
    yield from (f"{text!r} is there {said[text]} times" for text in tried if said[text] > 1)


# --- the process that is interrupted


class _Model:
    """A model that answers at once, with a new text each time."""

    def __init__(self, new_text: Callable[[str], str]) -> None:
        self._new_text = new_text

    def chat(self, *_: Any, **__: Any) -> dict[str, Any]:
        text = self._new_text("answer")
        return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


class _Worker:
    """The worker in the main thread. It records the acknowledged work."""

    def __init__(self, tract: Tract, seed: int) -> None:
        self.tract = tract
        self.number = 0
        self.raised = 0
        self.tried: list[str] = []
        self.done: list[str] = []
        self.problems: list[str] = []
        self.pendings: list[Any] = []
        self.ran: list[int] = []
        self._chance = random.Random(-seed - 1)  # noqa: S311 # no secret
        self._real = sys.stdout
        tract.register_operation(CHECK)
        tract.configure_llm(_Model(self.text))
        tract.profiles.save(_PROFILE, activate=True)
        tract.tool(name="note", read_only=True)(self.note)

    def note(self, text: str) -> str:
        """Note a text."""
        self.tract.user(text)
        return text

    def work(self, jobs: Callable[[], bool], depth: int = 2) -> None:
        """Work until there is nothing to do; interrupts end a job, and at worst the loop, which begins again."""
        while jobs():
            try:
                self._round(jobs) if depth == 0 else self.work(jobs, depth - 1)
            except KeyboardInterrupt:
                self.raised += 1

    def _round(self, jobs: Callable[[], bool]) -> None:
        while jobs():
            try:
                self._chance.choice((self.say, self.batch, self.decide, self.run, self.script))()
            except BranchMovedError:
                pass
            except TractError as error:
                self.problems.append(f"{type(error).__name__}: {error}"[:300])

    def text(self, kind: str) -> str:
        self.number += 1
        self.tried.append(text := f"{kind} {self.number}")
        return text

    def say(self) -> None:
        text = self.text("commit")
        self.tract.user(text)
        self.done.append(text)

    def batch(self) -> None:
        texts = [self.text("batch") for _ in range(4)]
        with self.tract.batch():
            for text in texts:
                self.tract.user(text)
        self.done += texts

    def decide(self) -> None:
        number = self.number = self.number + 1
        pending = self.tract.fire(
            CHECK.name, {"urls": [f"https://example.com/{number}"]}, review=True,
            execute_fn=lambda _: self.ran.append(number),
        )  # fmt: skip
        self.pendings.append((number, pending))
        pending.approve()

    def run(self) -> None:
        text = self.text("question")
        answer = self.tract.chat(text).text
        self.done += [text, answer]

    def script(self) -> None:
        texts = [self.text("script") for _ in range(3)]
        code = "\n".join(f"tools.note(text={text!r})" for text in texts)
        result = self.tract.scripts.run(code)
        if str(result.status) == "completed":
            self.done += texts
        elif str(result.status) == "interrupted":
            self.raised += 1
        else:
            self.problems.append(f"a script ended as {result.status}: {result.error}"[:300])

    def look(self) -> None:
        """Check this process after the interrupts."""
        if sys.stdout is not self._real:
            self.problems.append("printed text goes elsewhere")
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            self.problems.append(f"interrupts are handled by {signal.getsignal(signal.SIGINT)}")
        for number, pending in self.pendings:
            try:
                if pending.status.is_open:
                    pending.approve()
            except TractError as error:
                self.problems.append(f"stuck: {pending!r}: {error}"[:300])
            rounds = sum(
                one.pending_id == pending.pending_id for one in self.tract.review.decisions(limit=100_000)
            )
            ran = self.ran.count(number)
            if not ran:
                self.problems.append(f"{pending!r} is approved, and never ran")
            if ran > rounds:
                self.problems.append(f"{pending!r} ran {ran} times for {rounds} decisions")
        here = [message.content for message in self.tract.compile().messages]
        with open_store(Path(self.tract.location)) as other:  # after it: the other process may still write
            there = [message.content for message in other.compile().messages]
        if len(here) > len(there) or there[: len(here)] != here:
            self.problems.append("the context in memory differs from the store")


def _work(path: Path, seed: int) -> dict[str, Any]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stop = path.with_suffix(".stop")
    with Tract.open(path, tokenizer=ApproximateCounter()) as tract:
        worker = _Worker(tract, seed)
        for job in (worker.say, worker.batch, worker.decide, worker.run, worker.script):
            job()  # what is imported at first use is there
        print("ready", flush=True)
        worker.work(lambda: not os.path.exists(stop))  # noqa: PTH110 # as little as can be interrupted
        worker.look()
    return {
        "raised": worker.raised, "problems": worker.problems, "done": worker.done, "tried": worker.tried,
    }  # fmt: skip


def _write(path: Path, seed: int) -> dict[str, Any]:
    stop, longest, count = path.with_suffix(".stop"), 0.0, 0
    with open_store(path) as tract:
        tract.user(f"other {seed}")
        print("ready", flush=True)
        while not stop.exists():
            started = time.perf_counter()
            tract.user(f"other {seed} {count}")
            longest = max(longest, time.perf_counter() - started)
            count += 1
            time.sleep(0.005)
    return {"longest": longest, "count": count}


if __name__ == "__main__":
    _part = {"work": _work, "write": _write}[sys.argv[1]]
    print(json.dumps(_part(Path(sys.argv[2]), int(sys.argv[3]))), flush=True)
