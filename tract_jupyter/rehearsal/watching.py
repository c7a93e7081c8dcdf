"""Watching a run in the kernel: copies of the variables and files that the code names, for an undo.

The code runs with all rights, so nothing here is complete: what the code does not name is not saved. `Change.certainty`
says so, and changed files without a backup are listed.
"""

from __future__ import annotations

import ast
import os
import secrets
import stat
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal.backups import FileRecord
from tract_jupyter.rehearsal.baseline import digest, touched, tree_of, variables_of
from tract_jupyter.rehearsal.change import ABSENT, Change, SettingRecord, UndoItem, VariableRecord
from tract_jupyter.rehearsal.collect import is_database
from tract_jupyter.rehearsal.files import LARGEST, shown_path, state_below
from tract_jupyter.rehearsal.linux import opened
from tract_jupyter.rehearsal.settings import SIMPLE_KINDS, SettingsSnapshot
from tract_jupyter.rehearsal.values import Decoder, Encoder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tract_jupyter.rehearsal.backups import Backups, JournalRecord
    from tract_jupyter.rehearsal.files import FileState

_NOT_SAVED: Final = "the code does not name it, so it was not saved"
_DATABASE: Final = "its database may have changed, and has no safe copy"
_MOST_COPIED: Final = 1024**3
_MOST_FILES: Final = 5_000
_MOST_NAMED: Final = 200
_MOST_SMALL: Final = 500
_LARGEST_SAVED: Final = 5_000_000
_MOST_SAVED: Final = 50_000_000
_LONGEST_PATH: Final = 1_000
_IGNORED: Final = frozenset({"__pycache__", "node_modules"})

Stamp = tuple[int, int, int]


class FileWatch:
    """The files of a workspace before a change by other code. `watch_files` makes it."""

    def __init__(self, workspace: Path, backups: Backups) -> None:
        self.workspace = workspace.resolve()
        self.change_id = secrets.token_hex(8)
        self._backups = backups
        self._own_paths = backups.own_paths
        self._left_out: set[str] = set()
        self._before = self._listed()
        self._saved: dict[str, FileState | None] = {}

    def small(self) -> list[str]:
        """Return the small files of the workspace, the upper folders first, up to a number and a total size."""
        chosen: list[str] = []
        left = _MOST_SAVED
        for path, (size, *_) in self._before.files.items():
            if size <= min(_LARGEST_SAVED, left) and len(chosen) < _MOST_SMALL:
                left -= size
                chosen.append(path)
        return chosen

    def save(self, paths: Sequence[str]) -> None:
        """Store files with their states; a missing file too.

        Their journal is written at once. So their contents are there also if the process ends meanwhile.
        """
        saved = self._saved
        with opened(self.workspace) as folder:
            for path in paths:
                with suppress(OSError, RehearsalError):
                    self._before.folders.update(_existing_parents(self.workspace, path))
                    state = state_below(folder, path)
                    self._backups.store_below(folder, path, state)
                    saved[path] = state
        present = [
            FileRecord(path, state, state, at="after") for path, state in saved.items() if state is not None
        ]
        if present:
            with suppress(OSError, RehearsalError):
                self._backups.add(self.workspace, present, change_id=self.change_id)

    def leave_out(self, path: str) -> None:
        """Do not count the changes of a file."""
        self._left_out.add(path)
        self._saved.pop(path, None)
        self._before.files.pop(path, None)

    def finish(self) -> Change:
        """Return the changes of files since the start."""
        record, lost = self.record()
        return Change(self.change_id, record=record, backups=self._backups, lost=lost, certainty="named only")

    def changed_now(self) -> set[str]:
        """Return the changed, new and missing files. Of a file that is not saved, a new time counts too."""
        return {path for path in self._differing(self._listed()) if not self._is_as_saved(path)}

    def _differing(self, now: _Listing) -> Iterator[str]:
        """Yield the changed, new and missing files in order. In a large workspace, only the listed folders count."""
        before = self._before
        for path in sorted(before.files.keys() | now.files.keys()):
            old, new = before.files.get(path), now.files.get(path)
            if old is None:
                is_known = before.covers(path)
            elif new is None:
                is_known = now.covers(path) or not os.path.lexists(self.workspace / path)
            else:
                is_known = old != new
            if is_known:
                yield path

    def _is_as_saved(self, path: str) -> bool:
        """Return True if a file has its saved content, such as after another program wrote it again."""
        saved = self._saved.get(path)
        with suppress(OSError), opened(self.workspace) as folder:
            return saved is not None and state_below(folder, path) == saved
        return False

    def record(self) -> tuple[JournalRecord | None, list[UndoItem]]:
        """Return the journal of the changed files, and the changed files that were not saved."""
        try:
            files, lost = self._changed_files()
        except OSError as error:
            raise RehearsalError(
                f"The folder {shown_path(str(self.workspace))} cannot be read: {error.strerror or error}. Its files "
                "were not compared, and cannot be restored."
            ) from None
        try:
            if not files:
                self._backups.forget(self.change_id)
                return None, lost
            record = self._backups.add(
                self.workspace, files, change_id=self.change_id, folders=self._before.folders
            )
            self._backups.trim()
        except OSError as error:
            raise RehearsalError(
                f"The backups cannot be written: {error.strerror or error}. The run cannot be undone."
            ) from None
        return record, lost

    def is_own(self, path: str) -> bool:
        """Return True if a path belongs to the store, or is left out."""
        return path in self._left_out or f"{self.workspace}/{path}".startswith(self._own_paths)

    def _listed(self) -> _Listing:
        listing = _listing_of(self.workspace)
        own = [path for path in listing.files if self.is_own(path)]
        for path in own:
            del listing.files[path]
        return listing

    def _changed_files(self) -> tuple[list[FileRecord], list[UndoItem]]:
        now = self._listed()
        differing = list(self._differing(now))
        found: list[FileRecord] = []
        created: dict[Stamp, FileState] = {}
        with opened(self.workspace) as folder:
            for path in sorted(
                self._saved.keys() | {path for path in differing if path not in self._before.files}
            ):
                with suppress(OSError, RehearsalError):
                    before, after = self._saved.get(path), state_below(folder, path)
                    if before != after:
                        self._backups.store_below(folder, path, after)
                        found.append(FileRecord(path, before, after, is_created=before is None, at="after"))
                        if before is None and after is not None and path in now.files:
                            created[now.files[path]] = after
        lost: list[UndoItem] = []
        for path in differing:
            if path not in self._before.files or path in self._saved:
                continue
            state = None if path in now.files else created.get(self._before.files[path])
            if state is not None:  # the code gave the file another name, and its content is stored
                found.append(FileRecord(path, state, None, at="after"))
            else:
                lost.append(UndoItem("file", shown_path(path), "impossible", _NOT_SAVED, path))
        return found, lost


