"""A JupyterLab server that touches nothing outside its own folder."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from tests import warm

if TYPE_CHECKING:
    from types import TracebackType

LIGHT = "JupyterLab Light"
LABEXTENSION = Path(__file__).parents[2] / "labextension" / "build" / "tract-jupyter-labextension"
DARK = "JupyterLab Dark"

# Settings that a user may have changed, fixed here so tests see the same Lab every time.
SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "apputils-extension/themes": {"theme": LIGHT, "adaptive-theme": False},
    "docmanager-extension/plugin": {"autosave": False},
    # any other mode removes off-screen cells from the page
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
}

OPTIONS = (
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port_retries=20",
    "--ServerApp.terminals_enabled=False",
    "--KernelManager.transport=ipc",  # two servers may find the same TCP port free
    "--LanguageServerManager.autodetect=False",
    "--LabApp.extension_manager=readonly",  # the other one asks PyPI
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.expose_app_in_browser=True",  # window.jupyterapp, which driver.js uses
    "--JupyterNotebookApp.expose_app_in_browser=True",  # the same, in Notebook 7
)

_OPENER = build_opener(ProxyHandler({}))  # never through a proxy that the environment names


class ServerError(RuntimeError):
    """The server did not start; the message holds its log."""


class LabServer:
    """JupyterLab on a loopback port, with private configuration, data and kernels.

    Use it as a context manager, or call `start` and `stop`. Kernels run in the environment of
    the interpreter that runs the tests.

    Args:
        folder: for everything that it writes.
        options: more options of the command line.

    Attributes:
        root: The folder it serves.
        home: HOME of the server and its kernels, with all of Jupyter's and IPython's folders.
        token: The secret that a page or a request needs.
        url: Base address without a trailing slash, known once started.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self._options = options
        self.root = folder / "root"
        self.home = folder / "home"
        self.token = secrets.token_hex(16)
        self.url = ""
        self._numbers = count()
        # not within `folder`, as the name of a Unix socket may have about 100 characters only
        self._runtime = tempfile.TemporaryDirectory()
        self._log_path = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout: float = 60) -> None:
        """Start the server and wait until it answers.

        Args:
            timeout: Seconds to wait.

        Raises:
            ServerError: It ended, or did not answer in time.
        """
        for folder in (self.root, self.home):
            folder.mkdir(parents=True, exist_ok=True)
        self.reset_settings()
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                env=self._environment(),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for pytest alone
            )
        try:
            self._await_answer(timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and, through it, its kernels; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)  # SIGINT would ask for confirmation
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._runtime.cleanup()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the server's REST interface; `path` starts with a slash. Returns the decoded JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Authorization": f"token {self.token}"}, method=method)
        with _OPENER.open(request, timeout=20) as response:
            text = response.read()
        return json.loads(text) if text else None

    def fresh_folder(self, name: str) -> Path:
        """Make an empty folder below `root`; its name gets a number, as a test that runs again needs another one."""
        folder = self.root / name / str(next(self._numbers))
        folder.mkdir(parents=True)
        return folder

    def end_session(self, path: str) -> None:
        """Shut down the kernel of the notebook at `path` (relative to `root`), if it has one."""
        for session in self.request("GET", "/api/sessions"):
            if session["path"] == path:
                self.request("DELETE", f"/api/sessions/{session['id']}")

    def reset_settings(self) -> None:
        """Write the user settings afresh: a test that changed the theme leaves it there."""
        for name, values in SETTINGS.items():
            file = self.home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values), encoding="utf-8")

    def log(self) -> str:
        """The output of the server and its kernels so far."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def _command(self) -> list[str]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return [
            sys.executable,
            warm.__file__,
            "jupyterlab",
            *OPTIONS,
            *self._options,
            f"--ServerApp.port={port}",
            f"--ServerApp.root_dir={self.root}",
            f"--IdentityProvider.token={self.token}",
            f"--LabServerApp.extra_labextensions_path={LABEXTENSION.parent}",
        ]

    def _environment(self) -> dict[str, str]:
        foreign = ("JUPYTER", "JPY_", "IPYTHON", "PYTEST_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        scripts = str(Path(sys.executable).parent)
        return kept | {
            "HOME": str(self.home),
            "JUPYTER_CONFIG_DIR": str(self.home / "config"),
            "JUPYTER_DATA_DIR": str(self.home / "data"),
            "JUPYTER_RUNTIME_DIR": self._runtime.name,
            "JUPYTERLAB_SETTINGS_DIR": str(self.home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.home / "workspaces"),
            "IPYTHONDIR": str(self.home / "ipython"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "PATH": os.pathsep.join([scripts, kept.get("PATH", os.defpath)]),
        }

    def _await_answer(self, timeout: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerError(f"JupyterLab ended with code {self._process.returncode}:\n{self.log()}")
            if self._answers():
                return
            time.sleep(0.05)
        raise ServerError(f"JupyterLab did not answer within {timeout} s:\n{self.log()}")

    def _answers(self) -> bool:
        # the port that it settled on is in a file it writes just before it listens
        for file in Path(self._runtime.name).glob("jpserver-*.json"):
            try:
                self.url = json.loads(file.read_text())["url"].rstrip("/")
                self.request("GET", "/api/status")
            except (ValueError, URLError, ConnectionError):
                return False
            return True
        return False
