"""A store with backups from another person changes no file of the user."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from tests.rehearsal.folders import findings_with, write_files
from tract_jupyter import Tract
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Backups, keep

STORE = "notes.db"
CODE = b"print('it ran')"
SHA = hashlib.sha256(CODE).hexdigest()
CHANGE = "0123456789abcdef"


@pytest.fixture
def victim(tmp_path, monkeypatch):
    """Another folder of the user, with an old file."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years")
    (folder / SHA).write_text("a file with the name of a hash")
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


def journal(victim, moving):
    """The journal of a change of `victim`, as another program writes it."""
    after = {"sha256": SHA, "size": len(CODE), "mtime": 0, "mode": 0o644}
    file = {
        "path": "startup/00.py", "before": None, "after": after, "is_folder": False, "is_created": True, "at": "before",
        "mode": 0o777,
    }  # fmt: skip
    return {
        "change_id": CHANGE, "workspace": str(victim), "made": 0.0, "files": [file], "made_folders": [], "moving": moving,
    }  # fmt: skip


def plant(folder, data):
    """Write a journal and its content."""
    for name in ("objects", "changes"):
        (folder / name).mkdir(parents=True)
    (folder / "objects" / SHA).write_bytes(CODE)
    (folder / "changes" / f"{CHANGE}.json").write_text(json.dumps(data))


def tree(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "more", [{}, {"signature": "00" * 32}, {"signature": 1}], ids=["none", "wrong", "number"]
)
def test_an_unfinished_change_without_the_users_signature_is_not_completed(victim, tmp_path, more):
    plant(tmp_path / "work" / f"{STORE}.backups", journal(victim, ["after", [0]]) | more)
    before = tree(victim)
    with Tract.open(STORE) as tract:
        assert tract._parts.backups.change_ids() == ()
        with pytest.raises(RehearsalError, match="not signed by you"):
            tract._parts.backups.change(CHANGE)
    assert tree(victim) == before


@pytest.mark.parametrize("linked", ["objects", "changes", ""])
def test_links_in_place_of_the_folders_are_not_followed(victim, tmp_path, linked):
    backups = tmp_path / "work" / f"{STORE}.backups"
    plant(tmp_path / "other", journal(victim, None))
    os.utime(tmp_path / "other" / "objects" / SHA, (1, 1))
    if linked:
        backups.mkdir()
        (backups / linked).symlink_to(victim if linked == "objects" else tmp_path / "other" / "changes")
    else:
        backups.symlink_to(tmp_path / "other")
    before = tree(tmp_path / "other"), tree(victim)
    with Tract.open(STORE) as tract:
        assert tract._parts.backups.size == 0
        with pytest.raises(OSError, match="symbolic link"):
            tract._parts.backups.add(tmp_path, [], change_id=CHANGE)
    assert (tree(tmp_path / "other"), tree(victim)) == before


def kept(tmp_path, tract):
    """Keep a change of the workspace."""
    upper = write_files(tmp_path / "upper", {"a.py": CODE.decode()})
    change = keep(findings_with(upper, tmp_path / "work"), {}, tract._parts.backups)
    return tmp_path / "work" / f"{STORE}.backups" / "changes" / f"{change.change_id}.json"


def test_a_changed_journal_is_not_used(victim, tmp_path):
    """A writer of the store redirects a change of the user to another folder."""
    with Tract.open(STORE) as tract:
        path = kept(tmp_path, tract)
        assert tract._parts.backups.change_ids() == (path.stem,)
    path.write_text(path.read_text().replace(str(tmp_path / "work"), str(victim)))
    with Tract.open(STORE) as tract:
        assert tract._parts.backups.change_ids() == ()
        tract._parts.backups.budget = 0
        tract._parts.backups.trim()
        assert tract._parts.backups.size == len(CODE)  # another user may need it


@pytest.mark.parametrize("name", ["../../../../home/thesis.txt", "x" * 64, ""])
def test_a_content_is_named_by_its_hash(victim, tmp_path, name):
    data = journal(victim, None)
    data["files"][0]["after"]["sha256"] = name
    plant(tmp_path / "backups", data)
    backups = Backups(tmp_path / "backups", budget=0)
    assert backups.change_ids() == ()
    backups.forget(CHANGE)
    assert (victim / "thesis.txt").exists()


def test_another_secret_removes_no_contents(tmp_path, victim, monkeypatch):
    with Tract.open(STORE) as tract:
        path = kept(tmp_path, tract)
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "ab" * 32)
    content = path.parents[1] / "objects" / SHA
    os.utime(content, (1, 1))
    with Tract.open(STORE) as tract:
        assert tract._parts.backups.change_ids() == ()
    assert content.exists()
    monkeypatch.delenv("TRACT_JUPYTER_SECRET")
    with Tract.open(STORE) as tract:
        assert tract._parts.backups.change_ids() == (path.stem,)


def test_without_a_usable_secret_a_script_runs_and_says_that_it_cannot_be_undone(tmp_path, victim):
    (tmp_path / "work" / "a.txt").write_text("old")
    with Tract.open(STORE) as tract:
        tract.scripts.rehearsing.is_on = True
        tract.scripts.notebooks.user_namespace = {}
        secret = tract.review.trust.secret_file
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_bytes(b"x" * 32)
        secret.chmod(0o644)
        code = "with open('a.txt', 'w') as file:\n    file.write('new')"
        result = tract.scripts.execute(tract.scripts.prepare(code, backend="kernel", notebook_id="user"))
    assert result.status == "completed"
    assert "cannot be undone: The backups cannot be signed" in result.notes[0]
