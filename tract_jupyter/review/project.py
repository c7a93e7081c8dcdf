"""The project that recorded decisions belong to: the folder of their file, and the notebooks below it.

Its id stands in a file of its own beside the lock file, made when something is recorded there first. An entry names the
id and the notebook, and counts only where both are: a lock file that is copied beside other notebooks decides nothing
there, and neither does an entry that is copied into the lock file of another project. A folder that is moved or copied
as a whole, as a checkout is, stays the same project. Whoever copies both files beside a notebook of the same name with
the same cell has copied the project; the entry is for that very code with these values there, too.
"""

from __future__ import annotations

import json
import re
import secrets
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.exceptions import LockFileError
from tract_jupyter.storage.interrupts import uninterrupted

if TYPE_CHECKING:
    from tract_jupyter.review.lock import Entry
    from tract_jupyter.review.trust import Signer, Trust

PROJECT_FILE = "tract.project.json"
_VERSION = 1
_ID = re.compile(r"[0-9a-f]{32}")
_NOTEBOOK = ".ipynb"


class Project(NamedTuple):
    """A folder with recorded decisions.

    Attributes:
        folder: where the lock file is.
        project_id: 32 hex digits; empty if the folder does not say that it is a project.
        signer: signs and verifies for this project.
    """

    folder: Path
    project_id: str
    signer: Signer

    @classmethod
    def of(cls, lock: Path, trust: Trust) -> Project:
        """Return the project of a lock file.

        Raises:
            LockFileError: the file with its id cannot be read.
        """
        folder = lock.resolve().parent  # a link to a lock file is no copy
        found = _read(folder / PROJECT_FILE)
        return cls(folder, found, trust.for_project(found))

    @classmethod
    def made(cls, lock: Path, trust: Trust) -> Project:
        """Return the project of a lock file; with a new id, if the folder has none, that `keep` writes."""
        found = cls.of(lock, trust)
        if found.project_id:
            return found
        made = secrets.token_hex(16)
        return found._replace(project_id=made, signer=trust.for_project(made))

    def keep(self) -> None:
        """Write the id, unless it stands there.

        Raises:
            LockFileError: it cannot be written, or another process was faster with another one.
        """
        path = self.folder / PROJECT_FILE
        try:
            _make(path, json.dumps({"version": _VERSION, "project": self.project_id}, indent=2) + "\n")
        except FileExistsError:
            if _read(path) != self.project_id:
                raise LockFileError(f"{path} was made by another process just now; record again") from None
        except OSError as error:
            raise LockFileError(
                f"{path} cannot be written: {error.strerror}; nothing was changed. Make its folder writable, or set "
                "TractJupyter.lock_file to another place"
            ) from error

    def path_of(self, notebook: Path | None) -> str:
        """Return a notebook's path below this project; empty if it is not there."""
        if notebook is None or not notebook.is_file():
            return ""
        try:
            return notebook.resolve().relative_to(self.folder).as_posix()
        except ValueError:
            return ""

    def why_not(self, entry: Entry, cell: str = "") -> str:
        """Return why an entry does not count here, as the end of a sentence; empty if it does.

        Args:
            entry: of the lock file.
            cell: the source of the cell that asks; empty if that is not known.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        if not self.project_id:
            return (
                "is for the project that it was recorded in, and nothing says that this folder is that one: there is "
                f"no {PROJECT_FILE}, which is committed and copied with the lock file"
            )
        if entry.project != self.project_id:
            return "was recorded in another project, and decides nothing in this one"
        if not entry.verifies(self.signer):
            return "is not signed with your secret, or was changed"
        return self._why_not_of(entry.notebook, cell)

    def _why_not_of(self, notebook: str, cell: str) -> str:
        if not notebook:  # recorded where nobody knew the notebook's name
            return ""
        path = self.folder / notebook
        if not path.is_file():
            return f"was recorded in the notebook {notebook}, which is not here"
        if cell.strip() and path.suffix == _NOTEBOOK and not _has(path, cell):
            return f"was recorded in the notebook {notebook}, and the cell that asks is not in that"
        return ""


@uninterrupted()
def _make(path: Path, text: str) -> None:
    """Make a file that is not there yet, whole or not at all."""
    file = path.open("x", encoding="utf-8", newline="\n")
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()
        raise


def _read(path: Path) -> str:
    """The id in a file; empty without the file.

    Raises:
        LockFileError: it holds none.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError):
        data = None
    found = data.get("project") if isinstance(data, dict) and data.get("version") == _VERSION else None
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise LockFileError(
            f"{path} holds no id of a project. Take it from version control again, or delete it and the lock file, and "
            "write both anew with '%tract record'"
        )
    return found


def _has(path: Path, cell: str) -> bool:
    """Whether a notebook has a code cell with this source."""
    state = path.stat()
    return cell.strip() in _sources(str(path), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _sources(path: str, _changed: int, _size: int) -> frozenset[str]:
    """The sources of a notebook's code cells; none, if it cannot be read."""
    try:
        cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        found = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return frozenset()
    return frozenset("".join(map(str, source)).strip() for source in found if isinstance(source, str | list))
