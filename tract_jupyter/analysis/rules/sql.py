"""Statements sent to a database: those that destroy (TJ206), and those that reach files and programs (TJ207)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, LIKELY, MEDIUM, Rule, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.view import CodeView

_EXECUTES = (
    "execute",
    "executescript",
    "executemany",
    "exec_driver_sql",
    "sql",
    "read_sql",
    "read_sql_query",
    "query",
)
_DESTROYS = re.compile(
    r"(?is)(?:^|;)\s*(drop\s+(table|database|schema|view|user|role|index|collection)|truncate\b"
    r"|alter\s+(table|database|role|user|system)|attach\b|grant\b|revoke\b|create\s+(user|role|login)"
    r"|(delete\s+from\s+\S+|update\s+\S+\s+set\b)(?![^;]*\bwhere\b)|shutdown\b)"
)
_RUNS = re.compile(
    r"(?i)\b(?:from|to)\s+program\b|\bxp_cmdshell\b|\bload_extension\s*\(|\bsys_exec\s*\(|\blanguage\s+plpython3?u"
    r"|\binstall\s+'?\w+'?\s*(?:from\b|;|$)|\bsys_eval\s*\(|\bcreate\s+(?:or\s+replace\s+)?function\b[^;]*\blanguage\s+'?c\b"
)
_PATH = re.compile(
    r"(?is)\b(?:(?P<read>read_\w+|glob|parquet_scan|pg_read_file|pg_ls_dir|load_file|infile|attach(?:\s+database)?"
    r"|from|openrowset|import\s+database)|(?P<write>outfile|dumpfile|export\s+database|to))\s*\(?\s*'(?P<path>[^']+)'"
)


def _statements(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    for call in view.method_calls(_EXECUTES):
        for text in view.resolver.value(call.args[0]).texts if call.args else ():
            yield call, text


def _in_memory(call: ast.Call, view: CodeView) -> bool:
    """Return True if the database lives in memory and ends with the kernel."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = view.program.sole_value(owner) if isinstance(owner, ast.Name) else owner
    place = made.args[0] if isinstance(made, ast.Call) and made.args else None
    return isinstance(place, ast.Constant) and place.value == ":memory:"


_VERBS = frozenset({"drop", "truncate", "alter", "delete"})
_NAME = re.compile(r"[\w.\"`]+")
_LOCAL = ("sqlite3.", "duckdb.")


def _is_local(call: ast.Call, view: CodeView) -> bool:
    """Return True if the database is a local file or made of data frames."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return any(name.startswith(_LOCAL) for name in view.resolver.value(owner).names)


def _is_made_here(text: str, view: CodeView) -> bool:
    """Return True if the code itself creates the table. Of several statements, it may have created only one."""
    statement = text.rstrip("; \t\r\n")
    verb, *others = statement.split() or [""]
    if ";" in statement or verb.lower() not in _VERBS or not others or not _NAME.fullmatch(others[-1]):
        return False
    made = re.compile(
        rf"(?is)\bcreate\s+(?:\w+\s+){{1,3}}?(?:if\s+not\s+exists\s+)?{re.escape(others[-1])}\b"
    )
    return any(made.search(known) for _, known in _statements(view))


@register
class DestroysTable(Rule):
    """Sends a destructive statement to a database.

    ## What it does
    Reports SQL text that drops, truncates or alters tables, deletes all rows, or attaches another database.

    ## Why it matters
    The data is lost, and no notebook holds a copy of it.

    ## Example
    ```python
    connection.execute("DROP TABLE users")
    ```

    ## What to do instead
    Work on a copy of the database, or have a person run the statement.
    """

    code = "TJ206"
    name = "destroys-table"
    category = Category.FILESYSTEM_DELETE
    level = MEDIUM
    effect = "removes data from a database"
    remedy = "Work on a copy of the database."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Look at the text of ``execute`` and its relatives, whatever they are called on."""
        for node, text in _statements(view):
            if _DESTROYS.search(text) and not _in_memory(node, view):
                level = MEDIUM if _is_local(node, view) or _is_made_here(text, view) else HIGH
                yield self.finding(view, node, f"The statement {self.effect}.", level, LIKELY)


@register
class StatementReachesOut(Rule):
    """Makes a database access files or start programs.

    ## What it does
    Reports SQL text that starts programs (`COPY ... FROM PROGRAM`, `xp_cmdshell`), loads extensions, or opens
    files outside the workspace (`read_text('/etc/passwd')`, `COPY ... TO`, `ATTACH`).

    ## Why it matters
    The database does, with its own permissions, what Python code would be reviewed for.

    ## Example
    ```python
    duckdb.sql("SELECT * FROM read_text('/etc/passwd')")
    ```

    ## What to do instead
    Load data with a reader whose path is visible, and query the table.
    """

    code = "TJ207"
    name = "statement-reaches-out"
    category = Category.FILESYSTEM_READ
    level = HIGH
    effect = "reaches out of the database"
    remedy = "Load data with a reader whose path is visible, and query the table."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Look at the text of ``execute`` and its relatives, whatever they are called on."""
        for call, text in _statements(view):
            if _RUNS.search(text):
                reason = "The statement starts programs or loads code."
                yield self.finding(view, call, reason, CRITICAL, LIKELY, Category.PROCESS)
            for match in _PATH.finditer(text):
                level = self._level(match, view)
                if level is not None:
                    yield self.finding(
                        view, call, f"The statement opens {match['path'][:80]}.", level, LIKELY
                    )

    @staticmethod
    def _level(match: re.Match[str], view: CodeView) -> RiskLevel | None:
        place = view.workspace.locate(match["path"])
        if place is PathLocation.OUTSIDE:
            view.external.append(match["path"])
            return HIGH
        if place is PathLocation.PROTECTED:
            return HIGH if match["write"] else MEDIUM
        return (HIGH if match["write"] else MEDIUM) if place is PathLocation.REMOTE else None
