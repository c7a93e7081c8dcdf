"""The changed files of a rehearsal: reads the upper folder of the overlay, and compares it with the workspace.

The copy wrote the upper folder, so nothing in it is trusted: links are never followed, special files are named and not
opened, and sizes are bounded. A contained copy reads Parquet files.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import counted, cut, distinct, printable, size_text, unified_diff, unique_object
from tract_jupyter.rehearsal.describe import tell_apart
from tract_jupyter.rehearsal.effects import Action, FileEffect
from tract_jupyter.rehearsal.linux import FOLDER, opened
from tract_jupyter.rehearsal.tables import TextTable, compare_frames, compare_texts, same_cells
from tract_jupyter.rehearsal.values import malformed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.rehearsal.effects import TableChange

MOST_FILES: Final = 10_000
LARGEST: Final = 2 * 1024**3
_MOST_HOLES: Final = 1024**3  # bytes without data, which need no space, but time
_BLOCK: Final = 512  # bytes, of `st_blocks`
_DEEPEST: Final = 64
_AT_ONCE: Final = 1 << 20
_MOST_DIFFED: Final = 1_000_000  # bytes
_MOST_TABLE: Final = 20_000_000
_COLUMNAR: Final = (".parquet", ".pq")
_MOST_COLUMNAR: Final = 10
_MOST_DETAILED: Final = 200  # files with a diff
_MOST_DETAILS: Final = 400_000  # characters of all diffs
_JSON_STARTS: Final = frozenset('{["-0123456789tfnNI \t\r\n')
_TABLE_SIZE: Final = 5_000  # characters of a sample, about
_MOST_LINES: Final = 200
_LONGEST_DIFF: Final = 20_000
_LONGEST_LINE: Final = 300
_CONTEXT: Final = 2  # equal lines around a change
_LINE: Final = re.compile(r"\r\n|\r|\n")
"""The ends of lines, also in code. `splitlines` knows more, which can be in a comment."""
_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_EXECUTABLE: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
_SPECIAL: Final = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_OPAQUE: Final = ("user.overlay.opaque", "trusted.overlay.opaque")
_OVERLAY: Final = "user.overlay."
_WHITEOUT: Final = ("user.overlay.whiteout", "trusted.overlay.whiteout")
_FOLDER: Final = FOLDER | os.O_NOFOLLOW
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a file, as it must still be when the effects are kept.

    States with other times are equal: some programs write a file again with the same content.

    Attributes:
        sha256: The SHA-256 of its content.
        size: Bytes.
        mtime: Nanoseconds. An undo restores it.
        mode: Permission bits.
    """

    sha256: str
    size: int
    mtime: int = field(compare=False)
    mode: int


@dataclass(slots=True)
class FileChange:
    """A file that the code created, changed or deleted.

    Attributes:
        path: The path below the workspace.
        action: The effect.
        before: The state in the workspace. None if there was no file.
        after: The state in the copy. None if the code deleted the file.
        is_folder: True for a folder that is deleted, changed, or new and empty or with unusual permissions.
        folder_mode: Permission bits of a new or a deleted folder.
        problem: The reason why it cannot be kept.
        is_late: True if the file in the workspace changed while the rehearsal ran.
    """

    path: str
    action: Action
    before: FileState | None = None
    after: FileState | None = None
    is_folder: bool = False
    folder_mode: int = 0o777
    problem: str = ""
    is_late: bool = False


@dataclass(slots=True)
class ChangedFiles:
    """The changed files, and the folder that has their new content.

    Attributes:
        folder: A descriptor of the folder. The owner closes it.
        changes: The changes, sorted by path.
    """

    folder: int
    changes: list[FileChange] = field(default_factory=list)


@contextmanager
def open_below(folder: int, path: str) -> Iterator[int]:
    """Open a file below a folder, without following links in any part of the path. Close it at the end of the block."""
    *parents, name = path.split("/")
    with ExitStack() as stack:
        for parent in parents:
            folder = stack.enter_context(opened(parent, _FOLDER, folder=folder))
        yield stack.enter_context(opened(name, _FILE, folder=folder))


