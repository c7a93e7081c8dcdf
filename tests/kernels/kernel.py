"""A real kernel and the front end before it: cells, prompts, panels, the stop button and a restart, without a browser.

One thread does it all: `until` reads what the kernel says until something has happened, and fails at a deadline with
what was seen. Nothing else waits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import zmq
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.kernels.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
SECONDS = 30.0
"""The deadline of one wait: ten times what an idle machine needs, and less than the minute a case may take."""
SEEN = 40


class Cell:
    """A cell that was sent: what came back so far."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.text = ""
        self.error = ""
        self.reply: dict[str, Any] | None = None
        self.idle = False

    @property
    def ended(self) -> bool:
        return self.reply is not None and self.idle

    @property
    def raised(self) -> str:
        """The name of the exception that ended it."""
        return "" if self.reply is None else self.reply.get("ename", "")

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Keep what a message on the iopub channel says."""
        if kind == "stream":
            self.text += content["text"]
        elif kind in {"display_data", "update_display_data", "execute_result"}:
            self.text += content["data"].get("text/plain", "")
        elif kind == "error":
            self.error = ANSI.sub("", "\n".join(content["traceback"]))
        elif kind == "status":
            self.idle = self.idle or content["execution_state"] == "idle"


class Kernel:
    """A kernel of one Python, in a folder and with settings of its own.

    Args:
        python: the interpreter whose ipykernel runs.
        folder: its working directory; also HOME, and where Jupyter and IPython keep their files.
        subshells: whether the front end sends what panels say to a subshell, as JupyterLab does.
    """

    def __init__(self, python: str, folder: Path, *, subshells: bool) -> None:
        self.folder = folder
        self.panels: list[Panel] = []
        self.prompts: deque[str] = deque()
        self.subshell: str | None = None
        self._cells: dict[str, Cell] = {}
        self._comms: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._replies: dict[str, dict[str, Any]] = {}
        self._seen: deque[str] = deque(maxlen=SEEN)
        self._subshells = subshells
        self._log = (folder / "kernel.log").open("wb")
        # its own, as the name of a Unix socket may have about 100 characters only
        self._sockets = tempfile.TemporaryDirectory()
        self._manager = _manager(python, folder, Path(self._sockets.name))
        self._manager.start_kernel(cwd=str(folder), env=_env(folder), stdout=self._log, stderr=self._log)
        self._client = self._manager.client()
        self._client.start_channels(hb=False)
        try:
            self._until_it_answers()
        except BaseException:
            self.close()  # nobody else has it yet
            raise

    # --- cells

    def begin(self, code: str, *, stdin: bool = True) -> Cell:
        """Send a cell, and do not wait for its end."""
        cell = self._last = Cell(code)
        self._cells[self._client.execute(code, allow_stdin=stdin)] = cell
        return cell

    def end(self, cell: Cell, seconds: float = SECONDS) -> Cell:
        """Wait for a cell's end."""
        self.until(lambda: cell.ended, f"the end of {cell.code!r}", seconds)
        return cell

    def run(self, code: str, *, stdin: bool = True) -> Cell:
        """Run a cell to its end, which must be a good one."""
        cell = self.end(self.begin(code, stdin=stdin))
        assert not cell.raised, cell.error
        return cell

    # --- what a person does

    def panel(self, count: int = 1) -> Panel:
        """The panel that was opened as the `count`th."""
        self._until_asked(lambda: len(self.panels) >= count, f"panel {count}")
        return self.panels[count - 1]

    def prompt(self) -> str:
        """Wait until `input()` asks."""
        self._until_asked(lambda: self.prompts, "a prompt")
        return self.prompts[0]

    def type(self, text: str) -> None:
        """Answer the prompt."""
        self.prompt()
        self.prompts.popleft()
        self._client.input(text)

    def interrupt(self) -> None:
        """Press the stop button. What a front end has open for `input()` closes."""
        self._manager.interrupt_kernel()
        self.prompts.clear()

    def restart(self) -> None:
        """Press the restart button, which interrupts first; panels of the old kernel stay drawn, and are forgotten here."""
        self._manager.restart_kernel(now=False)
        self._begin_anew()

    def crash(self) -> None:
        """End the kernel without a word, and start another one."""
        self._manager.signal_kernel(signal.SIGKILL)
        self._manager.restart_kernel(now=True)
        self._begin_anew()

    def close(self) -> None:
        """End it."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
        self._log.close()
        self._sockets.cleanup()

    # --- messages

    def send_to_panel(self, comm_id: str, content: dict[str, Any]) -> None:
        """What `model.send(content)` of a widget sends."""
        data = {"method": "custom", "content": content}
        message = self._client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        self._client.shell_channel.send(message)

    def open_comm(
        self, target: str, take: Callable[[dict[str, Any]], None]
    ) -> Callable[[dict[str, Any]], None]:
        """Open a comm as a page does. `take` gets the data of each message; the result sends data."""
        comm_id = f"page-{len(self._comms)}"
        self._comms[comm_id] = take

        def send(kind: str, **content: Any) -> None:
            message = self._client.session.msg(kind, {"comm_id": comm_id, **content})
            if self.subshell is not None:
                message["header"]["subshell_id"] = self.subshell
            self._client.shell_channel.send(message)

        send("comm_open", target_name=target, data={})
        return lambda data: send("comm_msg", data=data)

    def until(
        self,
        happened: Callable[[], T],
        what: str,
        seconds: float = SECONDS,
        told: Callable[[], str] = str,
    ) -> T:
        """Read messages until something has happened; `told` says how things stand if it does not.

        Raises:
            AssertionError: it did not happen in time, or the kernel died.
        """
        end = time.monotonic() + seconds
        while not (result := happened()):
            alive = self._manager.is_alive()
            if not alive or time.monotonic() > end:
                why = f"not within {seconds:g} s" if alive else "the kernel died"
                log = (self.folder / "kernel.log").read_text(errors="replace")[-2000:]
                raise AssertionError(f"{what}: {why}. {told()}\nSeen:\n" + "\n".join(self._seen) + f"\n{log}")
            self._pump(0.05)
        return result

    def _until_asked(self, asked: Callable[[], Any], what: str) -> None:
        """Wait for what a cell asks while it runs; once it ended, nothing more comes."""
        self.until(lambda: asked() or self._last.ended, what)
        assert asked(), f"the cell ended without {what}: {self._last.text}{self._last.error}"

    def happens(self, happened: Callable[[], Any], seconds: float) -> bool:
        """Whether something happens within a time that may well pass without it."""
        end = time.monotonic() + seconds
        while not happened() and time.monotonic() < end:
            self._pump(0.02)
        return bool(happened())

    def _pump(self, seconds: float) -> None:
        """Take what is there on all channels, or wait a moment for it."""
        client = self._client
        takers = {
            client.iopub_channel: self._take_iopub,
            client.shell_channel: self._take_reply,
            client.control_channel: self._take_reply,
            client.stdin_channel: self._take_prompt,
        }
        poller = zmq.Poller()
        for channel in takers:
            poller.register(channel.socket, zmq.POLLIN)
        poller.poll(seconds * 1000)
        for channel, take in takers.items():
            while channel.socket.poll(0):
                message = channel.get_msg(timeout=0)
                take(message["msg_type"], message["parent_header"].get("msg_id", ""), message["content"])

    def _take_iopub(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        self._note(kind, content)
        if kind == "comm_open" and "view" in content["data"].get("state", {}):
            self.panels.append(Panel(self, content["comm_id"], content["data"]["state"]))
        elif kind == "comm_msg" and content["comm_id"] in self._comms:
            self._comms[content["comm_id"]](content["data"])
        elif kind == "comm_msg" and content["data"].get("method") == "update":
            for panel in self.panels:
                if panel.comm_id == content["comm_id"]:
                    panel.state.update(content["data"]["state"])
        elif kind == "status" and content["execution_state"] == "idle":
            self._replies.setdefault(f"idle {parent}", content)
        if parent in self._cells:
            self._cells[parent].take(kind, content)

    def _take_reply(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        self._note(kind, content)
        self._replies[parent] = content
        if kind == "execute_reply" and parent in self._cells:
            self._cells[parent].reply = content

    def _take_prompt(self, kind: str, _parent: str, content: dict[str, Any]) -> None:
        self._note(kind, content)
        self.prompts.append(content["prompt"])

    def _note(self, kind: str, content: dict[str, Any]) -> None:
        self._seen.append(f"{time.monotonic():.2f} {kind} {str(content)[:300]}")

    # ---

    def _until_it_answers(self) -> None:
        """Wait until what the kernel publishes arrives, too; the first of it may be lost while that connects."""
        asked: list[str] = []

        def answered() -> bool:
            return any(f"idle {asking}" in self._replies for asking in asked)

        while not answered() and len(asked) < SECONDS:
            asked.append(self._client.kernel_info())
            self.happens(answered, 1)
        assert answered(), f"no kernel: {(self.folder / 'kernel.log').read_text(errors='replace')[-2000:]}"
        self.subshell = self._make_subshell() if self._subshells else None

    def _begin_anew(self) -> None:
        self.panels.clear()
        self.prompts.clear()
        self._until_it_answers()

    def _make_subshell(self) -> str:
        message = self._client.session.msg("create_subshell_request", {})
        self._client.control_channel.send(message)
        made = self.until(lambda: self._replies.get(message["header"]["msg_id"]), "a subshell")
        return made["subshell_id"]


def _manager(python: str, folder: Path, sockets: Path) -> KernelManager:
    """A manager that knows one kernelspec, which lies in the folder.

    Unix sockets, as a TCP port that was found free may be another kernel's by the time that this one binds it.
    """
    spec = folder / "kernels" / "row" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "row", "language": "python"}))
    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")], ensure_native_kernel=False)
    return KernelManager(
        kernel_name="row",
        kernel_spec_manager=specs,
        connection_file=str(sockets / "connection.json"),
        transport="ipc",
    )


def _env(folder: Path) -> dict[str, str]:
    """This process's environment, with nothing in it that leads to the user's settings."""
    env = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    own = {
        "HOME": "home",
        "IPYTHONDIR": "ipython",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTER_CONFIG_DIR": "config",
    }
    return {**env, **{key: str(folder / name) for key, name in own.items()}}
