"""The tables. Text columns ending in `_json` hold canonical JSON; times are UTC, ISO 8601 with microseconds."""

from __future__ import annotations

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

SCHEMA_VERSION = 3

metadata = MetaData()

meta = Table(
    "tract_meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

tracts = Table(
    "tracts",
    metadata,
    Column("tract_id", String(64), primary_key=True),
    Column("display_name", String(255), nullable=False),
    Column("created_at", String(32), nullable=False),
)

blobs = Table(
    "blobs",  # contents, tool schemas, lists of tool schemas
    metadata,
    Column("content_hash", String(64), primary_key=True),
    Column("payload", LargeBinary, nullable=False),  # UTF-8 JSON; bytes, as PostgreSQL's text has no NUL
)

commits = Table(
    "commits",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("commit_hash", String(64), nullable=False, unique=True),
    Column("tract_id", String(32), nullable=False),
    Column("parent_hash", String(64), ForeignKey("commits.commit_hash")),
    Column("content_hash", String(64), ForeignKey("blobs.content_hash"), nullable=False),
    Column("content_type", String(64), nullable=False),
    Column("operation", String(8), nullable=False),
    Column("edit_target", String(64), ForeignKey("commits.commit_hash")),
    Column("message", Text, nullable=False),
    Column("token_count", Integer, nullable=False),
    Column("token_counter", String(64), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("metadata_json", Text, nullable=False),
    Column("generation_config_json", Text, nullable=False),
    Column("tags_json", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("priority", String(16)),  # of an append: its own; of an edit or annotation: the target's new one
    Column("retention_json", Text),
    Column("tools_hash", String(64), ForeignKey("blobs.content_hash")),
    # of the whole context at this commit, so that status and budgets need no walk; not hashed, but verified
    Column("context_tokens", Integer, nullable=False),
    Column("context_messages", Integer, nullable=False),
)

commit_parents = Table(
    "commit_parents",  # only the second and later parents of a merge
    metadata,
    Column("commit_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
    Column("parent_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
    Column("position", Integer, nullable=False),
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
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("tract_id", String(64), nullable=False),
    Column("ref_name", String(255), nullable=False),
    Column("old", String(255)),  # a commit; for HEAD a branch or a commit
    Column("new", String(255)),
    Column("operation", String(32), nullable=False),
    Column("message", Text, nullable=False),
    Column("undoes", Integer),  # an undo of what this row recorded
    Column("created_at", String(32), nullable=False),
)

tag_annotations = Table(
    "tag_annotations",  # tags added after the commit; those it was made with are part of it
    metadata,
    Column("tract_id", String(64), primary_key=True),
    Column("target_hash", String(64), ForeignKey("commits.commit_hash"), primary_key=True),
    Column("tag", String(255), primary_key=True),
    Column("created_at", String(32), nullable=False),
)

tag_registry = Table(
    "tag_registry",
    metadata,
    Column("tract_id", String(64), primary_key=True),
    Column("tag", String(255), primary_key=True),
    Column("description", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)

compile_records = Table(
    "compile_records",  # head and parameters give the messages again, so they are not listed here
    metadata,
    Column("record_id", String(32), primary_key=True),
    Column("tract_id", String(64), nullable=False),
    Column("head_hash", String(64), ForeignKey("commits.commit_hash")),
    Column("token_count", Integer, nullable=False),
    Column("message_count", Integer, nullable=False),
    Column("token_source", String(128), nullable=False),
    Column("params_json", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)

spawns = Table(
    "spawns",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("parent_tract_id", String(64), nullable=False),
    Column("parent_commit_hash", String(64), ForeignKey("commits.commit_hash")),
    Column("child_tract_id", String(64), nullable=False),
    Column("child_branch", String(255)),  # of a deployment: the parent's own branch that the child works on
    Column("purpose", Text, nullable=False),
    Column("inheritance", String(16), nullable=False),
    Column("created_at", String(32), nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("tract_id", String(32), nullable=False),
    Column("event_type", String(255), nullable=False),
    Column("actor", String(128), nullable=False),
    Column("data_json", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)

operation_specs = Table(
    "operation_specs",  # the active version of each; older ones are in the events
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("tract_id", String(32), nullable=False),
    Column("name", String(255), nullable=False),
    Column("spec_json", Text, nullable=False),
    Column("spec_hash", String(64), nullable=False),
    Column("signature", String(64), nullable=False),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("tract_id", "name"),
)

pendings = Table(
    "pendings",
    metadata,
    Column("pending_id", String(32), primary_key=True),
    Column("tract_id", String(32), nullable=False),
    Column("operation", String(255), nullable=False),
    Column("title", Text, nullable=False),
    Column("fields_json", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("identity", String(64), nullable=False),  # the fingerprint without what the author calls volatile
    Column("status", String(16), nullable=False),
    Column("actor", String(128), nullable=False),
    Column("triggered_by", Text),
    # false: what it would run lives only in the process that asked
    Column("resumable", Boolean, nullable=False),
    Column("request_json", Text),  # what was shown, so that any process can show it
    Column("origin", String(255)),  # the process that asked
    Column("waited_until", String(32)),  # that process waits for the decision, and says so again before then
    Column("expires_at", String(32)),
    Column("on_timeout", String(8), nullable=False),
    Column("error", Text),
    Column("created_at", String(32), nullable=False),
    Column("executed_at", String(32)),
    Column("settled_at", String(32)),  # nothing is left to decide or to run
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("tract_id", String(32), nullable=False),
    Column("pending_id", String(32), ForeignKey("pendings.pending_id"), nullable=False),
    Column("round", Integer, nullable=False),  # a pending that an action left open is asked about again
    Column("action", String(255), nullable=False),
    Column("arguments_json", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("decided_by", String(128), nullable=False),
    Column("channel", String(32), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("identity", String(64), nullable=False),  # of the pending as it was asked about, before edits
    Column(
        "signature", String(64), nullable=False
    ),  # of who decided: another process runs it only if it verifies
    Column("created_at", String(32), nullable=False),
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
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("tract_id", String(32), nullable=False),
    Column("pending_id", String(32), nullable=False),
    Column("operation", String(255), nullable=False),
    Column("handler", String(255), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("error", Text),
    Column("created_at", String(32), nullable=False),
)

grants = Table(
    "grants",
    metadata,
    Column("grant_id", String(32), primary_key=True),
    Column("tract_id", String(32), nullable=False),
    Column("kind", String(16), nullable=False),  # operation or tool
    Column("name", String(255), nullable=False),
    Column("definition_hash", String(64), nullable=False),
    Column("pattern_json", Text, nullable=False),
    Column("scope", String(16), nullable=False),
    Column("session_id", String(64)),
    Column("most_uses", Integer),
    Column("uses", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("granted_by", String(128), nullable=False),
    Column("signature", String(64), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("revoked_at", String(32)),
)

handlers = Table(
    "handlers",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("tract_id", String(32), nullable=False),
    Column("operation", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("spec_json", Text, nullable=False),
    Column("spec_hash", String(64), nullable=False),
    Column("signature", String(64), nullable=False),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("tract_id", "operation", "name"),
)

_is_change = commits.c.edit_target.is_not(None)  # most commits are not, and pay nothing
Index("ix_commits_edit_target", commits.c.edit_target, sqlite_where=_is_change, postgresql_where=_is_change)
Index("ix_commit_parents_parent", commit_parents.c.parent_hash)
Index("ix_reflog_ref", reflog.c.tract_id, reflog.c.ref_name, reflog.c.id)
Index("ix_spawns_parent", spawns.c.parent_tract_id)
Index("ix_spawns_child", spawns.c.child_tract_id)
Index("ix_events_tract", events.c.tract_id, events.c.id)
_is_unsettled = pendings.c.settled_at.is_(None)  # few are, and the inbox asks for no others
Index(
    "ix_pendings_unsettled", pendings.c.tract_id, pendings.c.created_at, pendings.c.pending_id,
    sqlite_where=_is_unsettled, postgresql_where=_is_unsettled,
)  # fmt: skip
Index("ix_pendings_identity", pendings.c.identity, sqlite_where=_is_unsettled, postgresql_where=_is_unsettled)
Index("ix_hook_log_tract", hook_log.c.tract_id, hook_log.c.id)
Index("ix_grants_name", grants.c.tract_id, grants.c.kind, grants.c.name)
