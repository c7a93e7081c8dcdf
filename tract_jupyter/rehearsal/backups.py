"""Backups: the previous and the new content of changed files, by SHA-256, with a journal of each change.

A change stores all contents first, then its journal, then it replaces the files one by one. So a process that ends at
any step leaves either the old files, or a journal with which `recover` completes the change. An object of the folder
has the name of its hash, mode 0600, and is never changed.

A journal is signed by the user: the folder may come from somebody else. A journal without a valid signature is never
read, and links in place of the folders are not followed.

A file is exchanged with its new version, and the version that comes out is compared with the expected one. If it is
another one, because the user just changed it, both are exchanged again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from tract_jupyter.exceptions import RehearsalError, TrustError
from tract_jupyter.models import make_private_folder, size_text
from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.files import FileState, open_below, shown_path, state_below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from tract_jupyter.rehearsal.change import Change

Side = Literal["before", "after"]

BUDGET: Final = 2 * 1024**3
_AT_ONCE: Final = 1 << 20
_ID: Final = re.compile(r"[0-9a-f]{16}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KIND: Final = "backup"  # of the signatures
_FOLDER: Final = linux.FOLDER | os.O_NOFOLLOW
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTS: Final = ("objects", "changes")
_FOLDER_MODE: Final = 0o777
_OWN: Final = 0o700  # files are restored in the folder
_UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP}


class _FileChangedError(Exception):
    """A file changed after it was compared with the journal. It is as the user left it."""


@dataclass(slots=True)
class FileRecord:
    """A file of a change.

    Attributes:
        path: The path below the workspace. A folder ends with `/`.
        before: The state before. None if there was no file.
        after: The state after. None if it was deleted.
        is_folder: True for a folder that was made or removed.
        is_created: True if it did not exist before.
        at: The state that the workspace has now, as far as the change knows.
        mode: Permission bits of the folder.
    """

    path: str
    before: FileState | None
    after: FileState | None
    is_folder: bool = False
    is_created: bool = False
    at: Side = "before"
    mode: int = _FOLDER_MODE

    def state(self, side: Side) -> FileState | None:
        """Return the state of one side."""
        return self.before if side == "before" else self.after

    def exists(self, side: Side) -> bool:
        """Return True if the file, or the folder, exists on this side."""
        if self.is_folder:
            return (side == "after") == self.is_created
        return self.state(side) is not None


@dataclass(slots=True)
class JournalRecord:
    """The journal of a change.

    Attributes:
        change_id: 16 hexadecimal digits.
        workspace: The folder of the files.
        made: Time in seconds since 1970.
        files: The files.
        made_folders: Folders that the change needs and that did not exist.
        moving: (side, numbers of files) while files are replaced. None otherwise.
    """

    change_id: str
    workspace: str
    made: float
    files: list[FileRecord]
    made_folders: list[str]
    moving: tuple[Side, list[int]] | None = None


class Seal(Protocol):
    """Signs the journals of a user."""

    def sign(self, kind: str, content: Any) -> str:
        """Return the signature of a content."""

    def verify(self, kind: str, content: Any, signature: str) -> bool:
        """Return True if this user signed the content."""


class Backups:
    """The contents of changed files, in a private folder next to the store.

    Args:
        folder: The folder. It is created at the first backup.
        budget: Bytes. The oldest changes are removed first; the newest stays.
        seal: Signs the journals. None for a folder that only this process uses.
    """

    def __init__(self, folder: Path, budget: int = BUDGET, *, seal: Seal | None = None) -> None:
        self.folder = folder
        self.budget = budget
        self._seal = seal

    @property
    def size(self) -> int:
        """The bytes of all contents."""
        return sum(path.stat().st_size for path in self._objects())

    @property
    def own_paths(self) -> str:
        """The beginning of the paths that belong to the store: its files, and this folder."""
        folder = os.path.realpath(self.folder)
        return folder.removesuffix(".backups")

    def change_ids(self) -> tuple[str, ...]:
        """Return the ids of all changes, oldest first."""
        return tuple(record.change_id for record in self._records())

    def change(self, change_id: str) -> Change:
        """Return an earlier change. After a restart, it has files only.

        Raises:
            RehearsalError: there is no such change, or it was removed to save space.
        """
        from tract_jupyter.rehearsal.change import Change

        return Change(change_id, record=self.read(change_id), backups=self)

    def recover(self) -> None:
        """Complete changes that an ended process left unfinished. Changes of running processes are left alone.

        Raises:
            RehearsalError: a file cannot be replaced. Its contents stay here, so this can be tried again.
        """
        for record in self._records():
            if record.moving is not None:
                with self._lock(record.change_id) as is_free:
                    if is_free:
                        self._complete(self.read(record.change_id))
        self._remove_unused()

    # ---- writing

    def store(self, descriptor: int) -> str:
        """Add the content of an open file. Return its SHA-256."""
        self._make_folders()
        temporary = self.folder / "objects" / f".{os.getpid()}-{time.monotonic_ns()}"
        total, at = hashlib.sha256(), 0
        with open(os.open(temporary, _NEW, 0o600), "wb", buffering=0) as file:  # noqa: PTH123 # private
            while data := os.pread(descriptor, _AT_ONCE, at):
                total.update(data)
                _write(file.fileno(), data)
                at += len(data)
            os.fsync(file.fileno())
        name = total.hexdigest()
        temporary.replace(self._object(name))
        return name

    def store_below(self, folder: int, path: str, state: FileState | None) -> None:
        """Store the content of a file below a folder.

        Raises:
            RehearsalError: it no longer has this state.
        """
        if state is None or self.has(state):
            return
        with open_below(folder, path) as descriptor:
            stored = self.store(descriptor)
        if stored != state.sha256:
            raise RehearsalError(f"{path} ({size_text(state.size)}) changed. Rehearse the code again.")

    def rescue(self, record: JournalRecord, numbers: Sequence[int]) -> None:
        """Store the present content of files that changed since the record was made, before they are replaced."""
        with linux.opened(record.workspace) as workspace:
            for number in numbers:
                file = record.files[number]
                now = None if file.is_folder else _state_at(workspace, file.path)
                if now is None or now == file.state(file.at):
                    continue
                self.store_below(workspace, file.path, now)
                if file.at == "after":
                    file.after = now  # redo restores the content that was replaced
                else:
                    file.before = now
        if numbers:
            self.write(record)

    def has(self, state: FileState | None) -> bool:
        """Return True if the content of a state is here, or the state is a missing file."""
        return state is None or self._object(state.sha256).exists()

    def content(self, state: FileState | None, most: int) -> bytes:
        """Return the beginning of the content of a state; empty if there is no file, or its content is not here."""
        with suppress(OSError):
            if state is not None:
                with self._object(state.sha256).open("rb") as file:
                    return file.read(most)
        return b""

    def add(
        self,
        workspace: Path,
        files: list[FileRecord],
        *,
        change_id: str,
        folders: Collection[str] | None = None,
    ) -> JournalRecord:
        """Write the journal of a new change. Its contents must be stored already.

        `folders` are the folders that existed before the change. By default, the present folders.
        """
        self._make_folders()
        record = JournalRecord(
            change_id, os.fspath(workspace), time.time(), files, _missing_folders(workspace, files, folders)
        )
        self.write(record)
        return record

    def move(self, record: JournalRecord, side: Side, numbers: Sequence[int]) -> None:
        """Give files the state of one side. All of them change, or none.

        Raises:
            RehearsalError: a file cannot be replaced. All files are as before.
        """
        if not numbers:
            return
        with self._lock(record.change_id) as is_free:
            if not is_free:
                raise RehearsalError(f"Another process works on the change {record.change_id}. Try again.")
            origin: Side = "before" if side == "after" else "after"
            record.moving = (side, list(numbers))
            self.write(record)
            done = [number for number in numbers if record.files[number].is_folder]
            try:
                self._replace(record, side, numbers, done)
            except (OSError, _FileChangedError) as error:
                record.moving = (origin, done)
                self.write(record)
                self._replace(record, origin, done)
                self._finish(record)
                if isinstance(error, _FileChangedError):
                    raise RehearsalError(
                        f"{shown_path(str(error))} changed while the files were replaced. The others are as before. "
                        "Try again."
                    ) from None
                raise RehearsalError(
                    f"The files cannot be changed: {error.strerror or error}. All files are as before. "
                    f"Make {error.filename or 'the workspace'} writable, then try again."
                ) from None
            self._finish(record)

    def _complete(self, record: JournalRecord) -> None:
        if record.moving is None:
            return
        side, numbers = record.moving
        origin: Side = "before" if side == "after" else "after"
        with linux.opened(record.workspace) as workspace:
            untouched = [number for number in numbers if self._is_at(workspace, record.files[number], origin)]
            for number in numbers:
                _clean(workspace, record.files[number], side, _temporary(record, number))
        try:
            self._replace(record, side, untouched)
        except OSError as error:
            raise RehearsalError(
                f"The change {record.change_id} cannot be completed: {error.strerror or error}. "
                "Its contents are kept. Repair the cause, then try again."
            ) from None
        self._finish(record)

    @staticmethod
    def _is_at(workspace: int, file: FileRecord, side: Side) -> bool:
        """Return True if a file still has the state of a side. A file that the user changed since is left alone."""
        return file.is_folder or state_below(workspace, file.path) == file.state(side)

    def _finish(self, record: JournalRecord) -> None:
        if record.moving is None:
            return
        side, numbers = record.moving
        for number in numbers:
            record.files[number].at = side
        record.moving = None
        self.write(record)
        self.trim()

    def _replace(
        self, record: JournalRecord, side: Side, numbers: Sequence[int], done: list[int] | None = None
    ) -> None:
        """Give files the state of one side. Doing it twice is the same as once.

        `done` receives the number of each replaced file. If it is None, a file that the user changed is left alone;
        otherwise it raises `_FileChangedError`.
        """
        with linux.opened(record.workspace) as workspace:
            for number in sorted(numbers, key=lambda number: not record.files[number].exists(side)):
                try:
                    self._put(workspace, record.files[number], side, _temporary(record, number))
                except _FileChangedError:
                    if done is not None:
                        raise
                else:
                    if done is not None and number not in done:
                        done.append(number)
            files = [record.files[number] for number in numbers]
            folders = [file.path.rstrip("/") for file in files if file.is_folder and not file.exists(side)]
            if side == "before":
                folders += record.made_folders
            for path in sorted(set(folders), key=len, reverse=True):
                _remove(workspace, path)

    def _put(self, workspace: int, file: FileRecord, side: Side, temporary: str) -> None:
        state = file.state(side)
        expected = file.state("after" if side == "before" else "before")
        if not file.exists(side):
            if not file.is_folder:
                _take_away(workspace, file, expected, temporary)
            return
        path = file.path.rstrip("/")
        with ExitStack() as stack:
            *parents, name = path.split("/")
            folder = workspace
            for parent in [*parents, name] if file.is_folder else parents:
                is_new = _make_folder(parent, folder)
                folder = stack.enter_context(linux.opened(parent, _FOLDER, folder=folder))
            if file.is_folder and is_new:
                os.fchmod(folder, file.mode | _OWN)
            if not file.is_folder and state is not None:
                self._write_file(folder, name, state, temporary)
                _swap_in(folder, file.path, temporary, state, expected)

    def _write_file(self, folder: int, name: str, state: FileState, temporary: str) -> None:
        """Write the content of a state to a temporary file."""
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        with (
            linux.opened(self._object(state.sha256), os.O_RDONLY | os.O_CLOEXEC) as source,
            linux.opened(temporary, _NEW, folder=folder) as target,
        ):
            total = hashlib.sha256()
            while data := os.read(source, _AT_ONCE):
                total.update(data)
                _write(target, data)
            if total.hexdigest() != state.sha256:
                os.unlink(temporary, dir_fd=folder)
                raise OSError(f"the backup of {name} is damaged")
            os.fchmod(target, state.mode)
            os.utime(target, ns=(state.mtime, state.mtime))
            os.fsync(target)

    # ---- journals

    def read(self, change_id: str) -> JournalRecord:
        """Return the journal of a change.

        Raises:
            RehearsalError: there is none, or it is damaged.
        """
        if not _ID.fullmatch(change_id):
            raise RehearsalError(f"Invalid id of a change: {change_id!r}. Use the id that the change has.")
        try:
            data = json.loads(self._journal(change_id).read_text("utf-8"))
            signature = data.pop("signature", "")
            if self._seal is not None and not self._seal.verify(_KIND, _digest(data), str(signature)):
                raise RehearsalError(
                    f"The backup of the change {change_id} is not signed by you, so its files stay as they are."
                )
            return _record(data)
        except TrustError as error:
            raise RehearsalError(str(error)) from None
        except FileNotFoundError:
            raise RehearsalError(
                f"The change {change_id} has no backup. It was removed to save space, or it changed no file."
            ) from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RehearsalError(f"The backup of the change {change_id} is damaged: {error}.") from None

    def write(self, record: JournalRecord) -> None:
        """Write a journal in one step."""
        data = asdict(record)
        try:
            if self._seal is not None:
                data["signature"] = self._seal.sign(_KIND, _digest(data))
        except TrustError as error:
            raise RehearsalError(f"The backups cannot be signed: {error}") from None
        path = self._journal(record.change_id)
        temporary = path.with_suffix(".new")
        with suppress(FileNotFoundError):
            temporary.unlink()
        with linux.opened(temporary, _NEW) as descriptor:
            _write(descriptor, json.dumps(data).encode())
            os.fsync(descriptor)
        temporary.replace(path)
        with linux.opened(path.parent) as folder:
            os.fsync(folder)

    def trim(self) -> None:
        """Remove the oldest changes until the contents are within the budget. The newest change stays."""
        if self.size <= self.budget:
            return
        records = self._records()
        while len(records) > 1 and self.size > self.budget and records[0].moving is None:
            self._drop(records.pop(0))

    def forget(self, change_id: str) -> None:
        """Remove a change, if there is one, and the contents that no other change needs."""
        with suppress(RehearsalError):
            self._drop(self.read(change_id))

    def _drop(self, record: JournalRecord) -> None:
        self._journal(record.change_id).unlink(missing_ok=True)
        for name in _contents(record) - self._needed():
            self._object(name).unlink(missing_ok=True)

    def _remove_unused(self) -> None:
        """Remove contents of changes that were never made, because a process ended."""
        used = self._needed()
        for path in self._objects():
            if path.name not in used and path.stat().st_mtime < time.time() - _FRESH:
                path.unlink(missing_ok=True)

    def _records(self) -> list[JournalRecord]:
        found = []
        for path in self._entries("changes"):
            if path.suffix == ".json":
                with suppress(RehearsalError):
                    found.append(self.read(path.stem))
        return sorted(found, key=lambda record: record.made)

    def _needed(self) -> set[str]:
        """Return the hashes in all journals. Other users may have written some of them."""
        found: set[str] = set()
        for path in self._entries("changes"):
            with suppress(OSError):
                found.update(_SHA256.findall(path.read_text("utf-8", "replace")))
        return found

    def _objects(self) -> Iterator[Path]:
        return (
            path
            for path in self._entries("objects")
            if _SHA256.fullmatch(path.name) or path.name.startswith(".")
        )

    def _entries(self, name: str) -> Iterator[Path]:
        """Yield the regular files of a part of the folder. Links are not followed."""
        folder = self.folder / name
        is_own = folder.is_dir() and not self._has_link()
        yield from (
            (path for path in folder.iterdir() if path.is_file() and not path.is_symlink()) if is_own else ()
        )

    def _has_link(self) -> bool:
        return any(path.is_symlink() for path in (self.folder, *map(self.folder.joinpath, _PARTS)))

    def _object(self, sha256: str) -> Path:
        return self.folder / "objects" / sha256

    def _journal(self, change_id: str) -> Path:
        return self.folder / "changes" / f"{change_id}.json"

    def _make_folders(self) -> None:
        if self._has_link():
            raise OSError(errno.ELOOP, f"{self.folder} has a symbolic link in place of a folder; remove it")
        for name in _PARTS:
            make_private_folder(self.folder / name)

    @contextmanager
    def _lock(self, change_id: str) -> Iterator[bool]:
        """Hold the lock of a change. The value is False if another process has it."""
        path = self.folder / "changes" / f"{change_id}.lock"
        with linux.opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
            path.unlink(missing_ok=True)


_FRESH: Final = 3_600.0  # seconds in which another process may write the journal of a content


def _contents(record: JournalRecord) -> set[str]:
    """Return the hashes of all contents that a change needs."""
    states = [state for file in record.files for state in (file.before, file.after)]
    return {state.sha256 for state in states if state is not None}


def _record(data: dict[str, Any]) -> JournalRecord:
    files = [
        FileRecord(
            str(one["path"]),
            _state(one["before"]),
            _state(one["after"]),
            is_folder=bool(one["is_folder"]),
            is_created=bool(one["is_created"]),
            at=one["at"],
            mode=int(one["mode"]),
        )
        for one in data["files"]
    ]
    for path in [*(file.path for file in files), *data["made_folders"]]:
        _check_path(path)
    moving = data["moving"]
    return JournalRecord(
        str(data["change_id"]),
        str(data["workspace"]),
        float(data["made"]),
        files,
        [str(path) for path in data["made_folders"]],
        None if moving is None else (moving[0], [int(number) for number in moving[1]]),
    )


def _digest(data: dict[str, Any]) -> str:
    """Return the SHA-256 of a journal without its signature."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _state(data: dict[str, Any] | None) -> FileState | None:
    if data is None:
        return None
    if not _SHA256.fullmatch(data["sha256"]):
        raise ValueError("a hash of a content is not valid")
    return FileState(**data)


