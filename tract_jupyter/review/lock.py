"""The lock file: signed decisions of users, for runs without a user.

The file lies next to the notebook. Users read, review and version it together with the notebook. Each entry has its own
signature. A user can delete entries. Changing or reassigning an entry requires the user's secret. An entry is also
invalid in other projects.

Each project has an id in a second file in the same folder. The first recording creates that file. An entry names the
project id and the notebook. It is valid only if the folder has both. A lock file next to other notebooks therefore
decides nothing, and neither does an entry that was copied into another project's lock file. A folder that is moved or
copied as a whole, such as a checkout, remains the same project. A copy of both files, next to a notebook with the same
name and the same cell, is a copy of the project. The entry is then valid for the same code with the same values.

`recordable_decisions` selects decisions for the file. `RecordedDecisions` settles questions with its entries.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field, with_config

from tract_jupyter.exceptions import ContentError, LockFileError
from tract_jupyter.models import canonical_json, open_regular, read_as, read_strict_json, unique_object
from tract_jupyter.review.decision import personal_channels, without_grant
from tract_jupyter.review.records import ACTIVATE
from tract_jupyter.storage import to_text, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.trust import Signer, Trust
    from tract_jupyter.storage import StoredDecision, StoredPending


PROJECT_FILE = "tract.project.json"
_VERSION = 1
_ID = re.compile(r"[0-9a-f]{32}")
_NOTEBOOK = ".ipynb"


class Project(NamedTuple):
    """A folder with recorded decisions.

    `project_id` has 32 hex digits. It is empty if the folder has no project file.
    """

    folder: Path
    project_id: str
    signer: Signer

    @classmethod
    def of(cls, lock: Path, trust: Trust) -> Project:
        """Return the project of a lock file."""
        folder = lock.resolve().parent  # a link to a lock file is not a copy
        project_id = _read(folder / PROJECT_FILE)
        return cls(folder, project_id, trust.for_project(project_id))

    @classmethod
    def load_or_create(cls, lock: Path, trust: Trust) -> Project:
        """Return the project of a lock file. Without a project file, generate a new id; `keep` writes it."""
        project = cls.of(lock, trust)
        if project.project_id:
            return project
        project_id = secrets.token_hex(16)
        return project._replace(project_id=project_id, signer=trust.for_project(project_id))

    def keep(self) -> None:
        """Write the project id, unless the file already has it.

        Raises:
            LockFileError: the file cannot be written, or another process has just written another id.
        """
        path = self.folder / PROJECT_FILE
        try:
            _make(path, json.dumps({"version": _VERSION, "project": self.project_id}, indent=2) + "\n")
        except FileExistsError:
            if _read(path) != self.project_id:
                raise LockFileError(f"another process has just created {path}; record again") from None
        except OSError as error:
            raise _unwritable(path, error) from error

    def path_of(self, notebook: Path | None) -> str:
        """Return a notebook's path relative to this project. Empty if the notebook is not in the project."""
        if notebook is None or not notebook.is_file():
            return ""
        try:
            return notebook.resolve().relative_to(self.folder).as_posix()
        except ValueError:
            return ""

    def why_not(self, entry: RecordedDecision, cell: str = "") -> str:
        """Return the reason why an entry is not valid here, as the end of a sentence. Empty for a valid entry."""
        if not self.project_id:
            return (
                f"cannot be checked, because this folder lacks {PROJECT_FILE}; commit and copy that file with the "
                "lock file"
            )
        if entry.project != self.project_id:
            return "was recorded in another project, so it has no effect in this one"
        if not entry.verifies(self.signer):
            return "is not signed with your secret, or was changed"
        return self._why_not_of(entry.notebook, cell)

    def _why_not_of(self, notebook: str, cell: str) -> str:
        if not notebook:  # recorded without a known notebook name
            return ""
        path = self.folder / notebook
        if not path.is_file():
            return f"was recorded in the notebook {notebook}, which does not exist here"
        if cell.strip() and path.suffix == _NOTEBOOK and not _has(path, cell):
            return f"was recorded in the notebook {notebook}, which does not have the asking cell"
        return ""


