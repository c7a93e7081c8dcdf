"""Recorded decisions count only in their project and notebook."""

from __future__ import annotations

import json
import os
import resource
import shutil

import pytest

from tract_jupyter.exceptions import LockFileError
from tract_jupyter.review import (
    LOCK_FILE,
    PROJECT_FILE,
    Project,
    RecordedDecision,
    RecordedDecisions,
    Trust,
    merged,
    read_lock,
    write_lock,
)

IDENTITY = "cd" * 32
CELL = "p = %tract_fire deploy x=3"


def book(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": listed, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    return path


def made_entry(project, notebook="book.ipynb", **changes):
    parts = {"identity": IDENTITY, "action": "approve", "arguments": {}, **changes}
    given = RecordedDecision(
        "operation", "deploy", decided_by="ada", decided_at="2026", notebook=notebook, **parts
    )
    return given.signed(project)


@pytest.fixture
def recorded(tmp_path):
    """A project with a notebook and a decision recorded in the notebook."""
    folder = tmp_path / "mine"
    book(folder / "book.ipynb", "%load_ext tract_jupyter", CELL)
    project = Project.load_or_create(folder / LOCK_FILE, Trust())
    project.keep()
    write_lock(folder / LOCK_FILE, [made_entry(project)])
    return folder


def decided(folder, cell=CELL):
    """Return the reason for no decision in a folder, or an empty text if there is one."""
    recorded = RecordedDecisions(folder / LOCK_FILE, Trust(), cell=lambda: cell)
    if recorded.take(IDENTITY) is not None:
        return ""

    class Asked:
        identity, title = IDENTITY, "deploy"

    return recorded.why_not(Asked())


def test_a_recorded_decision_counts_in_its_notebook(recorded):
    assert decided(recorded) == ""
    assert decided(recorded, f"\n{CELL}\n") == ""
    assert decided(recorded, "") == ""  # if the cell is unknown, only the notebook counts


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_recorded_decisions_count_in_a_moved_or_copied_project(recorded, tmp_path, how):
    there = tmp_path / "elsewhere" / "it"
    (shutil.move if how == "moved" else shutil.copytree)(recorded, there)
    assert decided(there) == ""


@pytest.mark.parametrize("name", ["other.ipynb", "book.ipynb"])
def test_a_lock_file_alone_decides_nothing_beside_other_notebooks(recorded, tmp_path, name):
    book(tmp_path / "theirs" / name, CELL)
    shutil.copy(recorded / LOCK_FILE, tmp_path / "theirs")
    assert decided(tmp_path / "theirs").startswith(
        f"the entry for 'deploy' in tract.lock.json cannot be checked, because this folder lacks {PROJECT_FILE}"
    )


def test_a_recorded_decision_does_not_count_in_another_project(recorded, tmp_path):
    folder = tmp_path / "theirs"
    book(folder / "book.ipynb", CELL)
    Project.load_or_create(folder / LOCK_FILE, Trust()).keep()
    shutil.copy(recorded / LOCK_FILE, folder)
    assert "was recorded in another project, so it has no effect in this one" in decided(folder)
    data = json.loads((folder / LOCK_FILE).read_text())
    data["entries"][0]["project"] = json.loads((folder / PROJECT_FILE).read_text())["project"]
    (folder / LOCK_FILE).write_text(json.dumps(data))
    assert "is not signed with your secret, or was changed" in decided(folder)


def test_a_recorded_decision_does_not_count_for_another_notebook(recorded):
    book(recorded / "other.ipynb", "p = %tract_fire deploy   x=3")
    why = "was recorded in the notebook book.ipynb, which does not have the asking cell"
    assert why in decided(recorded, "p = %tract_fire deploy   x=3")
    (recorded / "book.ipynb").rename(recorded / "renamed.ipynb")
    assert "was recorded in the notebook book.ipynb, which does not exist here" in decided(recorded)


def test_a_sibling_notebook_with_the_same_cell_uses_the_same_decision_once(recorded):
    book(recorded / "other.ipynb", CELL)  # a headless kernel does not know which of the two it runs
    used = set()
    for is_first in (True, False):
        decisions = RecordedDecisions(recorded / LOCK_FILE, Trust(), used, cell=lambda: CELL)
        assert (decisions.take(IDENTITY) is not None) is is_first


def test_both_files_beside_other_notebooks_decide_nothing(recorded, tmp_path):
    book(tmp_path / "theirs" / "other.ipynb", CELL)
    for name in (LOCK_FILE, PROJECT_FILE):
        shutil.copy(recorded / name, tmp_path / "theirs")
    assert "book.ipynb, which does not exist here" in decided(tmp_path / "theirs")


def test_a_notebook_that_cannot_be_read_has_no_cell(recorded):
    for text in ("{", "[]", '{"cells": [{"cell_type": "code", "source": 3}]}'):
        (recorded / "book.ipynb").write_text(text)
        assert "which does not have the asking cell" in decided(recorded)


def test_a_decision_without_a_notebook_counts_in_the_whole_project(recorded, tmp_path):
    project = Project.of(recorded / LOCK_FILE, Trust())
    write_lock(recorded / LOCK_FILE, [made_entry(project, notebook="")])
    assert decided(recorded, "something else") == ""
    (tmp_path / "theirs").mkdir()
    shutil.copy(recorded / LOCK_FILE, tmp_path / "theirs")
    assert "this folder lacks" in decided(tmp_path / "theirs")


def test_a_symbolic_link_to_the_lock_file_counts_like_the_file(recorded, tmp_path):
    (tmp_path / LOCK_FILE).symlink_to(recorded / LOCK_FILE)
    assert decided(tmp_path) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2, "project": "%s"}',
                                  f'{{"version": 1, "project": "{"b" * 32}", "project": "{"a" * 32}"}}',
                                  '{"version": 1, "project": "../x"}', '{"version": 1, "project": 7}'])  # fmt: skip
