"""Files for attachments: read from a workspace, stored once for each hash.

A path is resolved and checked. Then it is opened from its root, folder by folder, without following links. So the
checked file is the one that is read, even if another process replaces a part of the path. Only regular files are
opened, because pipes and devices can block.
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
    attachments_of,
    brief_repr,
    check_together,
    plain_content,
    printable,
    too_large,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models import Attachment
    from tract_jupyter.storage import CommitRows, Database

Attachable: TypeAlias = "str | Path | AttachedFile"
"""An attachment: a path within the workspace, or a file that was read before."""

_O: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
)
_HAS_FOLDERS: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")


def read_files(
    roots: Sequence[Path], names: Sequence[str | Path], *, send_anyway: bool = False
) -> list[AttachedFile]:
    """Return files of a workspace, all or none.

    Args:
        roots: the readable folders, as real paths. Relative names begin at the first one.
        names: the caller's paths.
        send_anyway: accept texts that may contain a secret.

    Raises:
        WorkspaceError: a file is outside of the workspace, after resolving links.
        AttachmentError: a file is missing, not regular or of an unsupported type; a file is larger than the limit, or
            contains a possible secret; or there are more files than a message can have.
    """
    if len(names) > MOST_FILES:  # before opening the first
        raise AttachmentError(
            f"{len(names):,} files are too many, because a message has at most {MOST_FILES} attachments; use several "
            "messages"
        )
    files = [_read(roots, name, send_anyway) for name in names]
    check_together(files)
    return files


def _read(roots: Sequence[Path], name: str | Path, send_anyway: bool) -> AttachedFile:  # noqa: FBT001
    if not isinstance(name, str | Path):
        raise AttachmentError(f"an attachment is a path, such as 'data/photo.png', not {brief_repr(name)}")
    label = repr(printable(str(name), LONGEST_NAME))
    path = _resolved(roots, name, label)
    root = next((folder for folder in roots if path.is_relative_to(folder)), None)
    if root is None:  # the error does not tell whether the file exists
        where = ", ".join(repr(printable(folder.name or str(folder), 60)) for folder in roots) or "no folder"
        raise WorkspaceError(
            f"{label} is outside of the workspace ({where}), so it was not read; copy it there. The user can add its "
            "folder to tract.workspace.roots"
        )
    try:
        data = _bytes_of(root, path.relative_to(root).parts, label)
    except OSError as error:
        raise _cannot(error, label) from None
    file = AttachedFile.of(path.relative_to(root).as_posix(), data)
    _check_secrets(file, label, send_anyway=send_anyway)
    return file


def _check_secrets(file: AttachedFile, label: str, *, send_anyway: bool) -> None:
    from tract_jupyter.llm import why_not_sent

    if file.attachment.kind != "text":
        return
    text = file.data.decode("utf-8-sig")
    if why := why_not_sent(text, send_anyway=True):
        raise AttachmentError(f"{label} {why}, so it was not attached; remove it first")
    if why := why_not_sent(text, send_anyway=send_anyway):
        raise AttachmentError(
            f"{label} {why}, so it was not attached. Check the line. If it contains no secret, attach the file with "
            "tract.workspace.read(PATH, send_anyway=True), or add --send-anyway to the chat cell"
        )


def _resolved(roots: Sequence[Path], name: str | Path, label: str) -> Path:
    """Return the real path for a name; the file may be missing."""
    try:
        return (roots[0] if roots else Path("/")).joinpath(Path(name).expanduser()).resolve()
    except (OSError, ValueError, RuntimeError):  # a cycle of links, a NUL, the home of an unknown user
        raise _missing(label) from None


def _missing(label: str) -> AttachmentError:
    return AttachmentError(f"there is no file {label} in the workspace; check the path")


def _bytes_of(root: Path, parts: Sequence[str], label: str) -> bytes:
    """Read a file within a folder. No part of its path may be a link."""
    if not parts:
        raise AttachmentError(f"{label} is a folder; name a file within it")
    opened: list[int] = []
    try:
        if _HAS_FOLDERS:
            opened.append(os.open(root, _O | os.O_DIRECTORY))
            for part in parts[:-1]:
                opened.append(os.open(part, _O | os.O_DIRECTORY, dir_fd=opened[-1]))
            _check_regular(os.stat(parts[-1], dir_fd=opened[-1], follow_symlinks=False), label)
            opened.append(os.open(parts[-1], _O, dir_fd=opened[-1]))
        else:
            path = root.joinpath(*parts)
            _check_regular(path.lstat(), label)
            opened.append(os.open(path, _O))
            if path.resolve(strict=True) != path or not os.path.samestat(os.fstat(opened[-1]), path.lstat()):
                raise _replaced(label)
        about = os.fstat(opened[-1])
        _check_regular(about, label)
        if about.st_size > MOST_BYTES:
            raise too_large(label, about.st_size)
        return _read_at_most(opened[-1], MOST_BYTES, label)
    finally:
        for descriptor in opened:
            with suppress(OSError):
                os.close(descriptor)


def _check_regular(about: os.stat_result, label: str) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise _replaced(label)
    if not stat.S_ISREG(about.st_mode):
        what = "a folder" if stat.S_ISDIR(about.st_mode) else "a pipe, a socket or a device"
        raise AttachmentError(f"{label} is {what}, so it was not read; name a regular file")


def _read_at_most(opened: int, most: int, label: str) -> bytes:
    """Read an open file. It may grow during the read."""
    pieces, left = [], most + 1
    while left and (piece := os.read(opened, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise too_large(label, most + 1)
    return b"".join(pieces)


def _replaced(label: str) -> AttachmentError:
    return AttachmentError(f"{label} was replaced while it was read, so it was not attached; try again")


def _cannot(error: OSError, label: str) -> AttachmentError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return _missing(label)
    if error.errno in {errno.ELOOP, errno.ENXIO}:  # it is a link or a socket now
        return _replaced(label)
    return AttachmentError(
        f"{label} cannot be read: {error.strerror or type(error).__name__}; check its permissions"
    )


class Files:
    """The attachments of one tract."""

    def __init__(self, database: Database, rows: CommitRows) -> None:
        self._database = database
        self._rows = rows
        self.open: Callable[[Sequence[str | Path]], list[AttachedFile]] = lambda names: read_files((), names)
        """Reads files of the workspace."""

    def read(self, sha256: str) -> bytes:
        """Return the bytes of an attachment."""
        with self._database.read() as connection:
            return self._rows.blobs(connection, [sha256])[sha256]

    def load(self, attachments: Sequence[Attachable]) -> list[AttachedFile]:
        """Return the attachments in order. Reads all files or none."""
        if isinstance(attachments, str | Path | AttachedFile) or not isinstance(attachments, Sequence):
            raise AttachmentError(
                f"attachments must be a list, such as ['data/photo.png'], not {brief_repr(attachments)}"
            )
        names = [item for item in attachments if not isinstance(item, AttachedFile)]
        read = iter(self.open(names) if names else ())
        files = [item if isinstance(item, AttachedFile) else next(read) for item in attachments]
        check_together(files)
        return files

    def attached(
        self, content: dict[str, Any], attachments: Sequence[Attachable] = ()
    ) -> tuple[dict[str, Any], list[AttachedFile]]:
        """Return a checked content with its attachments, and their files. Files in it must be of this tract."""
        known = self._known(content) if content.get("attachments") else []
        if not attachments:
            return content, known
        is_result = content["content_type"] == "tool_io" and content["direction"] == "result"
        is_users = content["content_type"] == "dialogue" and content["role"] == "user"
        # a tool result has its own files; it cannot name paths of the workspace
        if not is_users and not (is_result and all(isinstance(item, AttachedFile) for item in attachments)):
            raise ContentError("only a user message has attachments; pass them to user() or chat()")
        new = self.load(attachments)
        every = [*known, *new]
        check_together(every)
        listed = [file.attachment.model_dump() for file in every]
        return plain_content({**content, "attachments": listed}), every

    def tokens(self, attachments: Sequence[Attachment], count: Callable[[str], int]) -> int:
        """Return the tokens of attachments; an estimate for images and PDFs."""
        return sum(AttachedFile(item, self.read(item.sha256)).tokens(count) for item in attachments)

    def has(self, content: dict[str, Any]) -> bool:
        """Return True if all attachments of a checked content belong to this tract."""
        attachments = attachments_of(content)
        return not attachments or self._of_tract().issuperset(attachments)

    def _of_tract(self) -> set[Attachment]:
        with self._database.read() as connection:
            contents = self._rows.contents_with_attachments(connection)
            return {item for content in contents for item in attachments_of(content)}

    def _known(self, content: dict[str, Any]) -> list[AttachedFile]:
        """Return the files of a content's attachments. Only attachments of this tract can be read by hash."""
        attachments = attachments_of(content)
        if not attachments:
            return []
        existing = self._of_tract()
        unknown = next((item for item in attachments if item not in existing), None)
        if unknown is not None:
            raise ContentError(
                f"this tract has no attachment {unknown} with this hash; attach the file with attachments=[path]"
            )
        with self._database.read() as connection:
            data = self._rows.blobs(connection, [item.sha256 for item in attachments])
        return [AttachedFile(item, data[item.sha256]) for item in attachments]
