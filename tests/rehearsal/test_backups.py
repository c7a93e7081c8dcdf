"""Backups: contents by hash, private, within a budget; a process that ends at any step loses nothing."""

from __future__ import annotations

import importlib
import os
import signal
import stat
import warnings

import pytest

from tests.rehearsal.folders import findings_with, tree_of, write_files
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Backups, keep

linux = importlib.import_module("tract_jupyter.rehearsal.linux")
BEFORE = {"a.txt": "old a", "data/b.csv": "n\n1\n", "gone.txt": "gone", "olddir/in.txt": "in"}
CHANGED = {
    "a.txt": "new a",
    "data/b.csv": "n\n2\n",
    "gone.txt": None,
    "olddir": None,
    "new/deep/c.txt": "c",
    "empty/": None,
}


FEW_BEFORE = {"a.txt": "old a", "gone.txt": "gone"}
FEW_CHANGED = {"a.txt": "new a", "gone.txt": None, "new/c.txt": "c"}


def maker(tmp_path, before, changed):
    """Return a function that makes a workspace, an upper folder and backups in new folders on each call."""
    numbers = iter(range(10_000))

    def make():
        folder = tmp_path / str(next(numbers))
        workspace = write_files(folder / "work", before)
        return workspace, write_files(folder / "upper", changed), Backups(folder / "backups")

    return make


@pytest.fixture
def make(tmp_path):
    return maker(tmp_path, BEFORE, CHANGED)


@pytest.fixture
def make_few(tmp_path):
    return maker(tmp_path, FEW_BEFORE, FEW_CHANGED)


def kept(workspace, upper, backups):
    return keep(findings_with(upper, workspace), {}, backups)


def test_keep_and_undo_and_redo(make):
    workspace, upper, backups = make()
    before = tree_of(workspace)
    times = {path: path.stat().st_mtime_ns for path in workspace.rglob("*.*")}
    change = kept(workspace, upper, backups)
    after = tree_of(workspace)
    assert after == {
        "a.txt": b"new a",
        "data": None,
        "data/b.csv": b"n\n2\n",
        "empty": None,
        "new": None,
        "new/deep": None,
        "new/deep/c.txt": b"c",
    }
    assert {item.state for item in change.undo()} == {"restorable"}
    assert tree_of(workspace) == before
    assert {path: path.stat().st_mtime_ns for path in workspace.rglob("*.*")} == times
    change.redo()
    assert tree_of(workspace) == after
    assert {item.state for item in change.preview()} == {"restorable"}
    assert change.undo() == change.undo() or change.preview() == ()


def test_kept_files_have_the_mode_and_time_of_the_copy(make):
    workspace, upper, backups = make()
    (upper / "a.txt").chmod(0o640)
    os.utime(upper / "a.txt", ns=(10**18, 10**18))
    kept(workspace, upper, backups)
    status = (workspace / "a.txt").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns) == (0o640, 10**18)