def watch_files(workspace: Path, backups: Backups) -> FileWatch:
    """Save the small files of a workspace. Call `finish` of the result after the change."""
    watched = FileWatch(workspace, backups)
    watched.save(watched.small())
    return watched


class Watch:
    """The variables and files that code names, before it runs in the kernel. Call `finish` after it ran.

    `own` are names whose objects are not compared: objects of this package know the notebook, and change with each run.
    """

    def __init__(
        self,
        code: str,
        namespace: dict[str, Any],
        workspace: Path,
        backups: Backups,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self._namespace = namespace
        self._backups = backups
        self._before = variables_of(namespace)
        names = touched(code, {name: value for name, value in self._before.items() if name not in own})
        self._digests = {name: digest(self._before[name]) for name in names}
        self._copies = _copies({name: self._before[name] for name in sorted(names)})
        texts = [
            *_texts(code),
            *(str(self._before[name]) for name in names if isinstance(self._before[name], str | Path)),
        ]
        self._files = FileWatch(workspace, backups)
        named = {path for path in self._named_files(texts) if not self._files.is_own(path)}
        self._files.save(sorted(named)[:_MOST_NAMED])
        self._settings = SettingsSnapshot(SIMPLE_KINDS)

    def finish(self, expected: Collection[str] = ()) -> Change:
        """Return the change since the start, after the code ran.

        Args:
            expected: the variables that the code changed in a rehearsal. A change of a database in memory is not seen
                here, because asking it would call it.
        """
        record, lost = self._files.record()
        settings = [SettingRecord(*pair) for pair in self._settings.changed()]
        return Change(
            self._files.change_id,
            record=record,
            backups=self._backups,
            namespace=self._namespace,
            variables=[*self._changed_variables(), *self._databases(expected)],
            settings=settings,
            lost=lost,
            certainty="named only",
        )

    def _changed_variables(self) -> Iterator[VariableRecord]:
        after = variables_of(self._namespace)
        for name in sorted(self._before.keys() | after.keys()):
            old, new = self._before.get(name, ABSENT), after.get(name, ABSENT)
            before = self._digests.get(name, "")
            now = "" if new is ABSENT else digest(new) if old is not new or before else ""
            if old is new and now == before:
                continue
            is_changed_in_place = old is not ABSENT and before and digest(old) != before
            problem = ""
            if is_changed_in_place:
                old = self._copies.get(name, ABSENT)
                problem = "" if old is not ABSENT else "it was changed in place, and has no safe copy"
                before = "" if problem else digest(old)
            yield VariableRecord(name, old, new, (before, now), problem)

    def _databases(self, names: Collection[str]) -> Iterator[VariableRecord]:
        for name in sorted({*names}):
            value = self._before.get(name, ABSENT)
            if is_database(value) and self._namespace.get(name, ABSENT) is value:
                yield VariableRecord(name, value, value, problem=_DATABASE)

    # ---- files

    def _named_files(self, texts: list[str]) -> Iterator[str]:
        for text in texts:
            if not 0 < len(text) < _LONGEST_PATH or {"\n", "\0"} & set(text):
                continue
            with suppress(OSError, ValueError):
                path = Path(os.path.abspath(Path.cwd() / text))  # noqa: PTH100 # a link is not followed
                if path.is_relative_to(self._files.workspace) and path != self._files.workspace:
                    yield from self._files_at(path)

    def _files_at(self, path: Path) -> Iterator[str]:
        if path.is_dir() and not path.is_symlink():
            yield from (
                self._relative(each) for each in sorted(path.iterdir())[:_MOST_NAMED] if _is_regular(each)
            )
        elif not os.path.lexists(path) or _is_regular(path):
            yield self._relative(path)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._files.workspace).as_posix()


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    """Return copies of the values that have a safe form. Shared objects are shared in the copies."""
    encoder, decoder = Encoder(), Decoder()
    copies: dict[str, Any] = {}
    left = _MOST_COPIED
    for name, value in values.items():
        try:
            buffers = encoder.encode(value)
        except Exception:  # noqa: BLE001, S112 # the classes of the value may raise anything
            continue
        left -= sum(memoryview(buffer).nbytes for buffer in buffers)
        copies[name] = decoder.decode(buffers)
        if left < 0:
            break
    return copies


