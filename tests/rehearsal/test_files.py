"""Changed files: reading the upper folder of an overlay never follows links or opens special files."""

from __future__ import annotations

import os
import sys

import pytest

from tests.cpu import cpu_seconds
from tests.rehearsal.folders import findings_with, write_files
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Backups, Output


@pytest.fixture
def upper(tmp_path):
    folder = tmp_path / "upper"
    folder.mkdir()
    return folder


def effects_of(upper, workspace):
    return {effect.path: effect for effect in findings_with(upper, workspace).files}


def test_created_changed_and_deleted_files(upper, workspace):
    write_files(workspace, {"a.txt": "one\ntwo\n", "b/c.txt": "x", "same.txt": "same"})
    write_files(
        upper,
        {
            "a.txt": "one\nthree\n",
            "b/c.txt": None,
            "new/deep/d.bin": b"\0\1",
            "same.txt": "same",
            "empty/": None,
        },
    )
    effects = effects_of(upper, workspace)
    assert {path: effect.action for path, effect in effects.items()} == {
        "a.txt": "changed", "b/c.txt": "deleted", "new/deep/d.bin": "created", "empty/": "created",
    }  # fmt: skip
    assert effects["a.txt"].diff == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three"
    assert effects["a.txt"].detail == "1 line added, 1 line removed"
    assert (effects["a.txt"].size_before, effects["a.txt"].size_after) == (8, 10)
    assert (effects["new/deep/d.bin"].size_before, effects["new/deep/d.bin"].diff) == (None, "")
    assert not any(effect.problem for effect in effects.values())


def test_a_change_of_the_mode_is_an_effect(upper, workspace):
    for folder in (workspace, upper):
        write_files(folder, {"run.sh": "echo"})
        (folder / "run.sh").chmod(0o644)
    assert effects_of(upper, workspace) == {}
    (upper / "run.sh").chmod(0o755)
    assert effects_of(upper, workspace)["run.sh"].detail == "mode 0644 → 0755"
    (upper / "run.sh").chmod(0o4755)
    assert "rights of another user" in effects_of(upper, workspace)["run.sh"].problem


def test_changed_permissions_of_a_folder_and_changed_attributes_cannot_be_kept(upper, workspace):
    for folder in (workspace, upper):
        write_files(folder, {"data/a.txt": "a", "b.txt": "b"})
        (folder / "data").chmod(0o755)
    assert effects_of(upper, workspace) == {}
    (upper / "data").chmod(0o700)
    upper.chmod(0o700)
    workspace.chmod(0o755)
    write_files(upper, {"new.txt": "c", "folder/a.txt": "a"})
    try:
        for name in ("b.txt", "new.txt", "folder"):
            os.setxattr(upper / name, "user.color", b"red")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    problems = {path: effect.problem for path, effect in effects_of(upper, workspace).items()}
    permissions, attributes = (
        "its new permissions cannot be kept",
        "its new extended attributes cannot be kept",
    )
    assert problems == {
        "./": permissions, "data/": permissions, "b.txt": attributes, "new.txt": attributes,
        "folder/": attributes, "folder/a.txt": "",
    }  # fmt: skip


def test_a_changed_file_always_has_a_detail(upper, workspace):
    write_files(
        workspace,
        {
            "feed.txt": "a\nb\n",
            "ends.txt": "a\n",
            "t.csv": "a,b\n1,2\n",
            "same.csv": "a,b\n1,2\n",
            "x.bin": b"\0",
        },
    )
    write_files(
        upper,
        {
            "feed.txt": "a\fb\n",
            "ends.txt": "a\r\n",
            "t.csv": "a,b\n1,3\n",
            "same.csv": "a,b\n1,2\n",
            "x.bin": b"\1\0",
            "new.sh": "a",
        },
    )
    for folder in (workspace, upper):
        for path in folder.iterdir():
            path.chmod(0o644)
    for name in ("t.csv", "same.csv", "new.sh"):
        (upper / name).chmod(0o755)
    assert {path: effect.detail for path, effect in effects_of(upper, workspace).items()} == {
        "feed.txt": "1 line added, 1 line removed", "ends.txt": "other bytes in the same lines", "same.csv": "mode 0644 → 0755",
        "t.csv": "1 value of b changed, mode 0644 → 0755", "x.bin": "1 B → 2 B", "new.sh": "1 B, executable",
    }  # fmt: skip


