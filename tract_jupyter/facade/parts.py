"""What `Tract` is composed of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.context.commits import Commits
from tract_jupyter.context.compile import Compiler, CompileRecords
from tract_jupyter.context.identity import find_or_make_tract, store_id
from tract_jupyter.context.log import History
from tract_jupyter.context.refs import Refs, Tags
from tract_jupyter.context.timeline import Timelines
from tract_jupyter.context.tokens import Corrections, default_counter
from tract_jupyter.context.toolsets import Toolsets
from tract_jupyter.context.undo import Undo
from tract_jupyter.context.writer import Writer
from tract_jupyter.hooks.bus import HookBus, HookLog
from tract_jupyter.hooks.firing import Firing
from tract_jupyter.models.checks import check_budget
from tract_jupyter.models.content import ContentTypes
from tract_jupyter.operations.handlers import Handlers
from tract_jupyter.operations.lifecycle import Operations
from tract_jupyter.review.gate import Gate
from tract_jupyter.review.grants import Grants
from tract_jupyter.review.ledger import Ledger
from tract_jupyter.review.records import Proofs
from tract_jupyter.review.reviewer import Reviewer
from tract_jupyter.review.trust import Trust
from tract_jupyter.sandbox.pool import SandboxPool
from tract_jupyter.storage.commits import CommitRows
from tract_jupyter.storage.journal import CompileRows, EventRows, HookLogRows
from tract_jupyter.storage.questions import DecisionRows, PendingRows
from tract_jupyter.storage.refs import HEAD, ReflogRows, RefRows, TagRows
from tract_jupyter.storage.signed import GrantRows, HandlerRows, SpecRows
from tract_jupyter.toolkit.mcp.tools import McpTools

if TYPE_CHECKING:
    from tract_jupyter.models.config import TokenBudget
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.storage.database import Database


class Parts:
    """Builds the parts of a tract and holds them.

    Args:
        database: an open database.
        tract_id: which tract of it; the default one if left out.
        tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
        trust: signs and verifies approvals; the user's own by default.
        budget: how large the context may become.
        head_name: the ref that says which branch is the current one.
    """

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
        check_budget(budget)
        self._database = database
        self.tract_id = find_or_make_tract(database, tract_id)
        self._rows = CommitRows(self.tract_id)
        self._ref_rows = RefRows(self.tract_id, head_name)
        self._reflog = ReflogRows(self.tract_id)
        self._events = EventRows(self.tract_id)
        self._timelines = Timelines(database, self._rows)
        self._writer = Writer(
            database, self._rows, self._ref_rows, self._reflog, self._events, self._timelines
        )
        self._refs = Refs(database, self._ref_rows, self._rows, self._reflog)
        self._refs.on_move = self._writer.look_again
        self._undo = Undo(database, self._refs, self._ref_rows, self._reflog, self._rows)
        self._tags = Tags(database, TagRows(self.tract_id))
        self._toolsets = Toolsets(database, self._rows)
        self._writer.on_rollback = self._toolsets.keep_again
        self._types = ContentTypes()
        self._corrections = Corrections(database, self._events, tokenizer or default_counter())
        self._commits = Commits(
            database, self._rows, self._refs, self._timelines, self._writer, self._types, self._toolsets,
            self._corrections,
        )  # fmt: skip
        self._commits.budget = budget
        self._history = History(database, self._rows, self._refs, self._commits, self._tags, self._timelines)
        self._compiler = Compiler(
            self._timelines, self._toolsets, self._refs, self._max_tokens, self._corrections
        )
        self._compile_records = CompileRecords(database, CompileRows(self.tract_id), self._compiler)
        self.sandboxes = SandboxPool()
        self._make_operations(trust or Trust())
        self._mcp = McpTools()
        self._corrections.of()  # looks once, here, so that compile() and a budget ask the store for nothing more

    def _make_operations(self, trust: Trust) -> None:
        database, tract_id = self._database, self.tract_id
        self.trust = trust
        self.signer = trust.for_tract(store_id(database), tract_id)
        """What this user approves in this tract is signed for it, and counts nowhere else."""
        self._bus = HookBus(HookLog(database, HookLogRows(tract_id)))
        self.grants = Grants(database, GrantRows(tract_id), self.signer)
        proofs = Proofs(self.signer)
        ledger = Ledger(database, PendingRows(tract_id), DecisionRows(tract_id), self._events, proofs)
        self.gate = Gate(ledger, self.grants, self._learn)
        self.reviewer = Reviewer(ledger, self.gate, self.grants)
        self._firing = Firing(self._bus, self.reviewer)
        self.operations = Operations(
            self, database, SpecRows(tract_id), self._events, self._firing, ledger, self.grants, self.signer
        )
        self.operations.load()
        self.handlers = Handlers(self, database, HandlerRows(tract_id), self._events, self._bus, self.signer)
        self.handlers.load()

    def _learn(self, pending: Any, decision: Decision) -> None:
        """What follows from a decision."""

    def _max_tokens(self) -> int | None:
        budget = self._commits.budget
        return None if budget is None else budget.max_tokens
