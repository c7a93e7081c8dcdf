"""The parts of a tract, and what each is given. A part is made, and imports what it needs, when first used."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tract_jupyter.exceptions import StoreClosedError, StoreError, TractError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from tract_jupyter.agents import Agents
    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Account, Cassette, CassetteDeck, Models
    from tract_jupyter.loop import AnswerStore, Generation, ToolLoop
    from tract_jupyter.models import StatusInfo
    from tract_jupyter.operations import Handlers, Hooks, Operations, OperationSpec
    from tract_jupyter.orchestrator import TractOrchestrator
    from tract_jupyter.policy import Policies
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
        McpTools,
        ToolExecutor,
        ToolProfile,
        ToolsModule,
        Workspace,
    )
    from tract_jupyter.tract import Tract

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")
Returned = TypeVar("Returned")


class part(Generic[Made]):  # noqa: N801 # a decorator, as `property` is
    """A part that is made when first used. If several threads make it at once, all get the one that was kept first."""

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
        """Return the part, which takes this place on the object from now on."""
        if parts is None:
            return self
        made: Made = parts.__dict__.setdefault(self._name, self.make(parts))
        return made


def expose(declared: part[Made]) -> part[Made]:
    """Return a property of `Tract` for one of its parts, with the docstring and the type of the part.

    It is typed as the part, because type checkers would not see the type of a property that a function makes.
    """

    def get(tract: Tract) -> Made:
        made: Made = getattr(tract._parts, declared._name)  # noqa: SLF001 # `Parts` is the inside of a tract
        return made

    get.__doc__ = declared.__doc__
    get.__annotations__ = {"return": declared.make.__annotations__["return"]}
    return property(get)  # type: ignore[return-value]


def arguments_of(
    method: Callable[Concatenate[Any, Arguments], object], *, without: Collection[str] = ()
) -> Callable[[Callable[..., Returned]], Callable[Concatenate[Any, Arguments], Returned]]:
    """Give a method the signature of another one, and pass it all arguments by name, with their defaults.

    Args:
        method: declares the arguments.
        without: names of arguments that the decorated method does not take. Type checkers do not know about them, so
            such an argument raises a `TypeError` at run time.
    """
    declared = signature(method)
    parameters = [one for one in declared.parameters.values() if one.name not in without]
    accepted = declared.replace(parameters=parameters)
    options = next((one.name for one in parameters if one.kind is Parameter.VAR_KEYWORD), "")

    def decorate(other: Callable[..., Returned]) -> Callable[Concatenate[Any, Arguments], Returned]:
        @wraps(other)
        def call(*args: Any, **arguments: Any) -> Returned:
            for name in without:
                if name in arguments:
                    raise TypeError(
                        f"{other.__name__}() has no argument {name!r}, which {method.__name__}() has"
                    )
            bound = accepted.bind(*args, **arguments)
            bound.apply_defaults()
            more = bound.arguments.pop(options, {})
            return other(**bound.arguments, **more)

        annotation = signature(other).return_annotation
        call.__signature__ = accepted.replace(return_annotation=annotation)  # type: ignore[attr-defined]
        return call

    return decorate


class Parts:
    """Makes the parts of a tract, and holds them.

    Args:
        tract: where their pendings belong.
        repository: its history.
        trust: signs and verifies approvals; the user's own if None.
        account: gives the account of its session; one of its own if None.
        deck: gives the cassette of its session; one of its own if None.
        session: gives its session; one is made around it when it is needed if None.
        delegation: given its signed settings, gives how it stands below another tract; None if it stands below none.
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
        self._delegated = delegation
        self._tract = tract
        self._repository = repository
        self._trust = trust
        self._is_closed = False
        self._folder = _here()
        self._has_cassette = True
        self._has_policies: bool | None = None
        self._has_adopted: bool | None = None
        repository.writer.on_commits = self._committed
        repository.before_compile = self._compiling
        repository.tell_rewrite = lambda commits: self.costs.warn_of_rewrite(*commits)
        repository.files.open = lambda names: self.workspace.read(*names)

    def close(self) -> None:
        """End turns, the MCP servers and the processes of the sandbox, where there are any; and its own session."""
        self._is_closed = True
        for name in ("_own_agents", "orchestrator", "loop", "sandboxes", "mcp", "cassette"):
            if name in self.__dict__ and (name != "cassette" or self._has_cassette):
                getattr(self, name).close()
        if self._session is None and "session" in self.__dict__:
            self.session._tracts.close_others()  # noqa: SLF001 # the session was made around this tract

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
        made = type(self._tract)(
            SharedDatabase(repository.database), tract_id=tract_id, tokenizer=repository.counter, trust=self._trust,
            head_name=AGENT_HEAD + branch, account=lambda: self.models.spending.account,
            session=lambda: self.session.joined_by(made),
            delegation=None if granted is None else lambda _: self._delegated_to(granted, actor),
        )  # fmt: skip
        made._parts.__dict__["cassette"] = self.cassette  # noqa: SLF001 # its own class
        made._parts._has_cassette = False  # noqa: SLF001 # the same
        made._parts._folder = self.workspace.default  # noqa: SLF001 # the same
        made.models.choose_like(self.models)
        return made

    def _delegated_to(self, granted: ToolProfile, actor: str) -> Delegation:
        from tract_jupyter.toolkit import Delegation

        def this() -> Tract:
            self.check_open()
            return self._tract

        return Delegation(this, granted, actor)

    def check_open(self) -> None:
        """Check that the tract was not closed.

        Raises:
            StoreClosedError: it was.
        """
        if self._is_closed or self._repository.database.is_closed:
            name = self._repository.agent_id
            raise StoreClosedError(f"the tract {name} above this one was closed; open it again")

    @part
    def delegation(self) -> Delegation | None:
        """How it stands below another tract; None if it stands below none."""
        return None if self._delegated is None else self._delegated(self.settings)

    @part
    def session(self) -> Session:
        """The session of this store: `spawn` and `deploy` make children, `collapse` takes up what they found out.

        A tract that a `Session` made is one of that. Any other one gets a session around it, which shares its account
        and its cassettes: closing either closes both.
        """
        from tract_jupyter.session import Session

        if self._session is not None:
            return self._session()
        repository = self._repository
        return Session(
            repository.database, tokenizer=repository.counter, trust=self._trust, around=self._tract
        )

    def status(self) -> StatusInfo:
        """Return where the tract stands."""
        from tract_jupyter.models import StatusInfo

        repository, here = self._repository, self._repository.refs.position
        source = repository.history.token_source(here)
        return StatusInfo(
            tract_id=repository.tract_id,
            location=repository.database.location,
            branch=here.branch or "(detached)",
            head=here.commit_hash,
            commit_count=here.generation + 1,
            message_count=here.context_messages,
            token_count=repository.corrections.tokens(here.context_tokens, source),
            token_source=source,
            corrected_by=repository.corrections.of(source),
            operations=tuple(sorted(self.operations.registry.operation_names)),
            waiting=self.review.ledger.count_waiting(),
            quarantined=tuple(sorted(self.operations.quarantined)),
            quarantined_handlers=tuple(sorted(map("/".join, self.hooks.saved.quarantined))),
            is_detached=here.branch is None,
            max_tokens=repository.max_tokens(),
        )

    def restored(self, operation: str, fields: dict[str, Any]) -> Pending | None:
        """Make the pending of a built-in operation again from what is stored; None if there is no such operation.

        What a caller's own function did (write summaries, settle conflicts, validate) is not stored: such a pending
        can be decided and changed by hand, and made again only where the tract itself can do it.

        Args:
            operation: its name.
            fields: as the store has them.

        Raises:
            PendingError: these are no fields of it.
        """
        from tract_jupyter.review.builtin import BUILT_IN, check_stored

        about = BUILT_IN.get(operation)
        if about is None:
            return None
        check_stored(operation, fields)
        pending: Pending = attrgetter(about.restored)(self)(fields)
        return pending

    def restored_call(self, fields: dict[str, Any]) -> Pending:
        """Make the pending of a script's call again, from what is stored of it: also of a script of a tract below."""
        from tract_jupyter.scripts import PendingScriptCall

        below = fields["script"]["tract"]

        def acts_in() -> Tract:
            return self.session.get_tract(below) if below else self._tract

        return PendingScriptCall(
            fields,
            tract=self._tract,
            acts_in=acts_in,
            go_on=lambda decided: acts_in().scripts.go_on_and_print(decided),  # noqa: PLW0108 # the tract is opened then
        )

    # --- deciding

    @part
    def review(self) -> Review:
        """The questions to persons and their decisions: inbox, decisions, grants, trust."""
        from tract_jupyter.review import Review, Trust

        repository, trust = self._repository, self._trust or Trust()
        signer = trust.for_tract(repository.database.store_id, repository.tract_id)
        return Review(repository, trust, signer)

    @part
    def _routing(self) -> tuple[Firing, Handlers]:
        """The part that has pendings decided, with the stored handlers, which decide from the beginning."""
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
        """The part that has pendings decided."""
        return self._routing[0]

    @part
    def operations(self) -> Operations:
        """The dynamic operations: `propose`, `revoke`, the registry, what is quarantined."""
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
        """The handlers: `list`, `log`; for stored ones `save_handler`, `propose_handler`, `revoke_handler`, ..."""
        from tract_jupyter.operations import Hooks

        return Hooks(self.firing, self.operations, self._routing[1])

    @part
    def history_verbs(self) -> HistoryVerbs:
        """Compresses, merges, rebases and collects garbage."""
        from tract_jupyter.review.builtin import HistoryVerbs

        return HistoryVerbs(self._tract, self._repository, self.firing, self.models, self._told_rewrite)

    def _told_rewrite(self, commits: Sequence[str]) -> str:
        """Return what it takes from a model if these messages change; empty if nothing."""
        cost = self.costs.of_rewrite(*commits) if commits else None
        return str(cost) if cost else ""

    @part
    def tool_results(self) -> ToolResults:
        """Answers of tools made smaller: `compress` afterwards, `configure_summarization` before they are committed."""
        from tract_jupyter.review.builtin import ToolResults

        return ToolResults(self._tract, self._repository, self.firing, self.models)

    # --- tools and scripts

    @part
    def mcp(self) -> McpTools:
        """The MCP servers whose tools are used here: `add`, `remove`, `servers`, `problems`."""
        from tract_jupyter.toolkit import McpTools

        return McpTools(
            lambda name: self.executor.check_namespace(name)  # noqa: PLW0108 # the two need each other
        )

    @part
    def executor(self) -> ToolExecutor:
        """The one way to run a tool: its permissions, its locks."""
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
                lambda profile, told: self.scripts.count_search(profile, told),  # noqa: PLW0108 # the two need each other
            ),
        ]
        own_operations = OperationTools(operations, reviewer.decide_now)
        stands = self.delegation
        if stands is None:
            fixed += proposing_tools(operations, reviewer)
            fixed += agent_tools(lambda: self.agents)
            live = LiveTools(own_operations, self.mcp, AgentFunctions(self._agents_there))
        elif self._repository.agent_branch:
            # an agent on a branch of its parent's tract has the same operations, which the parent's executor has
            live = LiveTools(self.mcp)
        else:
            live = LiveTools(own_operations, self.mcp)
        return ToolExecutor(
            tract, reviewer, operations.unguarded, fixed, live, cassette=self.cassette, delegation=stands
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

        from tract_jupyter.policy import Policies, PolicyEvaluator, PolicyStore, Watch
        from tract_jupyter.storage import PendingRows, PolicyRows
        from tract_jupyter.toolkit import PolicyCalls

        repository = self._repository
        store = PolicyStore(
            repository.database, PolicyRows(repository.tract_id), repository.events, self.review.signer
        )
        evaluator = PolicyEvaluator(
            self._tract, repository, store, PendingRows(repository.tract_id),
            PolicyCalls(self._tract, self.executor, self.firing), lambda: self.autonomy,
            Watch(repository, lambda: datetime.now(UTC)),
            lambda reason, level: self.orchestrator.run(reason, level),  # noqa: PLW0108 # made when it is needed
            unfinished=lambda: self.orchestrator.unfinished(),  # noqa: PLW0108 # the same
        )  # fmt: skip
        self._has_policies = True
        return Policies(evaluator)

    # --- the moments of policies

    def _policies_there(self) -> Policies | None:
        """Return the policies, if this tract has any. A process without them looks once, and after each turn."""
        if self._has_policies is None:
            from tract_jupyter.storage import PolicyRows

            try:
                with self._repository.database.read() as connection:
                    self._has_policies = PolicyRows(self._repository.tract_id).any(connection)
            except StoreError:  # a commit that is made already does not fail for that
                self._has_policies = False
        return self.policies if self._has_policies else None

    def _committed(self, entries: Sequence[Entry] | None) -> None:
        if self._has_policies is not False:
            policies = self._policies_there()
            if policies is not None:
                policies.evaluator.committed(entries)

    def _operation_changed(self, name: str, spec: OperationSpec | None) -> None:
        """Have an operation fire by itself as its active version says."""
        fires = spec is not None and spec.fires_on is not None and not spec.fires_in_runs
        if fires or self._policies_there() is not None:
            from tract_jupyter.policy import follow

            follow(self.policies, name, spec)

    def _compiling(self) -> None:
        if self._has_policies is not False:
            policies = self._policies_there()
            if policies is not None:
                policies.evaluator.compiling()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have a turn be under way: it can be stopped, and policies are looked at when it has ended."""
        if self._has_policies is False:
            self._has_policies = None  # another process may have added some
        policies = self._policies_there()
        if policies is None:
            with self.loop.under_way():
                yield
            return
        policies.evaluator.hold()
        try:
            with self.loop.under_way():
                yield
        finally:
            policies.evaluator.release()

    @part
    def settings(self) -> Settings:
        """What is said about the tract, and signed."""
        from tract_jupyter.review import Settings
        from tract_jupyter.storage import SettingRows

        repository = self._repository
        rows = SettingRows(repository.tract_id)
        return Settings(repository.database, rows, repository.events, self.review.signer)

    @part
    def autonomy(self) -> Autonomy:
        """How much of what policies and orchestrators want happens without a person: `ceiling`, ..."""
        from tract_jupyter.toolkit import Autonomy

        def above() -> Autonomy | None:
            stands = self.delegation
            found: Autonomy | None = None if stands is None else stands.parent().autonomy
            return found

        return Autonomy(self.settings, lambda: self.executor, above)

    @part
    def workspace(self) -> Workspace:
        """The folders whose files may be attached to messages: `roots`, `read`."""
        from tract_jupyter.review import Settings
        from tract_jupyter.storage import EventRows, SettingRows
        from tract_jupyter.toolkit import Workspace

        repository, trust = self._repository, self.review.trust
        database = repository.database

        def above() -> Iterator[Settings]:
            for tract_id in repository.family.ancestors():
                signer = trust.for_tract(database.store_id, tract_id)
                yield Settings(database, SettingRows(tract_id), EventRows(tract_id), signer)

        return Workspace(self.settings, above, self._folder, lambda: self.executor)

    @part
    def orchestrator(self) -> TractOrchestrator:
        """The model that looks after this context: `config`, `run`, `stop`, `pause`, `resume`, `state`, `runs`."""
        from tract_jupyter.orchestrator import TractOrchestrator

        return TractOrchestrator(self._tract, self.settings)

    @property
    def agents(self) -> Agents:
        """The agents that are made while the notebook runs: of the tract at the top."""
        stands = self.delegation
        if stands is None:
            return self._own_agents
        above: Agents = stands.parent().agents
        return above

    def _agents_there(self) -> Agents | None:
        """Return the agents of this tract, if it has any: made in this session, or adopted in an earlier one."""
        if "_own_agents" not in self.__dict__ and self._has_adopted is None:
            from tract_jupyter.storage import SettingRows

            with self._repository.database.read() as connection:
                kept = [row.name for row in SettingRows(self._repository.tract_id).all(connection)]
            self._has_adopted = any(name.startswith("agent:") and name.endswith(":") for name in kept)
        return self._own_agents if self._has_adopted or "_own_agents" in self.__dict__ else None

    @part
    def _own_agents(self) -> Agents:
        from pathlib import Path

        from tract_jupyter.agents import Agents
        from tract_jupyter.storage import MEMORY

        database = self._repository.database
        is_file = "://" not in database.location and database.location != MEMORY
        store = Path(database.location).absolute().parent / "agents" if is_file else None
        whose = self._repository.agent_id
        return Agents(self._tract, self.settings, whose, store)

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
            stored_log=stored_log, record=record, count_tokens=counted,
        )  # fmt: skip

    # --- models and runs

    @part
    def cassette(self) -> Cassette:
        """The traffic with models and tools: `record` it to a file, `replay` it from there, `stop`."""
        from tract_jupyter import __version__
        from tract_jupyter.llm import Cassette, CassetteDeck, CassettePlace
        from tract_jupyter.storage import now_text

        def place() -> CassettePlace:
            here = self._repository.refs.position
            return CassettePlace(self._repository.tract_id, here.branch, here.commit_hash)

        def set_clock(time_of: Callable[[str], str] | None) -> None:
            self._repository.database.clock.time_of = time_of

        return Cassette(
            self._repository.agent_id,
            CassetteDeck() if self._deck is None else self._deck(),
            place,
            lambda: self.models.secrets(),  # noqa: PLW0108 # the two need each other
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
        made = Models(Spending(counted, account), self.cassette, read)
        made.follows = self._models_above
        return made

    def _models_above(self) -> Models | None:
        """Return the models of the tract above; None if there is no tract above, or not any more."""
        stands = self.delegation
        try:
            return None if stands is None else stands.parent().models
        except TractError:
            return None

    @part
    def costs(self) -> Costs:
        """What requests to models have used and cost: `t.costs()` for this session; `turns`, `set_budget`."""
        from tract_jupyter.runs import Costs

        return Costs(self._repository, self.models)

    @part
    def generation(self) -> Generation:
        """Asks the model for replies."""
        from tract_jupyter.loop import Generation

        return Generation(
            self._tract, self._repository, self.firing, self.review.reviewer, self.models,
            lambda stored: self.operations.rebuild(stored),  # noqa: PLW0108 # they are made when one is found
            lambda question: self.runs.is_waiting(question),  # noqa: PLW0108 # the two need each other
            lambda: self._answers.journal,
        )  # fmt: skip

    @part
    def loop(self) -> ToolLoop:
        """The tool loop of `chat` and `generate`: what a model may call, what a turn may take; `stop`, `pause`."""
        from tract_jupyter.loop import ToolLoop, TurnStore

        return ToolLoop(
            lambda: self.executor, lambda: self._asking, self.generation, TurnStore(self._repository),
            lambda: self._answers,
            lambda profile, query: self.scripts.get_system_instructions(profile=profile, query=query),
            lambda: self.cassette,
        )  # fmt: skip

    @property
    def _asking(self) -> Review:
        """Where the questions about its calls are: of the tract at the top, if that is there."""
        stands = self.delegation
        try:
            above: Tract | None = None if stands is None else stands.parent()
        except TractError:
            above = None
        return self.review if above is None else above._parts._asking  # noqa: SLF001 # its own class

    @part
    def _answers(self) -> AnswerStore:
        """Where the answers of a model's calls are kept."""
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
        """Carries runs out."""
        from tract_jupyter.runs import RunEngine

        return RunEngine(
            self._tract, self._repository, self.generation, self.models, lambda: self.executor,
            self.kinds,
        )  # fmt: skip

    @part
    def profiles(self) -> Profiles:
        """The profiles of this tract: which operations its runs have."""
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
            self.review.signer, lambda: self.loop, own_operations=lambda: self.operations.in_runs(),  # noqa: PLW0108 # made when it is needed
        )  # fmt: skip


def _here() -> Path | None:
    """Return the current folder; None where it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
