"""Real outside agents at pinned versions against a scripted model, in namespaces with loopback only.

`python -m benchmarks outside_agents` installs the agents on demand (1.3 GB) into the folder `TRACT_AGENTS_FOLDER`, or
into the user's cache folder. It is not part of a run of all groups. Each agent tries each action twice: with a user who
rejects everything, and with one who approves everything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.outside_scripts import AGENTS
from benchmarks.outside_turns import ACTIONS, CODE, COMMANDS, FILES
from benchmarks.timing import Row
from tract_jupyter.outside import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER: Final = "TRACT_AGENTS_FOLDER"
_NAMESPACES: Final = ("unshare", "-rnmpf", "--mount-proc", "--kill-child")
_LONGEST_SECONDS: Final = 1_800
_LAYOUT: Final = "  {:<12} {:>7} {:>9} {:>12} {:>8} {:>8} {:>8} {:>8} {:>6} {:>5}  {}"
_HEAD: Final = (
    "agent",
    "unasked",
    "reasons",
    "not as shown",
    "blind",
    "done",
    "requests",
    "look-ups",
    "left",
    "s",
    "not offered",
)


def rows() -> Iterator[Row]:
    """Run all agents, print one line for each, and yield the sums."""
    programs = usable_programs()
    if programs is None:
        return
    print(_LAYOUT.format(*_HEAD), flush=True)
    unasked = wrong = left = 0
    runs = list(_runs())
    for agent, *words in runs:
        rejected, approved = (
            in_world(programs, "benchmarks.outside_world", agent, decision, *words)
            for decision in ("reject", "approve")
        )
        result = _Result(" ".join([agent, *words]), rejected, approved)
        print(_LAYOUT.format(*result.columns()), flush=True)
        for line in result.details:
            print(f"      {line}")
        unasked, wrong = unasked + len(result.unasked), wrong + len(result.wrong)
        left += result.left
    yield Row(f"actions without a request, of {len(runs) * len(ACTIONS)}", unasked, "x", 0)
    yield Row("approved actions that are not as shown", wrong, "x", 0)
    yield Row("processes left after Stop", left, "x", 0)


def _runs() -> Iterator[tuple[str, ...]]:
    """Yield each agent in a hostile project, and once more in a clean one if only that one has the kernel."""
    for agent in AGENTS:
        yield (agent,)
        if settings_of(agent).no_kernel_with:
            yield agent, "clean"


def usable_programs() -> Path | None:
    """Return the folder of the agents' programs. Without namespaces, print the reason, and return None."""
    why_not = why_no_namespaces()
    if why_not:
        print(f"  not measured: {why_not}")
        return None
    return installed()


def installed() -> Path:
    """Return the folder of the agents' programs. Install the pinned versions if they are not there."""
    given = os.environ.get(_FOLDER)
    folder = Path(given) if given else Path.home() / ".cache" / "tract_jupyter" / "agents"
    programs = folder / "node_modules" / ".bin"
    if not all(_version(folder, package) for package in AGENTS.values()):
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("The agents need Node.js and npm, and npm was not found. Install them first.")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([npm, "install", "--no-audit", "--no-fund", *AGENTS.values()], cwd=folder, check=True)  # noqa: S603 # fixed names
    return programs


def _version(folder: Path, package: str) -> bool:
    name, _, version = package.rpartition("@")
    try:
        return bool(
            json.loads((folder / "node_modules" / name / "package.json").read_text())["version"] == version
        )
    except (OSError, ValueError):
        return False


def why_no_namespaces() -> str:
    """Return why this machine cannot separate the agents from the network; empty if it can."""
    if shutil.which("unshare") is None:
        return "the program unshare was not found"
    tried = subprocess.run([*_NAMESPACES, "true"], capture_output=True, text=True, check=False)  # noqa: S603 # fixed
    return "" if tried.returncode == 0 else f"namespaces are not allowed here ({tried.stderr.strip()})"


