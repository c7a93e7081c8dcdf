"""Agents: creating one, the cost of a call without its model, and drawing the tree of many agents."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from benchmarks.places import tract_on_disk
from benchmarks.timing import SAMPLES, Row, best_of, fastest, time_call
from tract_jupyter.agents import TreeLimits
from tract_jupyter.models import Allowance
from tract_jupyter.notebook.agents import AgentWatch, drawn_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter import Tract

MANY: Final = 200
_LIMITS: Final = TreeLimits(count=10_000, budget=Allowance(steps=1_000_000), agent=Allowance(steps=1_000_000))
_TEXT: Final = "You check sums. Answer with the sum alone.\n" * 20


def _model(messages: list[dict[str, Any]], **_options: Any) -> dict[str, Any]:
    """Answer with one word."""
    usage = {"prompt_tokens": len(messages), "completion_tokens": 2, "total_tokens": len(messages) + 2}
    message = {"role": "assistant", "content": "Three."}
    return {"choices": [{"message": message}], "model": "scripted", "usage": usage}


def rows() -> Iterator[Row]:
    """Measure with a store in a file, as in a notebook."""
    yield from _making_and_calling()
    yield from _tree()


def _making_and_calling() -> Iterator[Row]:
    with tract_on_disk() as tract:
        tract.models.use(_model)
        tract.agents.limits = _LIMITS
        numbers = count()
        yield Row("agents.create", best_of(lambda: _made(tract, next(numbers))), "ms", target=10)
    yield Row("agents.call, besides its model", _called(1), "ms", target=5)
    yield Row(f"agents.call, besides its model, one of {MANY} agents", _called(MANY), "ms")


def _called(agents: int) -> float:
    """Return the seconds of a call of one of many agents, without its model."""
    with tract_on_disk() as tract:
        tract.models.use(_model)
        tract.agents.limits = _LIMITS
        for number in range(agents):
            _made(tract, number)
        bare = best_of(lambda: _model([{"role": "user", "content": "1 + 2"}]))
        # each call makes the next one a little slower
        return fastest(lambda: tract.agents.call("agent_0", "1 + 2"), 4 * SAMPLES) - bare


def _tree() -> Iterator[Row]:
    with tract_on_disk() as tract:
        tract.models.use(_model)
        tract.agents.limits = _LIMITS
        for number in range(MANY):
            _made(tract, number)
            tract.agents.call(f"agent_{number}", "1 + 2")
        watch = AgentWatch(tract)
        first = time_call(lambda: drawn_tree(watch).to_html())
        yield Row(f"tree of {MANY} agents, the first time", first, "ms", target=200)
        yield Row(
            f"tree of {MANY} agents, again", best_of(lambda: drawn_tree(watch).to_html()), "ms", target=200
        )


def _made(tract: Tract, number: int) -> object:
    return tract.agents.create(f"agent_{number}", _TEXT, "Checks sums.")
