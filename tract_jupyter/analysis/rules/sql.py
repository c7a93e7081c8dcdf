"""Rules about SQL: destructive statements (TJ206), and statements that leave the database (TJ207)."""

from __future__ import annotations

import ast
import re
from itertools import chain
from typing import TYPE_CHECKING, cast

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import (
    CRITICAL,
    GUESS,
    HIGH,
    LIKELY,
    LOW,
    MEDIUM,
    RULES,
    Rule,
    register,
)
from tract_jupyter.analysis.rules.databases import (
    database_files,
    database_of,
    in_memory,
    is_local,
    listed,
    sources,
)
from tract_jupyter.analysis.rules.other_calls import other_calls, words_of
from tract_jupyter.analysis.source import last_name
from tract_jupyter.analysis.statements import effects_of, without_comments
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE, MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.view import CodeView

EXECUTES = words("execute executescript executemany exec_driver_sql sql read_sql read_sql_query query")
# Each part is bounded, or excludes the start of the next one: the time is linear.
_GONE = r"(?![^;]{0,5000}\bwhere\b)"
_SURELY = (
    r"drop\s+(?:table|database|schema|view|materialized\s+view|user|role|index|collection|keyspace|tablespace)\b"
    r"|truncate\s+(?:table\s+)?\w|alter\s+(?:database|role|user|system)\b|create\s+(?:user|role|login)\b"
    r"|alter\s+table\b(?!\s+(?:if\s+exists\s+)?\S{1,200}\s+(?:add|rename)\b)"
    rf"|delete\s+from\s+\S{_GONE}|update\s+\S+\s+set\s+\S{_GONE}"
)
_START = r"(?is)(?:^|;|\bbegin\s|\$\$)\s*"
DESTROYS = re.compile(rf"{_START}(?:{_SURELY}|truncate\b|attach\b|grant\b|revoke\b|shutdown\b)")
SURELY_DESTROYS = re.compile(rf"{_START}(?:{_SURELY})")
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
_FILE = re.compile(rf"[/.{HOLE}]")
_QUERY = re.compile(r"(?i)\s*(?:select|with|copy|attach|insert|load|create|export|import)\b")


def _files(text: str) -> list[re.Match[str]]:
    return [match for match in _PATH.finditer(text) if _FILE.search(match["path"])]


def runs_programs(text: str) -> bool:
    """Return True if a statement starts programs or loads code."""
    if _RUNS.search(text):
        return True
    function = _FUNCTION.search(text)
    return function is not None and _NATIVE.search(text, function.end()) is not None


