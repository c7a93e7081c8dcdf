"""The audit export of a store: all its rows as JSON Lines, and their verification without the store.

The first line names the format and the store. Each further line is one row of a table. The last line has the number of
the lines before it, their SHA-256, and the exporter's signature of it. The verification restores the rows into a
temporary store, and verifies it like any store. Nothing of it runs.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TextIO

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from tract_jupyter.exceptions import StoreCorruptError
from tract_jupyter.models import canonical_json
from tract_jupyter.notebook.stores import existing_store, verify_store
from tract_jupyter.review import Trust
from tract_jupyter.storage import Database, metadata, now_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_VERSION: Final = 1
_COUNTED: Final = ("commits", "pendings", "decisions", "events", "run_events", "grants")


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of verifying an export.

    Attributes:
        store_id: the id of the exported store.
        exported_at: the time of the export, as the file says.
        counts: the number of rows of some tables.
        problems: what does not hold, a line each; empty if all checks passed.
        has_secret: True if the signatures were checked.
    """

    store_id: str
    exported_at: str
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
    with TemporaryDirectory() as folder:
        place = Path(folder) / "audit.db"
        trust = Trust(Path(folder) / "no-secret" if secret is None else Path(secret))
        try:
            head, counts, end, problem = _restored(Path(file), place)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, SQLAlchemyError) as error:
            raise StoreCorruptError(
                f"{file} is not a whole audit export: {type(error).__name__}: {error}. Export it again"
            ) from None
        problems = [problem] if problem else []
        for tract in verify_store(place, trust=trust):
            problems += [f"{tract.tract_id}: {damage.where}: {damage.problem}" for damage in tract.damaged]
            problems += [f"{tract.tract_id}: {line}" for line in tract.unsigned if secret is not None]
        signer = trust.for_tract(str(head["store_id"]), "audit")
        if secret is not None and not signer.verify("audit", end["sha256"], end["signature"]):
            problems.append("the export is not signed with this secret")
    return AuditReport(head["store_id"], head["exported_at"], counts, tuple(problems), secret is not None)


def _restored(file: Path, place: Path) -> tuple[dict[str, Any], dict[str, int], dict[str, Any], str]:
    """Restore the rows into a new store. Return the first line, the counts, the end, and a problem with the digest."""
    hashed, counts = hashlib.sha256(), dict.fromkeys(_COUNTED, 0)
    database = Database(place)
    try:
        with file.open("rb") as lines, database.write() as connection:
            first = next(lines, b"")
            head, number = json.loads(first), 1
            if head.get("audit") != _VERSION:
                raise StoreCorruptError(f"{file} has another format than version {_VERSION}")
            hashed.update(first)
            connection.execute(metadata.tables["tract_meta"].delete())
            for line in lines:
                item = json.loads(line)
                if "end" in item:
                    problem = _why_not_whole(item["end"], number, hashed.hexdigest(), next(lines, b""))
                    return head, counts, item["end"], problem
                hashed.update(line)
                number += 1
                row = {name: _stored(value) for name, value in item["row"].items()}
                connection.execute(metadata.tables[item["table"]].insert().values(row))
                counts[item["table"]] = counts.get(item["table"], 0) + 1
    finally:
        database.close()
    raise StoreCorruptError(f"{file} is not whole: its last line is missing. Export it again")


def _why_not_whole(end: dict[str, Any], lines: int, sha256: str, more: bytes) -> str:
    if more:
        return "there are lines after the last line of the export"
    if (end["lines"], end["sha256"]) != (lines, sha256):
        return "the lines do not match the digest in the last line; the file was changed after the export"
    return ""


def report_lines(report: AuditReport) -> list[str]:
    """Return a report as text, a line each."""
    counted = ", ".join(f"{name} {report.counts[name]}" for name in _COUNTED)
    signatures = "checked" if report.has_secret else "not checked: no --secret"
    ending = [f"{len(report.problems)} problems."] if report.problems else ["No problem found."]
    return [
        f"Store {report.store_id}, exported {report.exported_at}",
        f"Rows: {counted}",
        f"Signatures: {signatures}",
        *report.problems,
        *ending,
    ]
