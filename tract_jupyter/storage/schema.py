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
"""The key in `tract_meta` of what tells a store from others: 32 hex digits, random."""

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
    Column("priority", String(16)),  # of an append: its own; of an edit or annotation: the target's new one
    Column("retention_json", Text),
    Column("tools_hash", String(64), ForeignKey("blobs.content_hash")),
    # of the whole context at this commit, so that status and budgets need no walk; not hashed, but verified
    _required("context_tokens", Integer),
    _required("context_messages", Integer),
    Column("run_state", String(32)),  # what runs remember here; of `run_objects`, not hashed
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
    "reflog",  # every move of a branch or of HEAD, but for plain commits: those are undone by going to the parent
    metadata,
    _id(),
    _required("tract_id", String(64)),
    _required("ref_name", String(255)),
    Column("old", String(255)),  # a commit; for HEAD a branch or a commit
    Column("new", String(255)),
    _required("operation", String(32)),
    _required("message", Text),
    Column("undoes", Integer),  # an undo of what this row recorded
    _created(),
)

tag_annotations = Table(
    "tag_annotations",  # tags added after the commit; those it was made with are part of it
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
    "compile_records",  # head and parameters give the messages again, so they are not listed here
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
    Column("child_branch", String(255)),  # of a deployment: the parent's own branch that the child works on
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
    _required("identity", String(64)),  # the fingerprint without what the author calls volatile
    _required("status", String(16)),
    _required("actor", String(128)),
    Column("triggered_by", Text),
    Column("branch", String(255)),  # that was current when it was asked: a reason for a rejection goes there
    # false: what it would run lives only in the process that asked
    _required("resumable", Boolean),
    Column("request_json", Text),  # what was shown, so that any process can show it
    Column("origin", String(255)),  # the process that asked
    Column("waited_until", String(32)),  # that process waits for the decision, and says so again before then
    Column("expires_at", String(32)),
    _required("on_timeout", String(8)),
    Column("error", Text),
    _created(),
    Column("executed_at", String(32)),
    Column("settled_at", String(32)),  # nothing is left to decide or to run
)

decisions = Table(
    "decisions",
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("pending_id", String(32), ForeignKey("pendings.pending_id")),
    _required("round", Integer),  # a pending that an action left open is asked about again
    _required("action", String(255)),
    _required("arguments_json", Text),
    _required("reason", Text),
    _required("decided_by", String(128)),
    _required("channel", String(32)),
    _required("fingerprint", String(64)),
    _required("identity", String(64)),  # of the pending as it was asked about, before edits
    # of who decided: another process runs it only if it verifies
    _required("signature", String(64)),
    _created(),
    # carried out once: by whoever decided, or, where that is left open, by whoever writes its name here first
    Column("claimed_by", String(255)),
    Column("started_at", String(32)),
    Column("finished_at", String(32)),
    Column("error", Text),
    UniqueConstraint("pending_id", "round"),  # the first decision wins, also between processes
)

hook_log = Table(
    "hook_log",  # bounded: the oldest rows of a tract go
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
    Column("beside_json", Text),  # the names of all handlers of the operation in their order, signed with it
    UniqueConstraint("tract_id", "operation", "name"),
)

script_calls = Table(
    "script_calls",  # of runs that did not complete: their calls, some in each row; bounded by runs
    metadata,
    _id(),
    _required("tract_id", String(32)),
    _required("run_id", String(32)),
    _required("script_hash", String(64)),
    _required("notebook_id", String(64)),
    _required("position", Integer),  # of the row's first call in its run
    _required("calls_json", Text),
    _required("signature", String(64)),
    Column("running", String(255)),  # the process that runs it; nothing once it has ended there
    _created(),
    UniqueConstraint("run_id", "position"),
)

run_events = Table(
    "run_events",  # the log of each run: what it did and what came of it; append-only
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
    "run_leases",  # of runs that have not ended: the process that works on each, for as long as it says so
    metadata,
    Column("run_id", String(32), primary_key=True),
    _required("tract_id", String(32)),
    _required("process", String(255)),  # empty, if there is only the question left of it
    _required("held_until", String(32)),
    Column("branch", String(255)),  # that is held
    Column("question", String(64)),  # the commit of the user's message that has no reply
)

run_commits = Table(
    "run_commits",  # written with the effects that it reports, so that these are not applied twice
    metadata,
    Column("run_id", String(32), primary_key=True),
    Column("hook", String(32), primary_key=True),
    _required("tract_id", String(32)),
    _required("report_json", Text),
    _created(),
)

run_objects = Table(
    "run_objects",  # what runs remember: values, artifacts, states; under the beginning of their sha256
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
    "settings",  # what a person says about the tract that counts in every process
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
    _required("policy_json", Text),  # its type and settings, and whether it is on; signed
    _required("signature", String(64)),
    # what came of its firings; not signed, as it can only hold the policy back
    _required("memory_json", Text),
    _required("firings", Integer),  # moved by compare-and-swap, so that of several processes one fires
    _created(),
    UniqueConstraint("tract_id", "name"),
)

for _table in metadata.tables.values():
    check_columns(_table.columns)


def _partial(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    """Index some rows of a table; `making` tells the dialect which, as an `Index` would import each that it is told."""
    Index(name, *columns, info={"where": where})


_is_change = commits.c.edit_target.is_not(None)  # most commits are not, and pay nothing
_partial("ix_commits_edit_target", commits.c.edit_target, where=_is_change)
Index("ix_commit_parents_parent", commit_parents.c.parent_hash)
Index("ix_reflog_ref", reflog.c.tract_id, reflog.c.ref_name, reflog.c.id)
Index("ix_spawns_parent", spawns.c.parent_tract_id)
Index("ix_spawns_child", spawns.c.child_tract_id)
Index("ix_events_tract", events.c.tract_id, events.c.id)
_is_unsettled = pendings.c.settled_at.is_(None)  # few are, and the inbox asks for no others
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
_is_first = run_events.c.seq == 1  # of each run one, for listing them
_partial("ix_run_events_first", run_events.c.tract_id, run_events.c.id, where=_is_first)


@cache
def making(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that make an empty store, in order."""
    made: list[DDLElement] = []
    for table in metadata.sorted_tables:
        made.append(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if "where" in index.info:
                index.dialect_options[dialect.name]["where"] = index.info["where"]
            made.append(CreateIndex(index))
    return tuple(str(one.compile(dialect=dialect)) for one in made)
