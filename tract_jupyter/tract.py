"""`Tract`: one versioned context with its operations, tools and runs. This file is the table of contents.

The verbs of the context are methods, each of which calls the package that does the work: `context.versioned` has
what is said, read and branched, `hooked_context` what may be decided about first, and this file operations and tools.
Everything else is a part with a name, such as `t.operations` or `t.runs`, which is made when first used. Behind them
are the repository (the context itself) and `parts` (what the rest is made of).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from tract_jupyter.hooked_context import HookedContext
from tract_jupyter.models import repr_of_whole
from tract_jupyter.parts import Parts, expose
from tract_jupyter.storage import HEAD, MEMORY, Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tract_jupyter.agents import Agents
    from tract_jupyter.context import DamageList
    from tract_jupyter.llm import Account, CassetteDeck
    from tract_jupyter.loop import TurnEvent
    from tract_jupyter.models import AutonomyLevel, LLMClient, StatusInfo, TokenBudget, TokenCounter
    from tract_jupyter.operations import DynamicPending, OperationSpec, PendingActivation
    from tract_jupyter.orchestrator import OrchestratorResult
    from tract_jupyter.review import OnTimeout, Pending, Reviewer, Settings, Trust
    from tract_jupyter.runs import Fork, Functions
    from tract_jupyter.session import Session
    from tract_jupyter.toolkit import (
        Delegation,
        SchemaFormat,
        ToolProfile,
        Toolset,
    )

    Function = TypeVar("Function", bound=Callable[..., Any])
    Result = TypeVar("Result")


class Tract(HookedContext):
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
        """Open a store, or make it.

        Nothing that the store holds is executed or compiled by this, and no model is asked.

        Args:
            path: an SQLite file; `:memory:` keeps nothing.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            model: the language model to ask, such as `openai/gpt-6-luna`; see `models.use`. Without one,
                `models.use` chooses it later.
            api_key: its key, which is not stored; that of the environment or the system's keyring if left out.
            base_url: its address, where it is not the provider's usual one.
            tract_id: which tract of the store; the one it was made with if left out.
            tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
            budget: how large the context may become.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.
            record: a cassette to record from the beginning on; see `cassette.record`.
            replay: a cassette to replay. The tract is the recorded one, made if it is not there, so that it gets the
                same commits; see `cassette.replay`.

        Raises:
            CassetteError: the cassette cannot be recorded or replayed, or both are asked for.
            LLMConfigError: `model` names none, or `api_key` or `base_url` is given without one.
            StoreError: locked, read-only, corrupt, or from a newer version; the subclass tells.
        """
        if api_key is not None or base_url is not None:
            from tract_jupyter.llm import hidden_address, masked

            # before anything can fail: a traceback may show variables
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
        """Open another tract of this store on a branch with a HEAD of its own; what is not there is made, empty.

        It shares the account and the cassette of this one, and asks the same models until it is told otherwise. Closing
        it closes nothing else.

        Args:
            tract_id: of the other tract; if it is made, it is a child of this one.
            branch: of that tract.
            purpose: what it is for, in words.
            is_new: refuse a branch that is there.
            granted: which of this tract's tools it may call, with this tract's locks, permission and review. If left
                out, it has only tools that act on itself, and an inbox of its own.
            actor: of the model that acts in it, such as `agent:<id>`; with `granted`.

        Raises:
            SessionError: no tract can have that id.
            BranchExistsError: the branch is there, and should be new.
            InvalidBranchNameError: git would refuse the branch's name.
            StoreError: the store cannot be written.
        """
        return self._parts.beside(tract_id, branch, purpose, is_new=is_new, granted=granted, actor=actor)

    def branches_beside(self, tract_id: str) -> list[str]:
        """Return the branches of another tract of this store, by name; none if there is no such tract."""
        from tract_jupyter.storage import RefRows

        with self._repository.database.read() as connection:
            return sorted(RefRows(tract_id).branches(connection))

    def close(self) -> None:
        """Close the store; end its MCP servers, and the processes of its sandbox. A second call does nothing.

        Turns that are under way in other threads are stopped, as by `loop.stop`. That is waited for, and so is what
        other threads are writing, five seconds at most each; they can begin nothing new. After that, a copy of an
        SQLite file is the store.
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
    runs = expose(Parts.runs)
    profiles = expose(Parts.profiles)
    tool_results = expose(Parts.tool_results)
    loop = expose(Parts.loop)
    models = expose(Parts.models)
    forks = expose(Parts.forks)
    cassette = expose(Parts.cassette)
    costs = expose(Parts.costs)

    @property
    def reviewer(self) -> Reviewer:
        """The part that shows questions to a person: its channel, and how long it waits."""
        return self._parts.review.reviewer

    def orchestrate(
        self,
        reason: str = "",
        autonomy: AutonomyLevel | str | None = None,
        *,
        on_turn: Callable[[TurnEvent], object] | None = None,
    ) -> OrchestratorResult:
        """Have the orchestrator look after the context once; see `orchestrator.run`.

        Args:
            reason: why, for the model.
            autonomy: the level at which it would act; the ceilings count where they are lower.
            on_turn: is given each event of its conversation as it happens.

        Raises:
            OrchestratorError: no model is configured, it runs already, or its settings cannot be used.
            ContentError: there is no such level.
            LLMError: a request failed; `orchestrator.resume` goes on.
        """
        return self.orchestrator.run(reason, autonomy, on_turn=on_turn)

    @property
    def agents(self) -> Agents:
        """The agents that are made here: `create`, `call`, `update`, `retire`, `promote`, `adopt`."""
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

        The commits before the step are shared: nothing of them is asked or paid again. At a reply, the same request is
        made again; at a message of the user or an answer of a tool, the next request. HEAD stays where it is.
        `t.forks()` compares all forks with their original.

        Args:
            at: a commit of the conversation, on any branch: a hash, prefix or branch; the newest if left out.
            name: the branch; `fork-1`, ... if left out.
            model: as for `models.use`, or the name of another model of the same client.
            prompt: the user's message, instead of the one there, or after the reply there.
            options: as for `chat`: `profile` for other operations around the request, `tools`, `limits`,
                `temperature`, ...

        Returns:
            The fork. An error of the model is an outcome, `error`.

        Raises:
            CommitNotFoundError: `at` names nothing.
            ContentError: the arguments do not go together, or there is nothing that a model could reply to. If a fork
                is refused before the model replied, it leaves no branch.
            BranchError: the name is taken or invalid, or HEAD is detached.
            CassetteError: a cassette is replayed that does not have the request.
        """
        return self._parts.forks.make(at, name=name, model=model, prompt=prompt, **options)

    def status(self) -> StatusInfo:
        """Return where the tract stands. Reads only."""
        return self._parts.status()

    def verify(self) -> DamageList:
        """Check every hash, also those of runs, every link, and the counts of branches; return what is damaged.

        An empty list says that all is well. Of an SQLite file every page is checked, too, and that its tables are as
        they were made, with nothing added.
        """
        from tract_jupyter.context import DamageList
        from tract_jupyter.runs import verify_tract

        return DamageList(verify_tract(self._repository))

    # --- operations, handlers, decisions

    def register_operation(
        self, spec: OperationSpec, *, review: bool = False, replace: bool = False
    ) -> type[Pending] | None:
        """Activate an operation, which is to approve its code: read it before, or use `propose_operation`.

        It is compiled, signed with the user's secret, and kept across restarts. Registering the same spec again, as a
        script does that is run twice, changes nothing.

        Args:
            spec: the operation.
            review: compile and return the class of its pendings for inspection, without activating it.
            replace: take the place of another version that is active; handlers stay.

        Raises:
            OperationExistsError: the name is built in, or another version is active; the error says what changed.
            SpecError: the spec is wrong; nothing was registered.
        """
        if review:
            return self.operations.registry.compile(spec, replace=replace)
        self.operations.register(spec, replace=replace)
        return None

    def propose_operation(
        self, spec: OperationSpec, *, triggered_by: str | None = None, actor: str = "user"
    ) -> PendingActivation:
        """Return a pending whose approval activates an operation; nothing of it is compiled before.

        What a model proposes is active at once, and recorded as not reviewed, where `autonomy.ceiling` is `autonomous`,
        all of its actions declare `isolation: sandbox`, and no operation here ever had its name.

        Args:
            spec: the operation.
            triggered_by: what proposed it, for whoever reviews it.
            actor: who wrote it: `user`, or a model such as `agent:<id>`.

        Raises:
            SpecError: the spec is wrong, or is active already, unchanged.
        """
        return self.operations.propose(spec, triggered_by=triggered_by, actor=actor)

    def unregister_operation(self, name: str) -> None:
        """Deactivate an operation, and forget its spec and its handlers.

        Raises:
            UnknownOperationError: there is no such operation, neither active nor in quarantine.
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

        Its handlers run in order until one decides. If none is there, it is approved, or a person is asked if the
        operation says so (`unhandled="ask"`).

        Args:
            operation: its name.
            fields: values of its fields.
            execute_fn: what approval runs; its run is recorded as an event `custom:<operation>`.
            review: skip the handlers and return the pending, to decide it by hand.
            triggered_by: what set it off, for the log.
            timeout: seconds that a decision may take, None for any time.
            on_timeout: what it means if that time is over: `wait` on, `deny` (it expires), or `stop` waiting with an
                error, while it stays in the inbox.

        Returns:
            The result of `execute_fn` if that ran, else the pending, which has its actions as methods.

        Raises:
            UnknownOperationError: no such operation is active.
            ParameterError: the fields do not fit.
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
        """Have a handler decide about an operation, or see all of them (`"*"`); return the handler's name.

        Args:
            operation: the operation's name, or `"*"`.
            handler: called with the pending; may decide it, pass it through, or leave it open.
            name: what it goes by; made from the function's name if left out.
            before: the name of the handler to go before, or True for the first place. At the end if no place is given.
            after: the name of the handler to go after.
            at: the place, counted from 0.

        Raises:
            OperationError: there is no such operation or place, the name is taken, or it cannot be called.
        """
        return self.hooks.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all of an operation.

        Args:
            operation: the operation's name, or `"*"`.
            handler: the function, or what the handler goes by; all of them if left out.

        Raises:
            OperationError: there is no such handler.
        """
        self.hooks.off(operation, handler)

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

        Args:
            function: what is decorated.
            name: instead of the function's own.
            description: for models, instead of the first paragraph of the docstring.
            read_only: it changes nothing; models may call it without being asked about.
            destructive: what it takes away may be gone for good.
            open_world: it reaches beyond this store: the network, other programs, ...

        Raises:
            SpecError: it is no plain function, or has a parameter that models cannot send a value for.
            OperationExistsError: a tool that is not your own has that name.
        """
        from tract_jupyter.toolkit import Traits

        made = partial(
            self.executor.add_function, name=name, description=description,
            traits=Traits(read_only, destructive, open_world),
        )  # fmt: skip
        return made if function is None else made(function)

    def toolset(
        self,
        profile: str | ToolProfile = "self",
        *,
        actor: str = "agent",
        overrides: Mapping[str, str] | None = None,
    ) -> Toolset:
        """Return the tools as a model has them: those of a profile, called in its name, and no others.

        Args:
            profile: `self` for an agent that manages the context it works with, `supervisor` for one that manages
                another's, `full` for all tools, `code` for one that calls all of them from scripts, or a `ToolProfile`.
            actor: who calls, for the permission and whoever is asked.
            overrides: other descriptions, by the tool's name.

        Raises:
            ContentError: there is no such profile.
            UnknownToolError: a description is for a tool that the profile does not have.
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
        """Return the tools of a profile as plain dicts, for a model. What it calls is carried out by a `toolset`.

        Args:
            profile: see `toolset`.
            overrides: other descriptions, by the tool's name.
            format: `openai`, `anthropic` or `mcp`.
            strict: in OpenAI's strict mode. A tool whose parameters that mode cannot express, such as a
                `dict[str, Any]`, is marked `strict: False`.

        Raises:
            ContentError: there is no such profile or format, or the format has no strict mode.
            UnknownToolError: a description is for a tool that the profile does not have.
        """
        return self.toolset(profile, overrides=overrides).schemas(format, strict=strict)
