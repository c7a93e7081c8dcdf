"""An outside agent that follows a script, and a user who decides about its requests."""

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tract_jupyter import Tract, mcp_server
from tract_jupyter.outside import AgentSettings
from tract_jupyter.outside import agents as table
from tract_jupyter.review import Answer, personal_channel
from tract_jupyter.toolkit import HttpServer

FAKE = Path(__file__).with_name("fake_agent.py")
TOKEN = "t" * 43


def command(**script):
    """Return the command line of the agent with a script; its prompts are lists of steps."""
    return shlex.join([sys.executable, "-I", "-S", str(FAKE), json.dumps(script)])


def call(call_id="c1", **fields):
    """Return a call as agents send it."""
    return {"toolCallId": call_id, "title": "Write new.py", "kind": "edit", "status": "pending", **fields}


def writing(path="new.py", text="print(1)\n", **more):
    """Return the steps of a write with a diff in the request."""
    about = call(content=[{"type": "diff", "path": path, "oldText": None, "newText": text}])
    return [["call", about], ["ask", {"call": about, "does": [["write", path, text]], **more}]]


class User:
    """Decides about requests: `answers` are (action, arguments), in order; the last one repeats."""

    def __init__(self):
        self.requests = []
        self.answers = [("approve", {})]

    async def decide(self, request):
        self.requests.append(request)
        action, arguments = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Answer(action, arguments)

    def rejects(self, reason=""):
        self.answers = [("reject", {"reason": reason})]


@pytest.fixture
def user():
    return User()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def tract(folder, tmp_path, user):
    with Tract.open(tmp_path / "store.db") as opened:
        opened.reviewer.channel = personal_channel("test")(user.decide)
        yield opened


@pytest.fixture
def log(tmp_path):
    """A function that returns what the agent got and noted."""
    path = tmp_path / "log.jsonl"
    path.touch()

    class Log:
        place = str(path)

        def entries(self, key=None):
            found = [json.loads(line) for line in path.read_text().splitlines()]
            return found if key is None else [one[key] for one in found if key in one]

        def sent(self, method):
            return [one["params"] for one in self.entries() if one.get("method") == method]

    return Log()


@pytest.fixture
def known(monkeypatch):
    """A function that adds a known agent with a script, and returns its name."""

    def add(name="fake", *, settings=None, **script):
        one = AgentSettings(
            name=name, title=name.capitalize(),
            **{"command": tuple(shlex.split(command(**script))), "mode": "default", **(settings or {})},
        )  # fmt: skip
        monkeypatch.setattr(table, "AGENTS", (one,))
        return name

    return add


@pytest.fixture
def chat(tract):
    """A function that runs a turn, and returns its response and its events, which a list can take while it runs."""

    def run(agent, text="Do it.", events=None, **options):
        events = [] if events is None else events
        response = tract.chat(text, agent=agent, on_turn=events.append, **options)
        return response, events

    return run


@pytest.fixture
def serve(tract):
    """A function that serves a profile of the tract to the agent, as a notebook does."""
    servers = []

    def start(profile):
        server = HttpServer(lambda: mcp_server(tract, profile), TOKEN)
        server.start()
        servers.append(server)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        tract.outside.server = lambda: SimpleNamespace(name="kernel_1", url=server.url, headers=headers)

    yield start
    for server in servers:
        server.stop()