def test_a_line_that_leaves_a_comment_is_shown(upper, workspace):
    r"""For `splitlines`, `\u2028` ends a line as `\n` does. For Python, it does not."""
    write_files(workspace, {"own.py": "# a\u2028import evil\n"})
    write_files(upper, {"own.py": "# a\nimport evil\n"})
    diff = effects_of(upper, workspace)["own.py"].diff
    assert diff.splitlines()[3:] == ["-# a\ufffd", "+# a", " import evil"]


def test_long_lines_of_a_diff_that_differ_look_different(upper, workspace):
    write_files(workspace, {"a.json": "a" * 500 + "good" + "a" * 500, "t.csv": f"x\n{'a' * 90}good\n"})
    write_files(upper, {"a.json": "a" * 500 + "evil" + "a" * 500, "t.csv": f"x\n{'a' * 90}evil\n"})
    effects = effects_of(upper, workspace)
    before, after = effects["a.json"].diff.splitlines()[-2:]
    assert before[1:].replace("good", "evil") == after[1:]
    assert "good" in before
    (row,) = effects["t.csv"].table.sample
    assert "good" in row.before[0]
    assert "evil" in row.after[0]


def test_files_of_holes_are_not_read(upper, workspace):
    """They need no space, so a copy can make very many of them."""
    for number in range(40):
        with (upper / f"{number:02}.bin").open("wb") as file:
            file.truncate(500_000_000)
    files = findings_with(upper, workspace).files
    assert [bool(one.problem) for one in files] == [False] * 2 + [True] * 38


def test_compiled_modules_cannot_be_kept(upper, workspace):
    """They run in place of a source that looks unchanged."""
    write_files(workspace, {"__pycache__/old.cpython-314.pyc": "x"})
    write_files(
        upper,
        {
            "__pycache__/own.cpython-314.pyc": "x",
            "__pycache__/old.cpython-314.pyc": None,
            "json.pyc": "x",
            "own.abi3.so": "x",
        },
    )
    problem = "Python would run this compiled file in place of its source"
    files = findings_with(upper, workspace).files
    assert {one.path: one.problem for one in files} == {
        "__pycache__/old.cpython-314.pyc": "", "__pycache__/own.cpython-314.pyc": problem, "json.pyc": problem,
        "own.abi3.so": problem,
    }  # fmt: skip


def test_files_of_installed_packages_cannot_be_kept(upper, workspace, monkeypatch):
    monkeypatch.setattr("sys.prefix", str(workspace / "env"))
    write_files(
        upper,
        {
            "env/lib/json.py": "x",
            "lib/site-packages/a.pth": "x",
            "Dist-Packages/a.py": "x",
            "environment.py": "x",
        },
    )
    problem = "it belongs to an installed package"
    assert {path: effect.problem for path, effect in effects_of(upper, workspace).items()} == {
        "env/lib/json.py": problem, "lib/site-packages/a.pth": problem, "Dist-Packages/a.py": problem, "environment.py": "",
    }  # fmt: skip


def test_an_open_database_cannot_be_kept(upper, workspace):
    """A connection of the kernel would read and write the replaced file."""
    write_files(workspace, {"a.db": "1", "a.db-wal": "log", "b.db": "1"})
    write_files(upper, {"a.db": "2", "a.db-shm": "2", "b.db": "2"})
    problem = "it is an SQLite database that is open"
    found = {path: effect.problem for path, effect in effects_of(upper, workspace).items()}
    assert found == {"a.db": problem, "a.db-shm": problem, "b.db": ""}


