"""Vectors of activation intervals: counters step by step, and rebuilt from a history."""

from __future__ import annotations

from typing import Any

from tract_jupyter.runs import Activation, CountedTurn, Counters, RunMessage, advance, replay, steps_of

_HISTORY = ("steps", "messages", "history", "entries", "branch")


def activation_steps(given: dict[str, Any]) -> dict[str, Any]:
    """Each run's answer and the counters after it."""
    activation, counters, views = _activation(given), _counters(given), []
    for step in given.get("steps") or ():
        run, counters = advance(activation, counters, _step(step))
        views.append({"run": run, **_view(counters)})
    return {"steps": views}


def activation_replay(given: dict[str, Any]) -> dict[str, Any]:
    """The counters that a history leaves, of one activation or of each operation."""
    ops = next((given[key] for key in ("ops", "operations") if key in given), [])
    by_id = {one["id"]: _replayed({**given, **one}) for one in ops}
    counters = _replayed(given)
    named = by_id or counters
    return {**counters, **by_id, "counters": named, "state": named, "results": by_id}


def _replayed(given: dict[str, Any]) -> dict[str, int]:
    found = _view(replay(_activation(given), _history(given), _counters(given)))
    return {**found, "turnsCounter": found["turns"], "tokensCounter": found["tokens"]}


def _history(given: dict[str, Any]) -> list[CountedTurn]:
    """The steps of a history: steps themselves, messages, or only their roles."""
    entries = next((given[key] for key in _HISTORY if given.get(key) is not None), [])
    entries = [{"role": one} if isinstance(one, str) else one for one in entries]
    if any("role" not in one for one in entries):
        return [_step(one) for one in entries]
    return steps_of([RunMessage(role=one["role"], content=_content(one)) for one in entries],
                    trigger_supported="generate" in (given.get("triggers") or ["generate"]))  # fmt: skip


def _activation(given: dict[str, Any]) -> Activation | None:
    found = given.get("activation")
    return None if found is None else Activation.from_dict(found)


def _counters(given: dict[str, Any]) -> Counters:
    start = given.get("start") or {}
    return Counters(start.get("turns") or 0, start.get("tokens") or 0)


def _step(step: dict[str, Any]) -> CountedTurn:
    return CountedTurn(
        step.get("source", "user_message"),
        step.get("contextTokens") or 0,
        step.get("triggerSupported", True),
    )


def _content(message: dict[str, Any]) -> str:
    return message["content"] if "content" in message else message.get("text", "x" * message.get("chars", 0))


def _view(counters: Counters) -> dict[str, int]:
    return {"turns": counters.turns, "tokens": counters.tokens}