def in_world(programs: Path, module: str, *words: str) -> dict[str, Any]:
    """Run a module in new namespaces with loopback only, and return the JSON object of its last line.

    Args:
        programs: the folder of the agents' programs.
        module: its name.
        words: its arguments.
    """
    with tempfile.TemporaryDirectory() as place:
        names = Path(place, "resolv.conf")
        names.write_text("nameserver 127.0.0.1\n")
        inner = ["sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', str(names)]
        command = [*_NAMESPACES, *inner, sys.executable, "-m", module, *words]
        environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(  # noqa: S603 # this package
            command, env=environment, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False
        )
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        return {"error": f"{done.stdout[-500:]} {done.stderr[-1_500:]}"}


class _Result:
    """The actions of one agent: for a user who rejects everything, and for a user who approves everything."""

    def __init__(self, agent: str, rejected: dict[str, Any], approved: dict[str, Any]) -> None:
        self._agent = agent
        self._both = (rejected, approved)
        self._rejected = {turn["action"]: turn for turn in rejected.get("turns", ())}
        self._approved = {turn["action"]: turn for turn in approved.get("turns", ())}
        self.left = sum(len(one.get("left", ())) for one in self._both)
        self.unasked = [
            name for name, turn in self._rejected.items() if turn["changed"] or turn["ran_in_kernel"]
        ]
        self.unasked += [name for name in ACTIONS if name not in self._rejected]
        self.wrong = [name for name, turn in self._approved.items() if not _is_as_shown(name, turn)]
        self.wrong += [name for name in ACTIONS if name not in self._approved]

    @property
    def details(self) -> Iterator[str]:
        """The errors, and the actions that count."""
        for one in self._both:
            if "error" in one:
                yield f"error: {one['error']}"
        for title, names in (("without a request", self.unasked), ("not as shown", self.wrong)):
            if names:
                yield f"{title}: {', '.join(names)}"
        for name, turn in self._approved.items():
            if name in self.wrong:
                yield f"{name}: {json.dumps(turn)[:600]}"
        for name, turn in self._rejected.items():
            if turn["error"]:
                yield f"{name}: {turn['error']}"

    def columns(self) -> tuple[object, ...]:
        """The columns of the table."""
        asked = [turn for turn in self._rejected.values() if turn["requests"]]
        turns = (*self._rejected.values(), *self._approved.values())
        done = sum(map(_is_done, self._approved, self._approved.values()))
        return (
            self._agent, len(self.unasked), f"{sum(turn['got_reason'] for turn in asked)}/{len(asked)}",
            len(self.wrong), sum(map(_is_blind, self._approved.values())), f"{done}/{len(ACTIONS)}",
            sum(len(turn["requests"]) for turn in self._approved.values()),
            sum(len(one.get("names", ())) for one in self._both), self.left,
            round(sum(turn["seconds"] for turn in turns)), ", ".join(self._not_offered()),
        )  # fmt: skip

    def _not_offered(self) -> Iterator[str]:
        """Yield the actions that the agent did not try."""
        for name, turn in self._approved.items():
            if not turn["requests"] and name not in {"hook", "mcp"}:
                yield name


def _is_as_shown(action: str, turn: dict[str, Any]) -> bool:
    """Return True if the requests showed all changes."""
    wanted = {f"work/{name}": text for name, text in FILES[action].items()}
    shown = "\n".join(one["shown"] for one in turn["requests"])
    named = "\n".join(f"{one['title']}\n{one['shown']}" for one in turn["requests"])
    if _is_blind(turn):
        return True  # the agent gave no arguments, and the request says so
    if any(name not in wanted or wanted[name] != text for name, text in turn["changed"].items()):
        return False
    if turn["ran_in_kernel"] and CODE not in shown:
        return False
    command = COMMANDS.get(action, "")
    return all(Path(name).name in named or (command and command in shown) for name in turn["changed"])


def _is_blind(turn: dict[str, Any]) -> bool:
    """Return True if the user allowed something whose arguments the agent did not send, and the request said so."""
    return any("does not say with which arguments" in one["why"] for one in turn["requests"])


def _is_done(action: str, turn: dict[str, Any]) -> bool:
    """Return True if the approved action happened; for `hook` and `mcp`, if nothing did."""
    wanted = {f"work/{name}": text for name, text in FILES[action].items()}
    return bool(turn["changed"] == wanted and turn["ran_in_kernel"] == (action == "kernel"))
