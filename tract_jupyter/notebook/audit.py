"""The audit export of a store: all its rows as JSON Lines, and their verification without the store.

The first line names the format and the store. Each further line is one row of a table. The last line has the number of
the lines before it, their SHA-256, and the exporter's signature of it. The verification restores the rows into a
temporary store, and verifies it like any store. Nothing of it runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import warnings
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TextIO

from sqlalchemy import select
from sqlalchemy.exc import OperationalError, SAWarning, SQLAlchemyError, StatementError

from tract_jupyter.exceptions import ContentError, StoreCorruptError, StoreError, TrustError
from tract_jupyter.models import canonical_json, counted, one_line, open_private
from tract_jupyter.notebook.stores import existing_store, verify_store
from tract_jupyter.review import Trust
from tract_jupyter.storage import (
    Database,
    TractRows,
    can_hold,
    checked,
    metadata,
    now_text,
    schema,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Table

_VERSION: Final = 1
_COUNTED: Final = ("commits", "pendings", "decisions", "events", "run_events", "grants")
_LONGEST_LINE: Final = 1_000  # characters of a line of the report
_COVERED: Final = (  # the page for administrators has a table of the columns
    "checked. They cover requests, decisions with their reasons, outcomes, effects, operations, handlers, profiles, "
    "settings, policies, starts of runs and grants. Not covered: the other columns, such as errors and origins, and "
    "other events, branches and the log of branch moves"
)
_STORE_ID: Final = re.compile("[0-9a-f]{32}")
_OTHER_DATA: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_NOT_WHOLE: Final = (*_OTHER_DATA, OSError, ContentError)  # the errors of a file with other lines
_OTHER_ROWS: Final = (*_OTHER_DATA, StoreError, ContentError, SQLAlchemyError, SAWarning)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of verifying an export.

    Attributes:
        store_id: the id of the exported store.
        exported_at: the time of the export, as the file says.
        sha256: of the lines before the last one, to compare with the number that the export printed.
        counts: the number of rows of some tables.
        problems: what does not hold, a line each; empty if all checks passed.
        has_secret: True if the signatures were checked.
    """

    store_id: str
    exported_at: str
    sha256: str
    counts: dict[str, int]
    problems: tuple[str, ...]
    has_secret: bool


def export_audit(store: str | Path, out: TextIO) -> tuple[int, str]:
    """Write all rows of a store as JSON Lines.

    Returns:
        The number of lines before the last one, and their SHA-256.

    Raises:
        StoreError: the store does not exist, or a row is damaged.
        TrustError: the export cannot be signed.
    """
    database, hashed, lines = existing_store(store), hashlib.sha256(), 0
    try:
        signer = Trust().for_tract(database.store_id, "audit")
        with database.read() as connection:
            for item in _items(connection, database.store_id):
                line = canonical_json(item) + "\n"
                hashed.update(line.encode())
                out.write(line)
                lines += 1
    finally:
        database.close()
    end = {
        "lines": lines,
        "sha256": hashed.hexdigest(),
        "signature": signer.sign("audit", hashed.hexdigest()),
    }
    out.write(canonical_json({"end": end}) + "\n")
    return lines, hashed.hexdigest()


