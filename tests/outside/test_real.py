"""Real outside agents with a scripted model. Skipped without the folder `TRACT_AGENTS_FOLDER` of the benchmark."""

import os
from pathlib import Path

import pytest

from benchmarks.outside_scripts import AGENTS, PASSED, write_home
from benchmarks.scripted_model import OVER, ScriptedModel, scripted

pytestmark = pytest.mark.slow
FIND = {
    "claude": [{"tool": ["ToolSearch"], "input": {"query": "ring_bird", "max_results": 9}}],
    "codex": [{"tool": ["tool_search"], "input": {"query": "ring_bird", "limit": 9}}],
    "gemini": [],
    "opencode": [],
}
"""The steps with which an agent finds the tools of an MCP server."""


@pytest.fixture
def model(tmp_path, folder, monkeypatch):
    """A scripted model for real agents, whose settings are in a home folder of their own."""
    programs = Path(os.environ.get("TRACT_AGENTS_FOLDER", ""), "node_modules/.bin")
    if not os.environ.get("TRACT_AGENTS_FOLDER") or not programs.is_dir():
        pytest.skip("TRACT_AGENTS_FOLDER has no agents")
    scripted_model = ScriptedModel()
    home = tmp_path / "home"
    for name, value in write_home(home, folder, scripted_model.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return scripted_model


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_of_the_tree_calls_its_granted_tools_and_no_others(agent, model, tract, user):
    ringed = []

    @tract.tool
    def ring_bird(name: str) -> str:
        """Ring a bird."""
        ringed.append(name)
        return f"{name} has a ring"

    @tract.tool
    def free_bird(name: str) -> str:
        """Free a bird."""
        ringed.remove(name)
        return f"{name} is free"

    tract.outside.use(agent, env=PASSED)
    tract.agents.create("ringer", "You ring birds.", "Rings.", runtime=agent, tools=["ring_bird"])
    user.answers = [("approve", {}), ("reject", {"reason": "no more rings"})]
    calls = [{"tool": ["*ring_bird"], "input": {"name": name}} for name in ("Ada", "Bea")]
    answer = tract.agents.call(
        "ringer", f"Please do this. {scripted([*FIND[agent], *calls, {'text': OVER}])}"
    )
    assert OVER in answer
    assert ringed == ["Ada"]
    assert model.got("Ada has a ring")
    assert model.got("no more rings")
    assert not model.got("Free a bird.")
    (done,) = tract.agents.calls_of("ringer")
    assert done.used["calls"] >= 2
    assert [request.title for request in user.requests] == ["Call tool ring_bird"] * 2