def test_a_deleted_folder_is_listed_by_files(upper, workspace):
    write_files(workspace, {"old/a.txt": "a", "old/in/b.txt": "b"})
    write_files(upper, {"old": None})
    effects = effects_of(upper, workspace)
    assert list(effects) == ["old/", "old/a.txt", "old/in/", "old/in/b.txt"]
    assert {effect.action for effect in effects.values()} == {"deleted"}


def test_an_opaque_folder_hides_the_one_below(upper, workspace):
    write_files(workspace, {"data/a.txt": "a", "data/b.txt": "b"})
    write_files(upper, {"data/b.txt": "new"})
    try:
        os.setxattr(upper / "data", "user.overlay.opaque", b"y")
    except OSError:
        pytest.skip("the file system has no extended attributes of users")
    effects = effects_of(upper, workspace)
    assert {path: effect.action for path, effect in effects.items()} == {
        "data/a.txt": "deleted",
        "data/b.txt": "changed",
    }


def test_links_and_special_files_are_named_and_not_followed(upper, workspace, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (upper / "link").symlink_to(secret)
    (upper / "folder").symlink_to(tmp_path)
    os.mkfifo(upper / "pipe")
    effects = effects_of(upper, workspace)
    assert {path: effect.problem for path, effect in effects.items()} == {
        "link": "a symbolic link cannot be kept", "folder": "a symbolic link cannot be kept", "pipe": "a named pipe cannot be kept",
    }  # fmt: skip
    assert "secret" not in str(effects).replace("secret.txt", "")


def test_links_of_the_workspace_are_not_followed(upper, workspace, tmp_path):
    outside = write_files(tmp_path / "outside", {"a.txt": "outside"})
    (workspace / "folder").symlink_to(outside)
    (workspace / "file.txt").symlink_to(outside / "a.txt")
    write_files(upper, {"folder/a.txt": "x", "file.txt": "y"})
    effects = effects_of(upper, workspace)
    assert effects["folder"].problem == "a folder replaces a file or a link"
    assert effects["file.txt"].problem == "it is a symbolic link in the workspace"


def test_a_hard_link_of_the_workspace_is_not_replaced(upper, workspace):
    write_files(workspace, {"a.txt": "a"})
    os.link(workspace / "a.txt", workspace / "b.txt")
    write_files(upper, {"a.txt": "new"})
    assert "hard links" in effects_of(upper, workspace)["a.txt"].problem


def test_a_huge_sparse_file_is_not_read(upper, workspace):
    with (upper / "huge.bin").open("wb") as file:
        file.truncate(2**40)
    with cpu_seconds() as seconds:
        effect = effects_of(upper, workspace)["huge.bin"]
    assert (effect.size_after, effect.problem) == (None, "it is larger than 2.1 GB")
    assert seconds[0] < 1


def test_a_file_name_that_is_not_text_is_reported(upper, workspace):
    (upper / os.fsdecode(b"bad\xff.txt")).touch()
    (effect,) = effects_of(upper, workspace).values()
    assert effect.problem == "its name is not valid text"
    assert effect.path.isprintable()


def test_a_name_with_a_line_break_is_shown_on_one_line(upper, workspace):
    write_files(upper, {"a\nb.txt": "x"})
    (effect,) = effects_of(upper, workspace).values()
    assert effect.path.isprintable()
    assert "a\nb" not in effect.diff


def test_names_that_look_alike_are_told_apart(upper, workspace):
    names = ("a\u200bb.txt", "a\u200cb.txt", "d\u0430ta.txt", "data.txt")
    write_files(upper, dict.fromkeys(names, "x"))
    details = sorted(effect.detail for effect in findings_with(upper, workspace).files)
    codes = ("column 2 U+0430", "column 2 U+200B", "column 2 U+200C")
    assert details == ["1 B", *(f"1 B, hidden or unusual characters: {code}" for code in codes)]


def test_a_name_has_any_length(upper, workspace):
    write_files(upper, {"x" * 255: "x"})
    assert effects_of(upper, workspace)["x" * 255].action == "created"


def test_too_many_files_are_refused(upper, workspace, monkeypatch):
    from tract_jupyter.rehearsal import files

    monkeypatch.setattr(files, "MOST_FILES", 20)
    write_files(upper, {f"{number}.txt": "" for number in range(21)})
    with pytest.raises(RehearsalError, match="more than 20 changed files"):
        findings_with(upper, workspace)


def test_two_hundred_files_have_bounded_effects(upper, workspace):
    write_files(upper, {f"out/{number}.txt": "line\n" * 5_000 for number in range(250)})
    effects = effects_of(upper, workspace)
    assert len(effects) == 250
    assert sum(len(effect.diff) for effect in effects.values()) < 500_000


@pytest.mark.parametrize(
    ("name", "before", "after", "detail"),
    [
        ("a.csv", "name,n\nbird,1\ncat,2\n", "name,n\nBIRD,1\n", "1 row removed; 1 value of name changed"),
        ("a.tsv", "name\tn\nbird\t1\n", "name\tn\tplace\nbird\t1\tx\n", "column place added"),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', '{"a": 1}\n{"a": 3}\n{"a": 4}\n', "1 row added; 1 value of a changed"),
        ("a.csv", None, "name,n\nbird,1\ncat,2\n", "2 rows × 2 columns"),
        ("a.csv", "a,b\n1,2\n", "a,b\n\n1,2", "other formatting, the same cells"),
        ("a.csv", "a,b\n1,2\n", "b,a\n2,1\n", "another order of columns, the same cells"),
        ("a.csv", "a\n1\n2\n3\n4\n5\n6\n", "a\n6\n5\n4\n3\n2\n1\n", "rows in another order"),
        ("a.jsonl", '{"a": 1}\n', '{"a":1}\n', "other formatting, the same cells"),
        ("a.jsonl", '{"a": 1}\n', '{"a": "1"}\n', "1 value of a changed"),
        ("a.jsonl", '{"a": 1, "b": 1}\n', '{"a": "", "b": 2}\n', "1 value of a changed; 1 value of b changed"),
        ("a.jsonl", '{"a": "", "b": 1}\n', '{"a": null, "b": 1}\n', "1 value of a changed"),
    ],
)  # fmt: skip
def test_table_files_are_compared_by_rows(upper, workspace, name, before, after, detail):
    write_files(workspace, {name: before} if before else {})
    write_files(upper, {name: after})
    effect = effects_of(upper, workspace)[name]
    assert effect.detail == detail
    assert effect.table is not None


def test_without_numpy_changed_table_files_are_compared_by_lines(upper, workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    write_files(workspace, {"a.csv": "a,b\n1,2\n"})
    write_files(upper, {"a.csv": "a,b\n1,3\n", "new.csv": "a,b\n1,2\n"})
    effects = effects_of(upper, workspace)
    assert (effects["a.csv"].table, effects["a.csv"].detail) == (None, "1 line added, 1 line removed")
    assert effects["new.csv"].detail == "1 row × 2 columns"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("a.csv", "a,b\n1,2\n", "a,b\n1,2,more\n"), ("a.jsonl", '{"a": 1}\n', '{"a": "more", "a": 1}\n')],
)
def test_values_without_a_cell_are_shown_as_lines(upper, workspace, name, before, after):
    write_files(workspace, {name: before})
    write_files(upper, {name: after})
    effect = effects_of(upper, workspace)[name]
    assert (effect.table, effect.detail) == (None, "1 line added, 1 line removed")
    assert "more" in effect.diff


