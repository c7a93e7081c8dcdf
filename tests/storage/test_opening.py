"""Files and addresses that can be opened, and the errors for the others."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreVersionError,
)
from tract_jupyter.storage import SCHEMA_VERSION, Database, StoreLossWarning


@pytest.fixture
def store(tmp_path):
    """A store with one commit, closed."""
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        tract.user("first")
    return path


@pytest.mark.parametrize("url", [None, "sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite:///file:{}?uri=true"])
def test_a_new_store_is_private_to_its_user(tmp_path, modes, url):
    folder = tmp_path / "new" / "deep"
    if url is not None:
        folder.parent.mkdir(mode=0o700)
        folder.mkdir(mode=0o700)
    path = folder / "store.db"
    with Tract.open(path) if url is None else Tract.open(url=url.format(path)) as tract:
        tract.user("first")
        assert modes(tmp_path) == {
            "new": 0o700, "new/deep": 0o700, "new/deep/store.db": 0o600, "new/deep/store.db-wal": 0o600,
            "new/deep/store.db-shm": 0o600, "new/deep/store.db-mark": 0o600,
        }  # fmt: skip


@pytest.mark.parametrize("how", ["path", "link", "url"])
def test_a_journal_that_names_another_file_is_refused(store, tmp_path, how):
    """SQLite would delete that file. The folder of a store can come from somebody else."""
    other = tmp_path / "thesis.txt"
    other.write_text("years")
    name, magic = str(other).encode(), bytes.fromhex("d9d505f920a163d7")
    size = int.from_bytes(store.read_bytes()[16:18], "big")
    header = magic + struct.pack(">5I", 0, 1, store.stat().st_size // size, 512, size)
    end = struct.pack(">I", 0x40000000 // size + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    journal = store.with_name("store.db-journal")
    journal.write_bytes(header.ljust(512, b"\0") + end)
    opened = store
    if how == "link":
        opened = tmp_path / "link.db"
        opened.symlink_to(store)
    place = {"url": f"sqlite:///file:{opened}?uri=true&mode=rw"} if how == "url" else {"path": opened}
    with pytest.raises(StoreError, match="which SQLite would delete"):
        Tract.open(**place)
    assert other.exists()
    journal.unlink()
    with Tract.open(store) as tract:
        assert len(tract.log()) == 1


def test_a_store_behind_a_link_is_private_too(tmp_path, modes):
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    with Tract.open(tmp_path / "link.db") as tract:
        tract.user("first")
    assert modes(tmp_path)["real.db"] == 0o600


def test_a_store_that_exists_keeps_its_mode(tmp_path, modes):
    path = tmp_path / "team" / "store.db"
    with Tract.open(path) as tract:
        tract.user("first")
    path.chmod(0o664)
    path.parent.chmod(0o777)
    with Tract.open(path) as tract:
        tract.user("second")
    assert modes(tmp_path) == {"team": 0o777, "team/store.db": 0o664}


def texts(tract):
    return [message.content for message in tract.compile().messages]


def assert_refused(path, error, match, **options):
    """Check that opening raises this error and changes neither the file nor its folder."""
    before, beside = path.read_bytes(), sorted(path.parent.iterdir())
    with pytest.raises(error, match=match) as caught:
        Tract.open(path, **options)
    assert type(caught.value) is error
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == beside


# --- valid files and addresses


def test_the_folder_is_made(tmp_path):
    path = tmp_path / "new" / "folder" / "store.db"
    with Tract.open(str(path)) as tract:
        tract.user("x")
        assert tract.location == tract.status().location == str(path)
    assert path.exists()


@pytest.mark.parametrize("place", [{"path": "s.db"}, {"url": "sqlite:///s.db"}])
def test_a_relative_place_goes_by_the_folder_that_the_process_is_in(tmp_path, monkeypatch, place):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        with Tract.open(**place) as tract:
            tract.user(folder)
            assert [message.content for message in tract.compile().messages] == [folder]


def test_an_empty_file_becomes_a_store(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.warns(StoreLossWarning, match="had 0 bytes"):
        tract = Tract.open(path)
    with tract:
        tract.user("x")
    with Tract.open(path) as tract:
        assert texts(tract) == ["x"]


def test_a_store_is_in_wal_mode_and_leaves_one_file(store):
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert [path.name for path in store.parent.iterdir() if path.is_file()] == ["store.db"]


def test_a_file_by_its_url(store):
    with Tract.open(url=f"sqlite:///{store}") as tract:
        assert texts(tract) == ["first"]
        assert tract.location == f"sqlite:///{store}"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_memory_url_is_one_store_for_all_threads(url):
    with Tract.open(url=url) as tract:
        tract.user("x")
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(texts(tract)))
        thread.start()
        thread.join()
        assert seen == ["x"]


@pytest.mark.parametrize(
    "name", ["with space.db", "per%cent.db", "que?ry.db", "#hash.db", "é中.db", "file:x.db"]
)
def test_any_file_name_is_used_unchanged(tmp_path, name):
    with Tract.open(tmp_path / name) as tract:
        tract.user("x")
    assert (tmp_path / name).is_file()


# --- invalid files and addresses


@pytest.mark.parametrize(
    "data",
    [
        b"not a database at all, but long enough to be read as one" * 100,
        b"x",
        b"short note\n" * 20,
        b"\0" * 5000,
    ],
)
def test_garbage_is_refused(tmp_path, data):
    path = tmp_path / "garbage.db"
    path.write_bytes(data)
    assert_refused(path, StoreCorruptError, "not a valid SQLite database")


def test_a_file_that_is_not_a_database_is_not_kept_open(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(b"x" * 5_000)
    with pytest.raises(StoreCorruptError) as caught:
        Tract.open(path)
    assert caught.tb is not None  # the traceback holds all objects of the attempt
    if Path("/proc/self/fd").is_dir():
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert path not in links


def test_a_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.commit()
    assert_refused(path, StoreCorruptError, "not a tract store .tables: customers")


@pytest.mark.parametrize("version", ["0", str(SCHEMA_VERSION + 1), "999"])
def test_a_store_of_another_version_is_refused(store, version):
    set_version(store, version)
    told = f"has store version {version}, .* reads only version {SCHEMA_VERSION}; open it with the tract_jupyter that"
    assert_refused(store, StoreVersionError, told)


@pytest.mark.parametrize("version", ["", "new", "²", "-1", None])
def test_a_store_without_a_version_is_refused(store, version):
    set_version(store, version)
    assert_refused(store, StoreCorruptError, "has no store version")


def set_version(store, version):
    with closing(sqlite3.connect(store)) as connection:
        if version is None:
            connection.execute("DELETE FROM tract_meta WHERE key = 'schema_version'")
        else:
            connection.execute("UPDATE tract_meta SET value = ? WHERE key = 'schema_version'", (version,))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="is a folder; use the path of a file"):
        Tract.open(tmp_path)


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "store.db", tmp_path / "file" / "deeper" / "store.db"):
        with pytest.raises(StoreError, match="cannot create the folder of"):
            Tract.open(path)
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("url", [
    "", "nonsense", "nonsense://x", "sqlite", "mysql://host/name", "sqlite+aiosqlite:///x.db", "postgresql+psycopg2://host/name", "postgresql://host:port/name", "postgresql+nodriver://host/name",
])  # fmt: skip
def test_a_bad_url_is_refused(url):
    with pytest.raises(StoreError, match="URL|driver"):
        Tract.open(url=url)


def test_a_missing_file_by_read_only_url_is_refused(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        Tract.open(url=f"sqlite:///file:{tmp_path}/none.db?mode=ro&uri=true")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "url", ["nodialect://me:hunter2@host/name", "me:hunter2@host", "postgresql://me:hunter2@host:x/n"]
)
def test_a_password_is_not_shown(url):
    with pytest.raises(StoreError) as caught:
        Tract.open(url=url)
    assert "hunter2" not in str(caught.value)


# --- locked


def test_a_locked_store_is_read_but_not_written(store):
    with Tract.open(store, lock_timeout=0.01) as tract, closing(sqlite3.connect(store)) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: tract.user("x"),
            lambda: tract.branch("topic"),
            lambda: tract.switch("main"),
            lambda: tract.annotate("main", "skip"),
        ):
            with pytest.raises(StoreLockedError, match="locked by another process; nothing was written"):
                write()
        assert texts(tract) == ["first"]
        assert tract.status().commit_count == 1
        other.rollback()
        assert [branch.name for branch in tract.list_branches()] == ["main"]
        tract.user("second")
        assert texts(tract) == ["first", "second"]


def test_a_locked_store_can_be_opened(store):
    with closing(sqlite3.connect(store)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Tract.open(store, lock_timeout=0.01) as tract:
            assert texts(tract) == ["first"]


@pytest.mark.parametrize("lock", [
    ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE"),
    ("BEGIN IMMEDIATE",),  # reading is possible, so only the creation of the store fails
])  # fmt: skip
def test_a_new_file_locked_by_another_process_is_refused(tmp_path, lock):
    path = tmp_path / "locked.db"
    with closing(sqlite3.connect(path)) as other:
        for statement in lock:
            other.execute(statement)
        with pytest.raises(StoreLockedError, match="locked"):
            Tract.open(path, lock_timeout=0.01)


# --- read-only


def test_a_read_only_store_is_read_but_not_written(store):
    before = store.read_bytes()
    with Tract.open(url=f"sqlite:///file:{store}?mode=ro&uri=true") as tract:
        head = tract.head
        assert texts(tract) == ["first"]
        assert len(tract.log()) == tract.status().commit_count == 1
        for write in (
            lambda: tract.user("x"),
            lambda: tract.branch("topic"),
            lambda: tract.annotate("main", "skip"),
        ):
            with pytest.raises(StoreReadOnlyError, match="is read-only; nothing was changed"):
                write()
        assert (tract.head, texts(tract)) == (head, ["first"])
    assert store.read_bytes() == before


def test_another_tract_cannot_be_made_in_a_read_only_store(store):
    with pytest.raises(StoreReadOnlyError):
        Tract.open(url=f"sqlite:///file:{store}?mode=ro&uri=true", tract_id="other")


READ_ONLY = """
import os, sys
from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreReadOnlyError
import urllib.request  # Tract.open(path) imports it, and another user may not read the files of the interpreter
with Tract.open() as tract:  # imports the rest
    tract.user("x"), tract.compile()
