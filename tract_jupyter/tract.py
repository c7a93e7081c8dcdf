"""`Tract`: one versioned context with its operations, tools and runs. This file is the table of contents.

The verbs of the context are methods. Each method calls the package that does the work. `context.versioned` has commits,
reads and branches; `hooked_context` has the changes that handlers review; this file has operations and tools.
Everything else is a named part, such as `t.operations` or `t.runs`, which is created on first use. The methods use the
repository (the context itself) and `parts` (everything else).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from tract_jupyter.hooked_context import HookedContext
from tract_jupyter.models import repr_of_whole
from tract_jupyter.parts import Parts, expose
from tract_jupyter.storage import HEAD, MEMORY, Database

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from tract_jupyter.agents import Agents
    from tract_jupyter.context import DamageList, UndoStep
    from tract_jupyter.llm import Account, CassetteDeck
    from tract_jupyter.loop import PastTurn, TurnEvent, TurnUndo
    from tract_jupyter.models import AutonomyLevel, LLMClient, StatusInfo, TokenBudget, TokenCounter
    from tract_jupyter.operations import DynamicPending, OperationSpec, PendingActivation
    from tract_jupyter.orchestrator import OrchestratorResult
    from tract_jupyter.review import OnTimeout, Pending, Reviewer, Settings, Trust
    from tract_jupyter.runs import Fork, Functions
    from tract_jupyter.session import Session
    from tract_jupyter.toolkit import Delegation, SchemaFormat, ToolProfile, Toolset

    Function = TypeVar("Function", bound=Callable[..., Any])
    Result = TypeVar("Result")


class Tract(HookedContext):
    """One versioned, token-counted context. Open one with `Tract.open`. Threads may share it."""

    def __init__(
        self,
        database: Database,
        *,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
        budget: TokenBudget | None = None,
        head_name: str = HEAD,
        account: Callable[[], Account] | None = None,
        deck: Callable[[], CassetteDeck] | None = None,
        session: Callable[[], Session] | None = None,
        delegation: Callable[[Settings], Delegation | None] | None = None,
    ) -> None:
        super().__init__(database, tract_id=tract_id, tokenizer=tokenizer, budget=budget, head_name=head_name)
        self._parts = Parts(self, self._repository, trust, account, deck, session, delegation)

    @classmethod
    def open(
        cls,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        model: str | LLMClient | Callable[..., Any] | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        budget: TokenBudget | None = None,
        trust: Trust | None = None,
        lock_timeout: float = 5.0,
        record: str | Path | None = None,
        replay: str | Path | None = None,
    ) -> Self:
        """Open or create a store.

        This does not execute or compile stored code, and sends no request to a model.

        Args:
            path: an SQLite file; `:memory:` is not persistent.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            model: the language model, such as `openai/gpt-6-luna`; see `models.use`. Without one,
                `models.use` chooses it later.
            api_key: its key, never stored; the key in the environment or the system's keyring if omitted.
            base_url: its address, if it is not the provider's default.
            tract_id: a tract of the store; its first tract if omitted.
            tokenizer: counts tokens; tiktoken if its vocabulary is installed, else an estimate.
            budget: the size limit of the context.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.
            record: a cassette to record from the start; see `cassette.record`.
            replay: a cassette to replay. This opens or creates the recorded tract, with the same commits; see
                `cassette.replay`.

        Raises:
            CassetteError: the cassette cannot be recorded or replayed, or `record` and `replay` are both set.
            LLMConfigError: `model` is unknown, or `api_key` or `base_url` is set without a model.
            StoreError: the store is locked, read-only, corrupt, or from a newer version; see the subclass.
        """
        if api_key is not None or base_url is not None:
            from tract_jupyter.llm import hidden_address, masked

            # before any error: tracebacks may show variables
            api_key, base_url = masked(api_key), hidden_address(base_url)
        if replay is not None:
            from tract_jupyter.llm import recorded_tract_id

            tract_id = recorded_tract_id(replay, tract_id, record)
        database = Database(path, url=url, lock_timeout=lock_timeout)
        try:
            tract = cls(database, tract_id=tract_id, tokenizer=tokenizer, budget=budget, trust=trust)
            if record is not None:
                tract.cassette.record(record)
            if replay is not None:
                tract.cassette.replay(replay)
            if model is not None or api_key is not None or base_url is not None:
                tract.models.use(model, api_key=api_key, base_url=base_url)
        except BaseException:
            database.close()
            raise
        return tract

    def beside(
        self,
        tract_id: str,
        branch: str,
        purpose: str,
        *,
        is_new: bool = False,
        granted: ToolProfile | None = None,
        actor: str = "",
    ) -> Tract:
        """Open another tract of this store on a branch with its own HEAD. A missing tract or branch is created, empty.

        The tracts share account and cassette. The other tract uses this tract's models until it selects its own. Its
        `close` closes nothing else.

        Args:
            tract_id: the other tract; a new one becomes a child of this tract.
            branch: the branch of the other tract.
            purpose: its purpose, in words.
            is_new: require a new branch.
            granted: tools of this tract that it may call, with this tract's locks, permission and review. If
                omitted, it has its own inbox and only tools that act on itself.
            actor: the model that acts in it, such as `agent:<id>`; with `granted`.

        Raises:
            SessionError: invalid tract id.
            BranchExistsError: the branch exists, and `is_new` is set.
            InvalidBranchNameError: invalid branch name (by git's rules).
        """
        return self._parts.beside(tract_id, branch, purpose, is_new=is_new, granted=granted, actor=actor)

    def branches_beside(self, tract_id: str) -> list[str]:
        """Return the branches of another tract of this store, by name; an unknown tract has none."""
        from tract_jupyter.storage import RefRows

        with self._repository.database.read() as connection:
            return sorted(RefRows(tract_id).branches(connection))

    def close(self) -> None:
        """Close the store, and end its MCP servers and sandbox processes. A second call does nothing.

        It stops active turns in other threads, as `loop.stop` does. It waits up to five seconds for these turns, and up
        to five for active writes; other threads can start nothing new. Afterwards you can copy the SQLite file.
        """
        try:
            self._parts.close()
        finally:
            self._repository.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<Tract {self.tract_id[:8]} in {self.location}>"

    # --- parts; `Parts` declares them, with their docstrings

    session = expose(Parts.session)
    operations = expose(Parts.operations)
    hooks = expose(Parts.hooks)
    review = expose(Parts.review)
    executor = expose(Parts.executor)
    tools = expose(Parts.tools)
    policies = expose(Parts.policies)
    orchestrator = expose(Parts.orchestrator)
    autonomy = expose(Parts.autonomy)
    workspace = expose(Parts.workspace)
    scripts = expose(Parts.scripts)
    sandboxes = expose(Parts.sandboxes)
    mcp = expose(Parts.mcp)
    outside = expose(Parts.outside)
    runs = expose(Parts.runs)
    profiles = expose(Parts.profiles)
    tool_results = expose(Parts.tool_results)
    loop = expose(Parts.loop)
    models = expose(Parts.models)
    forks = expose(Parts.forks)
    cassette = expose(Parts.cassette)
    costs = expose(Parts.costs)
    effects = expose(Parts.effects)

    @property
    def reviewer(self) -> Reviewer:
        """The part that asks the user for decisions: its channel and its timeout."""
        return self._parts.review.reviewer

    def orchestrate(
        self,
        reason: str = "",
        autonomy: AutonomyLevel | str | None = None,
        *,
        on_turn: Callable[[TurnEvent], object] | None = None,
    ) -> OrchestratorResult:
        """Run the orchestrator once on the context; see `orchestrator.run`.

        Args:
            reason: the reason, for the model.
            autonomy: the requested level; a lower ceiling wins.
            on_turn: called with each event of its conversation as it happens.

        Raises:
            OrchestratorError: no model is configured, the orchestrator already runs, or its settings are invalid.
            ContentError: unknown level.
            LLMError: a request failed; `orchestrator.resume` continues.
        """
        return self.orchestrator.run(reason, autonomy, on_turn=on_turn)

    # --- undo; without a turn, of the last operation on the context

    @overload
    def undo(self) -> UndoStep: ...
    @overload
    def undo(
        self,
        turn: str | PastTurn,
        *,
        force: Collection[str | tuple[str, str]] = (),
        only_conversation: bool = False,
    ) -> TurnUndo: ...
    def undo(
        self,
        turn: str | PastTurn | None = None,
        *,
        force: Collection[str | tuple[str, str]] = (),
        only_conversation: bool = False,
    ) -> UndoStep | TurnUndo:
        """Undo a whole turn, or revert the last operation on the current branch: a commit, merge, compression, ...

        A turn is undone with its effects: variables, files and settings that its scripts changed, and tool calls that
        have a `revert`. `preview_undo` lists them. The conversation goes last. If a revert fails, the rest is undone,
        and another call tries it again.

        Args:
            turn: a turn of `loop.turns()`, or a commit of it; the last operation if omitted.
            force: names, exact paths, or keys of items to restore although they changed since the turn.
            only_conversation: remove the messages of the turn, and leave everything else.

        Raises:
            HistoryError: there is nothing to undo, `gc` removed the earlier commits, or the commit is in no turn.
            DetachedHeadError: there is no current branch.
            CodeDecisionError: code of a model calls it for a turn.
        """
        if turn is None:
            return self._repository.undo.run()
        return self._parts.turn_undoer.run(turn, force=force, only_conversation=only_conversation)

    @overload
    def redo(self) -> UndoStep: ...
    @overload
    def redo(self, turn: str | PastTurn) -> TurnUndo: ...
    def redo(self, turn: str | PastTurn | None = None) -> UndoStep | TurnUndo:
        """Redo an undone turn, or the last undone operation. Reverted tool calls of a turn are made again.

        Args:
            turn: the undone turn, or the commit of its message; the last undone operation if omitted.

        Raises:
            HistoryError: there is nothing to redo.
            DetachedHeadError: there is no current branch.
            CodeDecisionError: code of a model calls it for a turn.
        """
        if turn is None:
            return self._repository.undo.run(redo=True)
        return self._parts.turn_undoer.run(turn, redo=True)

    @overload
    def preview_undo(self, *, redo: bool = False) -> UndoStep: ...
    @overload
    def preview_undo(self, turn: str | PastTurn, *, redo: bool = False) -> TurnUndo: ...
    def preview_undo(self, turn: str | PastTurn | None = None, *, redo: bool = False) -> UndoStep | TurnUndo:
        """Return what `undo` or `redo` would do. Changes nothing.

        Args:
            turn: a turn, or a commit of it; the last operation if omitted.
            redo: for `redo`.

        Raises:
            HistoryError: as for `undo`.
        """
        if turn is None:
            return self._repository.undo.preview(redo=redo)
        return self._parts.turn_undoer.preview(turn, redo=redo)

    @property
    def agents(self) -> Agents:
        """The agents of this tract: `create`, `call`, `update`, `retire`, `promote`, `adopt`."""
        return self._parts.agents

    @property
    def functions(self) -> Functions:
        """The functions that operations of kind `compute` may call: `@t.functions.register`."""
        return self._parts.engine.functions

    def fork(
        self,
        at: str | None = None,
        *,
        name: str | None = None,
        model: str | LLMClient | Callable[..., Any] | None = None,
        prompt: str | None = None,
        **options: Any,
    ) -> Fork:
        """Continue the conversation from one of its steps with another model or prompt, on a branch.

        The fork shares the commits before the step: it repeats and pays for none of their requests. At a reply, it
        repeats the request; at a user message or tool result, it sends the next request. HEAD does not move.
        `t.forks()` compares all forks with their original.

        Args:
            at: a commit of the conversation, on any branch: a hash, prefix or branch; the newest if omitted.
            name: the branch; `fork-1`, ... if omitted.
            model: as for `models.use`, or the name of another model of the same client.
            prompt: the user message; it replaces the message at the step, or follows the reply there.
            options: as for `chat`: `profile` for other operations around the request, `tools`, `limits`,
                `temperature`, `agent` with a prompt, ...

        Returns:
            The fork. An error of the model is the outcome `error`.

        Raises:
            CommitNotFoundError: unknown commit `at`.
            ContentError: the arguments conflict, or there is no message for a reply. An error before the reply
                leaves no branch.
            BranchError: the name is taken or invalid, or HEAD is detached.
            CassetteError: the replayed cassette does not have the request.
        """
        return self._parts.forks.make(at, name=name, model=model, prompt=prompt, **options)

    def status(self) -> StatusInfo:
        """Return the state of the tract. Reads only."""
        return self._parts.status()

    def verify(self) -> DamageList:
        """Check all hashes (including runs), links and the counts of branches; return the damage.

        An empty list means no damage. For an SQLite file it also checks every page, and that the tables match the
        schema.
        """
        from tract_jupyter.context import DamageList
        from tract_jupyter.runs import verify_tract

        return DamageList(verify_tract(self._repository))

    # --- operations, handlers, decisions

    def register_operation(
        self, spec: OperationSpec, *, review: bool = False, replace: bool = False
    ) -> type[Pending] | None:
        """Activate an operation. This approves its code, so read the code first, or use `propose_operation`.

        The operation is compiled, signed with the user's secret, and stored. It survives restarts. To
        register the same spec again changes nothing.

        Args:
            spec: the operation.
            review: compile it and return the class of its pendings for inspection, without activation.
            replace: replace the active version; handlers stay.

        Raises:
            OperationExistsError: the name is built in, or another version is active; the error lists the changes.
            SpecError: invalid spec; nothing was registered.
        """
        if review:
            return self.operations.registry.compile(spec, replace=replace)
        self.operations.register(spec, replace=replace)
        return None

    def propose_operation(
        self, spec: OperationSpec, *, triggered_by: str | None = None, actor: str = "user"
    ) -> PendingActivation:
        """Return a pending whose approval activates an operation; its code is not compiled before.

        A model's proposal is active immediately, recorded as not reviewed, if three conditions hold:
        `autonomy.ceiling` is `autonomous`, all its actions declare `isolation: sandbox`, and its name is new.

        Args:
            spec: the operation.
            triggered_by: the trigger of the proposal, for the reviewer.
            actor: the author: `user`, or a model such as `agent:<id>`.

        Raises:
            SpecError: invalid spec, or the same spec is already active.
        """
        return self.operations.propose(spec, triggered_by=triggered_by, actor=actor)

    def unregister_operation(self, name: str) -> None:
        """Deactivate an operation and delete its spec and handlers.

        Raises:
            UnknownOperationError: no operation has this name, active or in quarantine.
        """
        self.operations.remove(name)

    @overload
    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: None = None,
        review: bool = False,
        triggered_by: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> DynamicPending: ...
    @overload
    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[DynamicPending], Result],
        review: Literal[False] = False,
        triggered_by: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> Result | DynamicPending: ...
    @overload
    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[DynamicPending], object],
        review: Literal[True],
        triggered_by: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> DynamicPending: ...
    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[DynamicPending], object] | None = None,
        review: bool = False,
        triggered_by: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> object:
        """Fire an operation.

        Its handlers run in order until one decides. Without handlers it is approved, or the user decides if the
        operation has `unhandled="ask"`.

        Args:
            operation: its name.
            fields: values of its fields.
            execute_fn: the function that approval runs; its run is recorded as an event `custom:<operation>`.
            review: skip the handlers and return the pending for a manual decision.
            triggered_by: the trigger, for the log.
            timeout: seconds for a decision; None for no timeout.
            on_timeout: the effect of the timeout: `wait` (no effect), `deny` (the pending expires), or `stop` (an
                error; the pending stays in the inbox).

        Returns:
            The result of `execute_fn` if it ran, else the pending, which has its actions as methods.

        Raises:
            UnknownOperationError: no active operation has this name.
            ParameterError: invalid fields.
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
        """Register a handler that decides about an operation, or sees all operations (`"*"`); return its name.

        Args:
            operation: the operation's name, or `"*"`.
            handler: called with the pending; may decide it, pass it through, or leave it open.
            name: the handler's name; derived from the function's name if omitted.
            before: the name of the next handler, or True for the first place. The default is the last place.
            after: the name of the previous handler.
            at: the place, counted from 0.

        Raises:
            OperationError: unknown operation or place, the name is taken, or the handler is not callable.
        """
        from tract_jupyter.review import check_operation

        check_operation(operation, self.operations.hookable)
        return self.hooks.bus.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all handlers of an operation.

        Args:
            operation: the operation's name, or `"*"`.
            handler: the function or the handler's name; all handlers if omitted.

        Raises:
            OperationError: unknown handler.
        """
        self.hooks.bus.off(operation, handler)

    # --- tools

    @overload
    def tool(
        self,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
        revert: Callable[..., object] | None = None,
    ) -> Function: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        open_world: bool = False,
        revert: Callable[..., object] | None = None,
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
        revert: Callable[..., object] | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Decorate a function to make it a tool: `@tract.tool`, or `@tract.tool(read_only=True)`.

        The schema comes from its type hints and its docstring, in Google's, numpy's or Sphinx's style. The function
        does not change. You can run the cell again: the tool replaces your tool of the same name, but no other tools.

        Args:
            function: the function to decorate.
            name: replaces the function's name.
            description: for models; replaces the first paragraph of the docstring.
            read_only: the tool changes nothing; models may call it without approval.
            destructive: the tool may delete data permanently.
            open_world: the tool reaches beyond this store: the network, other programs, ...
            revert: the function that takes back a call when a turn is undone. It takes arguments of the tool by their
                names, and `result`, the result of the call as JSON data.

        Raises:
            SpecError: not a plain function, a parameter has a type that models cannot send, or `revert` takes an
                argument that the tool does not have.
            OperationExistsError: a tool that you did not define has this name.
        """
        from tract_jupyter.toolkit import Traits

        add = partial(
            self.executor.add_function, name=name, description=description,
            traits=Traits(read_only, destructive, open_world), revert=revert,
        )  # fmt: skip
        return add if function is None else add(function)

    def toolset(
        self,
        profile: str | ToolProfile = "self",
        *,
        actor: str = "agent",
        overrides: Mapping[str, str] | None = None,
    ) -> Toolset:
        """Return the tools of a profile for a model, with calls in the model's name.

        Args:
            profile: `self` for an agent that manages its own context, `supervisor` for one that manages another
                agent's, `full` for all tools, `code` for one that calls all tools from scripts, or a `ToolProfile`.
            actor: the caller's name, for permission and review.
            overrides: other descriptions, by the tool's name.

        Raises:
            ContentError: unknown profile.
            UnknownToolError: a description for a tool outside the profile.
        """
        from tract_jupyter.toolkit import Toolset, profile_of

        return Toolset(self.executor, profile_of(profile), actor=actor, overrides=overrides)

    def as_tools(
        self,
        profile: str | ToolProfile = "self",
        *,
        overrides: Mapping[str, str] | None = None,
        format: SchemaFormat = "openai",  # noqa: A002 # the usual word
        strict: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the tools of a profile as plain dicts, for a model. A `toolset` executes its calls.

        Args:
            profile: see `toolset`.
            overrides: other descriptions, by the tool's name.
            format: `openai`, `anthropic` or `mcp`.
            strict: use OpenAI's strict mode. A tool with parameters that strict mode does not support, such as
                `dict[str, Any]`, has `strict: False`.

        Raises:
            ContentError: unknown profile or format, or the format has no strict mode.
            UnknownToolError: a description for a tool outside the profile.
        """
        return self.toolset(profile, overrides=overrides).schemas(format, strict=strict)