def test_a_change_in_a_long_file_is_shown(upper, workspace):
    lines = [f"x{number} = {number}\n" for number in range(5_000)]
    write_files(workspace, {"a.py": "".join(lines), "b.py": "".join(lines), "c.py": "".join(lines)})
    changed = [*lines[:3_000], "evil()\n", *lines[3_000:]]
    write_files(upper, {"a.py": "".join(changed), "b.py": "evil()", "c.py": "".join([*lines, "evil()"])})
    effects = effects_of(upper, workspace)
    assert effects["a.py"].diff.split("\n") == [
        "--- a.py", "+++ a.py", "@@ -2999,4 +2999,5 @@", " x2998 = 2998", " x2999 = 2999", "+evil()", " x3000 = 3000",
        " x3001 = 3001",
    ]  # fmt: skip
    assert effects["a.py"].detail == "1 line added"
    assert effects["b.py"].detail == "1 line added, 5,000 lines removed"
    assert effects["c.py"].diff.split("\n")[2:] == [
        "@@ -4999,2 +4999,3 @@",
        " x4998 = 4998",
        " x4999 = 4999",
        "+evil()",
    ]


@pytest.mark.parametrize("end", ["\u2028", "\f", "\x85"])
def test_another_end_of_a_line_is_a_change(upper, workspace, end):
    """It makes code of a comment."""
    write_files(workspace, {"a.py": f"# text{end}evil()\nx = 1\n"})
    write_files(upper, {"a.py": "# text\nevil()\nx = 1\ny = 2\n"})
    assert effects_of(upper, workspace)["a.py"].diff.split("\n")[3:] == [
        "-# text\ufffd", "+# text", " evil()", " x = 1", "+y = 2",
    ]  # fmt: skip