def _texts(code: str) -> Iterator[str]:
    """Yield the texts of the code that may be paths."""
    tree = tree_of(code)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_regular(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST


class _Listing(NamedTuple):
    """The files of a workspace, up to a maximum.

    Attributes:
        files: The regular files with size, time and number.
        folders: The folders.
        unread: The folders that may have more entries.
    """

    files: dict[str, Stamp]
    folders: set[str]
    unread: set[str]

    def covers(self, path: str) -> bool:
        """Return True if the listing would have the file at this path."""
        return not self.unread or self.unread.isdisjoint(_parents(path))


def _listing_of(workspace: Path) -> _Listing:
    """List a workspace, the upper folders first. Hidden folders are not read, and links are not followed."""
    files, folders, unread = listing = _Listing({}, set(), set())
    waiting = deque([""])
    while waiting:
        folder = waiting.popleft()
        try:
            with os.scandir(workspace / folder) as found:
                is_full = max(len(files), len(folders)) >= _MOST_FILES
                entries = [] if is_full else sorted(found, key=lambda entry: entry.name)
        except OSError:
            is_full, entries = True, []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    folders.add(path)
                    if entry.name[0] != "." and entry.name not in _IGNORED:
                        waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    is_full = is_full or len(files) >= _MOST_FILES
                    if not is_full:
                        status = entry.stat(follow_symlinks=False)
                        files[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        if is_full:
            unread.add(folder)
    return listing


def _parents(path: str) -> Iterator[str]:
    """Yield the folders of a path below the workspace, which is the first one."""
    yield ""
    for place, letter in enumerate(path):
        if letter == "/":
            yield path[:place]


def _existing_parents(workspace: Path, path: str) -> Iterator[str]:
    return (folder for folder in _parents(path) if folder and (workspace / folder).is_dir())
