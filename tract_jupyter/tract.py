"""`Tract`: one versioned context with its operations and tools. Composition and delegation only."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from tract_jupyter.engine.commits import Commits, draft
from tract_jupyter.engine.compile import Compiler
from tract_jupyter.engine.identity import find_or_make_tract
from tract_jupyter.engine.refs import Refs
from tract_jupyter.engine.tokens import default_counter
from tract_jupyter.hooks.bus import HookBus, check_operation
from tract_jupyter.hooks.operations import Operations
from tract_jupyter.models.commit import CommitOperation, StatusInfo
from tract_jupyter.models.priority import Priority
from tract_jupyter.review.dispatch import Dispatcher
from tract_jupyter.review.ledger import Ledger
from tract_jupyter.review.reviewer import Reviewer
from tract_jupyter.review.trust import Trust
from tract_jupyter.storage.commits import CommitRows
from tract_jupyter.storage.database import MEMORY, Database
from tract_jupyter.storage.events import EventRows
from tract_jupyter.storage.pendings import PendingRows
from tract_jupyter.storage.refs import RefRows
from tract_jupyter.storage.specs import SpecRows
from tract_jupyter.toolkit.bridge import ToolBridge
from tract_jupyter.toolkit.context_tools import context_tools
from tract_jupyter.toolkit.executor import ToolExecutor
from tract_jupyter.toolkit.operation_tools import OperationTools
from tract_jupyter.toolkit.stubs import ToolsModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tract_jupyter.hooks.builtin.activation import PendingActivation
    from tract_jupyter.hooks.bus import HookEvent
    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.models.commit import BranchInfo, CommitInfo
    from tract_jupyter.models.content import Content
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.storage.events import Event


class Tract:
    """One versioned, token-counted context. Open one with `Tract.open`; it may be used from several threads.

    Args:
        database: an open database; closed with the tract.
        tract_id: which tract of it; the default one if left out.
        tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
        trust: signs and verifies approvals; the user's own by default.
    """

    def __init__(
        self,
        database: Database,
        *,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
    ) -> None:
        self._database = database
        self.tract_id = find_or_make_tract(database, tract_id)
        commits, refs = CommitRows(self.tract_id), RefRows(self.tract_id)
        self._events = EventRows(self.tract_id)
        self._refs = Refs(database, refs, commits)
        self._commits = Commits(database, commits, refs, self._refs, tokenizer or default_counter())
        self._compiler = Compiler(database, commits)
        self._bus = HookBus()
        ledger = Ledger(database, PendingRows(self.tract_id), self._events)
        dispatcher = Dispatcher(ledger, lambda p: self.operations.check_current(p))  # noqa: PLW0108 # made below
        self.reviewer = Reviewer(ledger, dispatcher)
        self.operations = Operations(
            self, database, SpecRows(self.tract_id), self._events, self._bus, self.reviewer, trust or Trust()
        )
        self.operations.load()

    @classmethod
    def open(
        cls,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
        lock_timeout: float = 5.0,
    ) -> Tract:
        """Open a store, or make it.

        Nothing that the store holds is executed or compiled by this.

        Args:
            path: an SQLite file; `:memory:` keeps nothing.
            url: an SQLAlchemy URL instead.
            tract_id: which tract of the store; the one it was made with if left out.
            tokenizer: counts tokens.
            trust: signs and verifies approvals.
            lock_timeout: seconds to wait for another process's lock.

        Raises:
            StoreError: locked, read-only, corrupt, or from a newer version; the subclass tells.
        """
        database = Database(path, url=url, lock_timeout=lock_timeout)
        try:
            return cls(database, tract_id=tract_id, tokenizer=tokenizer, trust=trust)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Close the store. A second call does nothing."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Tract {self.tract_id[:8]} in {self.location}>"

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return self._database.location

    # --- the context

    def commit(
        self,
        content: Content | dict[str, Any],
        *,
        operation: CommitOperation | Literal["append", "edit"] = CommitOperation.APPEND,
        edit_target: str | None = None,
        message: str | None = None,
        priority: Priority | str | None = None,
        metadata: dict[str, Any] | None = None,
        generation_config: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> CommitInfo:
        """Add a commit to the current branch.

        Args:
            content: a content model, or its dict with a `content_type`.
            operation: `append`, or `edit` to take the place of `edit_target`.
            edit_target: hash, prefix or branch of the commit to replace, in the current branch's history.
            message: one line for the log; made from the text if left out.
            priority: instead of the content type's own; for an edit, instead of the edited commit's.
            metadata: anything with a JSON form.
            generation_config: model and parameters it was made with.
            tags: labels, part of the commit for good.

        Raises:
            ContentError: the content is not valid.
            EditTargetError: there is nothing to edit.
        """
        return self._commits.commit(
            draft(
                content,
                operation=CommitOperation(operation),
                edit_target=edit_target,
                message=message,
                priority=None if priority is None else Priority(priority),
                metadata=metadata or {},
                generation_config=generation_config or {},
                tags=tuple(tags),
            )
        )

    def system(self, text: str, **options: Any) -> CommitInfo:
        """Commit an instruction. Options as for `commit`."""
        return self.commit({"content_type": "instruction", "text": text}, **options)

    def user(self, text: str, *, name: str | None = None, **options: Any) -> CommitInfo:
        """Commit what the user says. Options as for `commit`."""
        return self.commit(
            {"content_type": "dialogue", "role": "user", "text": text, "name": name}, **options
        )

    def assistant(self, text: str, *, name: str | None = None, **options: Any) -> CommitInfo:
        """Commit what the model says. Options as for `commit`."""
        return self.commit(
            {"content_type": "dialogue", "role": "assistant", "text": text, "name": name}, **options
        )

    def compile(self, *, at_commit: str | None = None) -> CompiledContext:
        """The messages that HEAD, or another commit, stands for.

        Raises:
            CommitNotFoundError: `at_commit` names nothing.
        """
        return self._compiler.compile(self.head if at_commit is None else self._refs.resolve(at_commit))

    def log(self, limit: int | None = 20) -> list[CommitInfo]:
        """The newest commits of the current branch first; all of them for None."""
        return self._commits.log(limit)

    def status(self) -> StatusInfo:
        """Where the tract stands. Reads only."""
        branch, head, generation = self._refs.position
        context = self._compiler.compile(head)
        return StatusInfo(
            tract_id=self.tract_id,
            location=self.location,
            branch=branch,
            head=head,
            commit_count=generation + 1,
            message_count=len(context),
            token_count=context.token_count,
            token_source=context.token_source,
            operations=tuple(sorted(self.operations.registry.operation_names)),
            waiting=self.reviewer.ledger.count_waiting(),
            quarantined=tuple(sorted(self.operations.quarantined)),
        )

    def get_commit(self, name: str) -> CommitInfo:
        """One commit, by hash, prefix or branch."""
        return self._commits.get(name)

    def get_content(self, name: str) -> dict[str, Any]:
        """What was committed, as its dict."""
        return self._commits.content(name)

    def annotate(self, name: str, priority: Priority | str, *, reason: str = "") -> None:
        """Give a commit another priority: skip, normal, important, pinned. It holds on every branch."""
        self._commits.annotate(name, Priority(priority), reason)

    # --- refs

    @property
    def head(self) -> str | None:
        """The hash of the newest commit of the current branch."""
        return self._refs.position.commit_hash

    @property
    def current_branch(self) -> str:
        """The name of the current branch."""
        return self._refs.position.branch

    def branch(self, name: str, *, source: str | None = None, switch: bool = True) -> str | None:
        """Make a branch at `source` (HEAD by default), switch to it, and return its commit."""
        return self._refs.branch(name, source=source, switch=switch)

    def switch(self, name: str) -> str | None:
        """Make a branch the current one and return its commit."""
        return self._refs.switch(name)

    def list_branches(self) -> list[BranchInfo]:
        """All branches, by name."""
        return self._refs.list_branches()

    # --- operations

    def register_operation(self, spec: OperationSpec, *, review: bool = False) -> type[Pending] | None:
        """Activate an operation, which is to approve its code: read it before, or use `propose_operation`.

        It is compiled, signed with the user's secret, and kept across restarts.

        Args:
            spec: the operation.
            review: compile and return the class of its pendings for inspection, without activating it.

        Raises:
            OperationExistsError: the name is built in or active.
            SpecError: the spec is wrong; nothing was registered.
        """
        if review:
            return self.operations.registry.compile(spec)
        self.operations.activate(spec)
        return None

    def propose_operation(self, spec: OperationSpec, *, triggered_by: str | None = None) -> PendingActivation:
        """Return a pending whose approval activates an operation; nothing of it is compiled before."""
        return self.operations.propose(spec, triggered_by=triggered_by)

    def unregister_operation(self, name: str) -> None:
        """Deactivate an operation, and forget its spec and its handlers."""
        self.operations.remove(name)

    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[Any], Any] | None = None,
        review: bool = False,
        triggered_by: str | None = None,
    ) -> Any:
        """Fire an operation.

        Its handlers run in order until one decides. If none is there, it is approved, or a person is asked if the
        operation says so (`unhandled="ask"`).

        Args:
            operation: its name.
            fields: values of its fields.
            execute_fn: what approval runs; its run is recorded as an event `custom:<operation>`.
            review: skip the handlers and return the pending, to decide it by hand.
            triggered_by: what set it off, for the log.

        Returns:
            The result of `execute_fn` if that ran, else the pending.

        Raises:
            UnknownOperationError: no such operation is active.
            ParameterError: the fields do not fit.
        """
        return self.operations.fire(
            operation, fields, execute_fn=execute_fn, review=review, triggered_by=triggered_by
        )

    def on(self, operation: str, handler: Callable[[Any], object], *, name: str | None = None) -> str:
        """Have a handler decide about an operation, or see all of them (`"*"`); returns the handler's name."""
        check_operation(operation, self.operations.hookable)
        return self._bus.on(operation, handler, name=name)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all of an operation."""
        self._bus.off(operation, handler)

    @property
    def hook_log(self) -> list[HookEvent]:
        """What handlers did, oldest first."""
        return list(self._bus.log)

    def events(self, event_type: str | None = None, *, limit: int = 100) -> list[Event]:
        """What happened, newest first; `"custom:*"` gives all types that begin so."""
        with self._database.read() as connection:
            return self._events.newest(connection, event_type, limit)

    def inbox(self, limit: int = 100) -> list[Any]:
        """The stored pendings that await a decision, oldest first, whichever process asked."""
        return self.reviewer.ledger.waiting(limit)

    # --- tools

    @cached_property
    def executor(self) -> ToolExecutor:
        """The one way to run a tool."""
        live = OperationTools(self.operations, self.reviewer.decide_now)
        return ToolExecutor(self, context_tools(self), live)

    @cached_property
    def tools(self) -> ToolsModule:
        """Every tool as a Python function."""
        return ToolsModule(ToolBridge(self.executor))

    def as_tools(self, *, format: Literal["openai", "anthropic"] = "openai") -> list[dict[str, Any]]:  # noqa: A002
        """Every tool's schema, for a model."""
        tools = self.executor.tools().values()
        return [tool.to_openai() if format == "openai" else tool.to_anthropic() for tool in tools]