def _check_path(path: str) -> None:
    parts = path.rstrip("/").split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise ValueError(f"the path {path!r} is not below the workspace")


def _missing_folders(
    workspace: Path, files: Sequence[FileRecord], folders: Collection[str] | None
) -> list[str]:
    """Return the folders that do not exist and that new files need."""
    missing: dict[str, None] = {}
    for file in files:
        if file.exists("before"):
            continue
        parents = file.path.rstrip("/").split("/")
        for count in range(1, len(parents)):
            path = "/".join(parents[:count])
            if path not in folders if folders is not None else not os.path.lexists(workspace / path):
                missing[path] = None
    return list(missing)


def _make_folder(name: str, folder: int) -> bool:
    """Make a folder. Return False if there is one."""
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _temporary(record: JournalRecord, number: int) -> str:
    return f".tract-{record.change_id}-{number}"


def _remove(workspace: int, path: str) -> None:
    """Remove an empty folder. A folder with other files stays."""
    with _parent_of(workspace, path) as folder:
        if folder is None:
            return
        with suppress(OSError):
            os.rmdir(path.rpartition("/")[2], dir_fd=folder)
            os.fsync(folder)


@contextmanager
def _parent_of(workspace: int, path: str) -> Iterator[int | None]:
    """Open the folder of a path. None if it does not exist."""
    with ExitStack() as stack:
        folder = workspace
        for parent in path.split("/")[:-1]:
            try:
                folder = stack.enter_context(linux.opened(parent, _FOLDER, folder=folder))
            except (FileNotFoundError, NotADirectoryError):
                yield None
                return
        yield folder


