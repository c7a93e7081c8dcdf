"""Watching a run in the kernel: changes that the code names can be undone; the rest is listed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tract_jupyter.rehearsal import Backups, Watch, watch_files

pd = pytest.importorskip("pandas")


@pytest.fixture
def run(workspace, tmp_path):
    """Run code in this process with a watcher."""

    def run(code, namespace, expected=()):
        watching = Watch(code, namespace, workspace, Backups(tmp_path / "backups"))
        exec(code, namespace)
        return watching.finish(expected)

    return run


def test_variables_come_back_also_after_a_change_in_place(run):
    frame = pd.DataFrame({"a": [1, 2]})
    namespace = {"df": frame, "view": frame, "n": 1, "gone": [1]}
    change = run("df['b'] = 1\nn = 2\nnew = 3\ndel gone", namespace)
    assert change.certainty == "named only"
    assert sorted(change.variables) == ["df", "gone", "n", "new", "view"]
    change.undo()
    assert list(namespace["df"].columns) == ["a"]
    assert namespace["df"] is namespace["view"]
    assert (namespace["n"], "new" in namespace, namespace["gone"]) == (1, False, [1])
    change.redo()
    assert namespace["df"] is frame
    assert list(frame.columns) == ["a", "b"]


class Model:
    def __init__(self):
        self.weights = [0]


def test_an_object_without_a_safe_form_is_named(run):
    model = Model()
    change = run("model.weights.append(1)\nx = 1", {"model": model})
    states = {item.name: (item.state, item.detail) for item in change.preview()}
    assert states["model"] == ("impossible", "it was changed in place, and has no safe copy")
    assert states["x"][0] == "restorable"
    assert "x" in {item.name for item in change.undo() if item.state == "restorable"}


def test_a_database_that_changed_in_the_rehearsal_is_named(run):
    """Its state is in C, and only a copy may ask it."""
    with closing(sqlite3.connect(":memory:")) as con:
        code = "con.execute('CREATE TABLE birds (n)')\nx = 1"
        namespace = {"con": con, "other": 1}
        change = run(code, namespace, ["con", "x", "other", "missing"])
        assert change.variables == ("x", "con")
        states = {item.name: (item.state, item.detail) for item in change.preview()}
        assert states["con"] == ("impossible", "its database may have changed, and has no safe copy")
        change.undo()
        assert namespace["con"] is con
        assert [item.name for item in change.preview(redo=True)] == ["x"]
        assert run(code.replace("birds", "tits"), namespace).variables == ("x",)


def test_named_files_come_back(run, workspace):
    (workspace / "data").mkdir()
    (workspace / "data" / "a.csv").write_text("a\n1\n")
    (workspace / "b.txt").write_text("b")
    change = run(
        "import os, pathlib\npathlib.Path('data/a.csv').write_text('new')\n"
        "os.remove('b.txt')\npathlib.Path('c.txt').write_text('c')",
        {},
    )
    assert sorted(change.files) == ["b.txt", "c.txt", "data/a.csv"]
    change.undo()
    assert (workspace / "data" / "a.csv").read_text() == "a\n1\n"
    assert (workspace / "b.txt").read_text() == "b"
    assert not (workspace / "c.txt").exists()


def test_files_that_the_code_does_not_name_are_listed(run, workspace):
    (workspace / "a.txt").write_text("old")
    change = run(
        "from pathlib import Path\nPath('a' + '.txt').write_text('lost')\nPath('n' + '.txt').write_text('new')",
        {},
    )
    items = {item.name: item for item in change.preview()}
    assert items["a.txt"].state == "impossible"
    assert "does not name" in items["a.txt"].detail
    assert items["n.txt"].state == "restorable"  # it is new, so nothing is lost
    change.undo()
    assert not (workspace / "n.txt").exists()
    assert (workspace / "a.txt").read_text() == "lost"


def test_files_in_a_named_folder_come_back(run, workspace):
    (workspace / "out").mkdir()
    (workspace / "out" / "a.txt").write_text("old")
    change = run("import pathlib\nfor p in pathlib.Path('out').iterdir(): p.write_text('new')", {})
    change.undo()
    assert (workspace / "out" / "a.txt").read_text() == "old"


def test_links_and_files_outside_are_left_alone(run, workspace, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    (workspace / "link.txt").symlink_to(outside)
    change = run(f"x = ['link.txt', '../outside.txt', {str(outside)!r}, '/etc/passwd', '~', '\\0', '.']", {})
    assert change.files == ()
    assert outside.read_text() == "outside"


def test_settings_come_back(run, monkeypatch):
    monkeypatch.setenv("TRACT_TEST", "1")
    change = run("import os\nos.environ['TRACT_TEST'] = '2'", {})
    change.undo()
    assert os.environ["TRACT_TEST"] == "1"


def test_code_that_raises_is_watched_too(workspace, tmp_path):
    namespace = {"x": [1]}
    watching = Watch("x.append(2)\n1/0", namespace, workspace, Backups(tmp_path / "backups"))
    with pytest.raises(ZeroDivisionError):
        exec("x.append(2)\n1/0", namespace)
    watching.finish().undo()
    assert namespace["x"] == [1]


def test_a_path_in_a_variable_names_a_file(run, workspace):
    (workspace / "a.txt").write_text("old")
    change = run("target.write_text('new')", {"target": workspace / "a.txt"})
    change.undo()
    assert (workspace / "a.txt").read_text() == "old"


def test_a_new_folder_is_removed_again(run, workspace):
    change = run(
        "import pathlib\np = pathlib.Path('out/deep')\np.mkdir(parents=True)\n(p / 'a.txt').write_text('a')",
        {},
    )
    assert change.files == ("out/deep/a.txt",)
    change.undo()
    assert list(workspace.iterdir()) == []


def test_the_files_are_saved_before_the_code_runs(workspace, tmp_path):
    (workspace / "a.txt").write_text("old")
    backups = Backups(tmp_path / "backups")
    Watch("x = 'a.txt'", {}, workspace, backups)
    (workspace / "a.txt").write_text("lost")  # the process ends here
    (change_id,) = backups.change_ids()
    again = Backups(backups.folder)
    again.recover()
    change = again.change(change_id)
    assert [item.state for item in change.undo()] == ["changed since"]
    change.undo(force=["a.txt"])
    assert (workspace / "a.txt").read_text() == "old"


def test_a_file_rewritten_with_the_same_content_is_not_a_change(run, workspace):
    (workspace / "a.txt").write_text("old")
    (workspace / "same.txt").write_text("same")
    code = "Path('a.txt').write_text('new'), Path('same.txt').write_text('same')"
    change = run(code, {"Path": Path})
    assert change.files == ("a.txt",)
    again = workspace / "again"
    again.write_text("new")  # a new time and a new inode
    again.replace(workspace / "a.txt")
    os.utime(workspace / "a.txt", (1, 1))
    assert [item.state for item in change.undo()] == ["restorable"]
    os.utime(workspace / "a.txt", (1, 1))
    assert [item.state for item in change.redo()] == ["restorable"]
    assert (workspace / "a.txt").read_text() == "new"
    (workspace / "a.txt").chmod(0o400)
    assert [item.state for item in change.preview()] == ["changed since"]


def test_a_run_without_changes_leaves_no_backup(run, workspace, tmp_path):
    (workspace / "a.txt").write_text("old")
    run("x = 'a.txt'", {})
    assert Backups(tmp_path / "backups").change_ids() == ()


def test_the_store_and_its_backups_are_left_alone(workspace):
    (workspace / "notes.db").write_text("store")
    watching = Watch("x = ['notes.db', '.']", {}, workspace, Backups(workspace / "notes.db.backups"))
    (workspace / "notes.db").write_text("store, written meanwhile")
    (workspace / "notes.db-wal").write_text("log")
    change = watching.finish()
    assert (change.files, change.preview()) == ((), ())


@pytest.fixture
def large(workspace):
    """A workspace with more files than a watcher lists."""
    (workspace / "data").mkdir()
    for number in range(5_005):
        (workspace / f"data/{number:04}.txt").touch()
    return workspace


def test_a_large_workspace_keeps_the_files_that_were_not_listed(run, large):
    """Without some of the first files, the listing after the run reaches others."""
    code = "for path in first: path.unlink()\nPath('new.txt').write_text('new')"
    change = run(code, {"first": sorted((large / "data").iterdir())[:3], "Path": Path})
    assert change.files == ("new.txt",)
    assert change.lost == ("data/0000.txt", "data/0001.txt", "data/0002.txt")
    change.undo()
    assert len(list((large / "data").iterdir())) == 5_002
    assert not (large / "new.txt").exists()


def test_new_files_of_a_large_workspace_hide_no_others(run, large):
    code = "for number in range(10): Path(f'{number}.new').touch()"
    change = run(code, {"Path": Path})
    assert len(change.files) == 10
    assert change.lost == ()


@pytest.mark.parametrize(
    "code",
    ["next(folder.rglob('*.bin')).rename(folder / 'new.bin')", "folder.rename(folder.with_name('new'))"],
)
def test_a_moved_file_is_moved_back_also_if_the_code_does_not_name_it(run, workspace, code):
    old = workspace / "folder/deep/old.bin"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"data")
    before = old.stat()
    change = run(code, {"folder": workspace / "folder"})
    assert not old.exists()
    assert [item.state for item in change.preview()] == ["restorable", "restorable"]
    change.undo()
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert (files, old.read_bytes(), old.stat().st_mtime_ns) == ([old], b"data", before.st_mtime_ns)
    change.redo()
    assert not old.exists()


def test_large_and_deep_files_do_not_keep_the_small_ones_from_being_saved(workspace, tmp_path):
    (workspace / "data").mkdir()
    for number in range(600):
        (workspace / f"data/{number}").touch()
    with (workspace / "a.bin").open("wb") as file:
        file.truncate(60_000_000)
    (workspace / "notes.txt").write_text("old")
    watched = watch_files(workspace, Backups(tmp_path / "backups"))
    (workspace / "notes.txt").write_text("new")
    change = watched.finish()
    assert change.files == ("notes.txt",)
    change.undo()
    assert (workspace / "notes.txt").read_text() == "old"


def test_an_object_in_a_large_variable_that_the_code_does_not_name_comes_back(run):
    records = [{"number": number} for number in range(30_000)]
    frame = pd.DataFrame({"tags": [["a"], ["b"]]})
    namespace = {"records": records, "last": records[-1], "frame": frame, "tags": frame["tags"][0]}
    change = run("last['new'] = 1; tags.append('new')", namespace)
    assert sorted(change.variables) == ["frame", "last", "records", "tags"]
    change.undo()
    assert (namespace["records"][-1], list(namespace["frame"]["tags"])) == (
        {"number": 29_999},
        [["a"], ["b"]],
    )
    assert namespace["records"][-1] is namespace["last"]
    assert namespace["frame"]["tags"][0] is namespace["tags"]