def _statements(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    for call in view.method_calls(EXECUTES):
        statements = call.args[:1] or [each.value for each in call.keywords if each.arg in STATEMENTS]
        for text in view.resolver.value(statements[0]).texts if statements else ():
            yield call, view.look(without_comments, text)


STATEMENTS = frozenset({"sql", "query", "statement", "operation", "stmt"})


def other_statements(view: CodeView) -> Iterator[tuple[ast.Call, str]]:
    """Yield the texts in calls of other functions. Such a function may send a text to a database."""
    for call in other_calls(view):
        if not (isinstance(call.node.func, ast.Attribute) and call.node.func.attr in EXECUTES):
            for text in call.texts:
                yield call.node, view.look(without_comments, text)


_VERBS = frozenset({"drop", "truncate", "alter", "delete"})
# statements that method calls build: ``session.query(User).delete()``

_DELETES = frozenset({"delete", "truncate", "update"})
_CONDITIONS = words("""
    where filter filter_by exclude get get_or_none having limit first in_bulk slice top join filter_params
""")
_OF_ALL = words("query objects all select find scan")
_ON_DELETE = words("values set returning options execution_options on_conflict using")
"""Steps after ``delete`` and ``update`` that are not conditions."""

_SENDS_BUILT = words("execute exec scalar scalars fetch_all fetch run run_sync exec_driver")


def steps_of(node: ast.expr, view: CodeView) -> Iterator[tuple[str, ast.Call | None]]:
    """Yield the names of the steps of a chain, each with its call: ``delete``, ``query``."""
    for each in view.chain(node):
        call = each if isinstance(each, ast.Call) else None
        function = call.func if call is not None else each
        if isinstance(function, ast.Attribute):
            if call is not None or not isinstance(view.parent(each), ast.Call):
                yield function.attr, call
        elif call is not None and isinstance(function, ast.Name):
            names = view.resolver.value(function).names or {function.id}
            yield from ((name.rpartition(".")[2], call) for name in sorted(names)[:1])


def _is_unconditional(node: ast.expr, view: CodeView, *, by_arguments: bool = False) -> bool:
    """Return True if the chain that ends with the node deletes or updates without a condition.

    ``by_arguments``: arguments of ``delete`` count as a condition, as in ``files().delete(fileId=x)``.
    """
    has_verb, has_condition, has_values = False, False, False
    for name, call in steps_of(node, view):
        if name in _DELETES and call is not None and not has_verb:
            has_verb = True
            has_arguments = bool(call.args or call.keywords)
            has_condition |= (
                not (has_arguments or has_values) if name == "update" else by_arguments and has_arguments
            )
        elif call is not None and (call.args or call.keywords):
            has_values |= name == "values"
            has_condition |= name in _CONDITIONS or (not has_verb and name not in _ON_DELETE)
    return has_verb and not has_condition


def built(view: CodeView) -> Iterator[ast.Call]:
    """Yield the calls that send a built statement which deletes or changes all rows."""
    for call in view.method_calls(_SENDS_BUILT):
        function = cast("ast.Attribute", call.func)
        if not call.args and not call.keywords:
            if _is_unconditional(function.value, view, by_arguments=True):
                yield call
        elif (
            call.args
            and not view.resolver.value(call.args[0]).texts
            and _is_unconditional(call.args[0], view)
        ):
            yield call
    for call in view.method_calls(sorted(_DELETES)):
        function = cast("ast.Attribute", call.func)
        steps = list(steps_of(function.value, view))
        of_all = any(name in _OF_ALL for name, _ in steps[:4])
        if of_all and (function.attr == "update" or not call.args) and _is_unconditional(call, view):
            yield call


# tables that are replaced

_REPLACES = frozenset({"if_exists", "if_table_exists", "mode", "save_mode", "overwrite"})
_REPLACED = frozenset({"replace", "overwrite", "truncate", "drop"})
_WRITES_TABLE = words("sql database postgis gbq table jdbc into snowflake")
_SAVES_TABLE = ("jdbc", "saveAsTable", "insertInto", "save", "saveAsTextFile")


def replaced(view: CodeView) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    """Yield the calls that replace a table of a known database, each with the origins of its connection."""
    for keyword in view.of(ast.keyword):
        call = view.parent(keyword)
        if keyword.arg not in _REPLACES or not isinstance(call, ast.Call):
            continue
        value = view.resolver.value(keyword.value)
        if _REPLACED.isdisjoint(value.texts) and not (keyword.arg == "overwrite" and True in value.consts):
            continue
        if not _WRITES_TABLE.isdisjoint(words_of(last_name(call.func))):
            arguments = [*call.args, *(each.value for each in call.keywords if each is not keyword)]
            unbound = [
                each
                for each in arguments
                if isinstance(each, ast.Name) and view.program.last_value(each) is None
            ]
            if not unbound:
                yield call, [source for each in arguments for source in sources(each, view)]
    for call in view.method_calls(_SAVES_TABLE):
        steps = {name: each for name, each in steps_of(call, view) if each is not None}
        if _REPLACED.isdisjoint(view.value(view.argument(steps.get("mode"), 0)).texts):
            continue
        kinds = view.value(view.argument(steps.get("format"), 0)).texts
        if cast("ast.Attribute", call.func).attr != "save" or "jdbc" in kinds:
            yield call, []


_CREATED = re.compile(
    r"(?i)\bcreate\s+(?:or\s+replace\s+)?(?:(?:temp|temporary|unlogged|external|virtual|materialized|unique)\s+){0,2}"
    r"\w{1,20}\s+(?:if\s+not\s+exists\s+)?([\w.\"`]{1,200})"
)


def _created(view: CodeView) -> frozenset[str]:
    """Return the names of the tables that the code creates, in lower case."""
    names_by_text = (view.look(_CREATED.findall, text) for _, text in _statements(view))
    return frozenset(name.lower() for names in names_by_text for name in names)


def _is_made_here(text: str, created: frozenset[str]) -> bool:
    """Return True if the code itself creates the table. False for a text with several statements."""
    statement = text.rstrip("; \t\r\n")
    if ";" in statement or len(statement) > MAX_NAME:
        return False
    verb, *others = statement.split() or [""]
    return verb.lower() in _VERBS and bool(others) and others[-1].lower() in created


def _gravest(text: str) -> str:
    """Return the worst effect of the statements in a text. Destroying is worse than adding."""
    effects = effects_of(text)
    grave = [effect for effect in effects if not effect.startswith(("CREATE", "INSERT"))]
    return next(iter(grave or effects), "The statement removes data from")


@register
class DestroysTable(Rule):
    """Sends a destructive statement to a database.

    ## Description
    Reports SQL text that drops, truncates or alters tables, deletes or changes all rows, changes permissions, or
    attaches another database, in any function or method. Also reports statements that methods build
    (`User.delete().execute()`) and replaced tables (`to_sql(..., if_exists="replace")`). The level is medium for
    a database in the workspace.

    ## Why it matters
    The data is lost, and the notebook has no copy of it.

    ## Example
    ```python
    connection.execute("DROP TABLE users")
    ```

    ## What to do instead
    Work on a copy of the database, or let the user run the statement.
    """

    code = "TJ206"
    name = "destroys-table"
    category = Category.DATABASE
    level = MEDIUM
    effect = "removes data from a database"
    remedy = "Work on a copy of the database."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check the texts in ``execute`` and similar methods, and other texts that are certainly statements."""
        created = _created(view)
        for node, text in _statements(view):
            if view.look(DESTROYS.search, text) and not in_memory(database_of(node, view), view):
                local = is_local(database_of(node, view), view) or _is_made_here(text, created)
                yield self._destroying(node, text, view, MEDIUM if local else HIGH, LIKELY)
        for node, text in other_statements(view):
            if view.look(SURELY_DESTROYS.search, text) and not in_memory(database_of(node, view), view):
                level = MEDIUM if is_local(database_of(node, view), view) else HIGH
                yield self._destroying(node, text, view, level, GUESS)
        yield from self._without_text(view)
        for escape in view.escapes:
            text = escape.unknown_text()
            if SURELY_DESTROYS.search(without_comments(text)):
                reason = f"{_gravest(text)} a database."
                yield self.finding(view, escape.span, reason, HIGH, GUESS)

    def _destroying(
        self, call: ast.Call, text: str, view: CodeView, level: RiskLevel, confidence: float
    ) -> Finding:
        paths = database_files(database_of(call, view), view)
        reason = f"{view.look(_gravest, text)} {listed(paths)}."
        return self.finding(view, call, reason, level, confidence, paths=paths)

    def _without_text(self, view: CodeView) -> Iterator[Finding]:
        for call in built(view):
            if not in_memory(database_of(call, view), view):
                level = MEDIUM if is_local(database_of(call, view), view) else HIGH
                paths = database_files(database_of(call, view), view)
                reason = "The statement has no condition, and changes all rows."
                yield self.finding(view, call, reason, level, LIKELY, paths=paths)
        for call, database in replaced(view):
            if not in_memory(database, view):
                level = MEDIUM if is_local(database, view) else HIGH
                paths = database_files(database, view)
                reason = f"{last_name(call.func)} replaces a table in {listed(paths)}."
                yield self.finding(view, call, reason, level, LIKELY, paths=paths)


@register
class StatementReachesOut(Rule):
    """Makes a database access files or start programs.

    ## Description
    Reports SQL text that starts programs (`COPY ... FROM PROGRAM`, `xp_cmdshell`), loads extensions, or opens
    files outside the workspace (`read_text('/etc/passwd')`, `COPY ... TO`, `ATTACH`).

    ## Why it matters
    The database acts with its own permissions, and its actions bypass the review of Python code.

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
        """Check the texts in ``execute`` and similar methods, and other texts that are certainly statements."""

        def opened(text: str) -> tuple[RiskLevel, str] | None:
            levels = {match["path"]: self._level(match, view) for match in _PATH.finditer(text)}
            grave = [(level, path) for path, level in levels.items() if level is not None]
            return max(grave, default=None)

        surely = (pair for pair in other_statements(view) if view.look(_QUERY.match, pair[1]))
        for call, text in chain(_statements(view), surely):
            worst = view.look(opened, text)
            if worst is not None:
                yield self.finding(view, call, f"The statement opens {worst[1][:80]}.", worst[0], LIKELY)
            else:
                yield from self._inside(call, text, view)
        reason = "The statement starts programs or loads code."
        for call, text in _statements(view):
            if view.look(runs_programs, text):
                yield self.finding(view, call, reason, CRITICAL, LIKELY, Category.PROCESS)
        for call, text in other_statements(view):
            if view.look(_SURELY_RUNS.search, text):
                yield self.finding(view, call, reason, HIGH, LIKELY, Category.PROCESS)

    @staticmethod
    def _inside(call: ast.Call, text: str, view: CodeView) -> Iterator[Finding]:
        """Report the files in the workspace that a statement reads and writes."""
        matches = view.look(_files, text)
        for rule, kind, verb in (("TJ202", "write", "writes"), ("TJ201", "read", "reads")):
            paths = [match["path"] for match in matches if match[kind]]
            if paths:
                is_there = kind == "write" and any(map(view.workspace.has_file, paths))
                reason = f"The statement {verb} {listed(paths)}."
                yield RULES[rule].finding(
                    view, call, reason, MEDIUM if is_there else LOW, LIKELY, paths=paths
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
