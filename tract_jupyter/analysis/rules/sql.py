"""Statements sent to a database: those that destroy (TJ206), and those that reach files and programs (TJ207)."""

from __future__ import annotations

import ast
import re
from itertools import chain
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import CRITICAL, GUESS, HIGH, LIKELY, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.other_calls import other_calls
from tract_jupyter.analysis.values import MAX_NAME

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
# Each part is bounded, or ends where the next one begins: no text takes the square of its length.
_GONE = r"(?![^;]{0,5000}\bwhere\b)"
_SURELY = (
    r"drop\s+(?:table|database|schema|view|materialized\s+view|user|role|index|collection|keyspace|tablespace)\b"
    r"|truncate\s+(?:table\s+)?\w|alter\s+(?:table|database|role|user|system)\b|create\s+(?:user|role|login)\b"
    rf"|delete\s+from\s+\S{_GONE}|update\s+\S+\s+set\s+\S{_GONE}"
)
_START = r"(?is)(?:^|;|\bbegin\s|\$\$)\s*"
_DESTROYS = re.compile(rf"{_START}(?:{_SURELY}|truncate\b|attach\b|grant\b|revoke\b|shutdown\b)")
_SURELY_DESTROYS = re.compile(rf"{_START}(?:{_SURELY})")
_RUNS = re.compile(
    r"(?i)\b(?:from|to)\s+program\b|\bxp_cmdshell\b|\bload_extension\s*\(|\bsys_exec\s*\(|\blanguage\s+plpython3?u"
    r"|\binstall\s+'?\w{1,99}'?\s*(?:from\b|;|$)|\bsys_eval\s*\("
)
_SURELY_RUNS = re.compile(
    r"(?i)\b(?:from|to)\s+program\s+'|\bexec\w*\s+(?:master\.{1,2})?(?:\w+\.)?xp_cmdshell\b|\bselect\s+sys_(?:exec|eval)\s*\("
)
_FUNCTION = re.compile(r"(?i)\bcreate\s+(?:or\s+replace\s+)?function\b")
_NATIVE = re.compile(r"(?i)\blanguage\s+'?c\b")
_PATH = re.compile(
    r"(?is)\b(?:(?P<read>read_\w{1,99}|glob|parquet_scan|pg_read_file|pg_ls_dir|load_file|infile|attach(?:\s+database)?"
    r"|from|openrowset|import\s+database)|(?P<write>outfile|dumpfile|export\s+database|to))"
    r"\s{0,99}(?:\(\s{0,99})?'(?P<path>[^']{1,4096})'"
)
_QUERY = re.compile(r"(?i)\s*(?:select|with|copy|attach|insert|load|create|export|import)\b")
_COMMENT = re.compile(r"('[^']*(?:'|\Z))|--[^\n]*|/\*(?!!).*?(?:\*/|\Z)", re.DOTALL)


def without_comments(text: str) -> str:
    """Return a statement without its comments; those of MySQL that run stay."""
    return _COMMENT.sub(lambda match: match[1] or " ", text).replace("/*!", ";")


def runs_programs(text: str) -> bool:
    """Return True if a statement starts programs or loads code."""
    if _RUNS.search(text):
        return True
    function = _FUNCTION.search(text)
    return function is not None and _NATIVE.search(text, function.end()) is not None


