"""The kernel backend: it runs a script as Python code of this process.

Nothing restricts the script. It has all permissions of the process. A model's code runs here only after the user
approved it. All other code runs in the sandbox.

Script notebooks keep variables from script to script. A script notebook is a namespace of this process with an id.
"""

from __future__ import annotations

import asyncio
import builtins
import inspect
import os
import re
import sys
import traceback
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tract_jupyter.exceptions import ScriptFailedError, ToolDeniedError, ToolExecutionError, nearest
from tract_jupyter.review import captured
from tract_jupyter.scripts.result import ScriptError, ScriptStatus
from tract_jupyter.scripts.script import MAIN, OWN
from tract_jupyter.scripts.stopper import ScriptStopped
from tract_jupyter.toolkit import call_context, calling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from types import CodeType

    from tract_jupyter.scripts.run import ScriptRun
    from tract_jupyter.toolkit import ToolExecutor


NAMES = {"ToolDenied": ToolDeniedError, "ToolExecutionError": ToolExecutionError}
"""The errors that a script can catch by name."""

_OURS = re.compile(r"^tract_jupyter\.exceptions\.", re.MULTILINE)  # scripts know the names alone
_ENDINGS = {"timed_out": ScriptStatus.TIMED_OUT, "interrupted": ScriptStatus.INTERRUPTED}


def run_in_kernel(run: ScriptRun, namespace: dict[str, Any], executor: ToolExecutor) -> None:
    """Run a script's code in a namespace, in the current thread. Store the outcome in `run`."""
    body, value = run.script.compiled(has_tools=_has_tools(namespace))
    process = os.getpid()
    run.script.register()
    stopper, figures = run.stopper, open_figures()
    with stopper.watched(lambda: run.meter.is_over_time):
        try:
            with captured(run.capture), calling(run.calls, executor), stopper.stoppable():
                run.calls.begin()
                _evaluated(body, namespace)
                if value is not None:
                    run.value = _evaluated(value, namespace)
            run.status = ScriptStatus.COMPLETED
        except ScriptStopped:
            run.status = _ENDINGS[stopper.signal.reason]
        except KeyboardInterrupt as error:
            run.status, run.error = ScriptStatus.INTERRUPTED, script_error(error, run.script.filename)
        except SystemExit as error:
            run.status = ScriptStatus.COMPLETED if not error.code else ScriptStatus.FAILED
            run.error = None if not error.code else script_error(error, run.script.filename)
        except BaseException as error:  # noqa: BLE001 # any exception of a script is its result
            run.status, run.error = ScriptStatus.FAILED, script_error(error, run.script.filename)
        finally:
            if os.getpid() != process:
                # The script forked. This process has a copy of the store's connection and must end here.
                os._exit(0 if run.status is ScriptStatus.COMPLETED else 1)
            run.calls.end()
    new = open_figures() - figures
    if new and not was_left():
        run.drawn = sorted(new, key=lambda figure: getattr(figure, "number", 0))


def was_left() -> bool:
    """Return True if the script's turn ended before the script. Then newer figures may belong to the user."""
    notes = call_context().notes
    return notes is not None and notes.is_left


def _has_tools(namespace: Mapping[str, Any]) -> bool:
    """Return True unless `tools` is a module that the user imported from a file."""
    return "tools" in namespace and getattr(namespace["tools"], "__spec__", None) is None


def _evaluated(code: CodeType, namespace: dict[str, Any]) -> Any:
    value = eval(code, namespace)  # noqa: S307 # the one place that runs a script in this process
    if code.co_flags & inspect.CO_COROUTINE:
        with _outside_of_loop():
            return asyncio.run(value)
    return value


