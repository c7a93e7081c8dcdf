"""Between a stub and the executor: raises on failure, returns the bare result, logs the call."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.toolkit.calling import current_caller
from tract_jupyter.toolkit.permissions import USER
from tract_jupyter.toolkit.savings import TokenSavings, estimate_savings, rough_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.hooks.builtin.tool_question import Choice
    from tract_jupyter.toolkit.executor import ToolExecutor

_LOG_LENGTH = 10_000


class CallRecord(NamedTuple):
    """One call. Sizes are in characters of JSON, roughly; the duration is in seconds.

    A named tuple: one is made at every call, and a frozen dataclass takes four times as long to make.
    """

    tool: str
    arguments: Mapping[str, Any]
    actor: str
    success: bool
    error: str
    duration: float
    argument_size: int
    result_size: int


class ToolBridge:
    """Calls tools for code.

    Attributes:
        call_log: the newest 10,000 calls, oldest first.
    """

    def __init__(self, executor: ToolExecutor, *, actor: str = USER) -> None:
        self.executor = executor
        self.actor = actor
        self.call_log: deque[CallRecord] = deque(maxlen=_LOG_LENGTH)

    def call(self, name: str, arguments: Mapping[str, Any], *, is_approved: bool | Choice = False) -> Any:
        """Call a tool and return its bare result; within a script, as that script.

        `is_approved`: this call was decided about already; or what was chosen then.

        Raises:
            ToolDeniedError: it was not allowed.
            ToolExecutionError: anything else that went wrong; the cause is `__cause__`.
        """
        __tracebackhide__ = True
        started = perf_counter()
        script, executor = current_caller(), self.executor
        if script is None:
            result = executor.execute(name, arguments, actor=self.actor, is_approved=is_approved)
        else:
            result = script.execute(executor, name, arguments)
        duration = perf_counter() - started
        if not result.replayed:
            self.call_log.append(
                CallRecord(
                    name, arguments, script.actor if script else self.actor, result.success, result.error, duration,
                    rough_size(arguments), rough_size(result.output),
                )
            )  # fmt: skip
        return result.output if result.success else result.value(arguments)

    def savings(self) -> TokenSavings:
        """What the logged calls would have cost in tokens, had a model made them one by one."""
        return estimate_savings(self.call_log)
