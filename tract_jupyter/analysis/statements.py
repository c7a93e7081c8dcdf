"""The effects of SQL statements on a database, by their text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMENT: Final = re.compile(r"('[^']*(?:'|\Z))|--[^\n]*|/\*(?!!).*?(?:\*/|\Z)", re.DOTALL)
_QUOTED: Final = re.compile(r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)""")
_LONGEST: Final = 100_000
_MOST: Final = 200

_EFFECTS: Final = {
    "insert": "adds rows to",
    "replace": "replaces rows in",
    "upsert": "changes rows in",
    "update": "changes rows in",
    "merge": "changes rows in",
    "delete": "removes rows from",
    "truncate": "removes all rows of a table in",
    "create": "creates {} in",
    "alter": "changes {} in",
    "drop": "removes {} from",
    "rename": "renames {} in",
    "comment": "changes a comment in",
    "attach": "attaches another file to",
    "grant": "changes permissions in",
    "revoke": "changes permissions in",
    "vacuum": "rewrites",
    "reindex": "rewrites indexes in",
    "analyze": "updates statistics in",
    "optimize": "rewrites",
    "refresh": "changes rows in",
    "pragma": "changes a setting of",
    "set": "changes a setting of",
    "copy": "adds rows to",
    "call": "calls a function that may change",
    "load": "adds data to",
    "import": "adds data to",
    "shutdown": "stops",
}
"""The effect of each first word, followed by the name of the database."""

_READS: Final = words("""
    select values table show describe desc summarize from explain with declare begin start commit rollback end
    savepoint release abort reset use fetch close deallocate discard detach help match return
""")
"""First words of statements that only read, unless a part of the statement writes."""

_PART_WRITES: Final = (
    ("insert", re.compile(r"\binsert (?:or \w+ )?(?:into|overwrite)\b")),
    ("replace", re.compile(r"\breplace into\b")),
    ("update", re.compile(r"(?<!for )\bupdate (?:or \w+ )?\S+ (?:\S+ ){0,2}set\b")),
    ("delete", re.compile(r"\bdelete from\b")),
    ("merge", re.compile(r"\bmerge into\b")),
    ("create", re.compile(r"\binto (?!outfile\b|dumpfile\b|@)[\w\"#.\[]")),
    ("call", re.compile(
        r"\b(?:nextval|setval|lo_\w{1,20}|dblink\w{0,20}|writefile|load_extension"
        r"|pg_(?:terminate|cancel|reload|rotate|promote|switch|create|drop|replication|logical)\w{0,40}) ?\("
    )),
    # Cypher
    ("merge", re.compile(r"\b(?:merge|create) \(")),
    ("set", re.compile(r"\) (?:detach )?(?:set|delete|remove) \w")),
)  # fmt: skip
"""Parts of a reading statement that write, each with the verb that describes it."""

_READING_PRAGMAS: Final = words("""
    table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check
    database_list collation_list function_list module_list pragma_list compile_options integrity_check quick_check
    storage_info show foreign_keys cache_size temp_store busy_timeout mmap_size case_sensitive_like query_only
    recursive_triggers defer_foreign_keys read_uncommitted reverse_unordered_selects synchronous threads
    memory_limit temp_store_directory locking_mode enable_profiling
""")
"""Pragmas that read, or change only the connection."""
_WRITING_PRAGMAS: Final = words("wal_checkpoint optimize incremental_vacuum")
_PRAGMA: Final = re.compile(r"pragma (?:\w{1,99}\.)?(\w{1,99}) ?([=(])?")
_OBJECT: Final = re.compile(
    r"\w+ (?:or replace )?(?:(?:temp|temporary|unique|virtual|materialized|unlogged|external|global|local) ){0,2}"
    r"(\w{1,20})"
)
_FIRST: Final = re.compile(r"[(\s]{0,99}([a-z]\w{0,30})")
_COPIES_OUT: Final = re.compile(r"copy .*\bto (?!program)", re.DOTALL)
_STARTS: Final = re.compile(
    r"(?i)\s*(?:insert\s+(?:or\s+\w+\s+)?into\s|replace\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|merge\s+into\s"
    r"|truncate\s+table\s|(?:create|alter|drop)\s+(?:temp\s+|temporary\s+|unique\s+|or\s+replace\s+)?(?:table|view|index|database|schema)\s)"
)


def without_comments(text: str) -> str:
    """Remove the comments of a statement, except comments that MySQL executes."""
    return _COMMENT.sub(lambda match: match[1] or " ", text).replace("/*!", ";")


def surely_changes(text: str) -> bool:
    """Return True if a text is certainly a statement that changes a database."""
    return _STARTS.match(without_comments(text[:_LONGEST])) is not None


def effects_of(text: str) -> list[str]:
    """Return the effects of the statements in a text, such as ``INSERT adds rows to``; none if it only reads.

    An unknown or computed statement counts as a possible change.
    """
    plain = " ".join(_QUOTED.sub("''", without_comments(text[:_LONGEST])).lower().split())
    parts = [part.strip() for part in plain.split(";") if part.strip()]
    is_long = len(text) > _LONGEST or len(parts) > _MOST
    return [*filter(None, map(_effect, parts[:_MOST])), *(["A long text may change"] if is_long else [])]


def _effect(statement: str) -> str:
    first = _FIRST.match(statement)
    verb = first[1] if first is not None else ""
    if verb in _READS:
        return _effect_of_part(verb, statement)
    if verb in _SOME_READ and _SOME_READ[verb](statement):
        return ""
    if verb in _EFFECTS:
        return _described(verb, statement)
    return f"{verb.upper()} may change" if verb and HOLE not in verb else UNREADABLE


def _effect_of_part(verb: str, statement: str) -> str:
    """Return the effect of the writing part of a reading statement; empty if it has none."""
    if verb == "with" and HOLE in statement and "select" not in statement:
        return UNREADABLE
    if verb == "explain" and "analyze" not in statement:
        return ""
    part = next((verb for verb, pattern in _PART_WRITES if pattern.search(statement)), "")
    return part and _described(part, "")


UNREADABLE: Final = "The statement is known only when it runs, and may change"
"""The effect of a statement whose text is not in the code."""


def _described(verb: str, statement: str) -> str:
    kind = _OBJECT.match(statement)
    name = kind[1] if kind is not None else "table"
    article = "an" if name[0] in "aeio" else "a"
    return f"{verb.upper()} {_EFFECTS[verb].format(f'{article} {name}')}"


def _pragma_reads(statement: str) -> bool:
    pragma = _PRAGMA.match(statement)
    if pragma is None:
        return False
    return pragma[1] in _READING_PRAGMAS or (pragma[2] is None and pragma[1] not in _WRITING_PRAGMAS)


_SOME_READ: Final[dict[str, Callable[[str], bool]]] = {
    "copy": lambda statement: _COPIES_OUT.match(statement) is not None,
    "pragma": _pragma_reads,
    "set": lambda statement: not statement.startswith(("set global", "set persist")),
}
"""Tests for statements that only sometimes read, by their first word."""
