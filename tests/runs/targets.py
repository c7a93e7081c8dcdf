"""The target of a run without its other parts."""

from __future__ import annotations

from typing import Any

from tract_jupyter.runs import TractTarget


def target_of(tract: Any, run: str = "run", session: str | None = None) -> TractTarget:
    engine = tract._parts.engine
    return TractTarget(tract._repository, run, engine.reports, engine.artifacts, session=session)
