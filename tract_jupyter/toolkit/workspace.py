"""The workspace: the folders whose files may be attached to messages. Only the user can add folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.context import read_files
from tract_jupyter.exceptions import AttachmentError, CodeDecisionError
from tract_jupyter.models import brief_repr, repr_of_whole
from tract_jupyter.toolkit.callers import runs_for_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tract_jupyter.models import AttachedFile
    from tract_jupyter.review import Setting, Settings
    from tract_jupyter.toolkit.executor import ToolExecutor

_SETTINGS: Final = "workspace"


class Workspace:
    """The workspace of one tract: `t.workspace.roots = ["data"]`.

    The roots are signed and stored with the tract. Roots that another user signed have no effect. A child without
    stored roots inherits its ancestors' roots.
    """

    def __init__(
        self,
        settings: Settings,
        above: Callable[[], Iterable[Settings]],
        folder: Path | None,
        executor: Callable[[], ToolExecutor],
    ) -> None:
        self._settings = settings
        self._above = above
        self._default = folder
        self._executor = executor

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<Workspace: {', '.join(map(str, self.roots)) or 'no folder'}>"

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders whose files may be attached. Relative names start at the first one.

        By default, this is the folder in which the tract was opened. Code that runs for a model can only remove
        folders or replace them by subfolders.
        """
        for settings in (self._settings, *self._above()):
            stored = settings.find(_SETTINGS)
            if stored is not None:
                return _stored_roots(stored)
        return () if self._default is None else (self._default,)

    @roots.setter
    def roots(self, folders: Sequence[str | Path]) -> None:
        """Set the roots.

        Raises:
            AttachmentError: a path is not a folder.
            CodeDecisionError: a script or a tool call tries to add a folder.
            TrustError: they cannot be signed.
        """
        if isinstance(folders, str | Path):
            raise AttachmentError(f"roots must be a list of folders, such as [{str(folders)!r}]")
        roots = tuple(dict.fromkeys(map(_folder, folders)))
        self._check_person(roots)
        values: dict[str, Any] = {"roots": [str(folder) for folder in roots]}
        self._settings.save(_SETTINGS, values, values)

    @property
    def default(self) -> Path | None:
        """The root if no roots are stored: the current folder when the tract was opened.

        It applies to this process only.
        """
        return self._default

    @default.setter
    def default(self, folder: str | Path) -> None:
        """Set the default root.

        Raises:
            AttachmentError: the path is not a folder.
            CodeDecisionError: a script or a tool call tries to add a folder.
        """
        root = _folder(folder)
        self._check_person((root,))
        self._default = root

    def _check_person(self, roots: Sequence[Path]) -> None:
        now = self.roots
        added = next((root for root in roots if not any(map(root.is_relative_to, now))), None)
        if added is not None and runs_for_model(self._executor()):
            raise CodeDecisionError(
                f"only the user can add {str(added)!r} to the workspace; code that runs for a model can only remove "
                "folders. Set tract.workspace.roots in your own cell"
            )

    def read(self, *names: str | Path, send_anyway: bool = False) -> list[AttachedFile]:
        """Return files of the workspace for attachment: all of them, or none.

        Args:
            names: paths. A relative path starts at the first root.
            send_anyway: accept texts that may contain a secret, such as `password = hunter2`. Keys are never
                accepted.

        Raises:
            WorkspaceError: a file is outside of the roots, after all links are resolved.
            AttachmentError: a file is missing, not a regular file, too large, of an unsupported type, or may contain
                a secret; or there are too many files.
            CodeDecisionError: code that runs for a model wants to send a text that may contain a secret.
        """
        if send_anyway and runs_for_model(self._executor()):
            raise CodeDecisionError(
                "send_anyway is the user's decision, so code that runs for a model cannot use it. Use it in your own "
                "cell"
            )
        return read_files(self.roots, names, send_anyway=send_anyway)


def _stored_roots(stored: Setting) -> tuple[Path, ...]:
    roots = stored.values.get("roots")
    if not stored.is_own or not isinstance(roots, list):
        return ()
    return tuple(Path(root) for root in roots if isinstance(root, str))


def _folder(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise AttachmentError(
            f"a root of the workspace must be a folder, such as 'data', not {brief_repr(path)}"
        )
    try:
        folder = Path(path).expanduser().resolve(strict=True)
        is_folder = folder.is_dir()
    except (OSError, ValueError, RuntimeError):
        is_folder = False
    if not is_folder:
        raise AttachmentError(
            f"{brief_repr(str(path))} is not a folder, so the workspace was not changed; create it first"
        )
    return folder
