"""Full or broken disks and truncated files give a clear error or a recovery, never a different history."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreCorruptError, StoreError
from tract_jupyter.storage import StoreLossWarning


@pytest.fixture
def store(tmp_path):
    """A store with three commits, closed."""
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        for number in range(3):
            tract.user(f"message {number}")
    return path


def texts(tract):
    return [message.content for message in tract.compile().messages]


def assert_sound(path, expected):
    with Tract.open(path) as tract:
        assert texts(tract) == expected
        assert tract.verify() == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# --- full


def limit_pages(tract, count):
    """Limit the disk to the current size of the store, or to the maximum of SQLite."""
    with tract._repository.database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {count or pages}")


def test_a_full_disk_refuses_a_commit_and_keeps_the_others(store):
    with Tract.open(store) as tract:
        limit_pages(tract, None)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"disk of .* is full; nothing was written. Free some space"):
                tract.user("x" * 1_000_000)
        assert texts(tract) == ["message 0", "message 1", "message 2"]
        assert tract.status().message_count == 3
        limit_pages(tract, 1_000_000)
        tract.user("after")
    assert_sound(store, ["message 0", "message 1", "message 2", "after"])


def test_a_disk_that_fills_in_a_batch_refuses_all_of_it(store):
    def fill(tract):
        with tract.batch():
            tract.user("small")
            tract.user("y" * 1_000_000)

    with Tract.open(store) as tract:
        limit_pages(tract, None)
        with pytest.raises(StoreError, match="nothing was written"):
            fill(tract)
        assert texts(tract) == ["message 0", "message 1", "message 2"]
    assert_sound(store, ["message 0", "message 1", "message 2"])


FILL = """
import resource, signal, sys
from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Tract.open(sys.argv[1]) as tract:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    try:
        for number in range(3, 200):
            tract.user(f"message {number}")
            print(number, flush=True)
    except StoreError as error:
        print(error, file=sys.stderr)
"""


@pytest.mark.parametrize("limit", [40_000, 100_000, 151_000])
def test_a_failed_write_loses_no_acknowledged_commit(store, limit):
    command = [sys.executable, "-B", "-c", FILL, str(store), str(limit)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "nothing was written" in ended.stderr
    told = [int(line) for line in ended.stdout.split()]
    assert told
    assert_sound(store, [f"message {number}" for number in range(told[-1] + 1)])


# --- cut short

KILLED = """
import os, signal, sys
from tract_jupyter import Tract
tract = Tract.open(sys.argv[1])
for number in range(3, 30):
    tract.user(f"message {number}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(store):
    """A store with 30 commits. Most of them are in the WAL of a killed process."""
    subprocess.run([sys.executable, "-c", KILLED, str(store)], check=False)
    assert wal(store).stat().st_size > 50_000
    return store


def wal(store):
    return store.with_name(store.name + "-wal")


ALL = [f"message {number}" for number in range(30)]


def test_commits_of_a_killed_process_are_kept(killed):
    assert_sound(killed, ALL)


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 32_768], ids=["missing", "empty", "garbage"])
def test_the_index_of_the_wal_is_made_again(killed, content):
    index = killed.with_name(killed.name + "-shm")
    index.unlink()
    if content is not None:
        index.write_bytes(content)
    assert_sound(killed, ALL)


def test_a_wal_that_was_cut_off_gives_an_earlier_moment(killed, tmp_path):
    whole = wal(killed).read_bytes()
    seen = set()
    for part in range(0, 101, 10):
        copy = tmp_path / f"copy{part}.db"
        shutil.copy(killed, copy)
        wal(copy).write_bytes(whole[: len(whole) * part // 100])
        with Tract.open(copy) as tract:
            count = len(texts(tract))
        assert_sound(copy, ALL[:count])
        seen.add(count)
    assert {3, 30} < seen


def test_a_wal_with_flipped_bytes_gives_an_earlier_moment(killed):
    data = bytearray(wal(killed).read_bytes())
    data[len(data) // 2] ^= 0xFF
    wal(killed).write_bytes(data)
    killed.with_name(killed.name + "-shm").unlink()
    with pytest.warns(StoreLossWarning, match="of the newest commits"):
        tract = Tract.open(killed)
    with tract:
        count = len(texts(tract))
    assert 3 < count < 30
    assert_sound(killed, ALL[:count])


@pytest.mark.parametrize("keep", [100, 512, 4096, 20_000])
def test_a_file_that_was_cut_off_is_recognised(store, keep):
    store.write_bytes(store.read_bytes()[:keep])
    with pytest.raises(StoreCorruptError, match="damaged|not a valid SQLite"), Tract.open(store) as tract:
        tract.compile()


# --- truncated while open


def test_reading_a_truncated_open_store_raises_a_store_error(store):
    with Tract.open(store) as tract:
        with store.open("r+b") as file:
            file.truncate(4096)
        with pytest.raises(StoreError):
            tract.log()
