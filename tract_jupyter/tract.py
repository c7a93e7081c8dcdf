"""`Tract`: one versioned context with its operations, tools and runs. This file is the table of contents.

The verbs of the context are methods, each of which hands over to the room that does the work; everything else is a part
with a name, such as `t.operations` or `t.runs`, which is made when first used. Behind them are the repository (the
context itself) and `parts` (what the rest is made of).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from tract_jupyter.context.versioned import VersionedContext
from tract_jupyter.parts import Parts, arguments_of
from tract_jupyter.storage.database import Database
from tract_jupyter.storage.engines import MEMORY
from tract_jupyter.storage.refs import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tract_jupyter.context.verify import Damage
    from tract_jupyter.hooks.builtin.generation import PendingGeneration
    from tract_jupyter.hooks.builtin.history import PendingCompress, PendingGC, PendingMerge, PendingRebase
    from tract_jupyter.hooks.builtin.tool_result import PendingToolResult
    from tract_jupyter.hooks.bus import HookEvent
    from tract_jupyter.hooks.pending import OnTimeout, Pending
    from tract_jupyter.llm.configured import ModelOperation
    from tract_jupyter.llm.connections import Models
    from tract_jupyter.models.commit import CommitInfo, StatusInfo
    from tract_jupyter.models.compression import CompressResult, GCResult
    from tract_jupyter.models.config import ChatResponse, TokenBudget
    from tract_jupyter.models.merge import MergeResult, RebaseResult, Resolver
    from tract_jupyter.models.toolcall import ToolCompactResult
    from tract_jupyter.operations.activation import PendingActivation
    from tract_jupyter.operations.hooks import Hooks
    from tract_jupyter.operations.lifecycle import Operations
    from tract_jupyter.operations.spec import OperationSpec
    from tract_jupyter.protocols import LLMClient, Summarizer, TokenCounter, Validator
    from tract_jupyter.review.review import Review
    from tract_jupyter.review.reviewer import Reviewer
    from tract_jupyter.review.trust import Trust
    from tract_jupyter.runs.engine import RunOptions
    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import Run
    from tract_jupyter.runs.perform import Functions
    from tract_jupyter.runs.profile.model import OperationProfile
    from tract_jupyter.runs.service import Runs
    from tract_jupyter.runs.store import Profiles
    from tract_jupyter.runs.terms import Trigger
    from tract_jupyter.sandbox.pool import SandboxPool
    from tract_jupyter.scripts.limits import ScriptLimits
    from tract_jupyter.scripts.result import ScriptResult
    from tract_jupyter.scripts.runner import Backend, Scripts
    from tract_jupyter.storage.questions import StoredDecision
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.mcp.client import McpServer
    from tract_jupyter.toolkit.mcp.tools import McpTools
    from tract_jupyter.toolkit.policy import Policies
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.stubs import ToolsModule
    from tract_jupyter.toolkit.toolset import Format, Toolset

    Function = TypeVar("Function", bound=Callable[..., Any])
    OnEvent = Callable[[RunEvent], object]


class Tract(VersionedContext):
    """One versioned, token-counted context. Open one with `Tract.open`; it may be used from several threads."""

    def __init__(
        self,
        database: Database,
        *,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
        budget: TokenBudget | None = None,
        head_name: str = HEAD,
    ) -> None:
        super().__init__(database, tract_id=tract_id, tokenizer=tokenizer, budget=budget, head_name=head_name)
        self._parts = Parts(self, self._repository, trust)

    @classmethod
    def open(
        cls,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        budget: TokenBudget | None = None,
        trust: Trust | None = None,
        lock_timeout: float = 5.0,
    ) -> Self:
        """Open a store, or make it.

        Nothing that the store holds is executed or compiled by this.

        Args:
            path: an SQLite file; `:memory:` keeps nothing.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            tract_id: which tract of the store; the one it was made with if left out.
            tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
            budget: how large the context may become.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.

        Raises:
            StoreError: locked, read-only, corrupt, or from a newer version; the subclass tells.
        """
        database = Database(path, url=url, lock_timeout=lock_timeout)
        try:
            return cls(database, tract_id=tract_id, tokenizer=tokenizer, budget=budget, trust=trust)
        except BaseException:
            database.close()
            raise

    @classmethod
    def from_notebook(
        cls, source: Mapping[str, Any] | str | Path, path: str | Path = MEMORY, **options: Any
    ) -> Self:
        """Open a store, or make it, and commit a notebook's cells to it. Nothing of the notebook is executed."""
        tract = cls.open(path, **options)
        try:
            tract.import_notebook(source)
        except BaseException:
            tract.close()
            raise
        return tract

    def close(self) -> None:
        """Close the store; end its MCP servers, and the processes of its sandbox. A second call does nothing."""
        self._parts.close()
        self._repository.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Tract {self.tract_id[:8]} in {self.location}>"

    # --- parts

    @property
    def operations(self) -> Operations:
        """The dynamic operations: registry, quarantine, activation."""
        return self._parts.operations

    @property
    def hooks(self) -> Hooks:
        """The handlers: `save_handler`, `propose_handler`, `delete_handler`, and those that are stored."""
        return self._parts.hooks

    @property
    def review(self) -> Review:
        """What persons are asked, and what they decided: inbox, decisions, grants, trust."""
        return self._parts.review

    @property
    def reviewer(self) -> Reviewer:
        """Who shows questions to a person: its channel, and how long it waits."""
        return self._parts.review.reviewer

    @property
    def executor(self) -> ToolExecutor:
        """The one way to run a tool: its policy, its locks."""
        return self._parts.executor

    @property
    def tools(self) -> ToolsModule:
        """Every tool as a Python function."""
        return self._parts.tools

    @property
    def policies(self) -> Policies:
        """What policies want done: `apply` and `propose`."""
        return self._parts.policies

    @property
    def scripts(self) -> Scripts:
        """Runs scripts, and keeps their namespaces and results."""
        return self._parts.scripts

    @property
    def sandboxes(self) -> SandboxPool:
        """The processes of the sandbox."""
        return self._parts.sandboxes

    @property
    def mcp(self) -> McpTools:
        """The MCP servers by name, and which of their tools cannot be used."""
        return self._parts.mcp

    @property
    def runs(self) -> Runs:
        """The runs: `t.runs()` lists the newest."""
        return self._parts.runs

    @property
    def profiles(self) -> Profiles:
        """The profiles of this tract: which operations its runs have."""
        return self._parts.profiles

    @property
    def functions(self) -> Functions:
        """The functions that operations of kind `compute` may call: `@t.functions.register`."""
        return self._parts.engine.functions

    @property
    def models(self) -> Models:
        """Models by name, for operations of runs that name one; no key is kept."""
        return self._parts.models

    def tool_result(
        self,
        tool_call_id: str,
        name: str,
        content: str | dict[str, Any],
        *,
        is_error: bool = False,
        edit: str | None = None,
        **options: Any,
    ) -> CommitInfo:
        """Commit the answer to a tool call.

        A handler on `tool_result` may change it first, or reject it: then an error stands in its place that tells the
        model why it is withheld, and that commit is returned.
        """
        from tract_jupyter.hooks.builtin.tool_result import ToolAnswer

        answer = ToolAnswer(
            tool_call_id=tool_call_id, tool_name=name, content=content, is_error=is_error, edit=edit, options=options
        )  # fmt: skip
        return self._parts.tool_results.commit(answer)

    def propose_tool_result(
        self,
        tool_call_id: str,
        name: str,
        content: str | dict[str, Any],
        *,
        is_error: bool = False,
        edit: str | None = None,
        **options: Any,
    ) -> PendingToolResult:
        """Return the pending whose approval does what `tool_result` would; the arguments are the same."""
        from tract_jupyter.hooks.builtin.tool_result import ToolAnswer

        answer = ToolAnswer(
            tool_call_id=tool_call_id, tool_name=name, content=content, is_error=is_error, edit=edit, options=options
        )  # fmt: skip
        return self._parts.tool_results.propose(answer)

    def configure_tool_summarization(
        self,
        instructions: Mapping[str, str] | None = None,
        *,
        auto_threshold: int | None = None,
        default_instructions: str = "",
        target_tokens: int | None = None,
        include_context: bool = False,
        system_prompt: str | None = None,
    ) -> None:
        """Have the configured model shorten answers of tools before they are committed, by a rule for each tool."""
        self._parts.tool_results.configure_summarization(
            instructions, auto_threshold=auto_threshold, default_instructions=default_instructions,
            target_tokens=target_tokens, include_context=include_context, system_prompt=system_prompt,
        )  # fmt: skip

    def status(self) -> StatusInfo:
        """Where the tract stands. Reads only."""
        return self._parts.status()

    def verify(self) -> list[Damage]:
        """Compute every hash anew, those of runs too, follow every link, and count what branches hold again.

        An empty list says that all is well. Of an SQLite file every page is checked, too, and what others put into it.
        """
        from tract_jupyter.runs.root_hash import verify_tract

        return verify_tract(self._repository)

    # --- joining histories, and making them smaller

    def merge(
        self,
        source: str,
        *,
        resolver: Resolver | None = None,
        strategy: Literal["auto", "strict"] = "auto",
        no_ff: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        triggered_by: str | None = None,
    ) -> MergeResult:
        """Merge another branch into the current one.

        If the other branch only goes on from here, the branch just moves there. Otherwise a merge commit joins the two;
        it adds nothing to the context but what the other branch has. What one side edited or annotated is taken over.
        Conflicts are what both edited differently (`both_edit`) and what one side left out and the other edited
        (`skip_vs_edit`). That one side edited a message while the other went on with the text before
        (`edit_plus_append`) is told, and blocks with `strategy="strict"` only. Of two new priorities the other branch's
        counts, and so do its tools.

        The arguments are described at `MergeRequest`.
        """
        from tract_jupyter.hooks.builtin.requests import MergeRequest

        asked = MergeRequest(
            source=source, resolver=resolver, strategy=strategy, no_ff=no_ff, delete_branch=delete_branch,
            message=message, guidance=guidance, two_stage=two_stage, triggered_by=triggered_by,
        )  # fmt: skip
        return self._parts.history_requests.merge(asked)

    @arguments_of(merge)
    def propose_merge(self, source: str, **arguments: Any) -> PendingMerge:
        """Return the pending whose approval does what `merge` would; the arguments are the same."""
        from tract_jupyter.hooks.builtin.requests import MergeRequest

        return self._parts.history_requests.propose_merge(MergeRequest(source=source, **arguments))

    def rebase(
        self, target_branch: str, *, resolver: Resolver | None = None, triggered_by: str | None = None
    ) -> RebaseResult:
        """Put the own commits of the current branch onto the tip of another branch.

        They are copied with their edits, annotations, tags, metadata and tools. The originals stay addressable:
        `ORIG_HEAD` names the old tip, and `undo` goes back to it. Other branches do not change.
        """
        from tract_jupyter.hooks.builtin.requests import RebaseRequest

        return self._parts.history_requests.rebase(
            RebaseRequest(target_branch=target_branch, resolver=resolver, triggered_by=triggered_by)
        )

    @arguments_of(rebase)
    def propose_rebase(self, target_branch: str, **arguments: Any) -> PendingRebase:
        """Return the pending whose approval does what `rebase` would; it is in the inbox until it is decided."""
        from tract_jupyter.hooks.builtin.requests import RebaseRequest

        asked = RebaseRequest(target_branch=target_branch, **arguments)
        return self._parts.history_requests.propose_rebase(asked)

    def compress(  # noqa: PLR0913 # keyword-only, and each is a choice of its own
        self,
        *,
        commits: Iterable[str] | None = None,
        from_commit: str | None = None,
        to_commit: str | None = None,
        content: str | Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        preserve: Iterable[str] = (),
        target_tokens: int | None = None,
        instructions: str | None = None,
        guidance: str | None = None,
        two_stage: bool = False,
        validator: Validator | None = None,
        max_retries: int = 3,
        token_tolerance: int | None = None,
        one_summary: bool = False,
        include_context: bool = False,
        system_prompt: str | None = None,
        message: str | None = None,
        triggered_by: str | None = None,
    ) -> CompressResult:
        """Put summaries in the places of messages of the current branch, anywhere in the context.

        What is pinned or preserved stays word for word in its place, with its priority, tags and edits; each run of
        other messages becomes one message of the assistant. Skipped messages in a run go with it. What stands before
        the first summary keeps its hashes; what comes after it is placed anew, merges as plain commits. The originals
        stay addressable: `expand` brings them back, and `undo` takes the whole compression back. The summary of an
        important message is important itself, and must keep the same.

        The arguments are described at `CompressRequest`.
        """
        from tract_jupyter.hooks.builtin.requests import CompressRequest

        asked = CompressRequest(
            commits=commits, from_commit=from_commit, to_commit=to_commit, content=content,
            summarizer=summarizer, preserve=preserve, target_tokens=target_tokens, instructions=instructions,
            guidance=guidance, two_stage=two_stage, validator=validator, max_retries=max_retries,
            token_tolerance=token_tolerance, one_summary=one_summary, include_context=include_context,
            system_prompt=system_prompt, message=message, triggered_by=triggered_by,
        )  # fmt: skip
        return self._parts.history_requests.compress(asked)

    @arguments_of(compress)
    def propose_compress(self, **arguments: Any) -> PendingCompress:
        """Return the pending whose approval does what `compress` would; the arguments are the same."""
        from tract_jupyter.hooks.builtin.requests import CompressRequest

        return self._parts.history_requests.propose_compress(CompressRequest(**arguments))

    def compress_tool_calls(
        self,
        commits: Iterable[str] | None = None,
        *,
        name: str | None = None,
        content: Sequence[str] | None = None,
        summarizer: Summarizer | None = None,
        target_tokens: int | None = None,
        instructions: str | None = None,
        validator: Validator | None = None,
        max_retries: int = 3,
        token_tolerance: int | None = None,
        include_context: bool = False,
        system_prompt: str | None = None,
        triggered_by: str | None = None,
    ) -> ToolCompactResult:
        """Edit answers of tools to shorter ones, one step for `undo`; `restore` brings back a single one."""
        from tract_jupyter.hooks.builtin.requests import ShortenRequest

        asked = ShortenRequest(
            commits=commits, name=name, content=content, summarizer=summarizer, target_tokens=target_tokens,
            instructions=instructions, validator=validator, max_retries=max_retries,
            token_tolerance=token_tolerance, include_context=include_context, system_prompt=system_prompt,
            triggered_by=triggered_by,
        )  # fmt: skip
        return self._parts.history_requests.shorten(asked)

    def summarizer(self, content: object, given: Summarizer | None, prompt: str | None) -> Summarizer | None:
        """Return who writes summaries: the configured model, where nothing else is given."""
        return self._parts.history_requests.summarizer_for(content, given, prompt)

    def gc(
        self,
        *,
        orphan_retention_days: float = 7,
        archive_retention_days: float | None = None,
        keep: Iterable[str | CommitInfo] = (),
        dry_run: bool = False,
        triggered_by: str | None = None,
    ) -> GCResult:
        """Remove commits of this tract that nothing leads to, and contents that nobody uses.

        Kept is what a branch, HEAD, a waiting pending, a compile record or another tract leads to. What was removed can
        no longer be brought back by `undo` or `expand`, which say so.

        The arguments are described at `GCRequest`.
        """
        from tract_jupyter.hooks.builtin.requests import GCRequest

        asked = GCRequest(
            orphan_retention_days=orphan_retention_days, archive_retention_days=archive_retention_days, keep=keep,
            triggered_by=triggered_by,
        )  # fmt: skip
        return self._parts.history_requests.gc(asked, dry_run=dry_run)

    def propose_gc(
        self,
        *,
        orphan_retention_days: float = 7,
        archive_retention_days: float | None = None,
        keep: Iterable[str | CommitInfo] = (),
        triggered_by: str | None = None,
    ) -> PendingGC:
        """Return the pending whose approval does what `gc` would; it is in the inbox until it is decided."""
        from tract_jupyter.hooks.builtin.requests import GCRequest

        asked = GCRequest(
            orphan_retention_days=orphan_retention_days, archive_retention_days=archive_retention_days, keep=keep,
            triggered_by=triggered_by,
        )  # fmt: skip
        return self._parts.history_requests.propose_gc(asked)

    # --- asking a model

    def configure_llm(self, client: LLMClient | None) -> None:
        """Ask this client from now on; None removes it."""
        self._parts.llm.use(client)

    def configure_model(
        self,
        model: str | None = None,
        *,
        operation: ModelOperation = "chat",
        temperature: float | None = None,
    ) -> dict[str, Any]:
        """Choose the model for one kind of request, from now on; what is left out is the client's own choice."""
        return self._parts.llm.set_model(operation, model, temperature)

    @property
    def llm(self) -> LLMClient | None:
        """The client that is asked; None if none is configured."""
        return self._parts.llm.client

    def llm_for(self, operation: ModelOperation) -> LLMClient:
        """The client, with the options of one kind of request."""
        return self._parts.llm.for_operation(operation)

    @property
    def model_settings(self) -> dict[str, dict[str, Any]]:
        """What `configure_model` set, by operation; nothing is kept beyond this object, as the client is not."""
        return self._parts.llm.settings

    def generate(
        self,
        *,
        trigger: Trigger | str = "generate",
        profile: str | OperationProfile | None = None,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        validator: Validator | None = None,
        max_retries: int = 3,
        retry_prompt: str | None = None,
        hide_retries: bool = True,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> ChatResponse:
        """Send the context to the model, and commit what it replies as the assistant's.

        With a profile, its operations run before and after that. Without one it is the plain call: nothing is sent if
        the reply could not be committed, and nothing is committed if no reply came. It is on record as a run all the
        same if `on_event` or `run` are given.
        """
        from tract_jupyter.runs.generation import ReplyRequest

        asked = ReplyRequest(
            validator=validator, max_retries=max_retries, retry_prompt=retry_prompt, hide_retries=hide_retries,
            message=message, metadata=metadata, options=options,
        )  # fmt: skip
        return self._parts.runs.generate(
            asked, trigger=trigger, profile=profile, on_event=on_event, options=run
        )

    def propose_generate(
        self,
        *,
        validator: Validator | None = None,
        max_retries: int = 3,
        retry_prompt: str | None = None,
        hide_retries: bool = True,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> PendingGeneration:
        """Ask the model, and return the pending whose approval commits the reply; arguments as for `generate`."""
        from tract_jupyter.runs.generation import ReplyRequest

        asked = ReplyRequest(
            validator=validator, max_retries=max_retries, retry_prompt=retry_prompt, hide_retries=hide_retries,
            message=message, metadata=metadata, options=options,
        )  # fmt: skip
        return self._parts.generation.propose(asked)

    def chat(self, text: str, *, name: str | None = None, **options: Any) -> ChatResponse:
        """Commit what the user says, and `generate` the reply.

        If none comes, what was said is set aside, and not sent with what is said next. Saying it again tries that turn
        again, as `generate` does; if its reply waits for a person, that one is meant.
        """
        return self._parts.generation.chat(text, name, lambda: self.generate(**options))

    def run(self, run_id: str) -> Run:
        """What happened in a run, by its id or the beginning of it."""
        return self._parts.runs.get(run_id)

    def run_events(self, run_id: str) -> list[RunEvent]:
        """All events of a run, in their order; arguments as of `run`."""
        return self._parts.runs.events(run_id)

    def resume_run(
        self,
        run_id: str,
        *,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        validator: Validator | None = None,
    ) -> ChatResponse:
        """Go on with a run that waits for a person, or whose process ended.

        What is done is not done again: operations, commits, the reply. A main call whose reply did not come is made
        again.
        """
        return self._parts.runs.resume(run_id, on_event=on_event, options=run, validator=validator)

    def replay_run(self, run_id: str) -> Run:
        """Go through a run again with what was recorded of it, and check that it comes out the same."""
        return self._parts.runs.replay(run_id)

    # --- operations, handlers, decisions

    def register_operation(
        self, spec: OperationSpec, *, review: bool = False, replace: bool = False
    ) -> type[Pending] | None:
        """Activate an operation, which is to approve its code: read it before, or use `propose_operation`.

        It is compiled, signed with the user's secret, and kept across restarts. Registering the same spec again, as a
        script does that is run twice, changes nothing.
        """
        if review:
            return self.operations.registry.compile(spec, replace=replace)
        self.operations.register(spec, replace=replace)
        return None

    def propose_operation(
        self, spec: OperationSpec, *, triggered_by: str | None = None, actor: str = "user"
    ) -> PendingActivation:
        """Return a pending whose approval activates an operation; nothing of it is compiled before.

        What a model proposes is active at once, and recorded as not reviewed, if all of its actions declare
        `isolation: sandbox` and no operation here ever had its name.
        """
        return self.operations.propose(spec, triggered_by=triggered_by, actor=actor)

    def unregister_operation(self, name: str) -> None:
        """Deactivate an operation, and forget its spec and its handlers."""
        with self._repository.database.write():
            self.operations.remove(name)
            self.hooks.saved.forget(name)

    def revoke_trust(self, operation: str, handler: str | None = None) -> None:
        """Take back the approval of an operation, or of one of its stored handlers."""
        if handler is None:
            self.operations.revoke(operation)
        else:
            self.hooks.saved.revoke(operation, handler)

    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[Any], Any] | None = None,
        review: bool = False,
        triggered_by: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> Any:
        """Fire an operation.

        Its handlers run in order until one decides. If none is there, it is approved, or a person is asked if the
        operation says so (`unhandled="ask"`).
        """
        return self.operations.fire(
            operation, fields, execute_fn=execute_fn, review=review, triggered_by=triggered_by, timeout=timeout,
            on_timeout=on_timeout,
        )  # fmt: skip

    def on(
        self,
        operation: str,
        handler: Callable[[Any], object],
        *,
        name: str | None = None,
        before: str | bool | None = None,
        after: str | None = None,
        at: int | None = None,
    ) -> str:
        """Have a handler decide about an operation, or see all of them (`"*"`); returns the handler's name."""
        return self.hooks.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all of an operation."""
        self.hooks.off(operation, handler)

    def list_hooks(self) -> dict[str, list[str]]:
        """The names of all handlers in their order, by operation."""
        return self.hooks.bus.handlers()

    def hook_log(
        self,
        operation: str | None = None,
        *,
        handler: str | None = None,
        outcome: str | None = None,
        pending_id: str | None = None,
        limit: int = 1_000,
    ) -> list[HookEvent]:
        """What handlers did: the newest entries that fit, oldest first. The store keeps the last 10,000 of a tract."""
        return self.hooks.log(operation, handler=handler, outcome=outcome, pending_id=pending_id, limit=limit)

    def inbox(self, limit: int = 100) -> list[Any]:
        """The stored pendings that await a decision, oldest first, whichever process asked."""
        return self.review.inbox(limit)

    def decisions(self, *, limit: int = 100) -> list[StoredDecision]:
        """What was decided, newest first: who, when, over which channel, with which arguments, about what."""
        return self.review.decisions(limit=limit)

    # --- tools and scripts

    @overload
    def tool(self, function: Function) -> Function: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
    ) -> Callable[[Function], Function]: ...
    def tool(
        self,
        function: Function | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
    ) -> Function | Callable[[Function], Function]:
        """Decorate a function to make it a tool: `@tract.tool`, or `@tract.tool(read_only=True)`.

        Its type hints and its docstring, in Google's, numpy's or Sphinx's style, say the rest. The function itself
        stays as it is. A tool of your own with that name is replaced, so that a cell can be run again; others are not.
        """
        from tract_jupyter.toolkit.definitions import Traits

        made = partial(
            self.executor.add_function, name=name, description=description,
            traits=Traits(read_only, destructive, open_world),
        )  # fmt: skip
        return made if function is None else made(function)

    def remove_tool(self, name: str) -> None:
        """Take one of your own tools away."""
        self.executor.remove(name)

    def lock_tool(self, name: str, reason: str = "") -> None:
        """Refuse every call of a tool, whoever makes it, and offer it to no model, until it is unlocked."""
        self.executor.lock(name, reason)

    def unlock_tool(self, name: str) -> None:
        """Let a tool be called again."""
        self.executor.unlock(name)

    def toolset(
        self,
        profile: str | ToolProfile = "full",
        *,
        actor: str = "agent",
        overrides: Mapping[str, str] | None = None,
    ) -> Toolset:
        """The tools as a model has them: those of a profile, called in its name, and no others."""
        from tract_jupyter.toolkit.profiles import profile_of
        from tract_jupyter.toolkit.toolset import Toolset

        return Toolset(self.executor, profile_of(profile), actor=actor, overrides=overrides)

    def as_tools(
        self,
        profile: str | ToolProfile = "full",
        *,
        overrides: Mapping[str, str] | None = None,
        format: Format = "openai",  # noqa: A002 # the usual word
        strict: bool = False,
    ) -> list[dict[str, Any]]:
        """The tools of a profile as plain dicts, for a model. What it calls is carried out by a `toolset`."""
        return self.toolset(profile, overrides=overrides).schemas(format, strict=strict)

    def run_script(
        self,
        code: str,
        *,
        backend: Backend = "kernel",
        notebook_id: str | None = None,
        fresh: bool = False,
        limits: ScriptLimits | None = None,
        anew: bool = False,
    ) -> ScriptResult:
        """Run Python code that calls tools.

        In the kernel it runs in this thread and this process, and nothing contains it: that is for your own code, or
        for code that you read. The sandbox is a process of its own, without files, network or packages, whose only
        way out are the tools: that is for what a model wrote and nobody approved. For arguments, see `Scripts.prepare`.
        """
        return self.scripts.run(
            code, backend=backend, notebook_id=notebook_id, fresh=fresh, limits=limits, anew=anew
        )

    def get_system_instructions(self, *, profile: str | ToolProfile = "full", max_tokens: int = 4_000) -> str:
        """What a model is told about scripts: how to write them, and the signatures of its tools."""
        from tract_jupyter.scripts.runner import instructions

        return instructions(self.toolset(profile).tools(), self._repository.counter.count_text, max_tokens)

    def add_mcp_server(self, name: str, command: Sequence[str] | None = None, **options: Any) -> McpServer:
        """Start an MCP server, or connect to one; its tools are `tools.NAME.tool` until it is removed or this closed.

        Its program may do all that you may do: add what you trust. It is not stored, so that no store starts programs.
        Calls of your own are made as they are; those of a model are asked about, as for all tools.
        """
        return self.mcp.add(name, command, self.executor.check_namespace, **options)

    def remove_mcp_server(self, name: str) -> None:
        """End a server, and take its tools away."""
        self.mcp.remove(name)
