"""Statements and methods that change a database (TJ208)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, cast

from tract_jupyter.analysis.calls import GETATTR
from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.program import FunctionNode
from tract_jupyter.analysis.rules.base import GUESS, LIKELY, LOW, MEDIUM, Reference, Rule, register
from tract_jupyter.analysis.rules.databases import (
    database_files,
    database_of,
    in_memory,
    is_database,
    is_read_only,
    listed,
    names_of,
    sources,
)
from tract_jupyter.analysis.rules.sql import (
    DESTROYS,
    EXECUTES,
    STATEMENTS,
    SURELY_DESTROYS,
    built,
    other_statements,
    replaced,
    steps_of,
)
from tract_jupyter.analysis.source import last_name
from tract_jupyter.analysis.statements import UNREADABLE, effects_of, surely_changes, without_comments
from tract_jupyter.analysis.tables.effects import effects
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.analysis.findings import Finding
    from tract_jupyter.analysis.program import Binding
    from tract_jupyter.analysis.view import CodeView


_SENDS = words("""
    execute executescript executemany execute_many exec_driver_sql exec execute_sql execute_values execute_batch sql
    query raw_sql run_query command stream scalar scalars fetch fetchrow fetchval fetch_all fetch_one run copy
    copy_expert read_sql read_sql_query read_database read_database_uri
""")
"""Functions whose first argument is the statement; with a cursor, the second argument."""
_ONLY_SQL = words(
    "executescript executemany exec_driver_sql execute_values execute_batch read_sql read_sql_query"
)
_SECOND = ("execute_values", "execute_batch")
_SENT_ANYTHING = ("execute", "executemany", "executescript")
_WRITES_TABLES = ("to_sql", "write_database", "to_postgis", "to_gbq")
_METHODS = words("""
    insert insert_all insert_many insert_one insert_ignore upsert upsert_all upsert_many update update_one update_many
    replace_one delete delete_one delete_many delete_where bulk_write create transform add_column truncate
    find_one_and_update find_one_and_replace find_one_and_delete