@uninterrupted()
def _make(path: Path, text: str) -> None:
    """Create a new file, completely or not at all."""
    file = path.open("x", encoding="utf-8", newline="\n")
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()
        raise


def _json_of(path: Path) -> Any:
    """Read a JSON file. A duplicate key is an error: the user could see one value, and the other would count."""
    with open(path, encoding="utf-8", opener=open_regular) as file:  # Path.open takes no opener
        return read_strict_json(file.read(), object_pairs_hook=unique_object)


def _read(path: Path) -> str:
    """Return the project id from a file. Empty if the file does not exist."""
    try:
        data = _json_of(path)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError):
        data = None
    project_id = data.get("project") if isinstance(data, dict) and data.get("version") == _VERSION else None
    if not isinstance(project_id, str) or not _ID.fullmatch(project_id):
        raise LockFileError(
            f"{path} has no valid project id. Restore it from version control, or delete it and the lock file, and "
            "write both again with '%tract record'"
        )
    return project_id


def _has(path: Path, cell: str) -> bool:
    state = path.stat()
    return cell.strip() in _sources(str(path), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _sources(path: str, _changed: int, _size: int) -> frozenset[str]:
    """Return the sources of a notebook's code cells. Empty if the notebook cannot be read."""
    try:
        cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return frozenset()
    return frozenset(
        "".join(map(str, source)).strip() for source in sources if isinstance(source, str | list)
    )


LOCK_FILE = "tract.lock.json"
_SIGNED = "recorded"
_UNSIGNED = {"signature": ""}


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A recorded decision.

    Attributes:
        kind: the kind of the decided thing: `activation`, `operation`, `tool` or `pending`.
        title: the readable title. It names the operation.
        identity: 64 hex digits over the code and the requested values, without volatile values.
        arguments: the arguments of the action, including edits and excluding standing approvals.
        decided_at: the time of the decision: UTC, ISO 8601.
        notebook: the notebook's path relative to the folder of the lock file. Empty if the kernel did not know it.
        project: the id of the project in which it was recorded.
        signature: a signature over all other attributes, with the secret of the recording user.
    """

    kind: str
    title: str
    identity: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    action: str
    arguments: dict[str, Any]
    decided_by: str
    decided_at: str
    notebook: str = ""
    project: str = ""
    signature: str = ""

    def signed(self, project: Project) -> RecordedDecision:
        """Return the decision with the project's id and signature."""
        entry = replace(self, project=project.project_id)
        return replace(entry, signature=project.signer.sign(_SIGNED, asdict(entry) | _UNSIGNED))

    def verifies(self, signer: Signer) -> bool:
        """Return True if this user signed the unchanged entry. `Project.why_not` decides if the entry is valid."""
        return signer.verify(_SIGNED, asdict(self) | _UNSIGNED, self.signature)

    def says(self) -> tuple[str, ...]:
        """Return the answer, the decider and the notebook."""
        return self.action, canonical_json(self.arguments), self.decided_by, self.notebook


def read_lock(path: Path) -> tuple[RecordedDecision, ...]:
    """Read a lock file. A missing file has no entries."""
    try:
        data = _json_of(path)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError) as error:
        raise LockFileError(_unreadable(path, str(error) or type(error).__name__)) from None
    try:
        return tuple(_entries(data))
    except ContentError as error:
        raise LockFileError(_unreadable(path, str(error))) from None


def write_lock(path: Path, entries: Iterable[RecordedDecision]) -> None:
    """Write a lock file, completely or not at all. Its order and layout depend only on the entries.

    Raises:
        LockFileError: the file cannot be written. The old file is unchanged.
    """
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with temporary.open("x", encoding="utf-8", newline="\n") as file:
                file.write(lock_text(entries))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> LockFileError:
    return LockFileError(
        f"{path} cannot be written: {error.strerror}; nothing was changed. Make its folder writable, or set "
        "TractJupyter.lock_file to another place"
    )


