"""The tables. Text columns ending in `_json` hold canonical JSON; times are UTC, ISO 8601 with microseconds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from tract_jupyter.storage.columns import check_columns

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Dialect
    from sqlalchemy.schema import DDLElement
    from sqlalchemy.types import TypeEngine


SCHEMA_VERSION = 1

STORE_ID = "store_id"
"""The key in `tract_meta` of the store's id: 32 random hex digits."""

VERSION = "schema_version"
"""The key in `tract_meta` of `SCHEMA_VERSION`."""

metadata = MetaData()


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=True)


def _required(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], *more: ForeignKey) -> Column[Any]:
    return Column(name, kind, *more, nullable=False)


def _created() -> Column[str]:
    return _required("created_at", String(32))


def _signed_spec() -> list[Column[Any]]:
    hashes = [_required(name, String(64)) for name in ("spec_hash", "signature")]
    return [_required("spec_json", Text), *hashes, _created()]


meta = Table(
    "tract_meta",
    metadata,
    Column("key", String(64), primary_key=True),
    _required("value", Text),
)

tracts = Table(
    "tracts",
    metadata,
    Column("tract_id", String(64), primary_key=True),
    _required("display_name", String(255)),
    _created(),
)

blobs = Table(
    "blobs",  # contents, tool schemas, lists of tool schemas
    metadata,
    Column("content_hash", String(64), primary_key=True),
    _required("payload", LargeBinary),  # UTF-8 JSON; bytes, as PostgreSQL's text has no NUL
)

commits = Table(
    "commits",
    metadata,
    _id(),
    Column("commit_hash", String(64), nullable=False, unique=True),
    _required("tract_id", String(32)),
    Column("parent_hash", String(64), ForeignKey("commits.commit_hash")),
    _required("content_hash", String(64), ForeignKey("blobs.content_hash")),
    _required("content_type", String(64)),
    _required("operation", String(8)),
    Column("edit_target", String(64), ForeignKey("commits.commit_hash")),
    _required("message", Text),
    _required("token_count", Integer),
    _required("token_counter", String(64)),
    _required("generation", Integer),
    _required("metadata_json", Text),
    _required("generation_config_json", Text),
    _required("tags_json", Text),
    _created(),
    # of an append: its priority; of an edit or annotation: the target's new one
    Column("priority", String(16)),
    Column("retention_json", Text),
    Column("tools_hash", String(64), ForeignKey("blobs.content_hash")),
    # of the whole context at this commit, so status and budgets need no walk; not hashed, but verified
    _required("context_tokens", Integer),
    _required("context_messages", Integer),
    Column("run_state", String(32)),  # the state of runs here: a name in `run_objects`, not hashed
)

