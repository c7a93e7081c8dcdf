"""What a tract is made of, and what each part is given. A part is made, and imports what it needs, when first used."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tract_jupyter.models.commit import StatusInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.hooks.builtin.requests import HistoryRequests
    from tract_jupyter.hooks.builtin.tool_result import ToolResults
    from tract_jupyter.hooks.firing import Firing
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.llm.configured import ConfiguredLLM
    from tract_jupyter.llm.connections import Models
    from tract_jupyter.operations.handlers import Handlers
    from tract_jupyter.operations.hooks import Hooks
    from tract_jupyter.operations.lifecycle import Operations
    from tract_jupyter.review.review import Review
    from tract_jupyter.review.trust import Trust
    from tract_jupyter.runs.engine import RunEngine
    from tract_jupyter.runs.generation import Generation
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.service import Runs
    from tract_jupyter.runs.store import Profiles
    from tract_jupyter.sandbox.pool import SandboxPool
    from tract_jupyter.scripts.runner import Scripts
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.mcp.tools import McpTools
    from tract_jupyter.toolkit.policy import Policies
    from tract_jupyter.toolkit.stubs import ToolsModule
    from tract_jupyter.tract import Tract

    Makers = dict[str, Callable[[dict[str, Any]], Pending]]

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")
Returned = TypeVar("Returned")


class part(Generic[Made]):  # noqa: N801 # a decorator, as `property` is
    """A part that is made when first used. If several threads make it at once, all get the one that was kept first."""

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make = make
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
        made: Made = parts.__dict__.setdefault(self._name, self._make(parts))
        return made


def arguments_of(
    method: Callable[Concatenate[Any, Arguments], object],
) -> Callable[[Callable[..., Returned]], Callable[Concatenate[Any, Arguments], Returned]]:
    """Have a method take the arguments of another one, for type checkers, completers and `help`."""

    def give(other: Callable[..., Returned]) -> Callable[Concatenate[Any, Arguments], Returned]:
        result = signature(other).return_annotation
        other.__signature__ = signature(method).replace(return_annotation=result)  # type: ignore[attr-defined]
        return other

    return give


class Parts:
    """Makes the parts of a tract, and holds them.

    Args:
        tract: where their pendings belong.
        repository: its history.
        trust: signs and verifies approvals; the user's own if None.
    """

    def __init__(self, tract: Tract, repository: Repository, trust: Trust | None) -> None:
        self._tract = tract
        self._repository = repository
        self._trust = trust
        self._is_closed = False

    def close(self) -> None:
        """End the MCP servers and the processes of the sandbox, where there are any."""
        self._is_closed = True
        for name in ("sandboxes", "mcp"):
            if name in self.__dict__:
                getattr(self, name).close()

    def status(self) -> StatusInfo:
        """Return where the tract stands."""
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
        from tract_jupyter.hooks.builtin.stored import check_stored

        make = self._makers.get(operation)
        if make is None:
            return None
        check_stored(operation, fields)
        return make(fields)

    # --- deciding

    @part
    def review(self) -> Review:
        """What persons are asked, and what they decided."""
        from tract_jupyter.context.identity import store_id
        from tract_jupyter.review.review import Review
        from tract_jupyter.review.trust import Trust

        repository, trust = self._repository, self._trust or Trust()
        signer = trust.for_tract(store_id(repository.database), repository.tract_id)
        return Review(repository, trust, signer)

    @part
    def _routing(self) -> tuple[Firing, Handlers]:
        """What has pendings decided, with the stored handlers, which decide from the beginning."""
        from tract_jupyter.hooks.bus import HookBus, HookLog
        from tract_jupyter.hooks.firing import Firing
        from tract_jupyter.operations.handlers import Handlers
        from tract_jupyter.storage.journal import HookLogRows
        from tract_jupyter.storage.signed import HandlerRows

        repository, review = self._repository, self.review
        database, tract_id = repository.database, repository.tract_id
        bus = HookBus(HookLog(database, HookLogRows(tract_id)))
        handlers = Handlers(
            self._tract, database, HandlerRows(tract_id), repository.events, bus, review.signer
        )
        handlers.load()
        return Firing(bus, review.reviewer), handlers

    @property
    def firing(self) -> Firing:
        """What has pendings decided."""
        return self._routing[0]

    @part
    def operations(self) -> Operations:
        """The dynamic operations."""
        from tract_jupyter.operations.lifecycle import Operations
        from tract_jupyter.storage.signed import SpecRows

        repository, review = self._repository, self.review
        operations = Operations(
            self._tract, repository.database, SpecRows(repository.tract_id), repository.events, self.firing,
            review.ledger, review.grants, review.signer, self.restored, _load_built_in,
        )  # fmt: skip
        operations.load()
        return operations

    @part
    def hooks(self) -> Hooks:
        """The handlers."""
        from tract_jupyter.operations.hooks import Hooks

        return Hooks(self.firing, self.operations, self._routing[1])

    @part
    def history_requests(self) -> HistoryRequests:
        """Compresses, merges, rebases and collects garbage."""
        from tract_jupyter.hooks.builtin.requests import HistoryRequests

        return HistoryRequests(self._tract, self._repository, self.firing, self.llm)

    @part
    def tool_results(self) -> ToolResults:
        """Commits the answers of tools."""
        from tract_jupyter.hooks.builtin.tool_result import ToolResults

        return ToolResults(self._tract, self._repository, self.firing)

    @part
    def _makers(self) -> Makers:
        """One line for each kind of built-in operation that the store can hold."""
        from tract_jupyter.scripts.pendings import PendingScriptCall

        history = self.history_requests
        return {
            "gc": history.restored_gc,
            "compress": history.restored_compress,
            "merge": history.restored_merge,
            "rebase": history.restored_rebase,
            "generate": lambda fields: self.generation.restored(fields),  # noqa: PLW0108 # not before it is used
            "tool_result": self.tool_results.restored,
            "policy": lambda fields: self.policies.restored(fields),  # noqa: PLW0108
            "script_call": lambda fields: PendingScriptCall(
                fields, tract=self._tract, go_on=self.scripts.go_on_and_print
            ),
        }

    # --- tools and scripts

    @part
    def mcp(self) -> McpTools:
        """MCP servers and their tools."""
        from tract_jupyter.toolkit.mcp.tools import McpTools

        return McpTools()

    @part
    def executor(self) -> ToolExecutor:
        """The one way to run a tool."""
        from tract_jupyter.scripts.tools import script_tools
        from tract_jupyter.toolkit.context_tools import context_tools
        from tract_jupyter.toolkit.executor import ToolExecutor
        from tract_jupyter.toolkit.operation_tools import LiveTools, OperationTools, proposing_tools

        tract = self._tract
        live = LiveTools(OperationTools(self.operations, self.review.reviewer.decide_now), self.mcp)
        fixed = [*context_tools(tract), *proposing_tools(tract), *script_tools(tract, lambda: self.scripts)]
        return ToolExecutor(tract, fixed, live)

    @part
    def tools(self) -> ToolsModule:
        """Every tool as a Python function."""
        from tract_jupyter.toolkit.stubs import ToolBridge, ToolsModule

        return ToolsModule(ToolBridge(self.executor))

    @part
    def policies(self) -> Policies:
        """Does what policies want."""
        from tract_jupyter.toolkit.policy import Policies

        return Policies(self._tract, self.executor, self.firing)

    @part
    def sandboxes(self) -> SandboxPool:
        """The processes of the sandbox."""
        from tract_jupyter.sandbox.pool import SandboxPool

        pool = SandboxPool()
        if self._is_closed:
            pool.close()
        return pool

    @part
    def scripts(self) -> Scripts:
        """Runs scripts, and keeps their namespaces and results."""
        from functools import partial

        from tract_jupyter.scripts.call_log import StoredLog
        from tract_jupyter.scripts.runner import Scripts
        from tract_jupyter.storage.journal import ScriptCallRows

        database, events = self._repository.database, self._repository.events

        def record(data: dict[str, Any]) -> None:
            with database.write() as connection:
                events.append(connection, "script", f"script:{data['script_hash'][:12]}", data)

        rows = ScriptCallRows(self._repository.tract_id)
        stored_log = partial(StoredLog, database, rows, self.review.signer)
        return Scripts(lambda: self.tools, self.executor, self._tract, stored_log, record)

    # --- models and runs

    @part
    def llm(self) -> ConfiguredLLM:
        """The configured client, and its options by kind of request."""
        from tract_jupyter.llm.configured import ConfiguredLLM

        return ConfiguredLLM()

    @part
    def models(self) -> Models:
        """Models by name."""
        from tract_jupyter.llm.connections import Models

        return Models()

    @part
    def generation(self) -> Generation:
        """Asks the model for replies."""
        from tract_jupyter.runs.generation import Generation

        return Generation(
            self._tract, self._repository, self.firing, self.review.reviewer, self.llm, self.operations.rebuild,
            lambda question: self.runs.is_waiting(question),  # noqa: PLW0108 # the two need each other
        )  # fmt: skip

    @part
    def kinds(self) -> KindRegistry:
        """The kinds of operations of runs."""
        from tract_jupyter.runs.kinds.registry import KindRegistry

        return KindRegistry()

    @part
    def engine(self) -> RunEngine:
        """Carries runs out."""
        from tract_jupyter.runs.engine import RunEngine

        return RunEngine(
            self._tract, self._repository, self.generation, self.llm, self.models, lambda: self.executor,
            self.review.reviewer, self.kinds,
        )  # fmt: skip

    @part
    def profiles(self) -> Profiles:
        """The profiles of runs."""
        from tract_jupyter.runs.store import Profiles
        from tract_jupyter.storage.signed import RunProfileRows

        repository = self._repository
        return Profiles(
            repository.database, RunProfileRows(repository.tract_id), repository.events, self.review.signer,
            lambda operations: self.kinds.missing_models(operations, self.models.resolve),
        )  # fmt: skip

    @part
    def runs(self) -> Runs:
        """The runs."""
        from tract_jupyter.runs.service import Runs

        return Runs(
            self._repository, self.generation, lambda: self.engine, self.llm, lambda: self.models, self.profiles,
            self.review.signer,
        )  # fmt: skip


def _load_built_in() -> None:
    """Import the classes of all built-in operations, from the rooms that they live in."""
    for module in ("hooks.builtin.generation", "hooks.builtin.history", "hooks.builtin.tool_result",
                   "scripts.pendings", "toolkit.pendings", "toolkit.policy"):  # fmt: skip
        import_module(f"tract_jupyter.{module}")
