"""Files for attachments: read from within a workspace, kept in the store once for each hash.

A path is resolved before it is judged, and then opened from its root on, folder by folder and without following links:
what was checked is what is read, whatever is swapped meanwhile. Only regular files are opened, so that nothing waits.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tract_jupyter.exceptions import AttachmentError, ContentError, WorkspaceError
from tract_jupyter.models import (
    LONGEST_NAME,
    MOST_BYTES,
    MOST_FILES,
    AttachedFile,
    Attachment,
    attachments_of,
    brief_repr,
    check_together,
    printable,
    too_large,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models import ContentTypes
    from tract_jupyter.storage import CommitRows, Database

Attachable: TypeAlias = "str | Path | AttachedFile"
"""What can be attached: a path within the workspace, or a file that was read already."""

_O: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
)
_HAS_FOLDERS: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")


def read_files(
    roots: Sequence[Path], names: Sequence[str | Path], *, send_anyway: bool = False
) -> list[AttachedFile]:
    """Return files of a workspace, all or none.

    Args:
        roots: the folders that may be read, as real paths; relative names begin at the first one.
        names: paths of the caller.
        send_anyway: accept texts that may hold a secret.

    Raises:
        WorkspaceError: a file is outside, after resolving links.
        AttachmentError: one is not there, is no regular file, is too large, of a type that cannot be attached, or holds
            something like a secret; or they are too many.
    """
    if len(names) > MOST_FILES:  # before any is opened
        raise AttachmentError(
            f"a message has at most {MOST_FILES} attachments, and {len(names):,} files were named; give them in "
            "several messages"
        )
    found = [_read(roots, name, send_anyway) for name in names]
    check_together(found)
    return found


def _read(roots: Sequence[Path], name: str | Path, send_anyway: bool) -> AttachedFile:  # noqa: FBT001
    if not isinstance(name, str | Path):
        raise AttachmentError(f"an attachment is a path, such as 'data/photo.png', not {brief_repr(name)}")
    told = repr(printable(str(name), LONGEST_NAME))
    path = _resolved(roots, name, told)
    root = next((one for one in roots if path.is_relative_to(one)), None)
    if root is None:  # whether there is such a file or not: that is nobody's to know, either
        where = ", ".join(repr(printable(one.name or str(one), 60)) for one in roots) or "no folder"
        raise WorkspaceError(
            f"{told} is outside of the workspace ({where}), so it was not read; copy it there, or have a person add "
            "its folder to tract.workspace.roots"
        )
    try:
        data = _bytes_of(root, path.relative_to(root).parts, told)
    except OSError as error:
        raise _cannot(error, told) from None
    file = AttachedFile.of(path.relative_to(root).as_posix(), data)
    _check_secrets(file, told, send_anyway=send_anyway)
    return file


def _check_secrets(file: AttachedFile, told: str, *, send_anyway: bool) -> None:
    from tract_jupyter.llm import why_not_sent

    if file.attachment.kind != "text":
        return
    text = file.data.decode("utf-8-sig")
    if why := why_not_sent(text, send_anyway=True):
        raise AttachmentError(f"{told} {why}, so it was not attached; take it out first")
    if why := why_not_sent(text, send_anyway=send_anyway):
        raise AttachmentError(
            f"{told} {why}, so it was not attached. Check the line. If it holds no secret, attach the file with "
            "tract.workspace.read(PATH, send_anyway=True), or add --send-anyway to the chat cell"
        )


def _resolved(roots: Sequence[Path], name: str | Path, told: str) -> Path:
    """Return the real path for a name; the file may be missing."""
    try:
        return (roots[0] if roots else Path("/")).joinpath(Path(name).expanduser()).resolve()
    except (OSError, ValueError, RuntimeError):  # links in a circle, a NUL, nobody's home
        raise _missing(told) from None


def _missing(told: str) -> AttachmentError:
    return AttachmentError(f"there is no file {told} in the workspace; check the path")


def _bytes_of(root: Path, parts: Sequence[str], told: str) -> bytes:
    """Read a file within a folder, of which no part is a link."""
    if not parts:
        raise AttachmentError(f"{told} is no file; name a file within it")
    opened: list[int] = []
    try:
        if _HAS_FOLDERS:
            opened.append(os.open(root, _O | os.O_DIRECTORY))
            for part in parts[:-1]:
                opened.append(os.open(part, _O | os.O_DIRECTORY, dir_fd=opened[-1]))
            _check_regular(os.stat(parts[-1], dir_fd=opened[-1], follow_symlinks=False), told)
            opened.append(os.open(parts[-1], _O, dir_fd=opened[-1]))
        else:
            path = root.joinpath(*parts)
            _check_regular(path.lstat(), told)
            opened.append(os.open(path, _O))
            if path.resolve(strict=True) != path or not os.path.samestat(os.fstat(opened[-1]), path.lstat()):
                raise _replaced(told)
        about = os.fstat(opened[-1])
        _check_regular(about, told)
        if about.st_size > MOST_BYTES:
            raise too_large(told, about.st_size)
        return _read_at_most(opened[-1], MOST_BYTES, told)
    finally:
        for one in opened:
            with suppress(OSError):
                os.close(one)


def _check_regular(about: os.stat_result, told: str) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise _replaced(told)
    if not stat.S_ISREG(about.st_mode):
        what = "a folder" if stat.S_ISDIR(about.st_mode) else "a pipe, a socket or a device"
        raise AttachmentError(f"{told} is no file, but {what}, so it was not read; name a regular file")


def _read_at_most(opened: int, most: int, told: str) -> bytes:
    """Read an open file. It may grow during the read."""
    pieces, left = [], most + 1
    while left and (piece := os.read(opened, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise too_large(told, most + 1)
    return b"".join(pieces)


def _replaced(told: str) -> AttachmentError:
    return AttachmentError(f"{told} was replaced while it was read, so it was not attached; try again")


def _cannot(error: OSError, told: str) -> AttachmentError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return _missing(told)
    if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link or a socket stands there by now
        return _replaced(told)
    return AttachmentError(
        f"{told} cannot be read: {error.strerror or type(error).__name__}; check its permissions"
    )


class Files:
    """The attachments of one tract.

    Args:
        database: of the tract.
        rows: of the tract.
        types: check contents.
    """

    def __init__(self, database: Database, rows: CommitRows, types: ContentTypes) -> None:
        self._database = database
        self._rows = rows
        self._types = types
        self.open: Callable[[Sequence[str | Path]], list[AttachedFile]] = lambda names: read_files((), names)
        """Reads files of the workspace."""

    def read(self, sha256: str) -> bytes:
        """Return the bytes of an attachment.

        Raises:
            StoreCorruptError: they are damaged or missing.
        """
        with self._database.read() as connection:
            return self._rows.blobs(connection, [sha256])[sha256]

    def given(self, attachments: Sequence[Attachable]) -> list[AttachedFile]:
        """Return the attachments in order; reads all files or none.

        Raises:
            AttachmentError: a file cannot be attached; nothing was.
        """
        if isinstance(attachments, str | Path | AttachedFile) or not isinstance(attachments, Sequence):
            raise AttachmentError(
                f"attachments is a list, such as ['data/photo.png'], not {brief_repr(attachments)}"
            )
        names = [one for one in attachments if not isinstance(one, AttachedFile)]
        read = iter(self.open(names) if names else ())
        found = [one if isinstance(one, AttachedFile) else next(read) for one in attachments]
        check_together(found)
        return found

    def attached(
        self, content: dict[str, Any], attachments: Sequence[Attachable] = ()
    ) -> tuple[dict[str, Any], list[AttachedFile]]:
        """Return a checked content with its attachments, and the files that these are.

        Args:
            content: the content. Attachments in it must already belong to this tract.
            attachments: more of them.

        Raises:
            AttachmentError: a file cannot be attached.
            ContentError: the content can have no attachments, or names some that are none of this tract's.
        """
        known = self._known(content) if content.get("attachments") else []
        if not attachments:
            return content, known
        is_result = content["content_type"] == "tool_io" and content["direction"] == "result"
        is_users = content["content_type"] == "dialogue" and content["role"] == "user"
        # a result brings its files; no path of the workspace is read for it
        if not is_users and not (is_result and all(isinstance(one, AttachedFile) for one in attachments)):
            raise ContentError("only a message of the user has attachments; give them to user() or chat()")
        new = self.given(attachments)
        every = [*known, *new]
        check_together(every)
        listed = [one.attachment.model_dump() for one in every]
        return self._types.validated({**content, "attachments": listed}), every

    def tokens(self, attachments: Sequence[Attachment], count: Callable[[str], int]) -> int:
        """Return the tokens of attachments; an estimate for images and PDFs."""
        return sum(AttachedFile(one, self.read(one.sha256)).tokens(count) for one in attachments)

    def has(self, content: dict[str, Any]) -> bool:
        """Return True if the attachments that a checked content names are some of this tract's."""
        named = attachments_of(content)
        return not named or self._own().issuperset(named)

    def _own(self) -> set[Attachment]:
        with self._database.read() as connection:
            return {one for each in self._rows.own_attached(connection) for one in attachments_of(each)}

    def _known(self, content: dict[str, Any]) -> list[AttachedFile]:
        """Return the files of the attachments that a content names: a hash alone gives nobody what it stands for."""
        named = attachments_of(content)
        if not named:
            return []
        own = self._own()
        unknown = next((one for one in named if one not in own), None)
        if unknown is not None:
            raise ContentError(
                f"this tract has no attachment {unknown}, with this hash; give the file: attachments=[path]"
            )
        with self._database.read() as connection:
            data = self._rows.blobs(connection, [one.sha256 for one in named])
        return [AttachedFile(one, data[one.sha256]) for one in named]
