"""A cassette of another user: each call of its model needs approval, like any call."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.review.fakes import FakeChannel
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import TractError
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
