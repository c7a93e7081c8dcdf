"""A shell in this process for tests without a front end, and a real kernel for the others."""

from __future__ import annotations

import atexit
import inspect
import re
import sys
import warnings
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import local_provisioner
from traitlets.config import Config

from tests.review import scripted

HERE = Path(__file__).parent
LOAD = "%load_ext tract_jupyter"
MODEL = f"""
{inspect.getsource(scripted)}
model = StreamingClient(usual="Hello *you*.")
asked, replies = model.asked, model.replies
tract.configure_llm(model)
"""
"""A cell that gives a notebook, also in another process, the scripted model."""
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.hookimpl(tryfirst=True)  # the markers are selected in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test that starts a kernel."""
    for item in items:
        if "kernel" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.kernel)


@dataclass
class Result:
    """The printed, displayed and raised output of a cell."""

    ok: bool
    text: str
    html: str = ""
    error: str = ""
    pager: str = ""


class Shell:
    """An IPython shell whose cells' outputs can be read."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.ip = shell

    @property
    def namespace(self) -> dict[str, Any]:
        return self.ip.user_ns

    def run(self, cell: str) -> Result:
        with capture_output() as captured:
            result = self.ip.run_cell(cell)
        raised = result.error_in_exec or result.error_before_exec
        data = [output.data for output in captured.outputs]
        text = captured.stdout + captured.stderr + "".join(d.get("text/plain", "") for d in data)
        html = "".join(d.get("text/html", "") for d in data)
        return Result(raised is None, ANSI.sub("", text), html, str(raised or ""))

    def complete(self, code: str) -> list[str]:
        """What Tab offers at the end of `code`."""
        assert self.ip.Completer is not None
        with provisionalcompleter():
            return [one.text for one in self.ip.Completer.completions(code, len(code))]


@pytest.fixture
def bare_shell(tmp_path, monkeypatch):
    """IPython in a separate folder, without the extension.

    After a test, nothing keeps its shell: each shell remembers the `__main__` before it, which would be the previous one's.
    """
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns if it is not the active shell
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    yield Shell(shell)
    if "tract_jupyter" in shell.extension_manager.loaded:
        shell.run_line_magic("unload_ext", "tract_jupyter")
    InteractiveShell.clear_instance()
    atexit.unregister(shell.atexit_operations)


@pytest.fixture
def shell(bare_shell):
    """IPython with the extension loaded."""
    bare_shell.run(LOAD)
    return bare_shell


@dataclass
class Kernel:
    """A real kernel, driven over its channels."""

    client: Any
    texts: list[str] = field(default_factory=list)

    def run(self, cell: str, *, typed: tuple[str, ...] = ()) -> Result:
        """Run a cell to its end. Without anything `typed` at its prompts, it takes no input, as in headless runners."""
        parts: list[dict[str, Any]] = []
        answers = deque(typed)
        reply = self.client.execute_interactive(
            cell,
            allow_stdin=bool(typed),
            timeout=60,
            output_hook=parts.append,
            stdin_hook=lambda _: self.client.input(answers.popleft()),
        )
        assert not answers, "it did not ask for all that was to be typed"
        text, html = "", ""
        for message in parts:
            content = message["content"]
            text += content.get("text", "")
            text += "\n".join(content.get("traceback", []))
            data = content.get("data", {}) if message["msg_type"] != "comm_open" else {}
            text += data.get("text/plain", "") if isinstance(data, dict) else ""
            html += data.get("text/html", "") if isinstance(data, dict) else ""
        content = reply["content"]
        pager = "".join(p.get("data", {}).get("text/plain", "") for p in content.get("payload", []))
        return Result(
            content["status"] == "ok",
            ANSI.sub("", text),
            html,
            content.get("evalue", ""),
            ANSI.sub("", pager),
        )

    def complete(self, code: str) -> list[str]:
        """What Tab offers at the end of `code`."""
        reply = self.client.complete(code, len(code), reply=True, timeout=60)
        return reply["content"]["matches"]

    def inspect(self, code: str) -> str:
        """What `?` shows."""
        reply = self.client.inspect(code, len(code), reply=True, timeout=60)
        return ANSI.sub("", reply["content"]["data"].get("text/plain", ""))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory, launch_warm):
    """A kernel with the extension, in a separate folder. The tests of a file share it."""
    folder = tmp_path_factory.mktemp("kernel")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # jupyter_client leaves its sockets to the collector
        patch.setattr(local_provisioner, "launch_kernel", launch_warm)
        patch.setenv("JUPYTER_DATA_DIR", str(folder / "data"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        # the completer reads a cached file that another process has half written, and then offers nothing
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        manager, client = start_new_kernel(cwd=str(folder))
        try:
            made = Kernel(client)
            made.run(LOAD)
            yield made
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()
