"""The questions about notebook tasks, if the user decides about everything, and if the model may look without asking.

A model does a task in one turn, with one script after another. It looks at the variables and files that the task
names, does the task, and looks at the changes:

* A table: the first rows, then the types. A file: the files of the folder, then its beginning. Another value: itself.
* The task.
* All changed variables and files, in one script. A task without effects, or with an error, is not checked.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import os
import random
import tempfile
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from tests.rehearsal.tasks import FILES, TASKS, TOOL_TASKS, World, started
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.review import KEEP, Answer, ReviewRequest, personal_channel
from tract_jupyter.scripts import looking

if TYPE_CHECKING:
    from collections.abc import Iterator

_logger = logging.getLogger(__name__)

_VALUES: Final = (int, float, str, list, dict, np.ndarray)


class Questions(NamedTuple):
    """The questions about tasks.

    Attributes:
        tasks: The tasks.
        always: The questions, if the user decides about each script, and about each call that writes.
        looking: The questions, if scripts without effects do not ask.
    """

    tasks: int
    always: int
    looking: int


def count_questions(each: int = 1) -> Questions:
    """Do the tasks, and count the questions.

    Args:
        each: 1 for all tasks, 2 for every second one.
    """
    counted = [_count(task) for task in [*TASKS.values(), *TOOL_TASKS.values()][::each] if _can_run(task)]
    return Questions(*map(sum, zip(*counted, strict=True)))


def _can_run(task: Any) -> bool:
    needs = getattr(task, "needs", "")
    return not needs or importlib.util.find_spec(needs) is not None


def _count(task: Any) -> Questions:
    requests: list[ReviewRequest] = []

    @personal_channel("benchmark")
    async def ask(request: ReviewRequest) -> Answer:
        """Keep the effects; if that is not possible, run the script, unless the copy refused an attempt."""
        requests.append(request)
        _logger.info("%s %s", request.title, request.why)
        names = [action.name for action in request.actions]
        is_refused = request.effects is not None and bool(request.effects.refused)
        return Answer(KEEP if KEEP in names else "reject" if is_refused else "approve", decided_by="user")

    with _workspace() as folder, Tract.open() as tract:
        tract.reviewer.channel = ask
        tract.review.grants.begin_rule(looking(), KEEP)
        World().define_tools(tract)
        namespace = {**started(folder), "tools": tract.tools}
        tract.scripts.notebooks.user_namespace = namespace
        scripts = dict.fromkeys([*_looks(task.code, namespace), task.code, *_checks(task)])
        tract.loop.tools = "self"
        calls = [call("notebook_execute", _script(code), f"c{number}") for number, code in enumerate(scripts)]
        tract.configure_llm(ScriptedClient(*[reply(None, one) for one in calls], "Done."))
        tract.chat("Do the task.")
        if tract.scripts.rehearsing.rehearser is not None:
            tract.scripts.rehearsing.rehearser.close()
    about_calls = sum(request.effects is None for request in requests)
    return Questions(1, len(scripts) + about_calls, len(requests))


def _script(code: str) -> dict[str, str]:
    return {"code": code, "backend": "kernel", "notebook_id": "user"}


def _looks(code: str, namespace: dict[str, Any]) -> Iterator[str]:
    """Yield the scripts that look at the first table or value, and at the first file, that the code names."""
    names = _names(code)
    table = next((name for name in names if isinstance(namespace.get(name), pd.DataFrame)), "")
    value = next((name for name in names if isinstance(namespace.get(name), _VALUES)), "")
    file = next((path for path in FILES if path in code), "")
    if table:
        yield from (f"{table}.head()", f"{table}.dtypes")
    elif value:
        yield value
    if file:
        yield f"sorted(os.listdir({str(Path(file).parent)!r}))"
        yield f"print(pathlib.Path({file!r}).read_text()[:500])"


def _names(code: str) -> list[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _checks(task: Any) -> Iterator[str]:
    """Yield the script that looks at the changes."""
    changes = task.changed if hasattr(task, "changed") else f"{task.variables} {task.files}"
    if getattr(task, "error", "") or getattr(task, "ending", "finished") != "finished":
        return
    lines = [
        f"print(pathlib.Path({name!r}).exists())"
        if "." in name or "/" in name
        else f"print({name!r} in globals(), repr(globals().get({name!r}))[:200])"
        for name in (change[1:] for change in changes.split())
    ]
    if lines:
        yield "\n".join(lines)


@contextmanager
def _workspace() -> Iterator[Path]:
    """Yield an empty working folder. Settings that tasks change are restored."""
    states, mode = (random.getstate(), np.random.get_state()), os.environ.pop("MODE", None)  # noqa: NPY002
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        pd.option_context("display.max_rows", 60),
        np.printoptions(precision=8),
    ):
        yield Path(folder)
    os.environ.pop("MODE", None)
    os.environ.update({} if mode is None else {"MODE": mode})
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
