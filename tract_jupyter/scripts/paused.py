"""A paused script as data: what its question keeps of it, so that any process can go on with it."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tract_jupyter.scripts.budget import Budget
from tract_jupyter.scripts.run import Run
from tract_jupyter.scripts.source import Script
from tract_jupyter.toolkit.profiles import ToolConfig, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.review.origins import Stretch

MOST_BYTES = 5_000_000
"""Of a program that is kept in the store; a larger one waits in its process only."""


def saved(run: Run, snapshot: bytes, *, call: Stretch, names: Collection[str]) -> dict[str, Any]:
    """Where a run stands: the program itself, what it showed, and what it used of its budget."""
    return {
        "code": run.script.code,
        "first_line": run.script.first_line,
        "call": list(call),
        "notebook_id": run.notebook_id,
        "names": sorted(names),
        "author": run.author,
        "profile": _profile_as_data(run.calls.profile),
        "snapshot": base64.b64encode(snapshot).decode(),
        "outputs": [{"kind": output.kind, "text": output.text} for output in run.capture.outputs()],
        "calls": run.meter.calls - 1,  # the one that it waits for is made later
        "argument_size": run.calls.argument_size,
        "result_size": run.calls.result_size,
        "seconds": run.meter.seconds,
        "budget": asdict(run.meter.budget),
    }


def taken_up(state: dict[str, Any]) -> tuple[Run, bytes]:
    """The run as it stood, and its program."""
    run = Run(
        Script(state["code"], state["first_line"]),
        backend="sandbox",
        notebook_id=state["notebook_id"],
        budget=Budget(**state["budget"]),
        author=state["author"],
    )
    run.calls.profile = _profile_of(state["profile"])
    for output in state["outputs"]:
        run.capture.write(output["kind"], output["text"])
    run.meter.go_on(calls=state["calls"], result_bytes=state["result_size"], seconds=state["seconds"])
    run.calls.go_on(state["calls"], state["argument_size"], state["result_size"])
    return run, base64.b64decode(state["snapshot"])


def _profile_as_data(profile: ToolProfile | None) -> dict[str, Any] | None:
    if profile is None:
        return None
    tools = [name for name, config in profile.tool_configs.items() if config.enabled]
    left_out = [name for name, config in profile.tool_configs.items() if not config.enabled]
    return {"name": profile.name, "tools": tools, "left_out": left_out, "has_others": profile.has_others}


def _profile_of(data: dict[str, Any] | None) -> ToolProfile | None:
    """The profile that the script is bound to, as it was when it began."""
    if data is None:
        return None
    configs = dict.fromkeys(data["tools"], ToolConfig()) | dict.fromkeys(
        data["left_out"], ToolConfig(enabled=False)
    )
    return ToolProfile(data["name"], configs, has_others=data["has_others"])
