"""The side of the copy: finds the variables that the code created, changed and deleted, and writes them as data."""

from __future__ import annotations

import contextlib
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.rehearsal.baseline import LOCAL, assigned_attributes, digest, touched, variables_of
from tract_jupyter.rehearsal.describe import describe_type, is_drawing
from tract_jupyter.rehearsal.functions import function_digest
from tract_jupyter.rehearsal.settings import SettingsSnapshot, process_frame
from tract_jupyter.rehearsal.values import Buffer, Encoder, UnsafeValueError, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

Frame = tuple[dict[str, Any], list[Buffer]]
_DUCKDB: Final = "DuckDBPyConnection"
_TABLES: Final = (
    "SELECT table_name, estimated_size, sql FROM duckdb_tables() "
    "UNION ALL SELECT view_name, 0, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
)
_STREAMS: Final = frozenset({"sys.stdin", "sys.stdout", "sys.stderr"})  # the copy has its own
_HOOKS: Final = frozenset(
    {"sys.breakpointhook", "sys.displayhook", "sys.excepthook"}
)  # settings of the process
_LONGEST_TEXT: Final = 200
_NO_BUFFERS: Final[list[Buffer]] = []


def observe(
    code: str, hidden: Collection[str] = (), *, is_fork: bool = True
) -> Callable[[dict[str, Any]], Callable[[], Iterator[Frame]]]:
    """Return the observer of a rehearsal: call it before the code with the namespace, and its result after the code.

    Each frame is a header (JSON) and buffers. The receiver checks everything: code in the copy can write frames, too.
    `hidden` names are no variables of the user. The namespace of a worker, which is no fork, has copies of variables.
    """
    return lambda namespace: _Observation(code, namespace, frozenset(hidden), is_fork=is_fork).frames


def observe_nothing(_namespace: dict[str, Any]) -> Callable[[], Iterator[Frame]]:
    """Observe like the observers that `observe` returns, but without any effect."""
    return lambda: iter(())


class _Observation:
    """The state of the copy before the code."""

    def __init__(
        self, code: str, namespace: dict[str, Any], hidden: frozenset[str], *, is_fork: bool
    ) -> None:
        self._namespace = namespace
        self._hidden = hidden
        self._is_fork = is_fork
        self._before = variables_of(namespace, hidden)
        self._digests = {name: digest(self._before[name]) for name in touched(code, self._before)}
        self._databases = {name: _database(self._before[name]) for name in self._digests}
        self._settings = SettingsSnapshot()
        self._attributes = {
            text: (owner, name, vars(owner).get(name))
            for text, (owner, name) in assigned_attributes(code, namespace).items()
            if text not in _STREAMS | _HOOKS
        }

    def frames(self) -> Iterator[Frame]:
        """Yield one frame for the digests, one for each effect on a variable, and one for each changed setting."""
        digests = {
            name: text for name, text in self._digests.items() if self._is_fork or not text.startswith(LOCAL)
        }
        yield {"what": "digests", "digests": digests}, _NO_BUFFERS
        after = variables_of(self._namespace, self._hidden)
        for name in self._before.keys() - after.keys():
            yield {"what": "variable", "name": name, "action": "deleted"}, _NO_BUFFERS
        in_place = self._in_place(after)
        changed = [name for name in after if name in in_place or self._is_rebound(name, after[name])]
        yield from _variables(self._namespace, after, changed, in_place)
        yield from self._settings.frames()
        for text, (owner, name, before) in self._attributes.items():
            value = vars(owner).get(name)
            if value is not before and len(text) < _LONGEST_TEXT:
                yield process_frame(text, type(value).__name__)

    def _in_place(self, after: Mapping[str, Any]) -> set[str]:
        same = (name for name in self._digests if name in after and after[name] is self._before[name])
        return {
            name
            for name in same
            if digest(after[name]) != self._digests[name] or _database(after[name]) != self._databases[name]
        }

    def _is_rebound(self, name: str, value: Any) -> bool:
        if name not in self._before:
            return True
        old = self._before[name]
        if value is old:
            return False
        before = self._digests.get(name)
        return type(value) is not type(old) or before is None or digest(value) != before


def is_database(value: Any) -> bool:
    """Return True for a connection to a database that may be in memory."""
    kind = type(value)
    return kind.__qualname__ == _DUCKDB or (kind.__module__, kind.__qualname__) == ("sqlite3", "Connection")


def _database(connection: Any) -> list[Any]:
    """Return a part of the state of a database that may be in memory. Empty for other objects.

    This calls the connection, so only the copy does it.
    """
    with contextlib.suppress(Exception):
        if type(connection).__qualname__ == _DUCKDB:
            return list(connection.cursor().execute(_TABLES).fetchall())
        if is_database(connection):
            cursor = connection.cursor()
            cursor.row_factory = None
            version = cursor.execute("PRAGMA schema_version").fetchone()
            return [connection.total_changes, connection.in_transaction, version]
    return []


def _variables(
    namespace: dict[str, Any], after: Mapping[str, Any], changed: list[str], in_place: set[str]
) -> Iterator[Frame]:
    """Yield the frames of created and changed variables. One encoder keeps the objects that they share."""
    names = set(changed)
    replaced = {id(after[name]) for name in in_place}
    known = {
        id(value): name for name, value in after.items() if name not in names and id(value) not in replaced
    }
    encoder = Encoder(known, {id(after[name]) for name in changed})
    for name in changed:
        header: dict[str, Any] = {
            "what": "variable",
            "name": name,
            "action": "changed",
            "in_place": name in in_place,
        }
        try:
            sizes, buffers = encoded(after[name], encoder)
        except UnsafeValueError as error:
            header |= {"problem": str(error), "type": describe_type(after[name])}
            if name not in in_place and is_drawing(after[name]):
                header["drawing"] = True
            if isinstance(after[name], FunctionType):
                header["function"] = function_digest(after[name], namespace)
            yield header, _NO_BUFFERS
        except Exception as error:  # noqa: BLE001 # the classes of the value may raise anything
            header |= {
                "problem": f"it cannot be read ({type(error).__name__})",
                "type": describe_type(after[name]),
            }
            yield header, _NO_BUFFERS
        else:
            yield header | sizes, buffers