if os.geteuid() == 0:  # permissions do not bind root
    os.setuid(65534)
with Tract.open(sys.argv[1]) as tract:
    assert [message.content for message in tract.compile().messages] == ["first"]
    try:
        tract.user("second")
    except StoreReadOnlyError:
        print("refused")
"""


@pytest.fixture
def public_store(store):
    """The store in a folder that every user can enter. The folders of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="tract-read-only-") as folder:
        Path(folder).chmod(0o777)
        yield Path(shutil.copy(store, folder))
        Path(folder).chmod(0o777)


def test_files_of_another_user_beside_the_store_are_named(public_store):
    """A user who only read the store may have left them. They make it read-only for its owner."""
    public_store.chmod(0o666)
    others = [public_store.with_name(f"{public_store.name}{end}") for end in ("-shm", "-wal")]
    with closing(sqlite3.connect(public_store)) as connection:
        connection.execute("SELECT count(*) FROM commits")
        for file in others:
            file.chmod(0o444)
        told = READ_ONLY.replace('print("refused")', "print(sys.exc_info()[1])")
        command = [sys.executable, "-c", told, str(public_store)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"{public_store} is read-only, because you may not write {others[0]}, {others[1]}"
    )


@pytest.mark.parametrize("folder_mode", [0o777, 0o555])
def test_a_store_without_write_permission_is_read_but_not_written(public_store, folder_mode):
    before = public_store.read_bytes()
    public_store.chmod(0o444)
    public_store.parent.chmod(folder_mode)
    command = [sys.executable, "-c", READ_ONLY, str(public_store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("refused", 0), done.stderr
    assert public_store.read_bytes() == before


# --- closed


def test_a_closed_tract_says_so(store):
    tract = Tract.open(store)
    tract.close()
    tract.close()
    for use in (
        tract.log,
        tract.compile,
        tract.status,
        tract.list_branches,
        lambda: tract.user("x"),
        lambda: tract.head,
    ):
        with pytest.raises(StoreClosedError, match=r"was closed; open it again"):
            use()
    with Tract.open(store) as again:
        assert texts(again) == ["first"]


def test_a_closed_store_in_memory_is_gone():
    tract = Tract.open()
    tract.close()
    with pytest.raises(StoreClosedError):
        tract.user("x")


def test_leaving_the_block_closes_also_after_an_error(store):
    with pytest.raises(ZeroDivisionError), Tract.open(store) as tract:
        raise ZeroDivisionError
    with pytest.raises(StoreClosedError):
        tract.log()


def test_a_failed_opening_leaves_no_connection(store):
    set_version(store, "99")
    for _ in range(3):
        with pytest.raises(StoreVersionError):
            Tract.open(store)
    assert [path.name for path in store.parent.iterdir() if path.is_file()] == ["store.db"]


def test_an_error_on_opening_names_the_reason(tmp_path):
    nowhere = tmp_path / "link.db"
    nowhere.symlink_to(tmp_path / "missing" / "store.db")
    with pytest.raises(StoreError, match="although its folder exists"):
        Tract.open(nowhere)
    with pytest.raises(StoreError, match="a text or a Path, got None"):
        Tract.open(None)
    with pytest.raises(StoreError, match="only one of them"):
        Tract.open(tmp_path / "s.db", url=f"sqlite:///{tmp_path / 'other.db'}")
    assert list(tmp_path.iterdir()) == [nowhere]


@pytest.mark.parametrize(("name", "why"), [("x" * 300 + ".db", "File name too long"), ("x" * 252, "File name too long"),
                                           ("a\0b.db", "NUL character")])  # fmt: skip
def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(tmp_path, name, why):
    with pytest.raises(StoreError, match=f"(invalid path|cannot open) .*{why}.* use another path"):
        Database(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
