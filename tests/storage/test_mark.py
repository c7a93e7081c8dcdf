"""A store that lost data since its last write opens with one warning and the remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage import Database, StoreLossWarning

KILLED = """
import os, sys
from tract_jupyter import Tract
tract = Tract.open(sys.argv[1])
for number in range(int(sys.argv[2])):
    tract.user(f"late {number}")
os._exit(9)
"""


def killed_after(path, writes, *, keeps_wal=True):
    """Write in another process that ends without closing anything."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(writes)], cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 9
    if not keeps_wal:
        beside(path, "-wal").unlink()
        beside(path, "-shm").unlink(missing_ok=True)


def beside(path, end):
    return path.with_name(path.name + end)


def opened(path):
    """Open a store quietly; return the number of its commits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Tract.open(path) as tract:
            assert tract.verify() == []
            return len(tract.log(limit=1_000))


def told(path, problem):
    """Open a store that lost data, check the warning, and return the number of its commits."""
    with pytest.warns(StoreLossWarning, match=problem) as caught:
        tract = Tract.open(path)
    with tract:
        (damage,) = tract.verify()
        found = len(tract.log(limit=1_000))
    assert damage.problem == str(caught[0].message)
    assert "Restore a backup" in damage.problem
    assert opened(path) == found  # the warning appears only once
    return found


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        for number in range(5):
            tract.user(f"text {number}")
    return path


def test_a_store_that_is_closed_leaves_nothing_beside_it(path):
    assert list(path.parent.iterdir()) == [path]
    assert opened(path) == 5
    assert list(path.parent.iterdir()) == [path]


def test_a_new_path_opens_quietly(tmp_path):
    assert opened(tmp_path / "new.db") == 0


@pytest.mark.slow
def test_a_file_that_was_removed_is_a_new_path(path):
    killed_after(path, 1, keeps_wal=False)
    path.unlink()
    assert opened(path) == 0


def test_a_file_of_0_bytes(path):
    path.write_bytes(b"")
    assert told(path, "was there and had 0 bytes") == 0


def test_a_new_store_with_a_deleted_wal_warns_about_lost_commits(tmp_path):
    path = tmp_path / "new.db"
    killed_after(path, 30, keeps_wal=False)
    assert told(path, "held a store with up to 30 commits, and its content is gone") == 0


def test_an_older_store_with_a_deleted_wal_warns_about_lost_commits(path):
    killed_after(path, 7, keeps_wal=False)
    assert told(path, "lacks up to 7 of the newest commits") == 5


def test_a_store_that_was_killed_with_its_wal_in_place_lost_nothing(path):
    killed_after(path, 7)
    assert beside(path, "-mark").exists()
    assert opened(path) == 12
    assert list(path.parent.iterdir()) == [path]


def test_an_older_copy_of_a_used_store_warns_about_lost_commits(path):
    backup = path.with_name("backup.db")
    shutil.copy(path, backup)
    killed_after(path, 3)
    beside(path, "-wal").unlink()
    beside(path, "-shm").unlink(missing_ok=True)
    shutil.copy(backup, path)
    assert told(path, "lacks up to 3") == 5
    assert opened(backup) == 5


def test_another_store_in_its_place_is_that_store(path, tmp_path):
    other = tmp_path / "other.db"
    with Tract.open(other) as tract:
        tract.user("other")
    killed_after(path, 3)
    beside(path, "-wal").unlink()
    beside(path, "-shm").unlink(missing_ok=True)
    shutil.copy(other, path)
    assert opened(path) == 1


def test_commits_removed_by_gc_are_not_reported_as_lost(path):
    with Tract.open(path) as tract:
        tract.branch("aside")
        tract.switch("aside")
        tract.user("aside")
        tract.switch("main")
        tract.delete_branch("aside", force=True)
        tract.gc(orphan_retention_days=0)
        shutil.copy(beside(path, "-mark"), beside(path, "-kept"))
    killed_after(path, 0)
    shutil.copy(beside(path, "-kept"), beside(path, "-mark"))
    assert opened(path) == 5


def test_two_users_of_a_store(path):
    with Tract.open(path) as first:
        first.user("first")
        with Tract.open(path) as second:
            second.user("second")
            assert len(first.log()) == 7
        assert beside(path, "-mark").exists()
        assert opened(path) == 7
        first.user("third")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mark", [b"", b"nonsense", b"\xff" * 75, b"0" * 32 + b" 5 5\n"])
def test_an_unreadable_mark_is_ignored(path, mark):
    beside(path, "-mark").write_bytes(mark)
    assert opened(path) == 5


def test_a_folder_at_the_path_of_the_mark_is_ignored(path):
    beside(path, "-mark").mkdir()
    with Tract.open(path) as tract:
        tract.user("written all the same")
    assert opened(path) == 6


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_only_its_user_reads_it(path):
    with Tract.open(path) as tract:
        tract.user("x")
        assert beside(path, "-mark").stat().st_mode & 0o777 == 0o600


def test_a_store_that_another_process_is_just_making(tmp_path):
    path = tmp_path / "new.db"
    beside(path, "-mark").write_bytes(b"%s %s %s\n" % (b"0" * 32, b"0" * 20, b"0" * 20))
    path.write_bytes(b"")
    assert opened(path) == 0


def test_an_opening_that_fails_leaves_the_mark(path):
    killed_after(path, 1)
    path.write_bytes(b"no database " * 1_000)
    with pytest.raises(StoreError):
        Tract.open(path)
    assert beside(path, "-mark").exists()


def test_a_store_that_must_exist_is_not_made_in_an_empty_file(path):
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="there is no store in"):
        Database(path, must_exist=True)


def test_a_link_in_place_of_the_mark_changes_no_other_file(path, tmp_path):
    """A folder with a store can come from somebody else."""
    other = tmp_path / "profile"
    other.write_text("a file of the user, which is longer than a mark: " + "x" * 200)
    before = other.read_text()
    path.with_name(f"{path.name}-mark").symlink_to(other)
    with Tract.open(path) as tract:
        tract.user("Hi")
    assert other.read_text() == before