def state_of(descriptor: int) -> FileState:
    """Return the state of an open file."""
    status = os.fstat(descriptor)
    total, at = hashlib.sha256(), 0
    while data := os.pread(descriptor, _AT_ONCE, at):
        total.update(data)
        at += len(data)
    return FileState(total.hexdigest(), status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode))


def state_below(folder: int, path: str) -> FileState | None:
    """Return the state of a file below a folder. None if there is no regular file."""
    with suppress(FileNotFoundError, NotADirectoryError), open_below(folder, path) as descriptor:
        return state_of(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None


def is_blocked(workspace: int, path: str) -> bool:
    """Return True if another kind of entry has the place of a file, of a folder (`/` at the end) or of its parents."""
    parts = path.rstrip("/").split("/")
    for count in range(1, len(parts) + 1):
        try:
            mode = os.stat("/".join(parts[:count]), dir_fd=workspace, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return False
        is_folder = count < len(parts) or path.endswith("/")
        if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
            return True
    return False


# ---- reading


def read_upper(upper: int, workspace: Path, *, since: int | None = None) -> ChangedFiles:
    """Return the changes in an upper folder.

    Files of the workspace that changed after `since`, the start of the rehearsal in nanoseconds, are late.
    """
    found = ChangedFiles(upper)
    reader = _Reader(found, since)
    try:
        with opened(".", _FOLDER, folder=upper) as root, opened(workspace) as lower:
            reader.state_of_folder("./", root, lower)
            reader.folder("", root, lower, 0)
    except OSError as error:
        raise malformed(f"its changed files: {error.strerror}") from None
    found.changes.sort(key=lambda change: change.path)
    return found


class _Reader:
    """Walks an upper folder beside the folder of the workspace."""

    def __init__(self, found: ChangedFiles, since: int | None) -> None:
        self._found = found
        self._since = since
        self._holes = 0

    def folder(self, path: str, upper: int, lower: int | None, depth: int) -> None:
        names = sorted(_names(upper))
        if lower is not None and _has_mark(upper, _OPAQUE):
            for name in sorted(set(_names(lower)) - set(names)):
                self._delete(f"{path}{name}", name, lower)
        for name in names:
            if depth >= _DEEPEST:
                self._add(FileChange(f"{path}{name}", "created", problem="it is in too many folders"))
                continue
            self._entry(f"{path}{name}", name, upper, lower, depth)

    def _add(self, change: FileChange) -> None:
        if len(self._found.changes) >= MOST_FILES:
            raise malformed(f"more than {MOST_FILES:,} changed files")
        try:
            change.path.encode()
        except UnicodeEncodeError:
            change.problem = change.problem or "its name is not valid text"
        self._found.changes.append(change)

    def _entry(self, path: str, name: str, upper: int, lower: int | None, depth: int) -> None:
        status = os.stat(name, dir_fd=upper, follow_symlinks=False)
        below = _status(name, lower)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFCHR and status.st_rdev == 0:
            if below is not None and lower is not None:
                self._delete(path, name, lower)
        elif kind == stat.S_IFDIR:
            self._subfolder(path, name, upper, lower if below is not None else None, depth)
        elif kind == stat.S_IFREG:
            self._file(path, name, upper, lower, below)
        else:
            action: Action = "created" if below is None else "changed"
            self._add(FileChange(path, action, problem=f"{_kind(kind)} cannot be kept"))

    def _subfolder(self, path: str, name: str, upper: int, lower: int | None, depth: int) -> None:
        with ExitStack() as stack:
            inner = stack.enter_context(opened(name, _FOLDER, folder=upper))
            beside = None
            if lower is not None:
                try:
                    beside = stack.enter_context(opened(name, _FOLDER, folder=lower))
                except OSError:
                    self._add(FileChange(path, "changed", problem="a folder replaces a file or a link"))
                    return
            self.state_of_folder(f"{path}/", inner, beside)
            self.folder(f"{path}/", inner, beside, depth + 1)

    def state_of_folder(self, path: str, inner: int, beside: int | None) -> None:
        """Add a new folder that its files do not imply, or a folder with another state than before."""
        mode, attributes = _permissions(inner), _attributes(inner)
        problem = ""
        if attributes != ({} if beside is None else _attributes(beside)):
            problem = "its new extended attributes cannot be kept"
        if beside is None:
            if problem or mode & ~stat.S_ISGID != new_folder_mode() or not _names(inner):
                self._add(FileChange(path, "created", is_folder=True, folder_mode=mode, problem=problem))
            return
        if mode != _permissions(beside):
            problem = "its new permissions cannot be kept"
        if problem:
            self._add(FileChange(path, "changed", is_folder=True, problem=problem))

    def _file(
        self, path: str, name: str, upper: int, lower: int | None, below: os.stat_result | None
    ) -> None:
        with opened(name, _FILE, folder=upper) as descriptor:
            if _has_mark(descriptor, _WHITEOUT):
                if below is not None and lower is not None:
                    self._delete(path, name, lower)
                return
            action: Action = "created" if below is None else "changed"
            problem = self._too_large(os.fstat(descriptor))
            if problem:
                self._add(FileChange(path, action, problem=problem))
                return
            after = state_of(descriptor)
            attributes = _attributes(descriptor)
        before, problem = self._before(name, lower, below)
        if attributes != _attributes_at(name, lower):
            problem = problem or "its new extended attributes cannot be kept"
        elif before is not None and (before.sha256, before.mode) == (after.sha256, after.mode):
            return  # opened for writing, and not changed
        if after.mode & _SPECIAL:
            problem = problem or "it would run with the rights of another user"
        self._add(FileChange(path, action, before, after, problem=problem, is_late=self._is_late(below)))

    def _too_large(self, status: os.stat_result) -> str:
        """Return the reason why a file takes too long to read; empty if it does not."""
        if status.st_size > LARGEST:
            return f"it is larger than {size_text(LARGEST)}"
        holes = max(0, status.st_size - status.st_blocks * _BLOCK)
        if self._holes + holes > _MOST_HOLES:
            return f"it and the files before it have more than {size_text(_MOST_HOLES)} of holes"
        self._holes += holes
        return ""

    def _delete(self, path: str, name: str, lower: int) -> None:
        below = os.stat(name, dir_fd=lower, follow_symlinks=False)
        if stat.S_ISDIR(below.st_mode):
            with opened(name, _FOLDER, folder=lower) as inner:
                for each in sorted(_names(inner)):
                    self._delete(f"{path}/{each}", each, inner)
            mode = stat.S_IMODE(below.st_mode)
            self._add(FileChange(f"{path}/", "deleted", is_folder=True, folder_mode=mode))
            return
        before, problem = self._before(name, lower, below)
        self._add(FileChange(path, "deleted", before, problem=problem, is_late=self._is_late(below)))

    @staticmethod
    def _before(name: str, lower: int | None, below: os.stat_result | None) -> tuple[FileState | None, str]:
        if below is None or lower is None:
            return None, ""
        if not stat.S_ISREG(below.st_mode):
            return None, f"it is {_kind(stat.S_IFMT(below.st_mode))} in the workspace"
        if below.st_size > LARGEST:
            return None, f"it is larger than {size_text(LARGEST)}"
        problem = "it has several names in the workspace (hard links)" if below.st_nlink > 1 else ""
        try:
            with opened(name, _FILE, folder=lower) as descriptor:
                return state_of(descriptor), problem
        except OSError as error:
            return None, f"it cannot be read: {error.strerror}"

    def _is_late(self, below: os.stat_result | None) -> bool:
        return self._since is not None and below is not None and below.st_ctime_ns > self._since


def _names(folder: int) -> list[str]:
    return os.listdir(folder)  # of a descriptor


def _status(name: str, folder: int | None) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _has_mark(descriptor: int, names: tuple[str, ...]) -> bool:
    for name in names:
        with suppress(OSError):
            os.getxattr(descriptor, name)
            return True
    return False


def _permissions(folder: int) -> int:
    return stat.S_IMODE(os.fstat(folder).st_mode)


def new_folder_mode() -> int:
    """Return the permission bits that this process gives to a new folder."""
    # not the built-in `open`, which the code of a copy may have replaced
    with Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
        mask = next(line.split()[1] for line in status if line.startswith("Umask:"))
    return 0o777 & ~int(mask, 8)


def _attributes(descriptor: int) -> dict[str, bytes]:
    """Return the extended attributes of a file or a folder that a user can set, without those of the overlay."""
    with suppress(OSError):
        names = [name for name in os.listxattr(descriptor) if name.startswith("user.")]
        return {name: os.getxattr(descriptor, name) for name in names if not name.startswith(_OVERLAY)}
    return {}


def _attributes_at(name: str, folder: int | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    with suppress(OSError), opened(name, _FILE, folder=folder) as descriptor:
        return _attributes(descriptor)
    return {}


def _kind(mode: int) -> str:
    return {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }.get(mode, "a special file")


# ---- effects


ReadColumnar = Callable[[list[bytes]], list[Any]]
"""Returns the tables of Parquet files, None for a file that is none."""


def file_effects(
    upper: ChangedFiles, workspace: Path, read_columnar: ReadColumnar | None = None
) -> Iterator[FileEffect]:
    """Yield the effect of each change, with a diff or a table for the first files."""
    with opened(workspace) as lower:
        left = _MOST_DETAILS
        tables = {} if read_columnar is None else _columnar(upper, lower, read_columnar)
        for number, change in enumerate(upper.changes):
            is_detailed = left > 0 and number < _MOST_DETAILED and not change.problem and not change.is_folder
            effect = _effect(change, upper.folder, lower) if is_detailed else _plain_effect(change)
            effect = tables.get(change.path, effect)
            left -= len(effect.diff) + (_TABLE_SIZE if effect.table is not None else 0)
            yield effect


def shown_path(path: str) -> str:
    """Return a path as printable text of one line."""
    return re.sub(r"\s(?<! )", "\ufffd", printable(path))


def is_installed(path: str, workspace: Path) -> bool:
    """Return True if a path below the workspace belongs to an installed package, or to this Python."""
    if not {"site-packages", "dist-packages"}.isdisjoint(path.casefold().split("/")):
        return True
    own, prefix = workspace.resolve(), Path(sys.prefix).resolve()
    return prefix != own and prefix.is_relative_to(own) and (own / path).is_relative_to(prefix)


def _plain_effect(change: FileChange, detail: str = "", **more: Any) -> FileEffect:
    before, after = (None if state is None else state.size for state in (change.before, change.after))
    parts = detail or _sizes(change), _mode(change), distinct(change.path)[1]
    detail = ", ".join(filter(None, parts))
    return FileEffect(
        shown_path(change.path), change.action, before, after, detail, problem=change.problem, **more
    )


def _effect(change: FileChange, upper: int, lower: int) -> FileEffect:
    if change.before and change.after and change.before.sha256 == change.after.sha256:
        return _plain_effect(change)
    limit = _MOST_TABLE if _table_kind(change.path) else _MOST_DIFFED
    before = _content(lower, change.path, change.before, limit)
    after = _content(upper, change.path, change.after, limit)
    if before is None or after is None:
        return _plain_effect(change)
    table = _table(change, before, after)
    if table is not None:
        detail = _table_detail(table) or _formatting(change.path, before, after)
        return _plain_effect(change, detail=detail, table=table)
    texts = [_as_text(data) for data in (before, after)]
    if texts[0] is None or texts[1] is None or max(len(before), len(after)) > _MOST_DIFFED:
        return _plain_effect(change)
    diff, detail = _diff(change.path, texts[0], texts[1])
    return _plain_effect(change, detail=detail if change.action == "changed" else "", diff=diff)


def _content(folder: int, path: str, state: FileState | None, limit: int) -> bytes | None:
    """Return the content of a file; empty if there is none. None if it is too large, or cannot be read."""
    if state is None:
        return b""
    if state.size > limit:
        return None
    with suppress(OSError):
        return _read_below(folder, path, limit + 1)
    return None


MOST_READ: Final = _MOST_DIFFED + 1
"""Bytes of a file that `text_diff` needs, to see that it is too large."""


def text_diff(path: str, before: bytes, after: bytes) -> str:
    """Return the unified diff of two contents of a file; empty if they are not text, or too large."""
    if max(len(before), len(after)) > _MOST_DIFFED:
        return ""
    old, new = _as_text(before), _as_text(after)
    return "" if old is None or new is None else _diff(path, old, new)[0]


def content_below(workspace: str, path: str) -> bytes:
    """Return the content of a file below a folder, up to a maximum; empty if there is no such file."""
    with opened(workspace) as folder, suppress(OSError):
        return _read_below(folder, path, MOST_READ)
    return b""


def _read_below(folder: int, path: str, most: int) -> bytes:
    with open_below(folder, path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read(most)


def _sizes(change: FileChange) -> str:
    before, after = change.before, change.after
    if before is not None and after is not None:
        if before.sha256 == after.sha256:
            return ""
        return f"{size_text(before.size)} → {size_text(after.size)}"
    return "" if after is None else size_text(after.size)


def _mode(change: FileChange) -> str:
    before, after = change.before, change.after
    if change.is_folder and change.action == "created":
        mode = change.folder_mode
        return "" if mode & ~stat.S_ISGID == new_folder_mode() else f"mode {mode:04o}"
    if after is None:
        return ""
    if before is not None:
        return "" if before.mode == after.mode else f"mode {before.mode:04o} → {after.mode:04o}"
    return "executable" if after.mode & _EXECUTABLE else ""


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _diff(path: str, before: str, after: str) -> tuple[str, str]:
    """Return a bounded unified diff, and a summary of it."""
    if _LINE.split(before) == _LINE.split(after):
        return "", "other bytes in the same lines"
    old, new = _lines(before, after)
    first, last = _shared(old, new)
    was, now = old[first : len(old) - last], new[first : len(new) - last]
    if len(was) * len(now) > 4_000_000:  # noqa: PLR2004 # a second
        return "", f"{counted(len(old), 'line')} → {counted(len(new), 'line')}"
    name = shown_path(path)
    lines = list(unified_diff(was, now, name, name, context=_CONTEXT))
    lines = [_moved(line, first) if line.startswith("@@ ") else line for line in lines]
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    shown = list(_cut_lines([printable(line.removesuffix("\n")) for line in lines[:_MOST_LINES]]))
    if len(lines) > _MOST_LINES:
        shown.append(f"… {counted(len(lines) - _MOST_LINES, 'more line')}")
    parts = [
        f"{counted(number, 'line')} {word}"
        for number, word in ((added, "added"), (removed, "removed"))
        if number
    ]
    return cut("\n".join(shown), _LONGEST_DIFF), ", ".join(parts)


def _cut_lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a diff, cut if they are long. A changed line that is cut looks different than before."""
    removed = {cut(line[1:], _LONGEST_LINE): line[1:] for line in lines if line[0] == "-"}
    added = {cut(line[1:], _LONGEST_LINE): line[1:] for line in lines if line[0] == "+"}
    for line in lines:
        short, side = cut(line[1:], _LONGEST_LINE), "-+".find(line[0])
        if side >= 0 and short in removed and short in added and removed[short] != added[short]:
            short = tell_apart(removed[short], added[short], _LONGEST_LINE)[side]
        yield line[0] + short


def _lines(*texts: str) -> list[list[str]]:
    """Return the lines of texts with their ends: another end can make code of a comment."""
    if all(text.count("\r\n") == text.count("\n") for text in texts):
        texts = tuple(text.replace("\r\n", "\n") for text in texts)
    found = [text.splitlines(keepends=True) for text in texts]
    for lines in found:
        lines[-1:] = [line if line[-1] in _ENDS else f"{line}\n" for line in lines[-1:]]
    return found


def _shared(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return the numbers of equal lines at the beginning and at the end, without the context of a diff."""
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    last = next((at for at in range(most - first) if old[-1 - at] != new[-1 - at]), most - first)
    return max(0, first - _CONTEXT), max(0, last - _CONTEXT)


def _moved(header: str, by: int) -> str:
    """Return the header of a part of a diff, for texts without their first lines."""
    return re.sub(r"(?<=[-+])\d+", lambda match: str(int(match[0]) + by), header)


# ---- tables


def _columnar(upper: ChangedFiles, lower: int, read: ReadColumnar) -> dict[str, FileEffect]:
    """Return the effects on the first Parquet files, by path, as far as their tables can be compared."""
    chosen: list[tuple[FileChange, bool]] = []
    contents: list[bytes] = []
    for change in upper.changes[:_MOST_DETAILED]:
        is_whole = change.after is not None and not change.problem and change.path.lower().endswith(_COLUMNAR)
        if not is_whole or len(chosen) >= _MOST_COLUMNAR:
            continue
        limit = _MOST_TABLE - sum(map(len, contents))
        before = _content(lower, change.path, change.before, limit)
        after = _content(upper.folder, change.path, change.after, limit)
        if before is None or after is None or before == after:
            continue
        chosen.append((change, change.before is not None))
        contents += [before, after]
    tables = read(contents) if contents else []
    found = {}
    for (change, has_before), before, after in zip(chosen, tables[::2], tables[1::2], strict=True):
        if after is None or (has_before and before is None):
            continue
        with suppress(Exception):  # a library may raise anything
            table = compare_frames(before, after)
            if table is not None:
                detail = _table_detail(table) or same_cells(before, after)
                found[change.path] = _plain_effect(change, detail=detail, table=table)
    return found


def _table_kind(path: str) -> str:
    return {"csv": ",", "tsv": "\t", "jsonl": "json", "ndjson": "json"}.get(
        path.rpartition(".")[2].lower(), ""
    )


def _table(change: FileChange, before: bytes, after: bytes) -> TableChange | None:
    kind = _table_kind(change.path)
    if not kind:
        return None
    tables: list[TextTable | None] = []
    for state, data in ((change.before, before), (change.after, after)):
        table = _read_table(kind, data) if state is not None else None
        if state is not None and table is None:
            return None
        tables.append(table)
    with suppress(ImportError):  # without numpy, the lines are compared
        return compare_texts(*tables)
    return None


def _read_table(kind: str, data: bytes) -> TextTable | None:
    text = _as_text(data)
    if text is None:
        return None
    try:
        return _read_json_lines(text) if kind == "json" else _read_csv(text, kind)
    except (csv.Error, ValueError, RecursionError):
        return None


def _read_csv(text: str, delimiter: str) -> TextTable | None:
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    if not rows or len(set(rows[0])) != len(rows[0]) or max(map(len, rows)) > len(rows[0]):
        return None  # a cell without a column would not be compared
    return TextTable(tuple(rows[0]), rows[1:])


def _read_json_lines(text: str) -> TextTable | None:
    rows = [json.loads(line, object_pairs_hook=unique_object) for line in text.splitlines() if line.strip()]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    cells = [[_json_cell(row[column]) if column in row else "" for column in columns] for row in rows]
    return TextTable(columns, cells)


def _json_cell(value: Any) -> str:
    """Return a value as text. A text that looks like another value, or like a missing one, has quotes."""
    is_plain = isinstance(value, str) and value != "" and not _is_json(value)
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    if text[0] not in _JSON_STARTS:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _table_detail(table: TableChange) -> str:
    """Return the size of a new or deleted table, or the difference between two tables."""
    if table.rows_before is not None and table.rows_after is not None:
        return table.summary
    rows = counted(table.rows_after or table.rows_before or 0, "row")
    return f"{rows} × {counted(len(table.columns), 'column')}" if table.rows_after is not None else rows


def _formatting(path: str, before: bytes, after: bytes) -> str:
    """Return the difference between two files that have the same cells in the same rows."""
    kind = _table_kind(path)
    old, new = (_read_table(kind, data) for data in (before, after))
    if old is None or new is None or old.columns != new.columns:
        return "another order of columns, the same cells"
    return "other formatting, the same cells"