commit_parents = Table(
    "commit_parents",  # only the second and later parents of a merge
    metadata,
    Column("commit_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
    Column("parent_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
    _required("position", Integer),
)

refs = Table(
    "refs",
    metadata,
    Column("tract_id", String(32), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("commit_hash", String(64), ForeignKey("commits.commit_hash")),
    Column("symbolic_target", String(255)),
)

reflog = Table(
    "reflog",  # every move of a branch or of HEAD, except plain commits, which undo reverts by moving to the parent
    metadata,
    _id(),
    _required("tract_id", String(64)),
    _required("ref_name", String(255)),
    Column("old", String(255)),  # a commit; for HEAD a branch or a commit
    Column("new", String(255)),
    _required("operation", String(32)),
    _required("message", Text),
    Column("undoes", Integer),  # of an undo: the row of the undone move
    _created(),
)

tag_annotations = Table(
    "tag_annotations",  # tags that were added after the commit; earlier tags are in `commits.tags_json`
    metadata,
    Column("tract_id", String(64), primary_key=True),
    Column("target_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
    Column("tag", String(255), primary_key=True),
    _created(),
)

tag_registry = Table(
    "tag_registry",
    metadata,
    Column("tract_id", String(64), primary_key=True),
    Column("tag", String(255), primary_key=True),
    _required("description", Text),
    _created(),
)

compile_records = Table(
    "compile_records",  # without messages: head and parameters determine them
    metadata,
    Column("record_id", String(32), primary_key=True),
    _required("tract_id", String(64)),
    Column("head_hash", String(64), ForeignKey("commits.commit_hash")),
    _required("token_count", Integer),
    _required("message_count", Integer),
    _required("token_source", String(128)),
    _required("params_json", Text),
    _created(),
)

spawns = Table(
    "spawns",
    metadata,
    _id(),
    _required("parent_tract_id", String(64)),
    Column("parent_commit_hash", String(64), ForeignKey("commits.commit_hash")),
    _required("child_tract_id", String(64)),
    _required("purpose", Text),
    _required("inheritance", String(16)),
    _created(),
)

events = Table(
    "events",
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("event_type", String(255)),
    _required("actor", String(128)),
    _required("data_json", Text),
    _created(),
)

operation_specs = Table(
    "operation_specs",  # the active version of each; older ones are in the events
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("name", String(255)),
    *_signed_spec(),
    UniqueConstraint("tract_id", "name"),
)

pendings = Table(
    "pendings",
    metadata,
    Column("pending_id", String(32), primary_key=True),
    _required("tract_id", String(32)),
    _required("operation", String(255)),
    _required("title", Text),
    _required("fields_json", Text),
    _required("fingerprint", String(64)),
    _required("identity", String(64)),  # the fingerprint without volatile fields
    _required("status", String(16)),
    _required("actor", String(128)),
    Column("triggered_by", Text),
    Column("branch", String(255)),  # the current branch at the request: it gets the reason for a rejection
    # False if only the asking process can execute it
    _required("resumable", Boolean),
    Column("request_json", Text),  # the displayed question, for other processes
    Column("origin", String(255)),  # the asking process
    Column("waited_until", String(32)),  # `origin` waits for the decision, and renews this time
    Column("expires_at", String(32)),
    _required("on_timeout", String(8)),
    Column("error", Text),
    _created(),
    Column("executed_at", String(32)),
    Column("settled_at", String(32)),  # NULL while a decision or an execution is open
)

decisions = Table(
    "decisions",
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("pending_id", String(32), ForeignKey("pendings.pending_id")),
    _required("round", Integer),  # a pending can have several decisions, if an action keeps it open
    _required("action", String(255)),
    _required("arguments_json", Text),
    _required("reason", Text),
    _required("decided_by", String(128)),
    _required("channel", String(32)),
    _required("fingerprint", String(64)),
    _required("identity", String(64)),  # of the pending before edits
    # the signature of the decider: another process executes the decision only if it is valid
    _required("signature", String(64)),
    _created(),
    # the process that executes the decision: the decider, or the first process that claims it
    Column("claimed_by", String(255)),
    Column("started_at", String(32)),
    Column("finished_at", String(32)),
    Column("error", Text),
    UniqueConstraint("pending_id", "round"),  # the first decision wins, also between processes
)

hook_log = Table(
    "hook_log",  # bounded: the oldest rows of a tract are deleted
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("pending_id", String(32)),
    _required("operation", String(255)),
    _required("handler", String(255)),
    _required("outcome", String(16)),
    Column("error", Text),
    _created(),
)

grants = Table(
    "grants",
    metadata,
    Column("grant_id", String(32), primary_key=True),
    _required("tract_id", String(32)),
    _required("kind", String(16)),  # operation or tool
    _required("name", String(255)),
    _required("definition_hash", String(64)),
    _required("pattern_json", Text),
    _required("scope", String(16)),
    Column("session_id", String(64)),
    Column("most_uses", Integer),
    _required("uses", Integer),
    _required("reason", Text),
    _required("granted_by", String(128)),
    _required("signature", String(64)),
    _created(),
    Column("revoked_at", String(32)),
)

handlers = Table(
    "handlers",
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("operation", String(255)),
    _required("name", String(255)),
    *_signed_spec(),
    Column("beside_json", Text),  # the names of all handlers of the operation in order; signed
    UniqueConstraint("tract_id", "operation", "name"),
)

script_calls = Table(
    "script_calls",  # calls of incomplete runs, several in each row; bounded by runs
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("run_id", String(32)),
    _required("script_hash", String(64)),
    _required("notebook_id", String(64)),
    _required("position", Integer),  # of the row's first call in its run
    _required("calls_json", Text),
    _required("signature", String(64)),
    Column("running", String(255)),  # the process that runs it; NULL after its end
    _created(),
    UniqueConstraint("run_id", "position"),
)

run_events = Table(
    "run_events",  # the log of each run with actions and results; append-only
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("run_id", String(32)),
    _required("seq", Integer),  # from 1
    _required("event_type", String(64)),
    _required("data_json", Text),
    _created(),
    UniqueConstraint("run_id", "seq"),
)

run_leases = Table(
    "run_leases",  # of active runs: the process that works on each, until a time that it renews
    metadata,
    Column("run_id", String(32), primary_key=True),
    _required("tract_id", String(32)),
    _required("process", String(255)),  # empty if the run ended without a reply
    _required("held_until", String(32)),
    Column("branch", String(255)),  # the reserved branch
    Column("question", String(64)),  # the commit of the user's message without a reply
)

run_commits = Table(
    "run_commits",  # written in the transaction of the effects, which prevents applying them twice
    metadata,
    Column("run_id", String(32), primary_key=True),
    Column("hook", String(32), primary_key=True),
    _required("tract_id", String(32)),
    _required("report_json", Text),
    _created(),
)

run_objects = Table(
    "run_objects",  # stored values, artifacts and states of runs, by the beginning of their sha256
    metadata,
    Column("tract_id", String(32), primary_key=True),
    Column("name", String(32), primary_key=True),
    _required("body_json", Text),
)

run_profiles = Table(
    "run_profiles",
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("name", String(255)),
    _required("profile_json", Text),
    _required("signature", String(64)),
    _required("is_active", Boolean),
    _created(),
    UniqueConstraint("tract_id", "name"),
)

settings = Table(
    "settings",  # the user's settings of the tract, valid in every process
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("name", String(255)),
    _required("settings_json", Text),
    _required("signature", String(64)),
    _created(),
    UniqueConstraint("tract_id", "name"),
)

policies = Table(
    "policies",
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("name", String(255)),
    _required("policy_json", Text),  # its type, its settings, and its on/off state; signed
    _required("signature", String(64)),
    # the results of its firings; not signed, because they can only prevent firings
    _required("memory_json", Text),
    _required("firings", Integer),  # increased by compare-and-swap, so only one process fires
    _created(),
    UniqueConstraint("tract_id", "name"),
)

for _table in metadata.tables.values():
    check_columns(_table.columns)


def _partial(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    """Index some rows of a table. `making` sets the condition, because `Index` would import every named dialect."""
    Index(name, *columns, info={"where": where})


_is_change = commits.c.edit_target.is_not(None)  # most commits are not, and need no index entry
_partial("ix_commits_edit_target", commits.c.edit_target, where=_is_change)
Index("ix_commit_parents_parent", commit_parents.c.parent_hash)
Index("ix_reflog_ref", reflog.c.tract_id, reflog.c.ref_name, reflog.c.id)
Index("ix_spawns_parent", spawns.c.parent_tract_id)
Index("ix_spawns_child", spawns.c.child_tract_id)
Index("ix_events_tract", events.c.tract_id, events.c.id)
_is_unsettled = pendings.c.settled_at.is_(None)  # few are, and the inbox reads only these
_partial(
    "ix_pendings_unsettled", pendings.c.tract_id, pendings.c.created_at, pendings.c.pending_id, where=_is_unsettled
)  # fmt: skip
_partial(
    "ix_pendings_identity", pendings.c.tract_id, pendings.c.identity, pendings.c.created_at, where=_is_unsettled
)  # fmt: skip
Index("ix_hook_log_tract", hook_log.c.tract_id, hook_log.c.id)
Index("ix_grants_name", grants.c.tract_id, grants.c.kind, grants.c.name)
Index(
    "ix_script_calls_script", script_calls.c.tract_id, script_calls.c.script_hash, script_calls.c.notebook_id
)
_is_first = run_events.c.seq == 1  # one row of each run, for listing runs
_partial("ix_run_events_first", run_events.c.tract_id, run_events.c.id, where=_is_first)


@cache
def making(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create an empty store, in order."""
    statements: list[DDLElement] = []
    for table in metadata.sorted_tables:
        statements.append(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if "where" in index.info:
                index.dialect_options[dialect.name]["where"] = index.info["where"]
            statements.append(CreateIndex(index))
    return tuple(str(statement.compile(dialect=dialect)) for statement in statements)
