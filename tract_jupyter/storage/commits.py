"""Stored commits and their contents. Rows are plain tuples, since a context can have thousands of them."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import LargeBinary, bindparam, case, func, literal_column, select, true, union_all

from tract_jupyter.exceptions import StoreCorruptError, StoreReferenceError
from tract_jupyter.models import (
    CommitInfo,
    CommitOperation,
    Priority,
    canonical_json,
    default_priority,
    sha256,
)
from tract_jupyter.storage.columns import batched, from_json, from_text
from tract_jupyter.storage.connections import Prepared
from tract_jupyter.storage.schema import blobs, commit_parents, commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import CTE, ColumnElement, Connection, Insert, ScalarSelect, Select, Update

    MergeParents = dict[str, tuple[str, ...]]

EMPTY: Final = "{}"
NO_TAGS: Final = "[]"
APPEND, EDIT, ANNOTATE, MERGE = (str(operation) for operation in CommitOperation)
_OPERATIONS = {str(operation): operation for operation in CommitOperation}


class Step(NamedTuple):
    """The columns of a commit that a context needs. A context reads only these, for up to 10,000 commits."""

    commit_hash: str
    parent_hash: str | None
    generation: int
    content_hash: str
    content_type: str
    operation: str
    edit_target: str | None
    token_count: int
    token_counter: str
    metadata_json: str
    generation_config_json: str
    created_at: str
    priority: str | None
    tools_hash: str | None
    payload: bytes


class Entry(NamedTuple):
    """The columns of `commits` in order, and the content's canonical JSON. Properties parse JSON on access."""

    commit_hash: str
    tract_id: str
    parent_hash: str | None
    content_hash: str
    content_type: str
    operation: str
    edit_target: str | None
    message: str
    token_count: int
    token_counter: str
    generation: int
    metadata_json: str
    generation_config_json: str
    tags_json: str
    created_at: str
    priority: str | None
    retention_json: str | None
    tools_hash: str | None
    context_tokens: int
    context_messages: int
    payload: bytes = b""

    def step(self) -> Step:
        """Return the columns that a context needs."""
        return Step(
            self.commit_hash,
            self.parent_hash,
            self.generation,
            self.content_hash,
            self.content_type,
            self.operation,
            self.edit_target,
            self.token_count,
            self.token_counter,
            self.metadata_json,
            self.generation_config_json,
            self.created_at,
            self.priority,
            self.tools_hash,
            self.payload,
        )

    @property
    def content(self) -> dict[str, Any]:
        """The content, parsed."""
        content: dict[str, Any] = json.loads(self.payload)
        return content

    @property
    def metadata(self) -> dict[str, Any]:
        """The author's metadata, parsed."""
        metadata: dict[str, Any] = from_json(self.metadata_json, dict) if self.metadata_json != EMPTY else {}
        return metadata

    @property
    def generation_config(self) -> dict[str, Any]:
        """The model and the parameters of the generation."""
        text = self.generation_config_json
        config: dict[str, Any] = from_json(text, dict) if text != EMPTY else {}
        return config

    @property
    def tags(self) -> tuple[str, ...]:
        """The permanent tags."""
        return tuple(from_json(self.tags_json, list)) if self.tags_json != NO_TAGS else ()

    @property
    def retention(self) -> dict[str, Any] | None:
        """The retention criteria for compression."""
        retention: dict[str, Any] | None = (
            from_json(self.retention_json, dict) if self.retention_json else None
        )
        return retention

    def starting_priority(self) -> Priority:
        """Return the original priority."""
        return Priority(self.priority) if self.priority else default_priority(self.content_type)

    def info(self, priority: Priority, merge_parents: tuple[str, ...] = ()) -> CommitInfo:
        """Return the commit for readers, with the priority in effect."""
        try:
            return CommitInfo(
                self.commit_hash,
                self.tract_id,
                self.parent_hash,
                self.content_hash,
                self.content_type,
                _OPERATIONS[self.operation],
                self.edit_target,
                self.message,
                self.token_count,
                self.token_counter,
                self.generation,
                from_text(self.created_at),
                {} if self.metadata_json == EMPTY else self.metadata,
                {} if self.generation_config_json == EMPTY else self.generation_config,
                () if self.tags_json == NO_TAGS else self.tags,
                priority,
                self.retention if self.retention_json else None,
                merge_parents,
                self.tools_hash,
                self.context_tokens,
                self.context_messages,
            )
        except (KeyError, ValueError, StoreCorruptError) as error:
            raise StoreCorruptError(
                f"commit {self.commit_hash} is damaged in the store; restore a backup"
            ) from error