def test_a_damaged_id_is_an_error_and_nothing_is_written(recorded, text):
    (recorded / PROJECT_FILE).write_text(text)
    for use in (Project.of, Project.load_or_create):
        with pytest.raises(LockFileError, match="has no valid project id"):
            use(recorded / LOCK_FILE, Trust())
    assert (recorded / PROJECT_FILE).read_text() == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_pipe_in_place_of_the_id_is_refused_at_once(recorded):
    (recorded / PROJECT_FILE).unlink()
    os.mkfifo(recorded / PROJECT_FILE)
    with pytest.raises(LockFileError, match="has no valid project id"):
        Project.of(recorded / LOCK_FILE, Trust())


def test_an_id_is_made_once(tmp_path):
    lock = tmp_path / LOCK_FILE
    first, second = Project.load_or_create(lock, Trust()), Project.load_or_create(lock, Trust())
    assert list(tmp_path.iterdir()) == []  # only recording writes the file
    first.keep()
    first.keep()
    with pytest.raises(LockFileError, match="another process has just created"):
        second.keep()
    assert Project.load_or_create(lock, Trust()).project_id == first.project_id


def test_an_id_that_cannot_be_written_whole_leaves_nothing_behind(tmp_path):
    project = Project.load_or_create(tmp_path / LOCK_FILE, Trust())
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, size[1]))  # like a full disk
    try:
        with pytest.raises(LockFileError, match="cannot be written.*nothing was changed"):
            project.keep()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_goes_by_its_path_below_the_project(tmp_path):
    project = Project.load_or_create(tmp_path / LOCK_FILE, Trust())
    below = book(tmp_path / "a" / "b.ipynb")
    assert project.path_of(below) == "a/b.ipynb"
    outside = Project.load_or_create(tmp_path / "a" / "c" / LOCK_FILE, Trust())
    assert [outside.path_of(below), project.path_of(tmp_path / "none.ipynb"), project.path_of(None)] == [
        "",
        "",
        "",
    ]


def test_recording_in_one_notebook_leaves_the_answers_of_another(recorded):
    project = Project.of(recorded / LOCK_FILE, Trust())
    (first,) = read_lock(recorded / LOCK_FILE)
    book(recorded / "other.ipynb", CELL)
    other = made_entry(project, notebook="other.ipynb", action="reject")
    assert merged([first], [other], project) == [first, other]
    assert merged([first, other], [made_entry(project, action="go")], project) == [
        other,
        made_entry(project, action="go"),
    ]
    unknown = made_entry(project, notebook="")
    assert merged([unknown], [first], project) == [first]
