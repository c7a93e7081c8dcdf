"""Vectors of activation intervals: counters step by step, and rebuilt from a history."""

from __future__ import annotations

from typing import Any

from tract_jupyter.runs.activation import Counters, Step, advance, replay, steps_of
from tract_jupyter.runs.model import Activation, RunMessage


def activation_steps(given: dict[str, Any]) -> dict[str, Any]:
    """Each run's answer and the counters after it."""
    activation, counters, views = _activation(given), _counters(given), []
    for step in given["steps"]:
        run, counters = advance(activation, counters, _step(step))
        views.append({"run": run, **_view(counters)})
    return {"steps": views}


def activation_replay(given: dict[str, Any]) -> dict[str, Any]:
    """The counters that a history leaves."""
    if "steps" in given:
        steps = [_step(step) for step in given["steps"]]
    else:
        messages = next(
            (given[key] for key in ("messages", "history", "entries", "branch") if key in given), []
        )
        steps = steps_of([RunMessage(role=one["role"], content=_content(one)) for one in messages],
                         trigger_supported="generate" in given.get("triggers", ["generate"]))  # fmt: skip
    counters = _view(replay(_activation(given), steps, _counters(given)))
    return {**counters, "counters": counters, "state": counters, "turnsCounter": counters["turns"],
            "tokensCounter": counters["tokens"]}  # fmt: skip


def _activation(given: dict[str, Any]) -> Activation | None:
    found = given.get("activation")
    return None if found is None else Activation.from_dict(found)


def _counters(given: dict[str, Any]) -> Counters:
    start = given.get("start") or {}
    return Counters(start.get("turns", 0), start.get("tokens", 0))


def _step(step: dict[str, Any]) -> Step:
    return Step(
        step.get("source", "user_message"), step.get("contextTokens", 0), step.get("triggerSupported", True)
    )


def _content(message: dict[str, Any]) -> str:
    return message["content"] if "content" in message else message.get("text", "x" * message.get("chars", 0))


def _view(counters: Counters) -> dict[str, int]:
    return {"turns": counters.turns, "tokens": counters.tokens}