def lock_text(entries: Iterable[RecordedDecision]) -> str:
    """Return the text of a lock file. Entries with the same identity keep their order; each answers one question."""
    ordered = sorted(entries, key=lambda entry: (entry.kind, entry.title, entry.identity))
    listed = [
        {**asdict(entry), "arguments": json.loads(canonical_json(entry.arguments))} for entry in ordered
    ]
    return json.dumps({"version": _VERSION, "entries": listed}, indent=2, ensure_ascii=False) + "\n"


def merged(
    old: Iterable[RecordedDecision], new: Iterable[RecordedDecision], project: Project
) -> list[RecordedDecision]:
    """Merge new entries into a file's entries. They replace entries with the same identity and notebook.

    If the answers are identical, the old entries remain. A repeated recording therefore changes nothing.
    """
    before, fresh = _by_identity(old), _by_identity(new)
    for identity, answers in fresh.items():
        notebooks = {"", *(entry.notebook for entry in answers)}
        known = [entry for entry in before.get(identity, []) if entry.notebook in notebooks]
        others = [entry for entry in before.get(identity, []) if entry.notebook not in notebooks]
        is_same = [entry.says() for entry in known] == [entry.says() for entry in answers]
        if not is_same or any(project.why_not(entry) for entry in known):
            before[identity] = others + answers
    return [entry for group in before.values() for entry in group]


def _by_identity(entries: Iterable[RecordedDecision]) -> dict[str, list[RecordedDecision]]:
    groups: dict[str, list[RecordedDecision]] = {}
    for entry in entries:
        groups.setdefault(entry.identity, []).append(entry)
    return groups


def _entries(data: Any) -> Iterable[RecordedDecision]:
    if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
        raise ContentError("it is not an object with a version and a list of entries")
    version = data.get("version")
    if type(version) is not int or version != _VERSION:
        raise ContentError(f"it has version {version!r}, and this tract_jupyter supports version {_VERSION}")
    for number, entry in enumerate(data["entries"], 1):
        yield read_as(RecordedDecision, entry, ContentError, f"entry {number}")


def _unreadable(path: Path, why: str) -> str:
    return (
        f"{path} cannot be read as a lock file: {why:.300}. Restore it from version control, or delete it and write "
        "it again with '%tract record'"
    )


# --- recording, and settling questions

_ACTIVATES: Final = "Activate operation "


class RecordableDecisions(NamedTuple):
    """The signed entries, and the number of omitted user decisions: unsigned, failed, or not carried out."""

    entries: list[RecordedDecision]
    left_out: int


def recordable_decisions(
    ledger: Ledger,
    project: Project,
    *,
    since: datetime | None,
    active: Collection[str] = (),
    notebook: str = "",
) -> RecordableDecisions:
    """Return the users' decisions on shown requests, as signed entries in order.

    Earlier activations of the identities in `active` are included.
    """
    decided = ledger.decided(personal_channels())
    displayed = [  # `pass_through` is for handlers only, and does not settle a pending
        (d, p)
        for d, p in decided
        if ((p.request is not None and not p.is_unshown) or p.operation == ACTIVATE)
        and d.action != "pass_through"
    ]
    chosen = [(d, p) for d, p in displayed if since is None or d.decided_at >= since]
    usable = [(d, p) for d, p in chosen if _is_done(d) and _is_own(ledger, d, p)]
    have = {d.identity for d, _ in usable}
    earlier = {
        d.identity: (d, p)
        for d, p in displayed
        if d.identity in active and d.identity not in have and d.action == "approve" and _is_done(d)
        and _is_own(ledger, d, p)
    }  # fmt: skip
    entries = [_entry(d, p, notebook).signed(project) for d, p in [*earlier.values(), *usable]]
    return RecordableDecisions(entries, len(chosen) - len(usable))