def test_backups_are_private(make):
    workspace, upper, backups = make()
    old = os.umask(0)
    try:
        kept(workspace, upper, backups)
    finally:
        os.umask(old)
    for path in [backups.folder, *backups.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_after_a_restart_files_can_be_undone(make):
    workspace, upper, backups = make()
    before = tree_of(workspace)
    change_id = kept(workspace, upper, backups).change_id
    again = Backups(backups.folder).change(change_id)
    assert "a.txt" in again.files
    again.undo()
    assert tree_of(workspace) == before
    assert Backups(backups.folder).change(change_id).preview() == ()


def test_undo_restores_a_file_changed_later_only_if_forced(make):
    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    (workspace / "a.txt").write_text("mine")
    states = {item.name: item.state for item in change.undo()}
    assert (states["a.txt"], states["data/b.csv"]) == ("changed since", "restorable")
    assert (workspace / "a.txt").read_text() == "mine"
    assert [item.name for item in change.undo(force=["a.txt"])] == ["a.txt"]
    assert (workspace / "a.txt").read_text() == "old a"
    change.redo()
    assert (workspace / "a.txt").read_text() == "mine"  # the forced undo saved it


def test_undo_does_not_delete_a_new_folder_with_files_of_the_user(make):
    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    (workspace / "new" / "mine.txt").write_text("mine")
    change.undo()
    assert sorted(path.name for path in (workspace / "new").iterdir()) == ["mine.txt"]


def test_a_link_that_replaced_a_folder_is_not_followed(make, tmp_path):
    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    outside = write_files(tmp_path / "outside", {"b.csv": "n\n2\n"})
    (workspace / "data" / "b.csv").unlink()
    (workspace / "data").rmdir()
    (workspace / "data").symlink_to(outside)
    states = {item.name: item.state for item in change.undo()}
    assert states["data/b.csv"] == "changed since"
    assert (outside / "b.csv").read_text() == "n\n2\n"


@pytest.mark.parametrize("entry", ["file", "link"])
def test_undo_keeps_an_entry_that_replaced_a_deleted_folder(rehearser, workspace, tmp_path, entry):
    (workspace / "data" / "inner").mkdir(parents=True)
    (workspace / "data" / "inner").chmod(0o700)
    (workspace / "data" / "inner" / "a.csv").write_text("old")
    (workspace / "note").write_text("old")
    change = (
        rehearser("full")
        .rehearse("import os, shutil\nshutil.rmtree('data'); os.remove('note'); n = 1", names := {})
        .keep()
    )
    (workspace / "note").mkdir()
    if entry == "file":
        (workspace / "data").write_text("of the user")
    else:
        (workspace / "data").symlink_to(tmp_path)
    states = {item.name: item.state for item in change.undo() if item.kind == "file"}
    assert states == dict.fromkeys(["data/", "data/inner/", "data/inner/a.csv", "note"], "changed since")
    assert "n" not in names
    with pytest.raises(RehearsalError, match=r"as before"):
        change.undo(force=["data/inner/a.csv"])
    (workspace / "data").unlink()
    (workspace / "note").rmdir()
    change.undo()
    assert (workspace / "data" / "inner" / "a.csv").read_text() == (workspace / "note").read_text() == "old"
    assert stat.S_IMODE((workspace / "data" / "inner").stat().st_mode) == 0o700


def test_the_budget_removes_the_oldest_changes(make):
    workspace, upper, backups = make()
    first = kept(workspace, upper, backups)
    backups = Backups(backups.folder, budget=backups.size)
    write_files(upper, {"a.txt": "x" * 100})
    second = keep(findings_with(upper, workspace), {}, backups)
    assert backups.change_ids() == (second.change_id,)
    assert backups.size == len("new a") + 100
    with pytest.raises(RehearsalError, match="removed to save space"):
        backups.change(first.change_id)
    second.undo()
    assert (workspace / "a.txt").read_text() == "new a"


def test_a_damaged_backup_is_refused_and_nothing_changes(make):
    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    after = tree_of(workspace)
    for path in (backups.folder / "objects").iterdir():
        if path.read_bytes() == b"old a":
            path.write_bytes(b"other")
    with pytest.raises(RehearsalError, match="All files are as before"):
        change.undo()
    assert tree_of(workspace) == after


def test_a_folder_without_permission_changes_nothing(make):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    workspace, upper, backups = make()
    before = tree_of(workspace)
    (workspace / "data").chmod(0o500)
    try:
        with pytest.raises(RehearsalError, match="All files are as before"):
            kept(workspace, upper, backups)
    finally:
        (workspace / "data").chmod(0o700)
    assert tree_of(workspace) == before


@pytest.mark.parametrize("change_id", ["../../etc", "0" * 15, "A" * 16, ""])
def test_an_invalid_id_is_refused(make, change_id):
    _, _, backups = make()
    with pytest.raises(RehearsalError, match="Invalid id"):
        backups.change(change_id)


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "a/../../b", ""])
def test_a_journal_with_a_path_outside_is_refused(make, path):
    import json

    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    journal = backups.folder / "changes" / f"{change.change_id}.json"
    data = json.loads(journal.read_text())
    data["files"][0]["path"] = path
    journal.write_text(json.dumps(data))
    with pytest.raises(RehearsalError, match="damaged"):
        backups.change(change.change_id)


# ---- the user edits a file after the last comparison


def edit_before(monkeypatch, workspace, edits):
    """Write files right before the first rename of each kind, and record this next to the workspace.

    Args:
        monkeypatch: Replaces the calls.
        workspace: The folder of the files.
        edits: A dict from the name of a call to the path of a file. The file gets the text "mine".
    """

    def edited(call, path):
        def make(*arguments, **options):
            note = workspace.parent / path.replace("/", "-")
            if not note.exists():
                (workspace / path).parent.mkdir(parents=True, exist_ok=True)
                (workspace / path).write_text("mine")
                note.write_text("")
            return call(*arguments, **options)

        return make

    for name, path in edits.items():
        module = os if name == "rename" else linux
        monkeypatch.setattr(module, name, edited(getattr(module, name), path))


@pytest.mark.parametrize(
    ("call", "path"), [("exchange", "data/b.csv"), ("rename_new", "new/deep/c.txt"), ("rename", "gone.txt")]
)
def test_an_edit_between_comparison_and_rename_is_not_lost(make, monkeypatch, call, path):
    workspace, upper, backups = make()
    before = tree_of(workspace)
    edit_before(monkeypatch, workspace, {call: path})
    with pytest.raises(RehearsalError, match=f"{path} changed while the files were replaced"):
        kept(workspace, upper, backups)
    after = tree_of(workspace)
    assert after.pop(path) == b"mine"
    before.pop(path, None)
    assert {name: text for name, text in after.items() if text is not None} == {
        name: text for name, text in before.items() if text is not None
    }
    assert not [item for change_id in backups.change_ids() for item in backups.change(change_id).preview()]