def _statements(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    for call in view.method_calls(_EXECUTES):
        given = call.args[:1] or [each.value for each in call.keywords if each.arg in _STATEMENTS]
        for text in view.resolver.value(given[0]).texts if given else ():
            yield call, view.look(without_comments, text)


_STATEMENTS = frozenset({"sql", "query", "statement", "operation", "stmt"})


def _other_statements(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    """Yield the texts in the calls of other functions, which may send them to a database."""
    for call in other_calls(view):
        if not (isinstance(call.node.func, ast.Attribute) and call.node.func.attr in _EXECUTES):
            for text in call.texts:
                yield call.node, view.look(without_comments, text)


def _in_memory(call: ast.Call, view: CodeView) -> bool:
    """Return True if the database lives in memory and ends with the kernel."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = view.program.sole_value(owner) if isinstance(owner, ast.Name) else owner
    place = made.args[0] if isinstance(made, ast.Call) and made.args else None
    return isinstance(place, ast.Constant) and place.value == ":memory:"


_VERBS = frozenset({"drop", "truncate", "alter", "delete"})
_LOCAL = ("sqlite3.", "duckdb.")


def _is_local(call: ast.Call, view: CodeView) -> bool:
    """Return True if the database is a local file or made of data frames."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return any(name.startswith(_LOCAL) for name in view.resolver.value(owner).names)


_CREATED = re.compile(
    r"(?i)\bcreate\s+(?:or\s+replace\s+)?(?:(?:temp|temporary|unlogged|external|virtual|materialized|unique)\s+){0,2}"
    r"\w{1,20}\s+(?:if\s+not\s+exists\s+)?([\w.\"`]{1,200})"
)


def _created(view: CodeView) -> frozenset[str]:
    """Return the names of what the code itself creates, in lower case."""
    found = (view.look(_CREATED.findall, text) for _, text in _statements(view))
    return frozenset(name.lower() for names in found for name in names)


def _is_made_here(text: str, created: frozenset[str]) -> bool:
    """Return True if the code itself creates the table. Of several statements, it may have created only one."""
    statement = text.rstrip("; \t\r\n")
    if ";" in statement or len(statement) > MAX_NAME:
        return False
    verb, *others = statement.split() or [""]
    return verb.lower() in _VERBS and bool(others) and others[-1].lower() in created


@register
class DestroysTable(Rule):
    """Sends a destructive statement to a database.

    ## What it does
    Reports SQL text that drops, truncates or alters tables, deletes all rows, or attaches another database,
    whatever function or method gets it.

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
        """Look at the text of ``execute`` and its relatives, and at texts that are surely such statements."""
        created = _created(view)
        reason = f"The statement {self.effect}."
        for node, text in _statements(view):
            if view.look(_DESTROYS.search, text) and not _in_memory(node, view):
                level = MEDIUM if _is_local(node, view) or _is_made_here(text, created) else HIGH
                yield self.finding(view, node, reason, level, LIKELY)
        for node, text in _other_statements(view):
            if view.look(_SURELY_DESTROYS.search, text) and not _in_memory(node, view):
                level = MEDIUM if _is_local(node, view) else HIGH
                yield self.finding(view, node, reason, level, GUESS)
        for escape in view.escapes:
            if _SURELY_DESTROYS.search(without_comments(escape.unknown_text())):
                yield self.finding(view, escape.span, reason, HIGH, GUESS)


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
        """Look at the text of ``execute`` and its relatives, and at texts that are surely such statements."""

        def opened(text: str) -> tuple[RiskLevel, str] | None:
            found = {match["path"]: self._level(match, view) for match in _PATH.finditer(text)}
            grave = [(level, path) for path, level in found.items() if level is not None]
            return max(grave, default=None)

        surely = (pair for pair in _other_statements(view) if view.look(_QUERY.match, pair[1]))
        for call, text in chain(_statements(view), surely):
            worst = view.look(opened, text)
            if worst is not None:
                yield self.finding(view, call, f"The statement opens {worst[1][:80]}.", worst[0], LIKELY)
        reason = "The statement starts programs or loads code."
        for call, text in _statements(view):
            if view.look(runs_programs, text):
                yield self.finding(view, call, reason, CRITICAL, LIKELY, Category.PROCESS)
        for call, text in _other_statements(view):
            if view.look(_SURELY_RUNS.search, text):
                yield self.finding(view, call, reason, HIGH, LIKELY, Category.PROCESS)

    @staticmethod
    def _level(match: re.Match[str], view: CodeView) -> RiskLevel | None:
        place = view.workspace.locate(match["path"])
        if place is PathLocation.OUTSIDE:
            view.external.append(match["path"])
            return HIGH
        if place is PathLocation.PROTECTED:
            return HIGH if match["write"] else MEDIUM
        return (HIGH if match["write"] else MEDIUM) if place is PathLocation.REMOTE else None