@contextmanager
def _outside_of_loop() -> Iterator[None]:
    """Let a new event loop run in this thread. The main thread of a kernel has a running one."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 # for another loop in this thread, as debuggers do
    if loop is None:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)  # noqa: SLF001 # the same
    asyncio._set_running_loop(None)  # noqa: SLF001 # the same
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001 # the same
        if task is not None:
            asyncio.tasks._enter_task(loop, task)  # noqa: SLF001 # the same


def script_error(error: BaseException, filename: str) -> ScriptError:
    """Describe an exception and its causes, with the script's own lines only."""
    report = traceback.TracebackException.from_exception(error, compact=True)
    _own_lines_only(report, filename)
    return ScriptError(type(error).__name__, _message(error), _OURS.sub("", "".join(report.format())))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 # it is a script's own class
        return f"(no message: {type(broken).__name__})"


def _own_lines_only(report: traceback.TracebackException | None, filename: str) -> None:
    """Remove the frames of this package and of libraries."""
    seen = set()
    while report is not None and id(report) not in seen:
        seen.add(id(report))
        frames = [frame for frame in report.stack if frame.filename == filename]
        report.stack = traceback.StackSummary.from_list(frames)
        report = report.__cause__ or (None if report.__suppress_context__ else report.__context__)


def open_figures() -> set[Any]:
    """Return the open figures. A notebook shows them below the cell, and scripts do not see them there."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return set()
    return {manager.canvas.figure for manager in helpers.Gcf.get_all_fig_managers()}


USER = ""
"""The id that stands for the user's own namespace."""

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_MOST = 100
_Notebook = TypeVar("_Notebook")


class ScriptNotebooks:
    """The script notebooks of this process, by id.

    `user_cells` returns the cells that ran in the namespace of the notebook's user. `user_hidden` returns the names in
    it that are not the user's, with their values.
    """

    def __init__(self, shared_names: Callable[[], Mapping[str, Any]]) -> None:
        self.user_namespace: dict[str, Any] | None = None
        self.user_cells: Callable[[], list[str]] = list
        self.user_hidden: Callable[[], Mapping[str, Any]] = dict
        self._ran: dict[str, list[tuple[int, str]]] = {}
        self._shared_names = shared_names
        self._notebooks: dict[str, dict[str, Any]] = {}

    def resolved(self, notebook_id: str | None) -> str:
        """Return the internal id. Without an id, use the user's own namespace, or `main` if there is none."""
        if notebook_id is None:
            return MAIN if self.user_namespace is None else USER
        if notebook_id == OWN:
            if self.user_namespace is None:
                raise ScriptFailedError(
                    f"{OWN!r} is the notebook of the user, which does not exist here; use another id"
                )
            return USER
        return checked_id(notebook_id)

    def namespace(self, notebook_id: str, *, fresh: bool = False) -> dict[str, Any]:
        """Return the namespace of a notebook. Create it on first use."""
        if notebook_id == USER and self.user_namespace is not None:
            if fresh:
                raise ScriptFailedError(
                    "--fresh would clear your own namespace; use a script notebook: --notebook ID"
                )
            namespace = self.user_namespace
        else:
            namespace = self._opened(notebook_id, fresh=fresh)
        self.restore(namespace)
        return namespace

    def restore(self, namespace: dict[str, Any]) -> None:
        """Restore the names of every namespace if a script removed them. Keep the user's own values."""
        is_users = namespace is self.user_namespace
        for name, value in self._shared_names().items():
            if not is_users:
                namespace[name] = value
            elif name != "tools":  # the extension's own is there, if the user wants it
                namespace.setdefault(name, value)

    def namespaces(self) -> list[dict[str, Any]]:
        """Return all namespaces."""
        return [self.user_namespace or {}, *self._notebooks.values()]

    def note(self, notebook_id: str, code: str) -> None:
        """Record the code of a script."""
        cells = len(self.user_cells()) if notebook_id == USER else 0
        self._ran.setdefault(notebook_id, []).append((cells, code))

    def ran_code(self, notebook_id: str) -> list[str]:
        """Return the code that ran in a notebook, oldest first: the user's cells and scripts."""
        identity = USER if notebook_id == OWN else notebook_id
        code = self.user_cells() if identity == USER else []
        code = list(code)
        for cells, script in reversed(self._ran.get(identity, ())):
            code.insert(cells, script)
        return code

    def sizes(self) -> dict[str, int]:
        """Return the number of variables of each notebook, by id."""
        return {notebook_id: len(self.variables(notebook_id)) for notebook_id in self._notebooks}

    def variables(self, notebook_id: str) -> dict[str, str]:
        """Return a notebook's variables with their types, `{"rows": "list[12]"}`, without names with a leading `_`."""
        namespace = self._existing(notebook_id)
        hidden = {**self._shared_names(), **(self.user_hidden() if notebook_id == OWN else {})}
        return {
            name: _kind(value)
            for name, value in namespace.copy().items()  # a cell of the user may run meanwhile
            if not name.startswith("_")
            and not isinstance(value, ModuleType)
            and not (name in hidden and hidden[name] is value)
        }

    def reset(self, notebook_id: str) -> int:
        """Delete a notebook's variables, and return their number."""
        if notebook_id == OWN:
            raise ScriptFailedError(
                "the user's own variables are not cleared; delete single names with a script"
            )
        count = len(self.variables(notebook_id))
        self._notebooks[notebook_id] = _empty()
        self._ran.pop(notebook_id, None)
        return count

    def create(self, notebook_id: str) -> None:
        """Create a notebook."""
        check_new(checked_id(notebook_id), self._notebooks)
        self._opened(notebook_id)

    def _opened(self, notebook_id: str, *, fresh: bool = False) -> dict[str, Any]:
        if fresh or notebook_id not in self._notebooks:
            check_room(notebook_id, self._notebooks)
            self._ran.pop(notebook_id, None)
            self._notebooks[notebook_id] = _empty()
        return self._notebooks[notebook_id]

    def _existing(self, notebook_id: str) -> dict[str, Any]:
        context = call_context()
        # a program for which the user started the endpoint; not an agent of the tree, whose maker could not do it
        is_served = context.outside is not None and context.agent is None
        if notebook_id == OWN and self.user_namespace is not None and is_served:
            return self.user_namespace
        return self._opened(MAIN) if notebook_id == MAIN else existing(notebook_id, self._notebooks)