def test_a_diff_does_not_show_usual_ends_of_lines(upper, workspace):
    write_files(workspace, {"a.txt": "a\r\nb\r\n", "b.txt": "a\nb"})
    write_files(upper, {"a.txt": "a\r\nc\r\n", "b.txt": "a\nb\nc"})
    effects = effects_of(upper, workspace)
    assert effects["a.txt"].diff.split("\n")[3:] == [" a", "-b", "+c"]
    assert effects["b.txt"].diff.split("\n")[3:] == [" a", " b", "+c"]


@pytest.mark.parametrize("content", ["a,a\n1,2\n", "\0", "{", b"\xff\xfe", "", "x" * 200_000])
def test_odd_table_files_are_files(upper, workspace, content):
    write_files(upper, {"a.csv": content, "b.jsonl": content})
    effects = effects_of(upper, workspace)
    assert {effect.action for effect in effects.values()} == {"created"}


def test_the_digest_covers_files(upper, workspace):
    write_files(upper, {"a.txt": "one"})
    first = findings_with(upper, workspace).digest()
    assert findings_with(upper, workspace).digest() == first
    write_files(upper, {"a.txt": "two"})
    assert findings_with(upper, workspace).digest() != first


def test_the_digest_covers_the_permissions_of_a_new_folder(upper, workspace):
    (upper / "sub").mkdir(mode=0o700)
    first = findings_with(upper, workspace).digest()
    (upper / "sub").chmod(0o755)
    assert findings_with(upper, workspace).digest() != first


def test_the_digest_tells_one_output_from_two(upper, workspace):
    findings = findings_with(upper, workspace)
    one, two = [Output("display", "a", {"": "b"})], [Output("display", "a"), Output("display", "b")]
    assert findings.digest(one) != findings.digest(two)


def test_files_of_the_store_cannot_be_kept(upper, workspace):
    store = Backups(workspace / ".tract" / "notes.db.backups")
    write_files(
        upper,
        {
            ".tract/notes.db": "x",
            ".tract/notes.db-wal": "x",
            ".tract/notes.db.backups/changes/a.json": "{}",
            ".tract/other.txt": "x",
        },
    )
    effects = findings_with(upper, workspace, own_paths=store.own_paths).files
    assert {effect.path: effect.problem for effect in effects} == {
        ".tract/notes.db": "it belongs to the store of this notebook", ".tract/notes.db-wal": "it belongs to the store of this notebook",
        ".tract/notes.db.backups/changes/a.json": "it belongs to the store of this notebook", ".tract/other.txt": "",
    }  # fmt: skip