def _swap_in(folder: int, path: str, temporary: str, state: FileState, expected: FileState | None) -> None:
    """Give a written temporary file its name, if the file with this name still has the expected state.

    Where the file system cannot exchange files, the file is replaced as it is.

    Raises:
        _FileChangedError: it has another state, and is as before.
    """
    name = path.rpartition("/")[2]
    try:
        if expected is None:
            linux.rename_new(temporary, name, folder)
        else:
            linux.exchange(temporary, name, folder)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
            return
        os.unlink(temporary, dir_fd=folder)
        if isinstance(error, FileExistsError | FileNotFoundError):
            raise _FileChangedError(path) from None
        raise
    if expected is not None:
        if _state_at(folder, temporary) != expected:
            linux.exchange(temporary, name, folder)
            if _state_at(folder, temporary) == state:  # else the user changed it in between
                os.unlink(temporary, dir_fd=folder)
            raise _FileChangedError(path)
        os.unlink(temporary, dir_fd=folder)
    os.fsync(folder)


def _take_away(workspace: int, file: FileRecord, expected: FileState | None, temporary: str) -> None:
    """Delete a file, if it still has the expected state.

    Raises:
        _FileChangedError: it has another state, and is as before.
    """
    name = file.path.rpartition("/")[2]
    with _parent_of(workspace, file.path) as folder:
        if folder is None:
            return
        try:
            os.rename(name, temporary, src_dir_fd=folder, dst_dir_fd=folder)
        except FileNotFoundError:
            return
        if _state_at(folder, temporary) != expected:
            _put_back(folder, temporary, name)
            raise _FileChangedError(file.path)
        os.unlink(temporary, dir_fd=folder)
        os.fsync(folder)


def _put_back(folder: int, temporary: str, name: str) -> None:
    """Give a file its name again. If the user made a new file with this name, both stay."""
    try:
        linux.rename_new(temporary, name, folder)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _clean(workspace: int, file: FileRecord, side: Side, temporary: str) -> None:
    """Remove the temporary file of an ended process. If it is a version of the user's, the user gets it back."""
    if file.is_folder:
        return
    name = file.path.rpartition("/")[2]
    with _parent_of(workspace, file.path) as folder:
        if folder is None or not _exists(folder, temporary):
            return
        here, state = _state_at(folder, name), file.state(side)
        expected = file.state("after" if side == "before" else "before")
        if here == state and _state_at(folder, temporary) != expected:  # both were exchanged already
            if state is None:
                _put_back(folder, temporary, name)
                return
            linux.exchange(temporary, name, folder)
        os.unlink(temporary, dir_fd=folder)
        os.fsync(folder)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _state_at(folder: int, name: str) -> FileState | None:
    """Return the state of an entry. None if there is no regular file, or it cannot be read."""
    try:
        return state_below(folder, name)
    except OSError:
        return None


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
