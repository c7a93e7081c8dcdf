"""Notebook tasks: their effects are exact, keeping equals a direct run, and undo restores everything."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import shutil
from pathlib import Path

import pytest

from tests.rehearsal.conftest import skip_unless
from tests.rehearsal.folders import tree_of
from tests.rehearsal.tasks import TASKS, Task, content, in_order, marked, started
from tract_jupyter.rehearsal import Backups, Rehearser

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def rehearser(tmp_path_factory):
    """A rehearser for all tasks, so that its worker starts once."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "work").mkdir()
    with contextlib.closing(
        Rehearser(folder / "work", Backups(folder / "backups"), level=skip_unless("full"))
    ) as one:
        yield one


@pytest.fixture
def workspace(rehearser, monkeypatch):
    """The workspace of the rehearser, empty."""
    monkeypatch.chdir(rehearser.workspace)
    for path in rehearser.workspace.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return rehearser.workspace


@pytest.fixture(autouse=True)
def restored_settings(monkeypatch):
    """The settings that tasks change are those before."""
    import numpy as np
    import pandas as pd

    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.delenv("MODE", raising=False)
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    with (
        pd.option_context("display.max_rows", 60),
        np.printoptions(precision=8),
        contextlib.chdir(Path.cwd()),
    ):
        yield
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002


@pytest.mark.slow
@pytest.mark.xdist_group("tasks")
@pytest.mark.parametrize("name", TASKS)
def test_effects_keep_and_undo(rehearser, workspace, tmp_path, name):
    task = TASKS[name]
    if task.needs and importlib.util.find_spec(task.needs) is None:
        pytest.skip(f"{task.needs} is not installed")
    namespace = started(workspace)
    before, files = content(namespace), tree_of(workspace)
    rehearsal = rehearser.rehearse(task.code, namespace)
    effects = rehearsal.effects
    assert effects.ending == task.ending, effects.ending_note
    assert marked([effect for effect in effects.variables if not effect.is_import], "name") == in_order(
        task.variables
    )
    assert marked(effects.files, "path") == in_order(task.files)
    assert (
        tuple(one.name for one in effects.settings if not one.name.startswith("random state"))
        == task.settings
    )
    assert {problem.partition(":")[0] for problem in effects.problems} == set(task.problem.split())
    assert set(effects.left_out) == set(task.left_out.split())
    assert bool(effects.refused) == task.refused
    assert (content(namespace), tree_of(workspace)) == (before, files)
    kept = [one for one in task.variables.split() if one[1:] not in effects.left_out]
    only_looks = task._replace(needs="", left_out="", variables=" ".join(kept)) == Task(task.code)
    assert effects.is_empty == only_looks
    if effects.can_be_kept:
        keep_and_undo(rehearsal, namespace, workspace, tmp_path, before, files, effects.left_out)
    else:
        rehearsal.discard()


def keep_and_undo(rehearsal, namespace, workspace, tmp_path, before, files, left_out):
    change = rehearsal.keep()
    kept = content(namespace), tree_of(workspace)
    folder = Path.cwd().relative_to(workspace)
    kept_random = random.random()
    items = change.undo()
    assert {item.state for item in items} <= {"restorable"}
    assert (content(namespace), tree_of(workspace)) == (before, files)
    assert Path.cwd() == workspace
    direct_folder = tmp_path / "direct"
    direct = started(direct_folder)
    exec(rehearsal.code, direct)
    for name in left_out:
        del direct[name]
    assert (content(direct), tree_of(direct_folder)) == kept
    assert Path.cwd().relative_to(direct_folder) == folder
    assert random.random() == kept_random