class Draft(NamedTuple):
    """A commit without a position in the history: all hashed values except parents and time."""

    content_type: str
    payload: bytes
    content_hash: str
    message: str
    token_count: int
    token_counter: str
    operation: str = APPEND
    edit_target: str | None = None
    priority: str | None = None
    retention_json: str | None = None
    metadata_json: str = EMPTY
    generation_config_json: str = EMPTY
    tags_json: str = NO_TAGS
    tools_hash: str | None = None
    merge_parents: tuple[str, ...] = ()
    source: str | None = None
    """The original of this copy. Later drafts of the same plan may edit or annotate the original."""
    files: tuple[bytes, ...] = ()
    """The bytes of attachments that may not be in the store yet."""

    @classmethod
    def of(cls, entry: Entry, **changes: Any) -> Draft:
        """Return a copy of a commit for another position."""
        copied = cls(
            content_type=entry.content_type,
            payload=entry.payload,
            content_hash=entry.content_hash,
            message=entry.message,
            token_count=entry.token_count,
            token_counter=entry.token_counter,
            operation=entry.operation,
            edit_target=entry.edit_target,
            priority=entry.priority,
            retention_json=entry.retention_json,
            metadata_json=entry.metadata_json,
            generation_config_json=entry.generation_config_json,
            tags_json=entry.tags_json,
            tools_hash=entry.tools_hash,
            source=entry.commit_hash,
        )
        return copied._replace(**changes) if changes else copied


def commit_hash(
    of: Entry | Draft, tract_id: str, parent_hash: str | None, merge_parents: tuple[str, ...], created_at: str
) -> str:
    """Return the hash of a commit.

    The function hashes canonical JSON: an object with these names and values, without empty optional values. It builds
    the text directly, since most parts are JSON already.
    """
    parent = f'"{parent_hash}"' if parent_hash else "null"
    target = f'"{of.edit_target}"' if of.edit_target else "null"
    others = f',"merge_parents":{canonical_json(merge_parents)}' if merge_parents else ""
    priority = f',"priority":"{of.priority}"' if of.priority else ""
    retention = f',"retention":{of.retention_json}' if of.retention_json else ""
    tools = f',"tools_hash":"{of.tools_hash}"' if of.tools_hash else ""
    text = (
        f'{{"content_hash":"{of.content_hash}","content_type":{encode_basestring(of.content_type)},'
        f'"created_at":"{created_at}","edit_target":{target},'
        f'"generation_config":{of.generation_config_json}{others},'
        f'"message":{encode_basestring(of.message)},"metadata":{of.metadata_json},'
        f'"operation":"{of.operation}","parent_hash":{parent}{priority}{retention},'
        f'"tags":{of.tags_json}{tools},"tract_id":{encode_basestring(tract_id)}}}'
    )
    return sha256(text.encode())


# --- rows

Row = TypeVar("Row", Entry, Step)