def write_audit(store: str | Path, file: str | Path) -> tuple[int, str]:
    """Write all rows of a store to a new file, completely or not at all. Only its owner can read the file.

    Returns:
        The number of lines before the last one, and their SHA-256.

    Raises:
        StoreError: the file exists or cannot be written, or as for `export_audit`.
        TrustError: the export cannot be signed.
    """
    file = Path(file)
    if os.path.lexists(file):
        raise _existing(file)
    part = file.with_name(f".audit-{secrets.token_hex(8)}.part")
    try:
        with open(part, "x", encoding="utf-8", newline="\n", opener=open_private) as out:
            written = export_audit(store, out)
        _move(part, file)
    except FileExistsError:  # another process was faster
        raise _existing(file) from None
    except OSError as error:
        raise StoreError(
            f"the export cannot be written to {file}: {error.strerror}. Check its folder, the permissions and the "
            "free space, or give another file"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return written


def _move(part: Path, file: Path) -> None:
    """Rename a file without replacing another one. A hard link would do the same, but not on every file system."""
    file.open("xb").close()
    try:
        part.replace(file)
    except OSError:
        file.unlink()
        raise


def _existing(file: Path) -> StoreError:
    return StoreError(
        f"{file} exists, and an export does not replace a file. Give a new file, or remove this one"
    )


def _items(connection: Connection, store_id: str) -> Iterator[dict[str, Any]]:
    yield {"audit": _VERSION, "store_id": store_id, "exported_at": now_text()}
    for table in metadata.sorted_tables:
        for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings():
            yield {"table": table.name, "row": {name: _shown(value) for name, value in row.items()}}


def _shown(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return {"utf8": value.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _stored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return value["utf8"].encode() if "utf8" in value else b64decode(value["base64"], validate=True)


def verify_audit(file: str | Path, secret: str | Path | None = None) -> AuditReport:
    """Verify an export without its store: the digest, each hash and link, and the signatures if the secret is given.

    Args:
        file: the export.
        secret: the file with the signing secret of the user. None to check no signature.

    Raises:
        StoreCorruptError: the file is not a whole export.
        StoreError: the file cannot be read, or the temporary store cannot be written.
        TrustError: the secret cannot be read.
    """
    if secret is not None and not Path(secret).is_file():
        raise TrustError(
            f"there is no signing secret {secret}. Give the file of the user who exported the store"
        )
    with _opened(Path(file)) as lines, TemporaryDirectory() as folder:
        place = Path(folder) / "audit.db"
        trust = Trust(Path(folder) / "no-secret" if secret is None else Path(secret))
        try:
            export = _restored(lines, Path(file), place)
        except _NOT_WHOLE as error:
            raise StoreCorruptError(
                f"{file} is not a whole audit export: {_described(error)}. Export it again"
            ) from None
        problems = export.problems
        signer = trust.for_tract(export.store_id, "audit")
        if secret is not None and not signer.verify("audit", export.sha256, export.signature):
            problems.append("the export is not signed with this secret")
        if export.is_restored:
            problems += _of_tracts(place, trust, has_secret=secret is not None)
    return AuditReport(
        export.store_id, export.exported_at, export.sha256, export.counts, tuple(map(_line, problems)),
        secret is not None,
    )  # fmt: skip


def _opened(file: Path) -> BinaryIO:
    """Open a regular file. A pipe or a device may never end."""
    try:
        if stat.S_ISREG(file.stat().st_mode):
            return file.open("rb")
        why = "it is not a regular file"
    except OSError as error:
        why = str(error.strerror)
    raise StoreError(f"{file} cannot be read: {why}. Give the file that the export wrote")


def _of_tracts(place: Path, trust: Trust, *, has_secret: bool) -> list[str]:
    problems = []
    try:
        with warnings.catch_warnings(action="error", category=SAWarning):
            for tract in verify_store(place, trust=trust):
                problems += [
                    f"{tract.tract_id}: {damage.where}: {damage.problem}" for damage in tract.damaged
                ]
                problems += [f"{tract.tract_id}: {line}" for line in tract.unsigned if has_secret]
    except _OTHER_ROWS as error:
        if isinstance(error.__cause__, OperationalError):  # of this machine, such as a full disk
            raise
        # without the advice, which is for the user's own store
        reason = _described(error).replace(str(place), "the export").partition(". ")[0]
        problems.append(f"{_ROWS}: {reason}")
    return problems


_ROWS: Final = "The rows are not whole"


def _described(error: BaseException) -> str:
    """Return the reason of an error, without the SQL statement."""
    if isinstance(error, StatementError):
        text = str(error.orig)
        return "it refers to a row that is missing" if text.startswith("FOREIGN KEY") else text
    if isinstance(error, StoreError | ContentError | SAWarning):
        return str(error)
    return f"{type(error).__name__}: {_line(str(error), 200)}"


def _line(text: str, limit: int = _LONGEST_LINE) -> str:
    """Return a text of the file as a part of one line of the report."""
    return one_line(text, limit)


@dataclass(slots=True)
class _Export:
    store_id: str
    exported_at: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    sha256: str = ""
    signature: str = ""
    problems: list[str] = field(default_factory=list)
    is_restored: bool = True

    @classmethod
    def of_first(cls, line: bytes, file: Path) -> Self:
        head = _item(line, 1)
        if head.get("audit") != _VERSION:
            raise StoreCorruptError(f"{file} has another format than version {_VERSION}")
        moment = head["exported_at"]
        if to_text(datetime.fromisoformat(moment)) != moment:  # it appears in the report
            raise ValueError("exported_at is not a time of the format")
        if not _STORE_ID.fullmatch(head["store_id"]):
            raise ValueError("store_id is not an id of the format")
        return cls(head["store_id"], moment)

    def end(self, end: dict[str, Any], lines: int, sha256: str) -> None:
        """Compare the last line with the lines before it."""
        self.sha256, self.signature = sha256, end["signature"]
        if type(self.signature) is not str:
            raise TypeError("the signature is not a text")
        if (end["lines"], end["sha256"]) != (lines, sha256):
            self.problems.append(
                "the lines do not match the digest in the last line; the file was changed after the export"
            )


def _item(line: bytes, number: int) -> Any:
    item = json.loads(line)
    if canonical_json(item).encode() + b"\n" != line:  # such as a name that appears twice
        raise ValueError(f"line {number} is not in the form of the format")
    return item


def _restored(lines: BinaryIO, file: Path, place: Path) -> _Export:
    """Restore the rows into a new store, up to the first row that a store cannot have."""
    database, hashed = Database(place), hashlib.sha256()
    try:
        with database.write() as connection, warnings.catch_warnings(action="error", category=SAWarning):
            first = next(lines, b"")
            export = _Export.of_first(first, file)
            hashed.update(first)
            connection.execute(metadata.tables["tract_meta"].delete())
            for number, line in enumerate(lines, 1):
                item = _item(line, number + 1)
                if "end" in item:
                    export.end(item["end"], number, hashed.hexdigest())
                    if export.is_restored:
                        export.problems += _of_rows(connection, export.store_id)
                    if next(lines, b""):
                        export.problems.append("there are lines after the last line of the export")
                    return export
                hashed.update(line)
                table = metadata.tables[item["table"]]
                row = {name: _stored(value) for name, value in item["row"].items()}
                export.counts[table.name] = export.counts.get(table.name, 0) + 1
                if export.is_restored:
                    why = _why_not(table, row) or _insert(connection, table, row)
                    export.is_restored = not why
                    if why:
                        export.problems.append(f"{_ROWS}: line {number + 1}, {table.name}: {why}")
    finally:
        database.close()
    raise StoreCorruptError(f"{file} is not whole: its last line is missing. Export it again")


def _why_not(table: Table, row: dict[str, Any]) -> str:
    """Return why a table cannot have a row; empty if it can. Without this check, a store sets missing values."""
    differing = row.keys() ^ table.columns.keys()
    if differing:
        return f"it has not exactly the columns of the table: {', '.join(sorted(differing))}"
    wrong = [name for name, value in row.items() if not can_hold(table.columns[name], value)]
    return f"the value of {', '.join(wrong)} has a wrong type" if wrong else ""


def _insert(connection: Connection, table: Table, row: dict[str, Any]) -> str:
    """Add a row. Return why the store refuses it; empty if it does not."""
    try:
        connection.execute(table.insert().values(row))
    except OperationalError:  # of this machine, such as a full disk
        raise
    except (SQLAlchemyError, SAWarning, OverflowError) as error:
        return _described(error)
    return ""


def _of_rows(connection: Connection, store_id: str) -> Iterator[str]:
    """Describe damage that no tract has: unused contents, and rows of a missing tract."""
    meta, blobs = metadata.tables["tract_meta"], metadata.tables["blobs"]
    about = {row.key: row.value for row in connection.execute(select(meta))}
    if about.get(schema.STORE_ID) != store_id:
        yield "the first line names another store than the rows"
    if about.get(schema.VERSION) != str(schema.SCHEMA_VERSION):
        yield f"the rows do not have the version {schema.SCHEMA_VERSION} of the tables"
    for content_hash, payload in connection.execute(select(blobs)):
        try:
            checked(content_hash, payload)
        except StoreCorruptError as error:
            yield str(error)
    known = set(TractRows().ids(connection))
    for table in metadata.sorted_tables:
        if "tract_id" in table.columns:
            found = set(connection.scalars(select(table.c.tract_id).distinct()))
            yield from (
                f"{table.name} has rows of the tract {name}, which is missing"
                for name in sorted(found - known)
            )


def report_lines(report: AuditReport) -> list[str]:
    """Return a report as text, a line each."""
    rows = ", ".join(f"{name} {report.counts[name]}" for name in _COUNTED)
    signatures = _COVERED if report.has_secret else "not checked: no --secret"
    ending = [f"{counted(len(report.problems), 'problem')}."] if report.problems else ["No problem found."]
    lines = [
        f"Store {report.store_id}, exported {report.exported_at}",
        f"Rows: {rows}",
        f"SHA-256: {report.sha256}",
        f"Signatures: {signatures}",
        *report.problems,
        *ending,
    ]
    return [_line(line) for line in lines]
