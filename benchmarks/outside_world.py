"""A place without a network for one real agent: loopback, a scripted model, an own home folder, and a kernel.

`python -m benchmarks.outside_world AGENT reject|approve [clean]` runs in namespaces that `benchmarks.outside_agents`
makes, and prints the result as JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyter_client.manager import start_new_kernel

from benchmarks.outside_scripts import PASSED, steps_of, write_home, write_project
from benchmarks.outside_turns import reason_for
from benchmarks.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIOCSIFFLAGS: Final = 0x8914
_UP: Final = 1
_DNS: Final = 53
_LONGEST: Final = 1_200
_LEAVE_SECONDS: Final = 5.0
_PLAY: Final = """
import json
%load_ext tract_jupyter
from benchmarks.outside_turns import play
secret = 41
notebook = get_ipython()._tract_jupyter.notebook
tract.outside.server = notebook.serve_turn
tract.outside.use({agent!r}, env={names!r})
print("RESULT" + play(tract, {agent!r}, {folder!r}, {marks!r}, json.loads({steps!r}), approves={approves!r}))
"""


def bring_loopback_up() -> None:
    """Start the loopback interface of this namespace."""
    with socket.socket() as one:
        fcntl.ioctl(one, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", _UP, b""))


class NameServer:
    """Answers every question with "no such name", and notes the names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", _DNS))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(4_096)
            at, labels = 12, []
            while length := question[at]:
                labels.append(question[at + 1 : at + 1 + length].decode("latin1"))
                at += length + 1
            self.names.append(".".join(labels))
            head = question[:2] + b"\x81\x83" + question[4:6] + bytes(6)
            self._socket.sendto(head + question[12 : at + 5], sender)


@dataclass(frozen=True)
class World:
    """A place for one agent, in its own namespaces.

    Attributes:
        root: its folder, with the folders below.
        folder: the project.
        marks: gets a file for each program of the project that runs.
        model: the scripted model.
        names: the server of names.
    """

    root: Path
    folder: Path
    marks: Path
    model: ScriptedModel
    names: NameServer


@contextmanager
def world() -> Iterator[World]:
    """Make a home folder and a project, and set the environment of this process to them."""
    bring_loopback_up()
    names, model = NameServer(), ScriptedModel()
    with tempfile.TemporaryDirectory(prefix="tract_outside_") as place:
        root = Path(place).resolve()
        home, folder, marks = root / "home", root / "work", root / "marks"
        for one in (home, folder, marks):
            one.mkdir()
        os.environ |= {
            "HOME": str(home),
            "JUPYTER_DATA_DIR": str(root / "jupyter"),
            "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
            "IPYTHONDIR": str(root / "ipython"),
        }
        os.environ |= write_home(home, folder, model.url)
        for name in (
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_CACHE_HOME",
            "XDG_STATE_HOME",
            "CODEX_HOME",
            "CLAUDE_CONFIG_DIR",
        ):
            os.environ.pop(name, None)
        yield World(root, folder, marks, model, names)


def run(agent: str, *, approves: bool, is_hostile: bool = True) -> dict[str, Any]:
    """Run all actions of an agent in a project, and return their results."""
    with world() as here:
        write_project(here.folder, here.marks, is_hostile=is_hostile)
        code = _PLAY.format(
            agent=agent, names=list(PASSED), folder=str(here.folder), marks=str(here.marks), approves=approves,
            steps=json.dumps(steps_of(agent, here.folder)),
        )  # fmt: skip
        result = _in_kernel(code, here.folder)
    for turn in result.get("turns", ()):
        turn["got_reason"] = here.model.got(reason_for(turn["action"]))
    tools = sorted({name for _, body in here.model.requests for name in _names(body)})
    return {**result, "names": here.names.names, "requests": len(here.model.requests), "tools": tools}


def _names(body: dict[str, Any]) -> list[str]:
    from benchmarks.scripted_model import tool_names

    return [str(name) for name in tool_names(body)]


def _in_kernel(code: str, folder: Path) -> dict[str, Any]:
    manager, client = start_new_kernel(cwd=str(folder))
    kernel: int = getattr(manager.provisioner, "pid", 0)
    output: list[str] = []

    def take(message: Any) -> None:
        content = message["content"]
        output.append(content.get("text") or "\n".join(content.get("traceback") or []))

    try:
        client.execute_interactive(code, timeout=_LONGEST, output_hook=take, allow_stdin=False)
        left = _others(kernel)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    text = "".join(output)
    found = [line for line in text.splitlines() if line.startswith("RESULT")]
    if not found:
        return {"error": text[-3_000:], "left": left}
    return {**json.loads(found[0].removeprefix("RESULT")), "left": left}


def _others(kernel: int) -> list[str]:
    """Return the command lines of all other processes here that do not end within some seconds."""
    end = time.monotonic() + _LEAVE_SECONDS
    while True:
        parents = {}
        for one in Path("/proc").iterdir():
            if one.name.isdecimal():
                try:
                    state, above = (one / "stat").read_text().rpartition(")")[2].split()[:2]
                    if state not in {"Z", "X"}:
                        parents[int(one.name)] = (
                            int(above),
                            (one / "cmdline").read_text().replace("\0", " ")[:200],
                        )
                except (OSError, ValueError):
                    continue
        left = [line for pid, (above, line) in parents.items() if pid not in {1, os.getpid(), kernel}]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], approves=sys.argv[2] == "approve", is_hostile="clean" not in sys.argv)))