def _columns(fields: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(blobs.c.payload if name == "payload" else commits.c[name] for name in fields)


_COLUMNS = _columns(Entry._fields)[:-1]
_NAMES = Entry._fields[:-1]


def _insert_commit(dialect: Any) -> Insert:
    # the statement reads the parent's state, because a run may change it at the tip without moving the branch
    inherited = _run_state_of("parent")
    values = {**{name: bindparam(name) for name in _NAMES}, "run_state": inherited}
    statement: Insert = dialect.insert(commits).values(values).on_conflict_do_nothing()
    return statement


def _copy_state(_: Any) -> Update:
    copy = commits.update().where(commits.c.commit_hash == bindparam("of_copy"))
    return copy.values(run_state=_run_state_of("source"))


def _run_state_of(parameter: str) -> ScalarSelect[Any]:
    other = commits.alias(f"{parameter}_commit")
    return select(other.c.run_state).where(other.c.commit_hash == bindparam(parameter)).scalar_subquery()


# a row with the same hash has the same values
_ADD_BLOB = Prepared(
    lambda dialect: dialect.insert(blobs).on_conflict_do_nothing(), ("content_hash", "payload")
)
_ADD_COMMIT = Prepared(_insert_commit, (*_NAMES, "parent"))
_COPY_STATE = Prepared(_copy_state, ("source", "of_copy"))
_ADD_PARENT = Prepared(
    lambda dialect: dialect.insert(commit_parents).on_conflict_do_nothing(),
    ("commit_hash", "parent_hash", "position"),
)
_GET = Prepared(
    lambda _: _with_content(select(*_COLUMNS, blobs.c.payload)).where(
        commits.c.tract_id == bindparam("of_tract"), commits.c.commit_hash == bindparam("its_hash")
    )
)
_EVERYTHING = Prepared(
    lambda _: (
        _with_content(select(*_COLUMNS, blobs.c.payload))
        .where(commits.c.tract_id == bindparam("of_tract"))
        .order_by(commits.c.id)
    )
)
_STARTING_WITH = Prepared(  # the index serves it
    lambda _: (
        select(commits.c.commit_hash)
        .where(
            commits.c.tract_id == bindparam("of_tract"),
            commits.c.commit_hash.between(bindparam("prefix"), bindparam("past")),
        )
        .limit(literal_column("2"))
        .offset(literal_column("0"))
    )
)


class Lineage(NamedTuple, Generic[Row]):
    """A history in context order, its merged commits, and the other parents of each merge."""

    rows: list[Row]
    merged: frozenset[str]
    parents: MergeParents


class CommitRows:
    """The commits of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(self, connection: Connection, entries: Sequence[Entry], parents: MergeParents) -> None:
        """Add commits and their contents. Skip existing ones: the same hash means the same values.

        Raises:
            StoreReferenceError: the bytes of an attachment are missing.
        """
        if len(entries) == 1:
            (entry,) = entries
            _ADD_BLOB.run(connection, (entry.content_hash, entry.payload))
            _ADD_COMMIT.run(connection, (*entry[:-1], entry.parent_hash))
        else:
            _ADD_BLOB.run_all(connection, [(entry.content_hash, entry.payload) for entry in entries])
            _ADD_COMMIT.run_all(connection, [(*entry[:-1], entry.parent_hash) for entry in entries])
        if parents:
            rows = [
                (of, parent, position)
                for of, others in parents.items()
                for position, parent in enumerate(others, 1)
            ]
            _ADD_PARENT.run_all(connection, rows)
        for entry in entries:
            if has_attachments(entry):
                self._check_attached(connection, entry)

    def add_files(self, connection: Connection, files: Sequence[bytes]) -> None:
        """Store the bytes of attachments, each once."""
        if files:
            _ADD_BLOB.run_all(connection, [(sha256(data), data) for data in files])

    def contents_with_attachments(self, connection: Connection) -> list[dict[str, Any]]:
        """Return this tract's contents with attachments."""
        return [json.loads(payload) for _, payload in attached_contents(connection, *self._in_tract())]

    def _check_attached(self, connection: Connection, entry: Entry) -> None:
        """Check that a commit's attachments exist. A copy's attachments may be gone, if gc removed the original."""
        hashes = attached_hashes(entry.payload)
        existing = select(blobs.c.content_hash).where(blobs.c.content_hash.in_(hashes))
        if hashes.difference(connection.scalars(existing)):
            raise StoreReferenceError(
                "an attachment of this commit was removed from the store, so nothing was committed; attach the file "
                "again"
            )

    def copy_run_state(self, connection: Connection, pairs: Sequence[tuple[str, str]]) -> None:
        """Copy the run state of originals to their copies. `pairs` are (original, copy)."""
        has_state = select(commits.c.id).where(commits.c.run_state.is_not(None)).limit(1)
        if pairs and connection.scalar(has_state) is not None:
            _COPY_STATE.run_all(connection, pairs)

    def add_blob(self, connection: Connection, payload: bytes) -> str:
        """Store bytes under their hash, and return the hash."""
        content_hash = sha256(payload)
        _ADD_BLOB.run_all(connection, [(content_hash, payload)])
        return content_hash

    def blobs(self, connection: Connection, hashes: Iterable[str]) -> dict[str, bytes]:
        """Return the stored bytes of each hash."""
        wanted = list(dict.fromkeys(hashes))
        payloads: dict[str, bytes] = {}
        for hash_group in batched(wanted):
            query = select(blobs).where(blobs.c.content_hash.in_(hash_group))
            payloads.update(
                (row.content_hash, checked(row.content_hash, row.payload))
                for row in connection.execute(query)
            )
        for content_hash in wanted:
            if content_hash not in payloads:
                raise StoreCorruptError(
                    f"content {content_hash[:12]} is missing in the store; restore a backup"
                )
        return payloads

    def get(self, connection: Connection, commit_hash: str) -> Entry | None:
        """Return one commit by its full hash, with its content."""
        rows = _GET.rows(connection, {"of_tract": self.tract_id, "its_hash": commit_hash}, Entry._make)
        for entry in rows:
            checked(entry.content_hash, entry.payload)
        return rows[0] if rows else None

    def among(self, connection: Connection, hashes: Sequence[str]) -> list[Entry]:
        """Return the commits with these full hashes, without contents."""
        queries = [select(*_COLUMNS).where(commits.c.commit_hash.in_(group)) for group in batched(hashes)]
        return [Entry._make((*row, b"")) for query in queries for row in connection.execute(query)]

    def starting_with(self, connection: Connection, prefix: str) -> list[str]:
        """Return at most two hashes that begin with `prefix`. Two hashes mean that the prefix is ambiguous."""
        within = {"of_tract": self.tract_id, "prefix": prefix, "past": prefix + "g"}  # past all hex digits
        return [commit_hash for (commit_hash,) in _STARTING_WITH.rows(connection, within)]

    def chain(self, connection: Connection, head: str, limit: int | None = None) -> list[Entry]:
        """Return the commit `head` and its first parents, newest first, without contents, in one statement."""
        rows = connection.execute(
            _chain_query(bounded=limit is not None), {"head": head, "limit": limit}
        ).all()
        chain = [Entry._make((*row, b"")) for row in rows]
        expected = chain[0].generation + 1 if chain else 1
        if len(chain) != (expected if limit is None else min(expected, limit)):
            raise _gap(head)
        return chain

    def lineage(self, connection: Connection, head: str, shape: type[Row]) -> Lineage[Row]:
        """Return the complete history of `head` as `Entry` or `Step`, with contents.

        The rows are in context order: first parents, oldest first, and the merged commits before their merge.
        """
        chain = _lineage(shape._fields).rows(connection, {"head": head}, shape._make)
        # the rows are almost in order; sorting in the database takes longer
        chain.sort(key=attrgetter("generation"))
        if not chain or len(chain) != chain[-1].generation + 1:
            raise _gap(head)
        for row in chain:
            checked(row.content_hash, row.payload)
        if all(row.operation != "merge" for row in chain):
            return Lineage(chain, frozenset(), {})
        known = {row.commit_hash: row for row in chain}
        for values in connection.execute(_ancestors_query(shape._fields), {"head": head}):
            row = shape._make(values)
            known[row.commit_hash] = row
            checked(row.content_hash, row.payload)
        return _joined(chain, known, self.merge_parents(connection, head))

    def merge_parents(self, connection: Connection, head: str) -> MergeParents:
        """Return the second and later parents of every merge in the history of `head`."""
        return _parents_by_commit(connection.execute(_merges_query(), {"head": head}))

    def merge_parents_of(self, connection: Connection, hashes: Iterable[str]) -> MergeParents:
        """Return the second and later parents of the merges among these commits."""
        parents: dict[str, tuple[str, ...]] = {}
        for hash_group in batched(hashes):
            parents.update(self._merge_parents(connection, commit_parents.c.commit_hash.in_(hash_group)))
        return parents

    def _merge_parents(self, connection: Connection, where: ColumnElement[bool]) -> MergeParents:
        query = select(commit_parents).where(where).order_by(commit_parents.c.position)
        return _parents_by_commit(connection.execute(query))

    def changes_to(self, connection: Connection, hashes: Iterable[str]) -> list[tuple[str, str]]:
        """Return (target, commit) of every commit, on any branch, that changes the priority of one of these commits."""
        changes: list[tuple[str, str]] = []
        for hash_group in batched(hashes):
            where = (
                *self._in_tract(),
                commits.c.edit_target.in_(hash_group),
                commits.c.priority.is_not(None),
            )
            query = select(commits.c.edit_target, commits.c.commit_hash).where(*where).order_by(commits.c.id)
            changes += [(row.edit_target, row.commit_hash) for row in connection.execute(query)]
        return changes

    def ancestors(self, connection: Connection, head: str) -> set[str]:
        """Return the hashes of `head` and all its ancestors, including merged ones."""
        return set(connection.scalars(_ancestor_hashes(), {"head": head}))

    def newest(self, connection: Connection, heads: Sequence[str], limit: int | None) -> list[Entry]:
        """Return the newest commits in the histories of `heads`, newest first, without contents."""
        walk = _all_parents(select(commits.c.commit_hash).where(commits.c.commit_hash.in_(heads)))
        query = select(*_COLUMNS).join(walk, walk.c.commit_hash == commits.c.commit_hash)
        rows = connection.execute(query.order_by(commits.c.id.desc()).limit(limit))
        return [Entry._make((*row, b"")) for row in rows]

    def has_other_counter(self, connection: Connection, counter: str) -> bool:
        """Return True if another counter counted the tokens of a commit of the tract."""
        others = commits.c.token_counter.not_in((counter, ""))
        return connection.scalar(select(commits.c.id).where(*self._in_tract(), others).limit(1)) is not None

    def first_time(self, connection: Connection) -> str | None:
        """Return the time of the tract's oldest commit."""
        oldest = select(commits.c.created_at).where(*self._in_tract()).order_by(commits.c.id).limit(1)
        created_at: str | None = connection.scalar(oldest)
        return created_at

    def everything(self, connection: Connection) -> list[Entry]:
        """Return every commit of the tract, oldest first, with contents, without checks."""
        return _EVERYTHING.rows(connection, {"of_tract": self.tract_id}, Entry._make)

    def all_merge_parents(self, connection: Connection) -> MergeParents:
        """Return the second and later parents of every merge of the tract."""
        hashes = select(commits.c.commit_hash).where(*self._in_tract())
        return self._merge_parents(connection, commit_parents.c.commit_hash.in_(hashes))

    def remove(self, connection: Connection, hashes: Sequence[str]) -> None:
        """Delete commits. The caller ensures that no row refers to them."""
        for hash_group in batched(hashes):
            connection.execute(commit_parents.delete().where(commit_parents.c.commit_hash.in_(hash_group)))
        for hash_group in batched(reversed(hashes)):
            connection.execute(commits.delete().where(commits.c.commit_hash.in_(hash_group)))

    def _in_tract(self) -> tuple[ColumnElement[bool], ...]:
        return (commits.c.tract_id == self.tract_id,)


_WITH_ATTACHMENTS: Final = ("dialogue", "tool_io")
_ATTACHED: Final = b'{"attachments":['
"""The beginning of a content with attachments: keys are sorted."""


def attached_contents(connection: Connection, *where: ColumnElement[bool]) -> Iterator[tuple[str, bytes]]:
    """Yield (hash, payload) of the contents with attachments, of the whole store or of some commits."""
    begins = func.substr(blobs.c.payload, 1, len(_ATTACHED), type_=LargeBinary) == _ATTACHED
    query = select(blobs.c.content_hash, blobs.c.payload).join(
        commits, commits.c.content_hash == blobs.c.content_hash
    )
    for row in connection.execute(
        query.where(commits.c.content_type.in_(_WITH_ATTACHMENTS), begins, *where).distinct()
    ):
        yield row.content_hash, row.payload


def attached_hashes(payload: bytes) -> set[str]:
    """Return the attachment hashes of a content with attachments."""
    return {str(attachment["sha256"]) for attachment in json.loads(payload)["attachments"]}


def has_attachments(entry: Entry) -> bool:
    """Return True if a commit has attachments. Does not parse the content."""
    return entry.content_type in _WITH_ATTACHMENTS and (entry.payload or b"").startswith(_ATTACHED)


def checked(content_hash: str, payload: object) -> bytes:
    """Return the payload if it matches the hash.

    Raises:
        StoreCorruptError: the payload does not match, or is missing.
    """
    if payload is None:
        raise StoreCorruptError(f"content {content_hash[:12]} is missing in the store; restore a backup")
    if not isinstance(payload, bytes) or sha256(payload) != content_hash:
        raise StoreCorruptError(f"content {content_hash[:12]} is damaged in the store; restore a backup")
    return payload


def _joined(chain: list[Row], known: dict[str, Row], parents: MergeParents) -> Lineage[Row]:
    order: dict[str, Row] = {}
    for row in chain:
        for other in parents.get(row.commit_hash, ()):
            _add_history(other, known, parents, order)
        order[row.commit_hash] = row
    on_chain = {row.commit_hash for row in chain}
    return Lineage(list(order.values()), frozenset(order.keys() - on_chain), parents)


def _add_history(tip: str, known: dict[str, Row], parents: MergeParents, order: dict[str, Row]) -> None:
    """Add the missing commits of the history of `tip` in order. No recursion, since merges can be deeply nested."""
    stack = [tip]
    current: str
    while stack:
        current = stack[-1]
        if current in order:
            stack.pop()
            continue
        row = known.get(current)
        if row is None or len(stack) > len(known):  # more commits than there are: a cycle
            raise _gap(tip)
        all_parents = [row.parent_hash, *parents.get(current, ())]
        missing = [parent for parent in all_parents if parent is not None and parent not in order]
        if missing:
            stack.append(missing[0])
        else:
            order[current] = row
            stack.pop()


def _parents_by_commit(rows: Iterable[Any]) -> MergeParents:
    parents: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        parents[row.commit_hash].append(row.parent_hash)
    return {commit_hash: tuple(others) for commit_hash, others in parents.items()}


def _gap(head: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"the history of {head[:12]} has a gap or a cycle in the store; restore a backup"
    )


def _with_content(query: Select[Any]) -> Select[Any]:
    # an outer join: a missing content is an error, and must not hide its commit
    return query.select_from(commits.outerjoin(blobs, blobs.c.content_hash == commits.c.content_hash))


def _first_parents(*, bounded: bool) -> CTE:
    """Select the ids of the commit `head` and its first parents; with `bounded` only `limit` of them.

    The generation decreases with each step. So the query also ends in a damaged store with a cycle.
    """
    is_head = commits.c.commit_hash == bindparam("head")
    columns = commits.c.id, commits.c.parent_hash, commits.c.generation
    walk = select(*columns).where(is_head).cte("walk", recursive=True)
    parent = commits.alias("parent")
    step = select(parent.c.id, parent.c.parent_hash, parent.c.generation).where(
        parent.c.commit_hash == walk.c.parent_hash, parent.c.generation < walk.c.generation
    )
    if bounded:
        top = select(commits.c.generation).where(is_head).scalar_subquery()
        step = step.where(parent.c.generation > top - bindparam("limit"))
    return walk.union_all(step)


def _all_parents(start: Select[Any]) -> CTE:
    """Select the commits of `start` and all their ancestors, including merged ones.

    PostgreSQL permits one reference to the recursive query, so one join returns the first and the other parents.
    """
    walk = start.cte("walk", recursive=True)
    kind = union_all(select(literal_column("1").label("is_first")), select(literal_column("0"))).subquery(
        "kind"
    )
    parent = case((kind.c.is_first == 1, commits.c.parent_hash), else_=commit_parents.c.parent_hash)
    steps = walk.join(commits, commits.c.commit_hash == walk.c.commit_hash)
    steps = steps.outerjoin(commit_parents, commit_parents.c.commit_hash == walk.c.commit_hash).join(
        kind, true()
    )
    return walk.union(select(parent).select_from(steps).where(parent.is_not(None)))


@cache
def _chain_query(*, bounded: bool) -> Select[Any]:
    walk = _first_parents(bounded=bounded)
    query = select(*_COLUMNS).join(walk, walk.c.id == commits.c.id)
    return query.order_by(commits.c.generation.desc())


@cache
def _lineage(fields: tuple[str, ...]) -> Prepared:
    walk = _first_parents(bounded=False)
    query = _with_content(select(*_columns(fields))).join(walk, walk.c.id == commits.c.id)
    return Prepared(lambda _: query)


def _at_head() -> CTE:
    return _all_parents(select(commits.c.commit_hash).where(commits.c.commit_hash == bindparam("head")))


@cache
def _ancestors_query(fields: tuple[str, ...]) -> Select[Any]:
    walk = _at_head()
    query = _with_content(select(*_columns(fields)))
    return query.join(walk, walk.c.commit_hash == commits.c.commit_hash)


@cache
def _merges_query() -> Select[Any]:
    walk = _at_head()
    query = select(commit_parents).join(walk, walk.c.commit_hash == commit_parents.c.commit_hash)
    return query.order_by(commit_parents.c.commit_hash, commit_parents.c.position)


@cache
def _ancestor_hashes() -> Select[Any]:
    return select(_at_head().c.commit_hash)
