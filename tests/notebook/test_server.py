"""The extension of the Jupyter server that sends each message of a kernel at once."""

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

NAME = "tract_jupyter.notebook.server"


class Connection:
    """The server's connection between a page and a kernel."""

    def __init__(self, done):
        self.done = done
        self.websocket_handler = SimpleNamespace(set_nodelay=lambda on: done.append(f"nodelay {on}"))

    def connect(self):
        self.done.append("connect")
        return "connected"


def test_a_connection_sends_at_once_before_its_first_message():
    settings = {"kernel_websocket_connection_class": Connection, "base_url": "/"}
    server = importlib.import_module(NAME)  # as Jupyter does
    server._load_jupyter_server_extension(SimpleNamespace(web_app=SimpleNamespace(settings=settings)))
    made = settings["kernel_websocket_connection_class"](done := [])
    assert made.connect() == "connected"
    assert done == ["nodelay True", "connect"]
    assert isinstance(made, Connection)
    assert settings["base_url"] == "/"


@pytest.mark.slow
def test_jupyter_finds_and_enables_it(tmp_path):
    command = [sys.executable, "-m", "jupyter", "server", "extension", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = [line.split() for line in (listed.stdout + listed.stderr).splitlines() if NAME in line]
    assert any("enabled" in word for line in lines for word in line), listed
    assert any("OK" in word for line in lines for word in line), listed
