"""One tract's commits, branches and tags, and the objects that read, write and rewrite them.

The constructor creates the objects for commits and compiled contexts. Properties create the others on first use, for
example the objects for merges and compressions.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tract_jupyter.context.commits import Commits
from tract_jupyter.context.compile import Compiler, CompileRecords
from tract_jupyter.context.files import Files
from tract_jupyter.context.identity import find_or_make_tract
from tract_jupyter.context.refs import Refs
from tract_jupyter.context.timeline import Timelines
from tract_jupyter.context.tokens import Corrections, checked_counter
from tract_jupyter.context.toolsets import Toolsets
from tract_jupyter.context.writer import Writer
from tract_jupyter.models import check_budget, check_limit, check_text, check_words
from tract_jupyter.storage import AGENT_HEAD, HEAD, CommitRows, EventRows, ReflogRows, RefRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.context.compress import Compressor
    from tract_jupyter.context.log import History
    from tract_jupyter.context.merge import Merge
    from tract_jupyter.context.rebase import Rebase
    from tract_jupyter.context.spawn import Family
    from tract_jupyter.context.tags import Tags
    from tract_jupyter.context.tool_turns import ToolTurns
    from tract_jupyter.context.undo import Undo
    from tract_jupyter.models import TokenBudget, TokenCounter
    from tract_jupyter.storage import Database, Event


class Repository:
    """The commits of one tract.

    Args:
        database: an open database.
        tract_id: a tract of the database; the default tract if omitted.
        tokenizer: counts tokens; tiktoken if its vocabulary is installed, else an estimate.
        budget: the size limit of the context.
        head_name: the ref that names the current branch.

    Raises:
        ContentError: the budget is not a `TokenBudget`.
        SessionError: invalid tract id.
    """

    def __init__(
        self,
        database: Database,
        *,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        budget: TokenBudget | None = None,
        head_name: str = HEAD,
    ) -> None:
        check_budget(budget)
        self.database = database
        self.tract_id = find_or_make_tract(database, tract_id)
        self.rows = CommitRows(self.tract_id)
        self.ref_rows = RefRows(self.tract_id, head_name)
        self.reflog_rows = ReflogRows(self.tract_id)
        self.events = EventRows(self.tract_id)
        self.timelines = Timelines(database, self.rows)
        self.writer = Writer(
            database, self.rows, self.ref_rows, self.reflog_rows, self.events, self.timelines
        )
        self.refs = Refs(database, self.ref_rows, self.rows, self.reflog_rows)
        self.refs.on_move = self.writer.forget_position
        self.toolsets = Toolsets(database, self.rows)
        self.corrections = Corrections(database, self.events, checked_counter(tokenizer))
        self.files = Files(database, self.rows)
        self.commits = Commits(self)
        self.commits.budget = budget
        self.compiler = Compiler(self)
        self.on_rewrite: Callable[[Sequence[str]], None] | None = None
        """Called with the commits of messages before they change, if the model would lose reasoning."""
        self.before_compile: Callable[[], None] | None = None
        """Called before `compile` returns the current context to the user's code."""
        self.corrections.of()  # fills its cache, so compile() and budgets need no query for it

    def before_rewrite(self, *commits: str) -> None:
        """Report the cost of a change of messages for the model, before the change."""
        if self.on_rewrite is not None and self.has_blocks:
            self.on_rewrite(commits)

    @property
    def agent_branch(self) -> str | None:
        """The branch, if the tract is open on one branch with its own HEAD."""
        name = self.ref_rows.head_name
        return name.removeprefix(AGENT_HEAD) if name.startswith(AGENT_HEAD) else None

    @property
    def agent_id(self) -> str:
        """The id of this tract, or of the agent on one of its branches."""
        from tract_jupyter.models import agent_id

        return agent_id(self.tract_id, self.agent_branch)

    @property
    def has_blocks(self) -> bool:
        """True if a reply in the current history has reasoning bound to earlier messages."""
        here = self.refs.position.commit_hash
        return here is not None and self.timelines.at(here).has_blocks

    @property
    def counter(self) -> TokenCounter:
        """Counts the tokens of this tract."""
        return self.commits.counter

    def max_tokens(self) -> int | None:
        """Return the budget's maximum number of tokens; None if there is no limit."""
        budget = self.commits.budget
        return None if budget is None else budget.max_tokens

    def newest_events(self, event_type: str | None, limit: int) -> list[Event]:
        """Return events, newest first; arguments as for `VersionedContext.events`."""
        limit = check_limit(limit)
        if event_type is not None:
            check_words(check_text(event_type, "event_type"))
        with self.database.read() as connection:
            return self.events.newest(connection, event_type, limit)

    # --- created on first use

    @cached_property
    def history(self) -> History:
        """Reads the history of branches, and finds commits in it."""
        from tract_jupyter.context.log import History

        return History(self)

    @cached_property
    def tags(self) -> Tags:
        """The tags of this tract and their descriptions."""
        from tract_jupyter.context.tags import Tags

        return Tags(self)

    @cached_property
    def compile_records(self) -> CompileRecords:
        """The contexts that were sent to a model."""
        return CompileRecords(self)

    @cached_property
    def undo(self) -> Undo:
        """Reverts and repeats operations on a branch."""
        from tract_jupyter.context.undo import Undo

        return Undo(self)

    @cached_property
    def family(self) -> Family:
        """The parents and children of this tract."""
        from tract_jupyter.context.spawn import Family

        return Family(self)

    @cached_property
    def merge(self) -> Merge:
        """Merges branches."""
        from tract_jupyter.context.merge import Merge

        return Merge(self)

    @cached_property
    def rebase(self) -> Rebase:
        """Rebases a branch onto another one."""
        from tract_jupyter.context.rebase import Rebase

        return Rebase(self)

    @cached_property
    def compressor(self) -> Compressor:
        """Replaces messages with summaries."""
        from tract_jupyter.context.compress import Compressor

        return Compressor(self)

    @cached_property
    def tool_turns(self) -> ToolTurns:
        """Finds, drops and shortens tool calls and their answers."""
        from tract_jupyter.context.tool_turns import ToolTurns

        return ToolTurns(self)
