"""The audit export of a store: all its rows as JSON Lines, and their verification without the store.

The first line names the format and the store. Each further line is one row of a table. The last line has the number of
the lines before it, their SHA-256, and the exporter's signature of it. The verification restores the rows into a
temporary store, and verifies it like any store. Nothing of it runs.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from tract_jupyter.exceptions import ContentError, StoreCorruptError, TrustError
from tract_jupyter.models import canonical_json, counted, one_line
from tract_jupyter.notebook.stores import existing_store, verify_store
from tract_jupyter.review import Trust
from tract_jupyter.storage import Database, TractRows, checked, metadata, now_text, schema, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_VERSION: Final = 1
_COUNTED: Final = ("commits", "pendings", "decisions", "events", "run_events", "grants")
_LONGEST_PROBLEM: Final = 1_000  # characters
_NOT_WHOLE: Final = (  # the errors of a file with other data
    OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, ContentError,
    SQLAlchemyError,
)  # fmt: skip


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

    Args:
        store: the SQLite file, or an SQLAlchemy URL.
        out: the text file to write to.

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
        StoreCorruptError: the file is not a whole export, or a row cannot be restored.
        TrustError: the secret cannot be read.
    """
    if secret is not None and not Path(secret).is_file():
        raise TrustError(
            f"there is no signing secret {secret}. Give the file of the user who exported the store"
        )
    with TemporaryDirectory() as folder:
        place = Path(folder) / "audit.db"
        trust = Trust(Path(folder) / "no-secret" if secret is None else Path(secret))
        try:
            export = _restored(Path(file), place)
        except _NOT_WHOLE as error:
            raise StoreCorruptError(
                f"{file} is not a whole audit export: {type(error).__name__}: {error}. Export it again"
            ) from None
        problems = export.problems
        for tract in verify_store(place, trust=trust):
            problems += [f"{tract.tract_id}: {damage.where}: {damage.problem}" for damage in tract.damaged]
            problems += [f"{tract.tract_id}: {line}" for line in tract.unsigned if secret is not None]
        signer = trust.for_tract(export.store_id, "audit")
        if secret is not None and not signer.verify("audit", export.sha256, export.signature):
            problems.append("the export is not signed with this secret")
    lines = tuple(one_line(problem, _LONGEST_PROBLEM) for problem in problems)
    return AuditReport(
        export.store_id, export.exported_at, export.sha256, export.counts, lines, secret is not None
    )


@dataclass(slots=True)
class _Export:
    """The values of the first and the last line of a file, and the problems found."""

    store_id: str
    exported_at: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    sha256: str = ""
    signature: str = ""
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of_first(cls, line: bytes, file: Path) -> Self:
        head = _item(line, 1)
        if head.get("audit") != _VERSION:
            raise StoreCorruptError(f"{file} has another format than version {_VERSION}")
        moment = head["exported_at"]
        if to_text(datetime.fromisoformat(moment)) != moment:  # it appears in the report
            raise ValueError("exported_at is not a time of the format")
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


def _restored(file: Path, place: Path) -> _Export:
    """Restore the rows into a new store."""
    database, hashed = Database(place), hashlib.sha256()
    try:
        with file.open("rb") as lines, database.write() as connection:
            first = next(lines, b"")
            export = _Export.of_first(first, file)
            hashed.update(first)
            connection.execute(metadata.tables["tract_meta"].delete())
            for number, line in enumerate(lines, 1):
                item = _item(line, number + 1)
                if "end" in item:
                    export.end(item["end"], number, hashed.hexdigest())
                    export.problems += _of_rows(connection, export.store_id)
                    if next(lines, b""):
                        export.problems.append("there are lines after the last line of the export")
                    return export
                hashed.update(line)
                row = {name: _stored(value) for name, value in item["row"].items()}
                connection.execute(metadata.tables[item["table"]].insert().values(row))
                export.counts[item["table"]] = export.counts.get(item["table"], 0) + 1
    finally:
        database.close()
    raise StoreCorruptError(f"{file} is not whole: its last line is missing. Export it again")


def _of_rows(connection: Connection, store_id: str) -> Iterator[str]:
    """Describe damage that no tract has: unused contents, and rows of a missing tract."""
    meta, blobs = metadata.tables["tract_meta"], metadata.tables["blobs"]
    if connection.scalar(select(meta.c.value).where(meta.c.key == schema.STORE_ID)) != store_id:
        yield "the first line names another store than the rows"
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
    signatures = "checked" if report.has_secret else "not checked: no --secret"
    ending = [f"{counted(len(report.problems), 'problem')}."] if report.problems else ["No problem found."]
    return [
        f"Store {report.store_id}, exported {report.exported_at}",
        f"Rows: {rows}",
        f"SHA-256: {report.sha256}",
        f"Signatures: {signatures}",
        *report.problems,
        *ending,
    ]