def _is_done(decision: StoredDecision) -> bool:
    """Return True if the decision was carried out completely: it did not fail and was not set aside or superseded."""
    return decision.finished_at is not None and decision.error is None


def _is_own(ledger: Ledger, decision: StoredDecision, pending: StoredPending) -> bool:
    """Return True if this user signed the decision and the request. The entry has parts of both."""
    return ledger.verifies(decision) and ledger.vouches(pending)


def _entry(decision: StoredDecision, pending: StoredPending, notebook: str) -> RecordedDecision:
    request = pending.request or {}
    subject = request.get("subject") or {}
    return RecordedDecision(
        kind="activation" if pending.operation == ACTIVATE else subject.get("kind", "pending"),
        title=lasting_title(request["title"]) if request else _title_of(pending),
        identity=decision.identity,
        action=decision.action,
        arguments=without_grant(decision.action, decision.arguments),
        decided_by=decision.decided_by,
        decided_at=to_text(decision.decided_at),
        notebook=notebook,
    )


def _title_of(pending: StoredPending) -> str:
    """Return the title of an activation that was not displayed. The column with the title is not signed."""
    with suppress(ValueError, LookupError, TypeError):
        return f"{_ACTIVATES}{json.loads(pending.fields['spec'])['name']}"
    return pending.operation


class RecordedDecisions:
    """The recorded decisions of one lock file, in a process that carries them out.

    Entries with the same identity form a queue. Each entry is used once, so two identical questions need two entries. A
    copy of an entry has the same signature and does not count as a second entry. The first lookup reads the file.
    `used` has the signatures of entries that this process has already used.
    """

    def __init__(
        self, path: Path, trust: Trust, used: set[str] | None = None, cell: Callable[[], str] = lambda: ""
    ) -> None:
        self.path = path
        self._cell = cell
        self._project: Project | None = None
        self._trust = trust
        self._used = set() if used is None else used
        self._entries: tuple[RecordedDecision, ...] | None = None
        self._lock = threading.Lock()

    def take(self, identity: str) -> RecordedDecision | None:
        """Consume the next decision with this identity and return it. Return None if none is available."""
        with self._lock:
            for entry in self._all():
                is_used = entry.signature in self._used
                if entry.identity == identity and not is_used and not self._why_not_here(entry):
                    self._used.add(entry.signature)
                    return entry
        return None

    def knows(self, identity: str) -> bool:
        """Return True if the file has an entry with this identity, used or not."""
        return any(entry.identity == identity for entry in self._all())

    def why_not(self, pending: Pending) -> str:
        """Explain in one sentence why no decision applies to a pending."""
        title, name = pending.title, self.path.name
        same = [entry for entry in self._all() if entry.identity == pending.identity]
        wrong = next(filter(None, map(self._why_not_here, same)), "")
        if wrong:
            return f"the entry for {title!r} in {name} {wrong}"
        if same:
            times = "once" if len(same) == 1 else f"{len(same)} times"
            return f"{name} answers {title!r} {times}, and this run needs more answers"
        if any(entry.title == lasting_title(title) for entry in self._all()):
            return f"{name} has an entry for {title!r}, but for other code or other values: they have changed since"
        return f"{name} has no entry for {title!r}"

    def _all(self) -> tuple[RecordedDecision, ...]:
        if self._entries is None:
            self._entries = read_lock(self.path)
        return self._entries

    def _why_not_here(self, entry: RecordedDecision) -> str:
        """Explain why an entry is not valid in this project and for the running cell. Empty for a valid entry."""
        if self._project is None:
            self._project = Project.of(self.path, self._trust)
        return self._project.why_not(entry, self._cell())


def lasting_title(title: str) -> str:
    """Return a title that does not depend on whether the store already has the operation."""
    return title.replace("Replace operation ", _ACTIVATES, 1)