def checked_id(notebook_id: str) -> str:
    """Return a valid id unchanged."""
    if not isinstance(notebook_id, str) or not _ID.fullmatch(notebook_id):
        raise ScriptFailedError(
            f"invalid id {notebook_id!r:.80} of a script notebook; use up to 64 letters, digits, '_', '-' and '.'"
        )
    return notebook_id


def check_new(notebook_id: str, notebooks: Collection[str]) -> None:
    """Check that no notebook has this id."""
    if notebook_id == OWN:
        raise ScriptFailedError(f"{OWN!r} is the notebook of the user; give the new one another id")
    if notebook_id in notebooks:
        raise ScriptFailedError(
            f"the script notebook {notebook_id!r} already exists; run code in it, or give the new one another id"
        )


def check_room(notebook_id: str, notebooks: Collection[str]) -> None:
    """Check that there is room for one more notebook."""
    if notebook_id not in notebooks and len(notebooks) >= _MOST:
        raise ScriptFailedError(f"there are {_MOST} script notebooks already; use one of them")


def existing(notebook_id: str, notebooks: Mapping[str, _Notebook]) -> _Notebook:
    """Return the notebook with an id."""
    notebook = notebooks.get(notebook_id)
    if notebook is None:
        known = ", ".join(notebooks) or "none yet"
        close = nearest(str(notebook_id), notebooks)
        raise ScriptFailedError(f"no script notebook {notebook_id!r:.80}.{close} Known notebooks: {known}")
    return notebook


def _empty() -> dict[str, Any]:
    return {"__name__": "__main__", "__builtins__": builtins}


def _kind(value: Any) -> str:
    """Describe a value briefly (`int`, `list[12]`, `ndarray(2, 3)`) without running its code."""
    kind = type(value)
    if kind in {str, bytes, list, tuple, dict, set, frozenset}:
        return f"{kind.__name__}[{len(value)}]"
    if kind.__module__.partition(".")[0] in {"numpy", "pandas", "polars", "torch"}:
        return f"{kind.__name__}{tuple(getattr(value, 'shape', ()))}"
    return kind.__name__
