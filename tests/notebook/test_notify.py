"""`%tract notify`: messages to a local server if a request waits. The user decides in the notebook."""

from __future__ import annotations

import json
import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.notebook.conftest import LOAD
from tests.review.fakes import FakeChannel, click
from tract_jupyter.exceptions import AdminLimitError, OperationError
from tract_jupyter.notebook import link_to
from tract_jupyter.toolkit import PendingToolCall, ToolDefinition

pytest.importorskip("apprise")
OPERATION = """%%tract_operation secret_plan
'''Never told elsewhere.'''
note: str = ""

def run(pending):
    '''Go.'''
    pending.approve()
"""
ADDRESSES, LINK = "TRACT_JUPYTER_NOTIFY", "TRACT_JUPYTER_NOTIFY_LINK"
SECONDS = 10


class Service:
    """A server that takes the messages of `json://`."""

    def __init__(self):
        self.got, self.status = queue.Queue(), 200
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(service.status)
                self.end_headers()
                service.got.put(json.loads(body))

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    @property
    def url(self):
        return f"json://user:t0psecret@127.0.0.1:{self.server.server_port}/path-secret"

    def message(self):
        return self.got.get(timeout=SECONDS)

    def close(self):
        self.server.shutdown()
        self.thread.join(SECONDS)
        self.server.server_close()


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    service = Service()
    monkeypatch.setenv(ADDRESSES, service.url)
    yield service
    service.close()


@pytest.fixture
def notebook(bare_shell):
    bare_shell.run(LOAD)
    return bare_shell.ip._tract_jupyter.notebook  # the state of the extension


def waiting(notebook, note="", fire=None):
    """Leave a request open, and return its ticket."""
    tract = notebook.tract
    tickets = []

    class Channel(FakeChannel):
        def show(self, ticket):
            super().show(ticket)
            tickets.append(ticket)
            notebook.notifier.take(ticket)

    tract.reviewer.channel = Channel()
    if fire is None:
        fire = lambda: tract.operations.fire("secret_plan", {"note": note}, review=True, offer=True)  # noqa: E731
    tract.reviewer.show(fire())
    return tickets[-1]


def test_a_waiting_request_is_announced_without_its_content(bare_shell, notebook, service, monkeypatch):
    told = bare_shell.run("%tract notify --after 0 --test").text
    assert "json://…, if a request waits for 0 s; with no content of requests." in told
    assert "secret" not in told
    assert service.message()["title"] == "Test of tract_jupyter"
    assert bare_shell.run(OPERATION.replace("secret_plan", "secret_plan --activate", 1)).ok
    monkeypatch.setenv(LINK, "https://hub.example.org/birds.ipynb")
    waiting(notebook)
    message = service.message()
    assert message["title"] == "A request waits for you"
    assert message["message"].split("\n")[1:] == [
        "https://hub.example.org/birds.ipynb",
        "Decide it in the notebook.",
    ]
    assert "Never told" not in str(message)
    doctor = bare_shell.run("%tract doctor").text
    assert "notifications: json://…" in doctor
    assert "t0psecret" not in doctor

    bare_shell.run("%tract notify --content --after 0")  # the addresses do not change
    title = waiting(notebook, "two").request.title
    assert title in service.message()["message"]
    assert "Off." in bare_shell.run("%tract notify off").text
    assert "notifications" not in bare_shell.run("%tract doctor").text
    waiting(notebook, "three")
    assert service.got.empty()


def test_a_tool_of_a_server_puts_no_link_into_a_message(bare_shell, notebook, service):
    bare_shell.run("%tract notify --after 0")
    name = "srv.<https://evil.example|[Log in](https://evil.example)>"
    schema = {"type": "object", "properties": {}}
    tool = ToolDefinition.from_schema(name, "", schema, print, owner="mcp:srv")
    tract, about = notebook.tract, {"parameters": tool.parameters, "definition_hash": "", "code_doubt": ""}
    waiting(notebook, fire=lambda: PendingToolCall(name, {}, tract=tract, **about))
    kind = service.message()["message"].partition(": ")[2].partition("\n")[0]
    assert kind == "srv._https___evil_example__Log_in__https___evil_example__"