""")
"""Methods of the tables of `_TABLES`."""
_TABLES = ("sqlite_utils.", "dataset.", "pymongo.")
_CONSIDERED = _SENDS | _METHODS | {*_WRITES_TABLES, "backup"}
_BUILDS = ("insert", "update", "delete", "merge")
_SELECTS = words("select union union_all intersect except_ exists values func")


class ObjectChange(NamedTuple):
    """A call or function that changes a database, with its effect and the origins of the database."""

    node: ast.expr
    effect: str
    database: list[ast.expr]


def _changes(view: CodeView) -> list[ObjectChange]:
    """Return the calls that may change a database. Leave out destructive calls and databases in memory."""
    destroying = {*built(view), *(call for call, _ in replaced(view))}
    changes = []
    for call in view.deadline.watched(view.of(ast.Call)):
        name = last_name(call.func)
        if call not in destroying and name in _CONSIDERED:
            database = list(database_of(call, view))
            effect = _effect_of(call, name, database, view)
            if name == "backup":
                database = list(sources(call.args[0], view)) if effect else []
            is_contained = in_memory(database, view) and not (
                effect is UNREADABLE and _can_copy(database, view)
            )
            if effect and not (is_contained or is_read_only(database, view)):
                changes.append(ObjectChange(call, effect, database))
    return [*changes, *_handed_on(view)]


def _handed_on(view: CodeView) -> Iterator[ObjectChange]:
    """Yield the methods of a database that the code passes on or stores: ``map(con.execute, statements)``."""
    attributes = [
        (node, node.value, {node.attr}) for node in view.of(ast.Attribute) if view.call_of(node) is None
    ]
    by_text = [
        (call, call.args[0], {*view.resolver.value(call.args[1]).texts})
        for call in view.calls_to(GETATTR)
        if len(call.args) > 1
    ]
    for node, owner, names in view.deadline.watched([*attributes, *by_text]):
        if not names.isdisjoint(_SENT_ANYTHING):
            database = list(sources(owner, view))
            is_contained = in_memory(database, view) or is_read_only(database, view)
            if is_database(database, view) and not is_contained:
                yield ObjectChange(node, UNREADABLE, database)


def _can_copy(database: list[ast.expr], view: CodeView) -> bool:
    """Return True if the database can write files from memory."""
    return any(name.partition(".")[0] == "duckdb" for node in database for name in names_of(node, view))


def _effect_of(call: ast.Call, name: str, database: list[ast.expr], view: CodeView) -> str:
    """Return the effect of a call; empty if it does not change a database."""
    if name in _SENDS:
        statement = view.argument(call, 1 if name in _SECOND else 0, *STATEMENTS)
        return "" if statement is None else _effect_of_statement(statement, name, database, view)
    if name in _METHODS:
        return f"{name} changes" if _has_methods(database, view) else ""
    if name == "backup":
        return "backup replaces" if call.args and is_database(database, view) else ""
    return f"{name} writes a table to"


def _effect_of_statement(statement: ast.expr, name: str, database: list[ast.expr], view: CodeView) -> str:
    texts = view.resolver.value(statement).texts
    if name == "read_sql":
        texts = tuple(text for text in texts if " " in text.strip())  # not the name of a table
    if any(
        name in EXECUTES and view.look(DESTROYS.search, view.look(without_comments, text)) for text in texts
    ):
        return ""  # TJ206
    if not (name in _ONLY_SQL or is_database(database, view)):
        texts = tuple(text for text in texts if view.look(surely_changes, text))
        return view.look(effects_of, texts[0])[0] if texts else ""
    effects = [effect for text in texts for effect in view.look(effects_of, text)]
    return effects[0] if effects else _effect_of_other(statement, name, database, view)


def _effect_of_other(statement: ast.expr, name: str, database: list[ast.expr], view: CodeView) -> str:
    """Return the effect of a statement that calls build, or whose text is not in the code."""
    texts = view.resolver.value(statement).texts
    steps = {step for step, _ in steps_of(statement, view)}
    built = [step for step in _BUILDS if step in steps]
    if built and not texts:
        return effects_of(f"{built[0]} x")[0]
    is_entity = name == "query" and any(_SESSION in names_of(node, view) for node in database)
    is_script = name == "executescript" and any(HOLE in text for text in texts)
    is_shown = is_entity or not steps.isdisjoint(_SELECTS) or _is_shown(statement, view)
    return "" if is_shown and not is_script else UNREADABLE


_SESSION = "sqlalchemy.orm.Session()"


def _has_methods(nodes: list[ast.expr], view: CodeView) -> bool:
    return any(name.startswith(_TABLES) for node in nodes for name in names_of(node, view))


def _is_shown(node: ast.expr | None, view: CodeView, depth: int = 20) -> bool:
    """Return True if the code shows the beginning of each possible text of an expression."""
    if node is None or not depth:
        return False
    if isinstance(node, (ast.Name, ast.Constant)):
        return isinstance(node, ast.Constant) or _is_shown_name(node, view, depth - 1)
    return all(
        bool(view.resolver.value(node).texts) if part is node else _is_shown(part, view, depth - 1)
        for part in _beginnings(node, view)
    )


def _beginnings(node: ast.expr, view: CodeView) -> list[ast.expr]:
    """Return the parts that an expression may begin with; the expression itself if it has no parts."""
    if isinstance(node, ast.Call):
        method = node.func.attr if isinstance(node.func, ast.Attribute) else "join"
        is_of_text = method != "join" and hasattr(str, method)  # Path("a.sql").read_text() is none
        if is_of_text and view.resolver.value(cast("ast.Attribute", node.func).value).texts:
            return [cast("ast.Attribute", node.func).value]  # "…".format(x)
        passes_on = not names_of(node.func, view).isdisjoint(effects().words["pass_on"])
        return node.args[:1] if passes_on and node.args else [node]
    beginnings = _BEGINNINGS.get(type(node))
    return [node] if beginnings is None else beginnings(node)


_BEGINNINGS: dict[type[ast.expr], Callable[..., list[ast.expr]]] = {
    ast.JoinedStr: lambda node: node.values[:1],
    ast.BinOp: lambda node: [node.left],
    ast.IfExp: lambda node: [node.body, node.orelse],
    ast.BoolOp: lambda node: node.values,
    **dict.fromkeys((ast.FormattedValue, ast.NamedExpr, ast.Await), lambda node: [node.value]),
}


def _is_shown_name(name: ast.Name, view: CodeView, depth: int) -> bool:
    bindings = view.program.bindings_of(name)
    return bool(bindings) and all(_is_shown_binding(binding, view, depth) for binding in bindings)


def _is_shown_binding(binding: Binding, view: CodeView, depth: int) -> bool:
    node = binding.node
    if binding.kind == "param" and isinstance(node, FunctionNode):
        passed = view.resolver.passed(node, binding)
        return bool(passed) and all(_is_shown(element, view, depth) for element in passed)
    if not isinstance(node, ast.expr):
        return False
    if binding.kind == "value" and not binding.path:
        return _is_shown(node, view, depth)
    shown = view.program.last_value(node) if isinstance(node, ast.Name) else node
    return (
        binding.kind == "element"
        and not binding.path
        and isinstance(shown, (ast.List, ast.Tuple, ast.Set))
        and all(_is_shown(element, view, depth) for element in shown.elts)
    )


@register
class ChangesDatabase(Rule):
    """Changes a database.

    ## Description
    Reports statements and methods that change a database: `INSERT`, `UPDATE`, `CREATE`, `to_sql`, `session.add`, and
    so on. The finding names the statement. `SELECT`, `EXPLAIN`, and a `PRAGMA` that only reads are not reported. A
    statement whose text is not in the code counts as a possible change. The level is medium if the file exists, or if
    the database is not a file. Databases in memory are not reported.

    ## Why it matters
    The change stays after the notebook has ended, and Undo does not reverse it.

    ## Example
    ```python
    sqlite3.connect("shop.db").execute("INSERT INTO orders VALUES (1)")
    ```

    ## What to do instead
    Work on a copy of the database, or open it read-only.
    """

    code = "TJ208"
    name = "changes-database"
    category = Category.DATABASE
    level = LOW
    effect = "changes a database"
    remedy = "Work on a copy of the database, or open it read-only."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check the statements that the code sends, and the tables that it writes."""
        for node, effect, database in view.look(_changes, view):
            is_table = isinstance(node, ast.Call) and last_name(node.func) in _WRITES_TABLES
            yield self._finding(view, node, effect, database, is_table=is_table)
        for call, text in other_statements(view):
            is_change = last_name(call.func) not in _SENDS and view.look(surely_changes, text)
            if is_change and not view.look(SURELY_DESTROYS.search, text):
                effect = view.look(effects_of, text)[0]
                yield self._finding(view, call, effect, list(database_of(call, view)))
        for escape in view.escapes:
            text = escape.unknown_text()
            if surely_changes(text) and not SURELY_DESTROYS.search(without_comments(text)):
                yield self.finding(view, escape.span, f"{effects_of(text)[0]} a database.", MEDIUM, GUESS)

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Judge a method that changes a database without a statement. ``commit`` counts only if nothing else does."""
        call = view.call_of(reference.node)
        database = [] if call is None else list(database_of(call, view))
        if reference.symbol.endswith((".commit", ".flush")) and self._is_changed_elsewhere(view):
            return
        if not (in_memory(database, view) or is_read_only(database, view)):
            name = reference.symbol.removeprefix("*.").rpartition("().")[2]
            yield self._finding(view, reference.node, f"{name} changes", database)

    def _is_changed_elsewhere(self, view: CodeView) -> bool:
        methods = {name.rpartition(".")[2] for name in self.symbols} - {"commit", "flush"}
        return bool(view.look(_changes, view)) or any(view.method_calls(sorted(methods)))

    def _finding(
        self,
        view: CodeView,
        node: ast.expr | ast.alias | ast.keyword | ast.pattern,
        effect: str,
        database: list[ast.expr],
        *,
        is_table: bool = False,
    ) -> Finding:
        paths = database_files(database, view)
        known = [path for path in paths if path]
        is_there = any(map(view.workspace.has_file, known))
        is_unbound = is_table and not is_database(database, view)
        level = MEDIUM if is_there or not (known or is_unbound) else LOW
        return self.finding(view, node, f"{effect} {listed(paths)}.", level, LIKELY, paths=paths)
