"""The parts of a tract and their dependencies. A part is created, with its imports, on first use."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from tract_jupyter.exceptions import StoreClosedError, StoreError, TractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.agents import Agents
    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Account, Cassette, CassetteDeck, Models
    from tract_jupyter.loop import AnswerStore, Generation, ToolLoop, TurnUndoer
    from tract_jupyter.models import StatusInfo
    from tract_jupyter.operations import Handlers, Hooks, Operations, OperationSpec
    from tract_jupyter.orchestrator import TractOrchestrator
    from tract_jupyter.outside import OutsideAgents
    from tract_jupyter.policy import Policies
    from tract_jupyter.rehearsal import Backups, Rehearser
    from tract_jupyter.review import Firing, Pending, Review, Settings, Trust
    from tract_jupyter.review.builtin import HistoryVerbs, ToolResults
    from tract_jupyter.runs import Costs, Forks, Profiles, RunEngine, Runs
    from tract_jupyter.runs.kinds import KindRegistry
    from tract_jupyter.sandbox import SandboxPool
    from tract_jupyter.scripts import Scripts
    from tract_jupyter.session import Session
    from tract_jupyter.storage import Entry
    from tract_jupyter.toolkit import (
        Autonomy,
        Delegation,
        EffectRecords,
        McpTools,
        ToolExecutor,
        ToolProfile,
        ToolsModule,
        Workspace,
    )
    from tract_jupyter.tract import Tract

Made = TypeVar("Made")


class part(Generic[Made]):  # noqa: N801 # a decorator, as `property` is
    """A part that is created on first use. If threads create it concurrently, all get the first one stored."""

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, parts: None, kind: type) -> part[Made]: ...
    @overload
    def __get__(self, parts: object, kind: type) -> Made: ...
    def __get__(self, parts: object | None, kind: type) -> part[Made] | Made:
        """Return the part, and store it on the object in place of this descriptor."""
        if parts is None:
            return self
        created: Made = parts.__dict__.setdefault(self._name, self.make(parts))
        return created


def expose(declared: part[Made]) -> part[Made]:
    """Return a property of `Tract` for one of its parts, with the docstring and the type of the part.

    The return type is `part`, because type checkers do not see the type of a computed property.
    """

    def get(tract: Tract) -> Made:
        created: Made = getattr(tract._parts, declared._name)  # noqa: SLF001 # `Parts` belongs to `Tract`
        return created

    get.__doc__ = declared.__doc__
    get.__annotations__ = {"return": declared.make.__annotations__["return"]}
    return property(get)  # type: ignore[return-value]


class Parts:
    """Creates and holds the parts of a tract.

    Args:
        tract: the owner of the pendings.
        repository: the tract's history.
        trust: signs and verifies approvals; the user's own if None.
        account: returns the session's account; the tract creates one if None.
        deck: returns the session's cassette; the tract creates one if None.
        session: returns the session; the tract creates one on first use if None.
        delegation: returns the delegation from the parent tract, for the tract's signed settings; None for a top tract.
    """

    def __init__(
        self,
        tract: Tract,
        repository: Repository,
        trust: Trust | None,
        account: Callable[[], Account] | None = None,
        deck: Callable[[], CassetteDeck] | None = None,
        session: Callable[[], Session] | None = None,
        delegation: Callable[[Settings], Delegation | None] | None = None,
    ) -> None:
        self._account = account
        self._deck = deck
        self._session = session
        self._find_delegation = delegation
        self._tract = tract
        self._repository = repository
        self._trust = trust
        self._is_closed = False
        self._folder = _current_folder()
        self._has_cassette = True
        self._has_policies: bool | None = None
        self._has_adopted: bool | None = None
        repository.writer.on_commits = self._committed
        repository.before_compile = self._compiling
        repository.on_rewrite = lambda commits: self.costs.warn_of_rewrite(*commits)
        repository.files.open = lambda names: self.workspace.read(*names)

    def close(self) -> None:
        """End turns, MCP servers, sandbox processes and the tract's own session, if they exist."""
        self._is_closed = True
        for name in ("_own_agents", "orchestrator", "loop", "outside", "sandboxes", "mcp", "cassette"):
            if name in self.__dict__ and (name != "cassette" or self._has_cassette):
                getattr(self, name).close()
        if self._session is None and "session" in self.__dict__:
            self.session._tracts.close_others()  # noqa: SLF001 # this tract created the session

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
        """Open another tract of the same store: `Tract.beside`."""
        from tract_jupyter.context import make_side_branch
        from tract_jupyter.storage import AGENT_HEAD, SharedDatabase

        repository = self._repository
        make_side_branch(repository, tract_id, branch, purpose, is_new=is_new)
        tract = type(self._tract)(
            SharedDatabase(repository.database), tract_id=tract_id, tokenizer=repository.counter, trust=self._trust,
            head_name=AGENT_HEAD + branch, account=lambda: self.models.spending.account,
            session=lambda: self.session.joined_by(tract),
            delegation=None if granted is None else partial(self._delegate, granted, actor, (tract_id, branch)),
        )  # fmt: skip
        tract._parts.__dict__["cassette"] = self.cassette  # noqa: SLF001 # the same class
        tract._parts._has_cassette = False  # noqa: SLF001 # the same
        tract._parts._folder = self.workspace.default  # noqa: SLF001 # the same
        tract.models.choose_like(self.models)
        return tract

    def _delegate(
        self, granted: ToolProfile, actor: str, place: tuple[str, str], settings: Settings
    ) -> Delegation:
        from tract_jupyter.models import agent_id
        from tract_jupyter.toolkit import Delegation, Remembered

        def parent() -> Tract:
            self.check_open()
            return self._tract

        remembered = Remembered(agent_id(*place), self._repository.agent_id, granted, actor)
        return Delegation(parent, granted, actor, lambda: remembered.save_once(settings))

    def check_open(self) -> None:
        """Raise `StoreClosedError` if the tract is closed."""
        if self._is_closed or self._repository.database.is_closed:
            name = self._repository.agent_id
            raise StoreClosedError(f"the parent tract {name} is closed; open it again")

    @part
    def delegation(self) -> Delegation | None:
        """The delegation from the parent tract; None for a top tract."""
        return None if self._find_delegation is None else self._find_delegation(self.settings)

    @part
    def session(self) -> Session:
        """The session of this store: `spawn` creates children, `collapse` commits their results.

        A tract of a `Session` returns this session. Any other tract creates one that shares account and cassettes.
        Closing the tract or this session closes both.
        """
        from tract_jupyter.session import Session

        if self._session is not None:
            return self._session()
        repository = self._repository
        return Session(
            repository.database, tokenizer=repository.counter, trust=self._trust, around=self._tract
        )

    def status(self) -> StatusInfo:
        """Return the state of the tract."""
        from tract_jupyter.models import StatusInfo

        repository, position = self._repository, self._repository.refs.position
        source = repository.history.token_source(position)
        return StatusInfo(
            tract_id=repository.tract_id,
            location=repository.database.location,
            branch=position.branch or "(detached)",
            head=position.commit_hash,
            commit_count=position.generation + 1,
            message_count=position.context_messages,
            token_count=repository.corrections.tokens(position.context_tokens, source),
            token_source=source,
            corrected_by=repository.corrections.of(source),
            operations=tuple(sorted(self.operations.registry.operation_names)),
            waiting=self.review.ledger.count_waiting(),
            quarantined=tuple(sorted(self.operations.quarantined)),
            quarantined_handlers=tuple(sorted(map("/".join, self.hooks.saved.quarantined))),
            is_detached=position.branch is None,
            max_tokens=repository.max_tokens(),
        )

    def restored(self, operation: str, fields: dict[str, Any]) -> Pending | None:
        """Restore the stored pending of a built-in operation; None for another operation.

        The caller's functions (summarizer, resolver, validator) are not stored. The user can still decide and edit the
        pending. Only the tract's own functions can regenerate it.
        """
        from tract_jupyter.review.builtin import BUILT_IN, check_stored

        definition = BUILT_IN.get(operation)
        if definition is None:
            return None
        check_stored(operation, fields)
        pending: Pending = attrgetter(definition.restored)(self)(fields)
        return pending

    def restored_call(self, fields: dict[str, Any]) -> Pending:
        """Restore the stored pending of a script's call, for a script of this tract or of a descendant."""
        from tract_jupyter.scripts import PendingScriptCall

        descendant = fields["script"]["tract"]

        def acts_in() -> Tract:
            return self.session.get_tract(descendant) if descendant else self._tract

        return PendingScriptCall(
            fields,
            tract=self._tract,
            acts_in=acts_in,
            go_on=lambda decided: acts_in().scripts.go_on_and_print(decided),  # noqa: PLW0108 # opens the tract late
        )

    # --- review

    @part
    def review(self) -> Review:
        """Requests to the user and their decisions: inbox, decisions, grants, trust."""
        from tract_jupyter.review import Review, Trust

        repository, trust = self._repository, self._trust or Trust()
        signer = trust.for_tract(repository.database.store_id, repository.tract_id)
        return Review(repository, trust, signer)

    @part
    def _routing(self) -> tuple[Firing, Handlers]:
        """The part that routes pendings to handlers, with the stored handlers already registered."""
        from tract_jupyter.operations import Handlers
        from tract_jupyter.review import Firing, HookBus, HookLog
        from tract_jupyter.storage import HandlerRows, HookLogRows

        repository, review = self._repository, self.review
        database, tract_id = repository.database, repository.tract_id
        bus = HookBus(HookLog(database, HookLogRows(tract_id)))
        handlers = Handlers(
            self._tract, bus, database, HandlerRows(tract_id), repository.events, review.signer
        )
        handlers.look_again()
        return Firing(bus, review.reviewer), handlers

    @property
    def firing(self) -> Firing:
        """The part that routes pendings to handlers."""
        return self._routing[0]

    @part
    def operations(self) -> Operations:
        """The dynamic operations: `propose`, `revoke`, the registry, the quarantine."""
        from tract_jupyter.operations import Operations

        operations = Operations(
            self._tract, self._repository, self.review, *self._routing,
            restored=self.restored,
            reviews_sandboxed=lambda: self.autonomy.reviews_sandboxed,
        )  # fmt: skip
        operations.look_again()
        operations.on_change = self._operation_changed
        return operations

    @part
    def hooks(self) -> Hooks:
        """The handlers: `list`, `log`; for stored handlers `save_handler`, `propose_handler`, `revoke_handler`, ..."""
        from tract_jupyter.operations import Hooks

        return Hooks(self.firing, self.operations, self._routing[1])

    @part
    def history_verbs(self) -> HistoryVerbs:
        """Compresses, merges, rebases and collects garbage."""
        from tract_jupyter.review.builtin import HistoryVerbs

        return HistoryVerbs(self._tract, self._repository, self.firing, self.models, self._rewrite_cost)

    def _rewrite_cost(self, commits: Sequence[str]) -> str:
        """Return the cost of a change of these messages, as text; empty if there is none."""
        cost = self.costs.of_rewrite(*commits) if commits else None
        return str(cost) if cost else ""

    @part
    def tool_results(self) -> ToolResults:
        """Shorter tool results: `compress` works after the commit, `configure_summarization` before it."""
        from tract_jupyter.review.builtin import ToolResults

        return ToolResults(self._tract, self._repository, self.firing, self.models)

    # --- tools and scripts

    @part
    def mcp(self) -> McpTools:
        """The MCP servers of this tract: `add`, `remove`, `servers`, `problems`."""
        from tract_jupyter.toolkit import McpTools

        return McpTools(
            lambda name: self.executor.check_namespace(name)  # noqa: PLW0108 # mutual reference
        )

    @part
    def executor(self) -> ToolExecutor:
        """Runs all tool calls, with their permissions and locks."""
        from tract_jupyter.agents import AgentFunctions, agent_tools
        from tract_jupyter.scripts import script_tools
        from tract_jupyter.toolkit import (
            LiveTools,
            OperationTools,
            ToolExecutor,
            context_tools,
            discovery_tools,
            proposing_tools,
        )

        tract, operations, reviewer = self._tract, self.operations, self.review.reviewer
        fixed = [
            *context_tools(tract),
            *script_tools(lambda: self.executor, lambda: self.scripts),
            *discovery_tools(
                lambda: self.executor,
                lambda profile, text: self.scripts.count_search(profile, text),  # noqa: PLW0108 # mutual reference
            ),
        ]
        own_operations = OperationTools(operations, reviewer.decide_now)
        delegation = self.delegation
        if delegation is None:
            fixed += proposing_tools(operations, reviewer)
            fixed += agent_tools(lambda: self.agents)
            live = LiveTools(own_operations, self.mcp, AgentFunctions(self._existing_agents))
        elif self._repository.agent_branch:
            # the parent's executor has the operations of the shared tract
            live = LiveTools(self.mcp)
        else:
            live = LiveTools(own_operations, self.mcp)
        return ToolExecutor(
            tract, reviewer, operations.unguarded, fixed, live, cassette=self.cassette, delegation=delegation
        )

    @part
    def tools(self) -> ToolsModule:
        """Every tool as a Python function."""
        from tract_jupyter.toolkit import ToolBridge, ToolsModule

        return ToolsModule(ToolBridge(self.executor))

    @part
    def policies(self) -> Policies:
        """The policies: `add`, `on`, `off`, `list`, `preview`, `log`, `suspended`, `apply`, `propose`."""
        from datetime import UTC, datetime

        from tract_jupyter.policy import ContextWatch, Policies, PolicyEvaluator, PolicyStore
        from tract_jupyter.storage import PendingRows, PolicyRows
        from tract_jupyter.toolkit import PolicyCalls

        repository = self._repository
        store = PolicyStore(
            repository.database, PolicyRows(repository.tract_id), repository.events, self.review.signer
        )
        evaluator = PolicyEvaluator(
            self._tract, repository, store, PendingRows(repository.tract_id),
            PolicyCalls(self._tract, self.executor, self.firing), lambda: self.autonomy,
            ContextWatch(repository, lambda: datetime.now(UTC)),
            lambda reason, level: self.orchestrator.run(reason, level),  # noqa: PLW0108 # created on use
            unfinished=lambda: self.orchestrator.unfinished(),  # noqa: PLW0108 # the same
        )  # fmt: skip
        self._has_policies = True
        return Policies(evaluator)

    # --- triggers of policies

    def _existing_policies(self) -> Policies | None:
        """Return the policies, if this tract has any. Without policies, each turn checks the store once."""
        if self._has_policies is None:
            from tract_jupyter.storage import PolicyRows

            try:
                with self._repository.database.read() as connection:
                    self._has_policies = PolicyRows(self._repository.tract_id).any(connection)
            except StoreError:  # a finished commit must not fail here
                self._has_policies = False
        return self.policies if self._has_policies else None

    def _committed(self, entries: Sequence[Entry] | None) -> None:
        if self._has_policies is not False:
            policies = self._existing_policies()
            if policies is not None:
                policies.evaluator.committed(entries)

    def _operation_changed(self, name: str, spec: OperationSpec | None) -> None:
        """Register or remove the automatic triggers of an operation."""
        fires = spec is not None and spec.fires_on is not None and not spec.fires_in_runs
        if fires or self._existing_policies() is not None:
            from tract_jupyter.policy import follow

            follow(self.policies, name, spec)

    def _compiling(self) -> None:
        if self._has_policies is not False:
            policies = self._existing_policies()
            if policies is not None:
                policies.evaluator.compiling()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run a `with` block as a turn: it can be stopped, and policies run at its end."""
        if self._has_policies is False:
            self._has_policies = None  # another process may have added some
        policies = self._existing_policies()
        if policies is None:
            with self.loop.under_way():
                yield
            return
        try:
            with policies.evaluator.hold(), self.loop.under_way():
                yield
        finally:
            policies.evaluator.end_turn()

    @part
    def settings(self) -> Settings:
        """The signed settings of the tract."""
        from tract_jupyter.review import Settings
        from tract_jupyter.storage import SettingRows

        repository = self._repository
        rows = SettingRows(repository.tract_id)
        return Settings(repository.database, rows, repository.events, self.review.signer)

    @part
    def autonomy(self) -> Autonomy:
        """How far policies and orchestrators may act without the user: `ceiling`, ..."""
        from tract_jupyter.toolkit import Autonomy

        def parent_autonomy() -> Autonomy | None:
            delegation = self.delegation
            autonomy: Autonomy | None = None if delegation is None else delegation.parent().autonomy
            return autonomy

        return Autonomy(self.settings, lambda: self.executor, parent_autonomy)

    @part
    def workspace(self) -> Workspace:
        """The folders with files for attachments: `roots`, `read`."""
        from tract_jupyter.review import Settings
        from tract_jupyter.storage import EventRows, SettingRows
        from tract_jupyter.toolkit import Workspace

        repository, trust = self._repository, self.review.trust
        database = repository.database

        def ancestor_settings() -> Iterator[Settings]:
            for tract_id in repository.family.ancestors():
                signer = trust.for_tract(database.store_id, tract_id)
                yield Settings(database, SettingRows(tract_id), EventRows(tract_id), signer)

        return Workspace(self.settings, ancestor_settings, self._folder, lambda: self.executor)

    @part
    def orchestrator(self) -> TractOrchestrator:
        """The model that maintains this context: `config`, `run`, `stop`, `pause`, `resume`, `state`, `runs`."""
        from tract_jupyter.orchestrator import TractOrchestrator

        return TractOrchestrator(self._tract, self.settings)

    @property
    def agents(self) -> Agents:
        """The agents of the top tract, created while the notebook runs."""
        delegation = self.delegation
        if delegation is None:
            return self._own_agents
        agents: Agents = delegation.parent().agents
        return agents

    def _existing_agents(self) -> Agents | None:
        """Return the agents of this tract, if it has any: created in this session or adopted earlier."""
        if "_own_agents" not in self.__dict__ and self._has_adopted is None:
            from tract_jupyter.storage import SettingRows

            with self._repository.database.read() as connection:
                names = [row.name for row in SettingRows(self._repository.tract_id).all(connection)]
            self._has_adopted = any(name.startswith("agent:") and name.endswith(":") for name in names)
        return self._own_agents if self._has_adopted or "_own_agents" in self.__dict__ else None

    @part
    def _own_agents(self) -> Agents:
        from pathlib import Path

        from tract_jupyter.agents import Agents
        from tract_jupyter.storage import MEMORY

        database = self._repository.database
        is_file = "://" not in database.location and database.location != MEMORY
        store = Path(database.location).absolute().parent / "agents" if is_file else None
        return Agents(self._tract, self.settings, self._repository.agent_id, store)

    @part
    def outside(self) -> OutsideAgents:
        """The agents of other programs: `use`, `chat`, `stop`, `running`."""
        from tract_jupyter.outside import OutsideAgents

        delegation, top = self.delegation, self._top
        above = None if delegation is None else lambda: delegation.parent().outside
        return OutsideAgents(
            top, self._repository, self.generation, actor="" if delegation is None else delegation.actor, above=above,
            loop=lambda: self.loop, review=lambda: self._top_review, answers=lambda: self._answers,
            effects=lambda: self.effects, backups=lambda: self.backups, cassette=lambda: self.cassette,
            folder=lambda: next(iter(self.workspace.roots), Path.cwd()),
        )  # fmt: skip

    @part
    def sandboxes(self) -> SandboxPool:
        """The processes of the sandbox."""
        from tract_jupyter.sandbox import SandboxPool

        pool = SandboxPool()
        if self._is_closed:
            pool.close()
        return pool

    @part
    def scripts(self) -> Scripts:
        """The scripts: `run`, `get_system_instructions` for a model that writes them, results."""
        from functools import partial

        from tract_jupyter.scripts import Scripts, StoredLog
        from tract_jupyter.storage import ScriptCallRows

        database, events = self._repository.database, self._repository.events

        def record(data: dict[str, Any]) -> None:
            with database.write() as connection:
                events.append(connection, "script", f"script:{data['script_hash'][:12]}", data)

        rows = ScriptCallRows(self._repository.tract_id)
        stored_log = partial(StoredLog, database, rows, self.review.signer)
        counted = self._repository.corrections.count
        return Scripts(
            self.executor, tools=lambda: self.tools, pool=lambda: self.sandboxes,
            stored_log=stored_log, record=record, count_tokens=counted, rehearser=lambda: self.rehearser,
        )  # fmt: skip

    @part
    def rehearser(self) -> Rehearser:
        """The rehearsals of code on a contained copy of this kernel; `scripts.rehearse` uses it."""
        from tract_jupyter.rehearsal import Rehearser
        from tract_jupyter.toolkit import server_tokens

        return Rehearser(
            Path.cwd(),
            self.backups,
            roots=lambda: self.workspace.roots,
            secrets=lambda: [*self.models.secrets(), *self.review.trust.secrets(), *server_tokens()],
            hidden=lambda: self.scripts.hidden_names,
            private=self.review.trust.private_paths,
        )

    # --- models and runs

    @part
    def cassette(self) -> Cassette:
        """The traffic with models and tools: `record` it to a file, `replay` it from there, `stop`."""
        from tract_jupyter import __version__
        from tract_jupyter.llm import Cassette, CassetteDeck, CassettePlace
        from tract_jupyter.storage import now_text

        def place() -> CassettePlace:
            position = self._repository.refs.position
            return CassettePlace(self._repository.tract_id, position.branch, position.commit_hash)

        def set_clock(time_of: Callable[[str], str] | None) -> None:
            self._repository.database.clock.time_of = time_of

        return Cassette(
            self._repository.agent_id,
            CassetteDeck() if self._deck is None else self._deck(),
            place,
            lambda: [*self.models.secrets(), *(self.outside.secrets() if "outside" in self.__dict__ else ())],
            now_text,
            set_clock,
            f"tract_jupyter {__version__}",
        )

    @part
    def models(self) -> Models:
        """The models: `use` chooses one, `add` registers one by name, `price` sets its price.

        No key is stored.
        """
        from tract_jupyter.llm import Models, Spending

        account = None if self._account is None else self._account()
        counted, read = self._repository.corrections.count, self._repository.files.read
        models = Models(Spending(counted, account), self.cassette, read)
        models.follows = self._parent_models
        return models

    def _parent_models(self) -> Models | None:
        """Return the parent tract's models; None if there is no parent, or it is closed or deleted."""
        delegation = self.delegation
        try:
            return None if delegation is None else delegation.parent().models
        except TractError:
            return None

    @part
    def costs(self) -> Costs:
        """Usage and costs of requests to models: `t.costs()` for this session; `turns`, `set_budget`."""
        from tract_jupyter.runs import Costs

        return Costs(self._repository, self.models)

    @part
    def generation(self) -> Generation:
        """Requests replies from the model."""
        from tract_jupyter.loop import Generation

        return Generation(
            self._tract, self._repository, self.firing, self.review.reviewer, self.models,
            lambda stored: self.operations.rebuild(stored),  # noqa: PLW0108 # created on use
            lambda request: self.runs.is_waiting(request),  # noqa: PLW0108 # mutual reference
            lambda: self._answers.journal,
        )  # fmt: skip

    @part
    def loop(self) -> ToolLoop:
        """The tool loop of `chat` and `generate`: its tools, its limits, `stop`, `pause`."""
        from tract_jupyter.loop import ToolLoop, TurnStore

        return ToolLoop(
            lambda: self.executor, lambda: self._top_review, self.generation, TurnStore(self._repository),
            lambda: self._answers,
            lambda profile, query: self.scripts.get_system_instructions(profile=profile, query=query),
            lambda: self.cassette,
            lambda: self.effects,
        )  # fmt: skip

    @part
    def effects(self) -> EffectRecords:
        """What turns did outside of the context, for their undo: `of`, `memory_budget`, `memory_used`."""
        from tract_jupyter.toolkit import EffectRecords

        repository = self._repository
        return EffectRecords(repository.database, repository.events, self.review.signer)

    @part
    def backups(self) -> Backups:
        """The earlier contents of files that turns changed, in a folder next to the store."""
        from tract_jupyter.loop import open_backups

        database, trust = self._repository.database, self.review.trust
        return open_backups(database, trust.secret_file.parent, trust.for_tract(database.store_id, "backups"))

    @part
    def turn_undoer(self) -> TurnUndoer:
        """The undo and redo of whole turns."""
        from tract_jupyter.loop import TurnUndoer

        return TurnUndoer(self._repository, self.effects, lambda: self.executor, lambda: self.backups)

    @property
    def _top(self) -> Tract:
        """The top tract, or the highest one that is available."""
        try:
            parent: Tract | None = None if self.delegation is None else self.delegation.parent()
        except TractError:
            parent = None
        return self._tract if parent is None else parent._parts._top  # noqa: SLF001 # the same class

    @property
    def _top_review(self) -> Review:
        """The review of the top tract."""
        return self._top._parts.review  # noqa: SLF001 # the same class

    @part
    def _answers(self) -> AnswerStore:
        """The store of results of the model's tool calls."""
        from tract_jupyter.loop import AnswerStore, CallJournal
        from tract_jupyter.storage import ScriptCallRows

        repository, signer = self._repository, self.review.signer
        journal = CallJournal(repository.database, ScriptCallRows(repository.tract_id), signer)
        return AnswerStore(
            repository=repository, firing=self.firing, results=self.tool_results, journal=journal
        )

    @part
    def forks(self) -> Forks:
        """The forks of this session: `t.forks()` compares them."""
        from tract_jupyter.runs import Forks

        return Forks(self._repository, self._tract.chat, self.models, self.costs)

    @part
    def kinds(self) -> KindRegistry:
        """The kinds of operations of runs."""
        from tract_jupyter.runs.kinds import KindRegistry

        return KindRegistry()

    @part
    def engine(self) -> RunEngine:
        """Executes runs."""
        from tract_jupyter.runs import RunEngine

        return RunEngine(
            self._tract, self._repository, self.generation, self.models, lambda: self.executor,
            self.kinds,
        )  # fmt: skip

    @part
    def profiles(self) -> Profiles:
        """The profiles of this tract, which select the operations of its runs."""
        from tract_jupyter.runs import Profiles
        from tract_jupyter.storage import RunProfileRows

        repository = self._repository
        return Profiles(
            repository.database, RunProfileRows(repository.tract_id), repository.events, self.review.signer,
            lambda operations: self.kinds.missing_models(operations, self.models.resolve),
        )  # fmt: skip

    @part
    def runs(self) -> Runs:
        """The runs: `t.runs()` lists the newest; `get`, `events`, `resume`, `replay`."""
        from tract_jupyter.runs import Runs

        return Runs(
            self._repository, self.generation, lambda: self.engine, self.models, self.profiles,
            self.review.signer, lambda: self.loop, own_operations=lambda: self.operations.in_runs(),  # noqa: PLW0108 # created on use
        )  # fmt: skip


def _current_folder() -> Path | None:
    """Return the current folder; None if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