def test_a_decided_request_is_not_announced(bare_shell, notebook, service):
    bare_shell.run("%tract notify --after 3600")
    bare_shell.run(OPERATION.replace("secret_plan", "secret_plan --activate", 1))
    ticket = waiting(notebook)
    timer = notebook.notifier._timer
    click(ticket, "reject")
    notebook.tract.reviewer.carry_out(ticket)
    timer.cancel()
    notebook.notifier._send_waiting()
    assert service.got.empty()
    notebook.notifier.close()


def test_a_failure_is_one_line_and_disturbs_nothing(bare_shell, notebook, service, capsys):
    service.status = 500
    bare_shell.run("%tract notify --after 3600")
    bare_shell.run(OPERATION.replace("secret_plan", "secret_plan --activate", 1))
    for note in ("one", "two"):
        waiting(notebook, note)
        notebook.notifier._timer.cancel()
        notebook.notifier._send_waiting()
        assert service.message()
    told = capsys.readouterr().err
    assert told.count("No notification was sent: json://… did not take the message") == 1
    assert "secret" not in told
    assert "did not take the message" in bare_shell.run("%tract notify --test").error


def test_addresses_come_from_the_environment_and_errors_hide_secrets(bare_shell, notebook, monkeypatch):
    monkeypatch.setenv(ADDRESSES, "json://a.example.org/t0psecret nothing")
    assert notebook.notifier.describe()[0].startswith("json://…, an address, if a request waits for 30 s")
    for line, why in (
        ("json://x.example.org t0psecret", "address 2 (an address) is not a URL of apprise"),
        ("unknown://t0psecret", "address 1 (unknown://…) is not a URL"),
        ("--after never", "--after needs a number"),
        ("--type", "no user is available"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/t0psecretlazkcOXrIdevi7F", "the address slack://… has a secret"),
        (
            "ntfys://a.example.org/birds discord://4174216298/t0psecret8qBe7bk2ZwO5U711o3dV_js",
            "discord://… has a",
        ),
    ):
        error = bare_shell.run(f"%tract notify {line}").error
        assert why in error
        assert "t0psecret" not in error
    monkeypatch.setattr("tract_jupyter.notebook.notify.find_spec", lambda _name: None)
    assert 'pip install "tract_jupyter[notify]"' in bare_shell.run("%tract notify json://a.example.org").error
    assert "apprise is not installed" in bare_shell.run("%tract doctor").text


def test_an_administrator_can_switch_it_off(bare_shell, notebook, service, admin_file):
    admin_file.write_text("notifications = false")
    assert "administrator" in bare_shell.run("%tract notify --after 0").error
    with pytest.raises(AdminLimitError, match="notifications"):
        notebook.notifier.send("a", "b")
    admin_file.unlink()
    assert "seems to contain a key" in bare_shell.run(f"%tract notify {service.url}").error
    bare_shell.run("%tract notify off")
    with pytest.raises(OperationError, match="no address is set"):
        notebook.notifier.send("a", "b")


def test_the_link_is_the_address_of_the_running_server_without_its_token(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    server = {"url": "http://localhost:8888/base/", "root_dir": str(tmp_path), "token": "t0psecret"}
    for number, process in enumerate((os.getpid(), 2**22 + 1)):  # the second process does not run
        file = tmp_path / f"jpserver-{number}.json"
        file.write_text(
            json.dumps({**server, "pid": process, "url": server["url"].replace("8888", f"888{8 - number}")})
        )
        file.chmod(0o600)
    (tmp_path / "jpserver-2.json").write_text("broken")
    assert (
        link_to(tmp_path / "my birds" / "a.ipynb") == "http://localhost:8888/base/lab/tree/my%20birds/a.ipynb"
    )
    assert link_to(tmp_path.parent / "a.ipynb") == link_to(None) == ""
