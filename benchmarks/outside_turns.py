"""Turns of a real outside agent in a kernel. `benchmarks.outside_world` runs `play` there."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scripted_model import OVER, Step, scripted
from tract_jupyter.exceptions import TractError
from tract_jupyter.outside import settings_of
from tract_jupyter.review import Answer, personal_channel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.review import ReviewRequest

SEED: Final = "one\ntwo\nthree\n"
EDITED: Final = SEED.replace("two", "2")
TEXT: Final = "print(1)\n"
CODE: Final = "answer = secret + 1"
COMMANDS: Final = {
    "delete": "rm doomed.txt",
    "shell": "touch ran.txt",
    "background": "sleep 1; touch later.txt",
    "settings": "touch allowed.txt",
}
FILES: Final[Mapping[str, Mapping[str, str | None]]] = {
    "write": {"new.py": TEXT},
    "edit": {"seed.txt": EDITED},
    "delete": {"doomed.txt": None},
    "shell": {"ran.txt": ""},
    "background": {"later.txt": ""},
    "subagent": {"sub.py": TEXT},
    "kernel": {},
    "hook": {},
    "mcp": {},
    "settings": {"allowed.txt": ""},
}
"""The files that an approved action changes: their contents then, None if it removes them."""
ACTIONS: Final = tuple(FILES)
_BACKGROUND_SECONDS: Final = 3.0
_LONGEST_SECONDS: Final = 60.0


@dataclass
class Turn:
    """One action in one turn.

    Attributes:
        action: its name in `ACTIONS`.
        requests: the title and the content of each request.
        changed: the changed files, with their new contents; None for a removed one.
        ran_in_kernel: True if the kernel's variables changed.
        text: the last text of the agent.
        error: the error that ended the turn; empty for none.
        seconds: its duration.
    """

    action: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    changed: dict[str, str | None] = field(default_factory=dict)
    ran_in_kernel: bool = False
    text: str = ""
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0


class _User:
    """Approves or rejects everything, and keeps the content of the requests."""

    def __init__(self, *, approves: bool) -> None:
        self.turn = Turn("")
        self._approves = approves

    async def decide(self, request: ReviewRequest) -> Answer:
        """Return the decision about a request."""
        blocks = [block.code for block in request.code]
        rows = [f"{row.name} = {row.value}" for table in request.tables for row in table.rows]
        self.turn.requests.append(
            {"title": request.title, "why": request.why, "shown": "\n".join([*blocks, *rows])}
        )
        if self._approves:
            return Answer("approve", {})
        return Answer("reject", {"reason": reason_for(self.turn.action)})


def reason_for(action: str) -> str:
    """Return the reason of the user who rejects an action."""
    return f"not-now-{action}"


def play(
    tract: Any, agent: str, folder: str, marks: str, steps: Mapping[str, list[Step]], *, approves: bool
) -> str:
    """Let an agent try each action in one turn. Return the turns as JSON."""
    user = _User(approves=approves)
    tract.reviewer.channel = personal_channel("benchmark")(user.decide)
    places, refused = (Path(folder), Path(marks)), Path(settings_of(agent).project_file)
    turns = []
    for action, script in steps.items():
        user.turn = turn = Turn(action)
        before, kernel = _contents(*places), _variables()
        started = time.monotonic()
        limit = threading.Timer(_LONGEST_SECONDS, tract.outside.stop)
        limit.start()
        try:
            response = tract.chat(
                f"Please do this. {scripted([*script, {'text': OVER}])}", agent=agent, on_turn=_note(turn)
            )
            turn.text = f"{response.outcome.name}: {response.text} {response.note}".strip()
        except TractError as error:
            turn.error = f"{type(error).__name__}: {error}"
            if refused.name:
                Path(folder, refused).unlink(
                    missing_ok=True
                )  # the rest of the project is measured without it
        limit.cancel()
        turn.seconds = time.monotonic() - started
        if action == "background":
            time.sleep(_BACKGROUND_SECONDS)
        after = _contents(*places)
        ours = {f"work/{refused}"} if turn.error else set()
        turn.changed = {
            name: after.get(name)
            for name in (before.keys() | after.keys()) - ours
            if before.get(name) != after.get(name)
        }
        turn.ran_in_kernel = kernel != _variables()
        turns.append(vars(turn))
    started = time.monotonic()
    tract.outside.stop()
    return json.dumps({"turns": turns, "stopped_after": time.monotonic() - started})


def _note(turn: Turn) -> Callable[[Any], None]:
    def note(event: Any) -> None:
        if getattr(event, "is_warning", False):
            turn.warnings.append(f"{event.title} {event.text}")

    return note


def _variables() -> dict[str, str]:
    """Return the user's variables of this kernel."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    names = {} if shell is None else shell.user_ns
    return {name: repr(names[name]) for name in ("secret", "answer") if name in names}


def _contents(*folders: Path) -> dict[str, str]:
    """Return the content of each file, by its path."""
    found = {}
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if name != ".tract"]  # the store
            for name in names:
                path = Path(place, name)
                data = path.read_bytes()
                found[str(path.relative_to(folder.parent))] = (
                    data.decode() if len(data) < 10_000 else hashlib.sha256(data).hexdigest()  # noqa: PLR2004 # long
                )
    return found
