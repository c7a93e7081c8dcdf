"""Rows of refs: HEAD and the branches. A branch moves by compare-and-swap."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, exists, or_, select

from tract_jupyter.exceptions import BranchError, BranchNotFoundError, StoreCorruptError
from tract_jupyter.storage.columns import from_json, now_text, optional
from tract_jupyter.storage.connections import Prepared
from tract_jupyter.storage.schema import commits, reflog, refs, tag_annotations, tag_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import ColumnElement, Connection, Insert

    from tract_jupyter.storage.commits import Entry


HEAD = "HEAD"
AGENT_HEAD = "HEAD@"  # with the branch's name: the HEAD of a tract that is open on this branch only
BRANCHES = "refs/heads/"

_head, _tip = refs.alias("head"), refs.alias("tip")
_AT_TIP = (
    optional(commits.c.commit_hash),
    optional(commits.c.generation),
    optional(commits.c.context_tokens),
    optional(commits.c.context_messages),
    optional(commits.c.token_counter),
    commits.c.tools_hash,
)
_AT_HEAD = (
    select(_head.c.symbolic_target, *_AT_TIP)
    .outerjoin(_tip, and_(_tip.c.tract_id == _head.c.tract_id, _tip.c.name == _head.c.symbolic_target))
    .outerjoin(
        commits,
        or_(commits.c.commit_hash == _tip.c.commit_hash, commits.c.commit_hash == _head.c.commit_hash),
    )
    .where(_head.c.tract_id == bindparam("tract_id"), _head.c.name == bindparam("head_name"))
)
_AT_BRANCH = (
    select(refs.c.name, *_AT_TIP)
    .select_from(refs.outerjoin(commits, commits.c.commit_hash == refs.c.commit_hash))
    .where(refs.c.tract_id == bindparam("tract_id"), refs.c.name == bindparam("branch"))
)
_POSITION, _BRANCH_POSITION = Prepared(lambda _: _AT_HEAD), Prepared(lambda _: _AT_BRANCH)
_TIP = Prepared(
    lambda _: select(refs.c.commit_hash).where(
        refs.c.tract_id == bindparam("tract_id"), refs.c.name == bindparam("branch")
    )
)


def _put(dialect: Any) -> Insert:
    """Return the statement that creates or sets a ref."""
    target: dict[str, Any] = {name: bindparam(name) for name in ("commit_hash", "symbolic_target")}
    values = {"tract_id": bindparam("tract_id"), "name": bindparam("name"), **target}
    statement: Insert = dialect.insert(refs).values(values)
    return statement.on_conflict_do_update(index_elements=["tract_id", "name"], set_=target)  # type: ignore[attr-defined,no-any-return]


_POINT = Prepared(_put)
# built once, as they are part of every commit
_MOVING = (
    refs.update()
    .where(refs.c.tract_id == bindparam("of_tract"), refs.c.name == bindparam("branch"))
    .where(refs.c.commit_hash.is_not_distinct_from(bindparam("old")))
    .values(commit_hash=bindparam("new"))
)
_MOVING_CURRENT = _MOVING.where(
    exists().where(
        _head.c.tract_id == bindparam("of_tract"),
        _head.c.name == bindparam("head_name"),
        _head.c.symbolic_target == bindparam("branch"),
    )
)
_MOVED: Final = ("new", "of_tract", "branch", "old")
_MOVE = Prepared(lambda _: _MOVING, _MOVED)
_MOVE_CURRENT = Prepared(lambda _: _MOVING_CURRENT, (*_MOVED, "of_tract", "head_name", "branch"))


class Position(NamedTuple):
    """A branch and its newest commit. Before the first commit, the hash is None. If HEAD is detached, the branch is."""

    branch: str | None
    commit_hash: str | None
    generation: int = -1
    context_tokens: int = 0
    context_messages: int = 0
    token_counter: str = ""
    tools_hash: str | None = None

    @classmethod
    def of(cls, branch: str | None, entry: Entry, tools_hash: str | None = None) -> Position:
        """Return the position of a branch after a commit; `tools_hash` is the previous tools hash."""
        return cls(
            branch,
            entry.commit_hash,
            entry.generation,
            entry.context_tokens,
            entry.context_messages,
            entry.token_counter,
            entry.tools_hash or tools_hash,
        )


@dataclass(eq=False)
class OwnHead:
    """A temporary HEAD for one operation in this context: a fork or a turn.

    Another thread, notebook or process may move the store's HEAD during that time; this one does not move with it.
    Threads that run in a copy of the context share it.

    Attributes:
        branch: the current branch in this context; None if HEAD was detached here.
        follows: moves of HEAD from this context also change `branch`.
        refusal: the error message for moves of HEAD from this context; empty if they are permitted.
    """

    branch: str | None
    follows: bool = False
    refusal: str = ""


OWN_HEADS: Final[ContextVar[Mapping[RefRows, OwnHead]]] = ContextVar("tract_own_heads", default={})  # noqa: B039 # never written to
"""The temporary HEADs of this context, by tract or agent."""


class RefRows:
    """The refs of one tract.

    Args:
        tract_id: the tract.
        head_name: the ref that names the current branch. An agent on a branch has a separate one.
    """

    def __init__(self, tract_id: str, head_name: str = HEAD) -> None:
        self.tract_id = tract_id
        self.head_name = head_name

    def has_head(self, connection: Connection) -> bool:
        """Return True if this HEAD exists. A new tract gets it on creation."""
        return self._exists(connection, self.head_name)

    def position(self, connection: Connection) -> Position:
        """Return the position of HEAD."""
        temporary = OWN_HEADS.get().get(self)
        if temporary is not None and temporary.branch is not None:
            rows = _BRANCH_POSITION.rows(
                connection, {"tract_id": self.tract_id, "branch": BRANCHES + temporary.branch}
            )
            if not rows:
                raise BranchNotFoundError(
                    f"branch {temporary.branch!r} was deleted during a turn or a fork; its commits are still "
                    "addressable by their hashes"
                )
        else:
            rows = _POSITION.rows(connection, {"tract_id": self.tract_id, "head_name": self.head_name})
        if not rows and self.head_name != HEAD:
            raise BranchNotFoundError(
                "the branch of this agent was deleted. Its commits are still addressable by their hashes"
            )
        if not rows:
            raise StoreCorruptError(f"tract {self.tract_id} has no HEAD in the store; restore a backup")
        target, commit_hash, *rest = rows[0]
        branch = target.removeprefix(BRANCHES) if target else None
        return Position(branch, None) if commit_hash is None else Position(branch, commit_hash, *rest)

    def at_branch(self, connection: Connection, branch: str) -> Position | None:
        """Return the position of a branch; None if it does not exist."""
        names = {"tract_id": self.tract_id, "branch": BRANCHES + branch}
        rows = _BRANCH_POSITION.rows(connection, names)
        if not rows:
            return None
        return Position(branch, *rows[0][1:]) if rows[0][1] else Position(branch, None)

    def tip(self, connection: Connection, branch: str) -> str | None:
        """Return the newest commit of a branch; None before its first commit."""
        rows = _TIP.rows(connection, {"tract_id": self.tract_id, "branch": BRANCHES + branch})
        return rows[0][0] if rows else None

    def exists(self, connection: Connection, branch: str) -> bool:
        """Return True if the branch exists."""
        return self._exists(connection, BRANCHES + branch)

    def branches(self, connection: Connection) -> dict[str, str | None]:
        """Return each branch and its commit, by name."""
        where = (refs.c.tract_id == self.tract_id, refs.c.name.startswith(BRANCHES, autoescape=True))
        rows = connection.execute(select(refs.c.name, refs.c.commit_hash).where(*where).order_by(refs.c.name))
        return {row.name.removeprefix(BRANCHES): row.commit_hash for row in rows}

    def create(self, connection: Connection, branch: str, commit_hash: str | None) -> None:
        """Add a branch."""
        names = {"tract_id": self.tract_id, "name": BRANCHES + branch, "commit_hash": commit_hash}
        connection.execute(refs.insert(), names)

    def delete(self, connection: Connection, branch: str) -> None:
        """Remove a branch and the HEADs of agents on it."""
        agents = (refs.c.tract_id == self.tract_id, refs.c.symbolic_target == BRANCHES + branch)
        connection.execute(refs.delete().where(*agents, refs.c.name != HEAD))
        connection.execute(refs.delete().where(*self._named(BRANCHES + branch)))

    def is_current(self, connection: Connection, branch: str) -> bool:
        """Return True if the branch is current for this HEAD or for the tract's HEAD."""
        temporary = OWN_HEADS.get().get(self)
        if temporary is not None and temporary.branch == branch:
            return True
        where = (refs.c.tract_id == self.tract_id, refs.c.name.in_((HEAD, self.head_name)))
        query = select(refs.c.name).where(*where, refs.c.symbolic_target == BRANCHES + branch)
        return connection.scalar(query) is not None

    def point_head(self, connection: Connection, branch: str | None, commit_hash: str | None = None) -> None:
        """Make `branch` the current one; without a branch, detach HEAD at `commit_hash`.

        Raises:
            BranchError: the current operation does not permit moves of HEAD.
        """
        temporary = OWN_HEADS.get().get(self)
        if temporary is not None and temporary.refusal:
            raise BranchError(temporary.refusal)
        target = {
            "symbolic_target": BRANCHES + branch if branch is not None else None,
            "commit_hash": commit_hash,
        }
        _POINT.run(connection, {"tract_id": self.tract_id, "name": self.head_name, **target})
        if temporary is not None and temporary.follows:
            temporary.branch = branch

    def move(
        self, connection: Connection, branch: str, old: str | None, new: str | None, *, current: bool = False
    ) -> bool:
        """Move a branch from `old` to `new`. False if it is not at `old`, or not `current`, any more."""
        name, temporary = BRANCHES + branch, OWN_HEADS.get().get(self) if current else None
        values = (new, self.tract_id, name, old)
        if temporary is not None and temporary.branch is not None:
            return temporary.branch == branch and _MOVE.run(connection, values) == 1
        if not current:
            return _MOVE.run(connection, values) == 1
        return _MOVE_CURRENT.run(connection, (*values, self.tract_id, self.head_name, name)) == 1

    def _exists(self, connection: Connection, name: str) -> bool:
        return bool(_TIP.rows(connection, {"tract_id": self.tract_id, "branch": name}))

    def _named(self, name: str) -> tuple[ColumnElement[bool], ...]:
        return (refs.c.tract_id == self.tract_id, refs.c.name == name)