def test_an_edit_during_an_undo_is_not_lost(make, monkeypatch):
    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    after = tree_of(workspace)
    edit_before(monkeypatch, workspace, {"exchange": "a.txt"})
    with pytest.raises(RehearsalError, match=r"a\.txt changed while the files were replaced"):
        change.undo()
    assert tree_of(workspace) == {**after, "a.txt": b"mine"}
    states = {item.name: item.state for item in change.undo()}
    assert (states["a.txt"], states["data/b.csv"]) == ("changed since", "restorable")
    assert (workspace / "a.txt").read_text() == "mine"


def test_a_file_system_without_exchange_replaces_files(make, monkeypatch):
    def fail(*_):
        raise OSError(22, "renameat2: Invalid argument")

    monkeypatch.setattr(linux, "exchange", fail)
    monkeypatch.setattr(linux, "rename_new", fail)
    workspace, upper, backups = make()
    before = tree_of(workspace)
    change = kept(workspace, upper, backups)
    assert (workspace / "a.txt").read_text() == "new a"
    change.undo()
    assert tree_of(workspace) == before


# ---- kill -9 at each step

CALLS = (
    "open",
    "write",
    "fsync",
    "rename",
    "replace",
    "unlink",
    "mkdir",
    "rmdir",
    "utime",
    "fchmod",
    "close",
)
RENAMES = ("exchange", "rename_new")


def killed_at(step, work):
    """Run work in a fork that is killed before its system call number `step`. Return True if it was killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        left = [step]

        def counting(call):
            def counted(*arguments, **options):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return counted

        try:
            for module, names in ((os, CALLS), (linux, RENAMES)):
                for name in names:
                    setattr(module, name, counting(getattr(module, name)))
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def steps_of(make, prepare, work, sides):
    """Kill work at each step. After `recover`, the files have one of two states."""
    seen = set()
    for step in range(2_000):
        workspace, upper, backups = make()
        state = prepare(workspace, upper, backups)
        is_killed = killed_at(step, lambda: work(workspace, upper, backups, state))  # noqa: B023
        Backups(backups.folder).recover()
        tree = tree_of(workspace)
        assert tree in sides, (step, tree)
        seen.add(sides.index(tree))
        for change_id in backups.change_ids():
            items = Backups(backups.folder).change(change_id).preview()
            assert all(item.state == "restorable" for item in items), (step, items)
        if not is_killed:
            assert step > 15
            assert seen == {0, 1}
            return
    raise AssertionError("it never ended")


@pytest.fixture
def sides(make_few):
    workspace, upper, backups = make_few()
    before = tree_of(workspace)
    kept(workspace, upper, backups)
    return [before, tree_of(workspace)]


@pytest.mark.slow
def test_a_kill_at_each_step_of_keep_leaves_all_or_nothing(make_few, sides):
    steps_of(
        make_few, lambda *_: None, lambda workspace, upper, backups, _: kept(workspace, upper, backups), sides
    )


@pytest.mark.slow
def test_a_kill_at_each_step_of_undo_leaves_all_or_nothing(make_few, sides):
    steps_of(make_few, kept, lambda *work: work[-1].undo(), sides)


@pytest.mark.slow
@pytest.mark.parametrize(("call", "path"), [("exchange", "a.txt"), ("rename", "gone.txt")])
def test_a_kill_at_each_step_loses_no_edit(make_few, monkeypatch, call, path):
    def killed(step):
        """Return (True if it was killed, the files after the recovery, True if the user edited the file)."""
        workspace, upper, backups = make_few()

        def work():
            with pytest.raises(RehearsalError):
                kept(workspace, upper, backups)

        with monkeypatch.context() as patch:
            edit_before(patch, workspace, {call: path})
            is_killed = killed_at(step, work)
        Backups(backups.folder).recover()
        return is_killed, tree_of(workspace), (workspace.parent / path).exists()

    first = next(step for step in range(0, 2_000, 10) if killed(step)[2]) - 9
    for step in range(first, 2_000):
        is_killed, tree, is_edited = killed(step)
        assert tree.get(path) == b"mine" or not is_edited, (step, tree)
        assert not [name for name in tree if ".tract" in name], (step, tree)
        if not is_killed:
            assert is_edited
            return
    raise AssertionError("it never ended")


def test_recover_leaves_the_change_of_a_running_process(make):
    workspace, upper, backups = make()
    change = kept(workspace, upper, backups)
    record = backups.read(change.change_id)
    record.moving = ("before", [0])
    backups.write(record)
    with backups._lock(change.change_id) as is_free:
        assert is_free
        Backups(backups.folder).recover()
        assert (workspace / "a.txt").read_text() == "new a"
    Backups(backups.folder).recover()
    assert (workspace / "a.txt").read_text() == "old a"
