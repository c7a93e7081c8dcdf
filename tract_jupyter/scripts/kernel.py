"""The kernel backend: a script as Python code of this process.

Nothing contains it: it reaches whatever the process reaches. What a model wrote runs here only after a person approved
it; the sandbox is for everything else.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import traceback
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ToolDeniedError, ToolExecutionError
from tract_jupyter.review.streams import captured
from tract_jupyter.scripts.result import ScriptError, ScriptStatus
from tract_jupyter.scripts.stopper import ScriptStopped
from tract_jupyter.toolkit.calling import calling

if TYPE_CHECKING:
    from types import CodeType

    from tract_jupyter.scripts.run import ScriptRun


NAMES = {"ToolDenied": ToolDeniedError, "ToolExecutionError": ToolExecutionError}
"""What a script can catch."""

_OURS = re.compile(r"^tract_jupyter\.exceptions\.", re.MULTILINE)  # scripts know the names alone
_ENDINGS = {"timed_out": ScriptStatus.TIMED_OUT, "interrupted": ScriptStatus.INTERRUPTED}


def run_in_kernel(run: ScriptRun, namespace: dict[str, Any]) -> None:
    """Run a script's code in a namespace, in the current thread; the outcome is put into `run`."""
    body, value = run.script.compiled()
    process = os.getpid()
    run.script.register()
    stopper = run.stopper
    with stopper.watched(lambda: run.meter.is_over_time):
        try:
            with captured(run.capture), calling(run.calls), stopper.stoppable():
                _evaluated(body, namespace)
                if value is not None:
                    run.value = _evaluated(value, namespace)
            run.status = ScriptStatus.COMPLETED
        except ScriptStopped:
            run.status = _ENDINGS[stopper.reason]
        except KeyboardInterrupt as error:
            run.status, run.error = ScriptStatus.INTERRUPTED, script_error(error, run.script.filename)
        except SystemExit as error:
            run.status = ScriptStatus.COMPLETED if not error.code else ScriptStatus.FAILED
            run.error = None if not error.code else script_error(error, run.script.filename)
        except BaseException as error:  # noqa: BLE001 # whatever a script raises is its result
            run.status, run.error = ScriptStatus.FAILED, script_error(error, run.script.filename)
        finally:
            if os.getpid() != process:
                # It forked: this process has a copy of the store's connection, and nothing more to do here.
                os._exit(0 if run.status is ScriptStatus.COMPLETED else 1)
            run.calls.end()


def _evaluated(code: CodeType, namespace: dict[str, Any]) -> Any:
    value = eval(code, namespace)  # noqa: S307 # the one place that runs a script in this process
    if code.co_flags & inspect.CO_COROUTINE:
        return asyncio.run(value)
    return value


def script_error(error: BaseException, filename: str) -> ScriptError:
    """Describe an exception, with the script's own lines and those of its causes."""
    shown = traceback.TracebackException.from_exception(error, compact=True)
    _own_lines_only(shown, filename)
    return ScriptError(type(error).__name__, _message(error), _OURS.sub("", "".join(shown.format())))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 # it is a script's own class
        return f"(no message: {type(broken).__name__})"


def _own_lines_only(shown: traceback.TracebackException | None, filename: str) -> None:
    """Remove the frames of this package and of libraries."""
    seen = set()
    while shown is not None and id(shown) not in seen:
        seen.add(id(shown))
        own = [frame for frame in shown.stack if frame.filename == filename]
        shown.stack = traceback.StackSummary.from_list(own)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