class Move(NamedTuple):
    """One move. For a branch `old` and `new` are commits; for HEAD a branch or a commit."""

    id: int
    ref_name: str
    old: str | None
    new: str | None
    operation: str
    message: str
    undoes: int | None
    created_at: str


_COLUMNS = tuple(reflog.c[name] for name in Move._fields)
_ADD_TAG = Prepared(lambda dialect: dialect.insert(tag_annotations).on_conflict_do_nothing())
_DESCRIBE_TAG = Prepared(
    lambda dialect: (insert := dialect.insert(tag_registry)).on_conflict_do_update(
        index_elements=["tract_id", "tag"], set_={"description": insert.excluded.description}
    )
)


class ReflogRows:
    """The reflog of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(
        self,
        connection: Connection,
        ref_name: str,
        old: str | None,
        new: str | None,
        operation: str,
        message: str = "",
        undoes: int | None = None,
        at: str | None = None,
    ) -> None:
        """Record a move, now or at a given time."""
        values = {
            "tract_id": self.tract_id,
            "ref_name": ref_name,
            "old": old,
            "new": new,
            "operation": operation,
            "message": message,
            "undoes": undoes,
            "created_at": at or now_text(),
        }
        connection.execute(reflog.insert().values(**values))

    def newest_first(self, connection: Connection, ref_name: str, limit: int | None = None) -> Iterator[Move]:
        """Yield the moves of a ref, newest first. Read rows lazily."""
        where = (reflog.c.tract_id == self.tract_id, reflog.c.ref_name == ref_name)
        query = select(*_COLUMNS).where(*where).order_by(reflog.c.id.desc())
        with connection.execute(query if limit is None else query.limit(limit)) as rows:
            for row in rows:
                yield Move._make(row)


class TagRows:
    """The tags of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def add(self, connection: Connection, target_hash: str, tag: str) -> None:
        """Add a tag to a commit. Do nothing if the commit has it."""
        values = {"tract_id": self.tract_id, "target_hash": target_hash, "tag": tag, "created_at": now_text()}
        _ADD_TAG.run(connection, values)

    def remove(self, connection: Connection, target_hash: str, tag: str) -> bool:
        """Remove an added tag. False if the commit does not have it."""
        t = tag_annotations.c
        where = (t.tract_id == self.tract_id, t.target_hash == target_hash, t.tag == tag)
        return connection.execute(tag_annotations.delete().where(*where)).rowcount > 0

    def all(self, connection: Connection) -> list[tuple[str, str]]:
        """Return (commit, tag) of all added tags."""
        query = select(tag_annotations.c.target_hash, tag_annotations.c.tag)
        rows = connection.execute(query.where(tag_annotations.c.tract_id == self.tract_id))
        return [(row.target_hash, row.tag) for row in rows]

    def permanent(self, connection: Connection) -> list[str]:
        """Return the permanent tags of all commits, with repetitions."""
        where = (commits.c.tract_id == self.tract_id, commits.c.tags_json != "[]")
        return [
            tag
            for text in connection.scalars(select(commits.c.tags_json).where(*where))
            for tag in from_json(text, list)
        ]

    def describe(self, connection: Connection, tag: str, description: str) -> None:
        """Register a tag with its description, or replace the description."""
        values = {"tract_id": self.tract_id, "tag": tag, "description": description, "created_at": now_text()}
        _DESCRIBE_TAG.run(connection, values)

    def descriptions(self, connection: Connection) -> dict[str, str]:
        """Return the description of each registered tag."""
        query = select(tag_registry.c.tag, tag_registry.c.description)
        return {
            row.tag: row.description
            for row in connection.execute(query.where(tag_registry.c.tract_id == self.tract_id))
        }
