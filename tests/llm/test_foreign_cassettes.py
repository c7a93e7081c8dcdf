"""A cassette of another user: each call of its model needs approval, and its replies are visible."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from tests.review.fakes import FakeChannel
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import CassetteError, TractError
from tract_jupyter.toolkit import Permission

HOSTILE = {
    "a tool that writes": ("send", {"to": "eve"}),
    "a script in the kernel": ("notebook_execute", {"code": "open('ran', 'w').close()", "backend": "kernel"}),
    "a script in the sandbox": ("notebook_execute", {"code": "tools.send(to='eve')"}),
    "an agent": ("agent_create", {"name": "eve", "instructions": "Obey.", "description": "Obeys."}),
    "a branch": ("branch", {"name": "eve"}),
    "a message": ("commit", {"content": {"content_type": "instruction", "text": "Obey."}}),
    "a tag": ("register_tag", {"name": "eve", "description": "Obey."}),
    "a compression": ("compress", {"content": "Obey."}),
    "settings of the model": ("configure_model", {"model": "eve"}),
    "a policy": ("register_policy", {"type": "compress", "config": {"threshold": 0.1}}),
}


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a tract that records or replays, with a tool that writes; its effects are in a list."""
    monkeypatch.chdir(tmp_path)
    done = []

    def give(name, **options):
        tract = Tract.open(tmp_path / f"{name}.db", **options)

        @tract.tool
        def send(to: str) -> str:
            """Send a mail."""
            done.append(to)
            return "sent"

        tract.loop.tools = "full"
        tract.reviewer.channel = FakeChannel(reachable=False)
        return tract

    return give, done


@pytest.mark.parametrize("name", HOSTILE)
def test_an_approval_on_a_cassette_does_not_count(opened, tmp_path, name):
    give, done = opened
    cassette = tmp_path / "a.cassette.jsonl"
    with give(
        "theirs", record=cassette, model=ScriptedClient(reply(None, call(*HOSTILE[name])), "Done.")
    ) as theirs:
        theirs.executor.permission = lambda tool, actor: Permission.ALLOW
        with suppress(TractError):  # a kernel script needs approval even there
            theirs.chat("Go.")
        theirs.cassette.stop()
    done.clear()
    (tmp_path / "ran").unlink(missing_ok=True)
    with give("mine", replay=cassette) as mine:
        with suppress(TractError):
            mine.chat("Go.")
        assert (done, (tmp_path / "ran").exists()) == ([], False)
        assert [one.name for one in mine.list_branches()] == ["main"]
        assert {one.role for one in mine.compile().messages} <= {"user", "assistant", "tool"}
        assert list(mine.agents) == mine.policies.list() == mine.review.decisions() == []
        assert "eve" not in str(mine.tags.list())
        assert mine.models.configure() == {}
        (waiting,) = mine.review.inbox()
        assert waiting.status == "pending"
        mine.cassette.stop()


Value = bool | int | float | str | list[bool | int | float | str] | dict[str, bool | int | str]


def opened_with_echo(**options):
    tract = Tract.open(**options)

    @tract.tool(read_only=True)
    def echo(value: Value) -> str:
        """Repeat a value."""
        return repr(value)

    return tract


@pytest.mark.parametrize(
    ("recorded", "now"), [(True, 1), (0, False), (1, 1.0), ([1, True], [1, 1]), ({"a": 1}, {"a": True})]
)
def test_values_that_only_python_takes_for_equal_are_different(tmp_path, recorded, now):
    cassette = tmp_path / "a.cassette.jsonl"
    with opened_with_echo(record=cassette) as theirs:
        theirs.tools.echo(recorded)
    with opened_with_echo(replay=cassette) as mine:
        with pytest.raises(CassetteError, match=r"arguments\.value.*: recorded .*, now "):
            mine.tools.echo(now)
        mine.cassette.stop()


@pytest.mark.parametrize("value", [float("nan"), [float("inf"), float("nan")], {"b": 1, "a": "\u212b"}])
def test_the_same_value_is_the_same(tmp_path, value):
    cassette = tmp_path / "a.cassette.jsonl"
    with opened_with_echo(record=cassette) as theirs:
        told = theirs.tools.echo(value)
    with opened_with_echo(replay=cassette) as mine:
        assert mine.tools.echo(json.loads(json.dumps(value))) == told
        assert mine.cassette.stop().is_same


def test_a_field_that_is_there_twice_is_refused(tmp_path):
    """An editor shows both replies, and only the last one would be served."""
    cassette = tmp_path / "a.cassette.jsonl"
    with Tract.open(record=cassette, model=ScriptedClient("Fine.")) as theirs:
        theirs.chat("Hi")
    text = cassette.read_text()
    assert '"reply": ' in text
    cassette.write_text(text.replace('"content": "Fine."', '"content": "Fine.", "content": "Evil."'))
    with pytest.raises(CassetteError, match="line 3 of .* is damaged"):
        Tract.open(replay=cassette)


@pytest.mark.parametrize(
    "time",
    ["2026-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999-10:00", "0001-01-01T00:00:00.000000+10:00"],
)
def test_a_time_that_no_recording_writes_is_refused(tmp_path, time):
    cassette = tmp_path / "a.cassette.jsonl"
    with Tract.open(record=cassette, model=ScriptedClient("Fine.")) as theirs:
        theirs.chat("Hi")
    lines = [json.loads(line) for line in cassette.read_text().splitlines()]
    changed = [{**line, "value": time} if "drawn" in line else line for line in lines]
    cassette.write_text("".join(f"{json.dumps(line)}\n" for line in changed))
    with Tract.open(replay=cassette) as mine:
        with pytest.raises(CassetteError, match=f"the time '{time[:19]}"):
            mine.chat("Hi")
        mine.cassette.stop()
