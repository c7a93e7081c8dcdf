"""`Session`: several tracts in one store, and several agents at work on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from uuid import uuid4

from tract_jupyter.context import (
    DEFAULT_NAME,
    MAX_RETRIES,
    Source,
    checked_counter,
    first_line,
    make_tract,
    summarizer_for,
    writer_options,
)
from tract_jupyter.exceptions import (
    AmbiguousPrefixError,
    CommitNotFoundError,
    CompressionError,
    SessionError,
    TractExistsError,
)
from tract_jupyter.models import (
    CollapseResult,
    CompressGroup,
    Curation,
    Inheritance,
    agent_id,
    brief_repr,
    check_budget,
    check_limit,
    check_text,
    repr_of_whole,
    text_of,
)
from tract_jupyter.open_tracts import OpenTracts
from tract_jupyter.storage import (
    MEMORY,
    Database,
    RefRows,
    TractRows,
    triggered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime
    from pathlib import Path

    from pydantic import BaseModel

    from tract_jupyter.context import Family
    from tract_jupyter.models import (
        CommitInfo,
        CompiledContext,
        Summarizer,
        TimelineEntry,
        TokenBudget,
        TokenCounter,
        TractInfo,
        Validator,
    )
    from tract_jupyter.review import Trust
    from tract_jupyter.storage import Entry
    from tract_jupyter.toolkit import ToolProfile
    from tract_jupyter.tract import Tract


_NAME_LENGTH = 255  # the column's width
_PREFIX = re.compile("[0-9a-f]{4,}")  # shorter ones are too often ambiguous


class Session:
    """The tracts of one store, opened by `Session.open`: one database, one account of costs. Threads may share it.

    Args:
        database: an open database.
        tokenizer: counts the tokens of all tracts; tiktoken if its vocabulary is at hand, else an estimate.
        trust: signs and verifies approvals; the user's own by default.
        around: an open tract that it is made around: one of its tracts, whose account and cassettes it shares.
    """

    def __init__(
        self,
        database: Database,
        *,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
        around: Tract | None = None,
    ) -> None:
        self._database = database
        self._rows = TractRows()
        self._tracts = OpenTracts(self, database, checked_counter(tokenizer), trust, around)

    @classmethod
    def open(
        cls,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
        lock_timeout: float = 5.0,
    ) -> Self:
        """Open a store, or make it. A new one has no tracts yet.

        Args:
            path: an SQLite file; `:memory:` keeps nothing.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.

        Raises:
            StoreError: locked, read-only, corrupt, or from a newer version; the subclass tells.
        """
        return cls(Database(path, url=url, lock_timeout=lock_timeout), tokenizer=tokenizer, trust=trust)

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return self._database.location

    def create_tract(
        self,
        *,
        display_name: str = DEFAULT_NAME,
        tract_id: str | None = None,
        budget: TokenBudget | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
    ) -> Tract:
        """Make an empty tract.

        Args:
            display_name: what people call it; need not be unique.
            tract_id: 1 to 32 letters, digits, `_`, `-` or `.`; made up if left out.
            budget: how large its context may become; not stored.
            record: a cassette for all traffic of the session; see `Tract.cassette.record`.
            replay: a cassette to replay. The tract gets the id of the recorded one, and so the same commits; see
                `Tract.cassette.replay`.

        Raises:
            TractExistsError: the id is taken.
            SessionError: no tract can have that id, or that name.
            ContentError: the budget is no `TokenBudget`.
            CassetteError: the cassette cannot be recorded or replayed, or both are asked for; no tract was made.
        """
        self._tracts.check_open()
        check_budget(budget)
        if replay is not None:
            from tract_jupyter.llm import recorded_tract_id

            tract_id = recorded_tract_id(replay, tract_id, record)
        wanted = uuid4().hex if tract_id is None else tract_id
        with self._database.write() as connection:
            if isinstance(wanted, str) and RefRows(wanted).was_made(connection):
                raise TractExistsError(f"there is a tract {wanted!r} already; get_tract opens it")
            make_tract(connection, wanted, checked_name(display_name))
            opened = self._tracts.open(wanted)
            self._tracts.made(opened)
            if record is not None:
                opened.tract.cassette.record(record)
            if replay is not None:
                opened.tract.cassette.replay(replay)
        opened.tract.budget = budget
        return self._tracts.keep(opened)

    def get_tract(self, tract_id: str) -> Tract:
        """A tract by its id, or the agent that was deployed on a branch of it by `tract:branch`.

        The same object for each call, until it is released or closed.

        Raises:
            UnknownTractError: there is none.
        """
        return self._tracts.get(tract_id)

    def release_tract(self, tract_id: str) -> None:
        """Close one tract, or agent, of this session; nothing in the store changes. A second call does nothing.

        Raises:
            UnknownTractError: there is no such tract.
        """
        self._tracts.release(tract_id)

    def list_tracts(self) -> list[TractInfo]:
        """All tracts of the store and where they stand, oldest first. Agents on branches are `children()` of one."""
        self._tracts.check_open()
        with self._database.read() as connection:
            return self._rows.all(connection)

    def resume(self) -> Tract:
        """Return the tract that was worked on last, or whose child was; the newest tract if nobody has committed yet.

        Raises:
            SessionError: the store has no tracts.
        """
        self._tracts.check_open()
        with self._database.read() as connection:
            newest = self._rows.last_worked_on(connection)
        if newest is None:
            raise SessionError(
                f"{self.location} has no tracts yet: nothing to resume; create_tract makes one"
            )
        return self.get_tract(newest)

    def timeline(self, limit: int = 100) -> list[TimelineEntry]:
        """The newest commits and events of all tracts, newest first.

        Raises:
            SessionError: the limit is no whole number.
        """
        self._tracts.check_open()
        limit = check_limit(limit, error=SessionError)
        with self._database.read() as connection:
            return self._rows.newest(connection, limit) if limit else []

    def search(self, term: str, tract_id: str | None = None, *, limit: int = 100) -> list[CommitInfo]:
        """The newest messages and edits whose text, or line in the log, contains a term, in any case.

        Args:
            term: what to look for.
            tract_id: in this tract only; in all if left out.
            limit: how many at most.

        Raises:
            UnknownTractError: there is no such tract.
            SessionError: the term is empty or no text, or the limit no whole number.
        """
        self._tracts.check_open()
        limit = check_limit(limit, error=SessionError)
        needle = check_text(term, "term", error=SessionError).casefold()
        if not needle.strip():
            raise SessionError("search needs a term, as it would find everything without one")
        found: list[CommitInfo] = []
        with self._database.read() as connection:
            within = None if tract_id is None else self._tracts.find(connection, tract_id)[0]
            for entry in self._rows.contents(connection, within):
                if len(found) >= limit:
                    break
                if needle in entry.message.casefold() or needle in text_of(entry.content).casefold():
                    found.append(entry.info(entry.starting_priority()))
        return found

    def compile_at(
        self, tract_id: str, *, at_time: datetime | None = None, at_commit: str | None = None
    ) -> CompiledContext:
        """The context of a tract as it was at a time or a commit; as it is now if neither is given.

        Raises:
            UnknownTractError: there is no such tract.
            CommitNotFoundError: `at_commit` names nothing.
            ContentError: both are given, or the time is not valid.
        """
        return self.get_tract(tract_id).compile(at_time=at_time, at_commit=at_commit)

    # --- agents

    def spawn(
        self,
        parent: Tract,
        *,
        purpose: str,
        inheritance: Inheritance | Literal["head_snapshot", "full_clone", "selective"] = "head_snapshot",
        select: Callable[[CommitInfo], object] | Collection[str] | None = None,
        display_name: str | None = None,
        max_tokens: int | None = None,
        granted: ToolProfile | str | None = None,
    ) -> Tract:
        """Make a tract for a child, which starts with what it inherits. The parent stays as it is.

        A clone has every message with its edits, annotations and tags, in the order of the context: merges are
        flattened, as what they brought stands in their place. A snapshot is one instruction. The tools in effect at the
        parent's HEAD stay in effect. The child asks the models that its parent asks, until it is told otherwise.

        Its tools are its parent's, with their locks and permission; those that act on a context act on the child's. A
        person is asked about its calls in the inbox of the tract at the top.

        Args:
            parent: a tract of this session, or an agent.
            purpose: what the child is for.
            inheritance: `head_snapshot`, `full_clone`, or `selective`.
            select: for `selective`, a function that is given each message's commit, or a list of tags and commits.
                A name that is a tag stands for all messages with it.
            display_name: what people call the child; its purpose if left out.
            max_tokens: how long a snapshot's text may be; the oldest messages are left out, pinned ones last.
            granted: which of the parent's tools the child may call at all, as a profile or its name; all if left out.
                It is signed, and remembered with the child.

        Raises:
            SessionError: the parent is empty or not of this session, or options do not go together; nothing was made.
            CommitNotFoundError: `select` names what is neither a tag nor a message.
            ContentError: there is no such profile.
            TrustError: what is granted cannot be signed.
        """
        from tract_jupyter.toolkit import rights_of

        parent = self._tracts.check(parent)
        rights = rights_of(granted)
        inherited = parent.family.prepare_inheritance(Inheritance(inheritance), select, max_tokens)
        name = checked_name(first_line(_checked_purpose(purpose)) if display_name is None else display_name)
        given = {
            "purpose": purpose, "display_name": name, "inheritance": inherited.inheritance.value,
            "select": sorted(select) if isinstance(select, set | frozenset) else select, "max_tokens": max_tokens,
            **({} if rights is None else {"granted": rights.to_dict()}),
        }  # fmt: skip
        child_id = parent.cassette.draw_id(given, lambda: uuid4().hex)
        with self._database.write() as connection:
            self._tracts.check_new(connection, child_id)
            make_tract(connection, child_id, name)
            opened = self._tracts.open(child_id)
            opened.tract.family.inherit(inherited, purpose)
            _delegate(parent, opened.tract, rights)
            self._tracts.made(opened)
        opened.tract.models.choose_like(parent.models, if_lent=True)
        return self._tracts.keep(opened)

    def deploy(
        self,
        parent: Tract,
        *,
        purpose: str,
        branch_name: str,
        curate: Curation | Mapping[str, Any] | None = None,
        granted: ToolProfile | str | None = None,
    ) -> Tract:
        """Put an agent on a new branch of the parent's tract, with a HEAD of its own; both can work at the same time.

        The parent gets what the agent found out with `collapse`. To take over the agent's whole context, with its
        curation, `switch` the parent to the agent's branch, or `reset` the parent's branch to it. A `merge` of the
        branch joins both histories: what `compact_before` and `reorder` wrote anew would stand beside its originals.
        Deleting the branch dismisses the agent. It asks the models that its parent asks, until told otherwise, and has
        its parent's tools, as of `spawn`.

        Args:
            parent: a tract of this session, or an agent.
            purpose: what the agent is for.
            branch_name: a new branch, at the parent's HEAD.
            curate: how the agent's context is made smaller. It happens on the agent's branch alone.
            granted: which of the parent's tools it may call at all; see `spawn`.

        Raises:
            BranchExistsError: there is such a branch.
            SessionError: the parent is empty or not of this session, or the curation cannot be done; nothing was made.
            ContentError: there is no such profile.
            TrustError: what is granted cannot be signed.
        """
        from tract_jupyter.toolkit import rights_of

        parent = self._tracts.check(parent)
        rights = rights_of(granted)
        curation = Curation.of(curate)
        purpose = _checked_purpose(purpose)
        with self._database.write():
            parent.family.branch_off(branch_name, purpose)
            opened = self._tracts.open(parent.tract_id, branch_name)
            opened.tract.family.curate(curation)
            _delegate(parent, opened.tract, rights)
            self._tracts.made(opened)
        opened.tract.models.choose_like(parent.models, if_lent=True)
        return self._tracts.keep(opened)

    def collapse(
        self,
        child: Tract,
        into: Tract,
        *,
        content: str | dict[str, Any] | BaseModel | None = None,
        summarizer: Summarizer | None = None,
        instructions: str | None = None,
        target_tokens: int | None = None,
        validator: Validator | None = None,
        max_retries: int = MAX_RETRIES,
        token_tolerance: int | None = None,
        system_prompt: str | None = None,
        message: str | None = None,
        triggered_by: str | None = None,
    ) -> CollapseResult:
        """Commit what a child found out to another tract, which is usually its parent. The child stays as it is.

        Args:
            child: a tract or agent with commits.
            into: the tract or agent that gets the outcome, on its current branch.
            content: the outcome, as a text or a content; a text becomes an `output`.
            summarizer: writes it instead, from the child's messages. The model that `into` or the child has configured,
                if neither is given.
            instructions: what the summarizer is told.
            target_tokens: how long its text should be; this and the four after it as for `Tract.compress`.
            validator: says what is wrong with it.
            max_retries: how often it is written again at most.
            token_tolerance: tokens over the target that are still good.
            system_prompt: what the configured model is told about its task, instead of the usual words.
            message: one line for the log.
            triggered_by: what set it off, for the log.

        Raises:
            SessionError: a tract into itself, an empty child, no outcome, or none that is good; nothing was changed.
            CompressionError: a number or the validator is not valid; nothing was changed.
            ContentError: the outcome is no valid content.
            DetachedHeadError: `into` has no current branch.
        """
        child, into = self._tracts.check(child), self._tracts.check(into)
        if child.family.agent_id == into.family.agent_id:
            raise SessionError("a tract cannot collapse into itself; give its parent, or another tract")
        context = child.compile()
        if context.head is None:
            raise SessionError(f"{child.family.agent_id} has no commits yet: nothing to collapse")
        clients = (tract.models.available("compress") for tract in (into, child))
        writer = summarizer_for(next(filter(None, clients), None), content, summarizer, system_prompt)
        _check_outcome(content, writer)
        given = content if content is not None else _write_outcome(context, Source(
            None, writer, target_tokens, instructions, validator, token_tolerance, max_retries,
            into.tokenizer.count_text,
        ))  # fmt: skip
        options = writer_options(given, _origin_metadata(child.family, context))
        with into.batch(), triggered(triggered_by):
            commit = into.commit(_as_content(given), message=message, **options)
            into.family.note("collapse", {"child": child.family.agent_id, "commit": commit.commit_hash})
        return CollapseResult(commit, child.family.agent_id, context.head, context.token_count)

    def get_child_tract(self, collapse_hash: str) -> Tract:
        """The child whose outcome a commit is.

        Args:
            collapse_hash: the commit's hash, or its first 4 or more digits, in any tract.

        Raises:
            CommitNotFoundError: there is no such commit, or it is no outcome of a child.
            UnknownTractError: the child is gone.
        """
        self._tracts.check_open()
        source = _source_of(self._commit(collapse_hash).metadata)
        if source is None:
            raise CommitNotFoundError(
                f"{collapse_hash[:8]} is not the outcome of a child; collapse() makes those"
            )
        return self._tracts.get(agent_id(*source))

    def _commit(self, name: str) -> Entry:
        found = []
        if isinstance(name, str) and _PREFIX.fullmatch(name):
            with self._database.read() as connection:
                found = self._rows.starting_with(connection, name)
        if len(found) > 1:
            raise AmbiguousPrefixError(f"several commits begin with {name!r}; give more digits")
        if not found:
            raise CommitNotFoundError(f"no commit of any tract is called {name!r}; give a hash from log()")
        return found[0]

    # ---

    def joined_by(self, tract: Tract) -> Self:
        """Have a tract be one of this session's, which was opened beside one of them; return the session."""
        self._tracts.join(tract)
        return self

    def close(self) -> None:
        """Close the store with all its tracts. A second call does nothing."""
        self._tracts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<Session on {self.location}>"


def checked_name(name: str) -> str:
    """Return the name of a tract or an agent, if it is one.

    Raises:
        SessionError: it is no text, empty, or too long for the store.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > _NAME_LENGTH or "\0" in name:
        raise SessionError(f"{str(name)[:40]!r} is no name; use a text of 1 to {_NAME_LENGTH} characters")
    return name


def _checked_purpose(purpose: str) -> str:
    if not isinstance(purpose, str) or not purpose.strip() or "\0" in purpose:
        raise SessionError(f"purpose says in words what the child is for, not {purpose!r}")
    return purpose


def _delegate(parent: Tract, child: Tract, granted: ToolProfile | None) -> None:
    """Remember with a child whose it is, and what it may call."""
    from tract_jupyter.toolkit import Remembered, child_actor

    stands = parent._parts.delegation  # noqa: SLF001 # tracts and sessions are made for each other
    family = child.family
    actor = child_actor("" if stands is None else stands.actor, family.tract_id, family.branch)
    remembered = Remembered(family.agent_id, parent.family.agent_id, granted, actor)
    remembered.save(child._parts.settings)  # noqa: SLF001 # the same


_TRACT, _HEAD, _BRANCH = "collapse_source_tract_id", "collapse_source_head", "collapse_source_branch"


class Origin(NamedTuple):
    """The child that a commit came from."""

    tract_id: str
    branch: str | None


def _check_outcome(content: object, summarizer: Summarizer | None) -> None:
    """Check that there is one way to the child's outcome.

    Raises:
        SessionError: there is none, both are given, or the summarizer is no function.
    """
    if (content is None) == (summarizer is None):
        raise SessionError(
            "a collapse needs what the child found out: give content, or a summarizer, not both; or configure a model, "
            "which writes it"
        )
    if not (summarizer is None or callable(summarizer)):
        raise SessionError(
            f"a summarizer is a function that writes the outcome, not {brief_repr(summarizer)}"
        )


def _write_outcome(context: CompiledContext, source: Source) -> str:
    """Have the outcome of a child written, from all that it said.

    Raises:
        SessionError: no text was good; nothing was changed.
    """
    group = CompressGroup((context.head or "",), tuple(context.messages))
    try:
        return source.texts([group])[0]
    except CompressionError as error:
        raise SessionError(f"the outcome of the child is empty, or not good: {error}") from error


def _as_content(given: str | dict[str, Any] | BaseModel) -> dict[str, Any] | BaseModel:
    """Return the outcome as a content; a text becomes an output.

    Raises:
        SessionError: it is empty.
    """
    if isinstance(given, str) and not given.strip():
        raise SessionError("the outcome of the child is empty; nothing was changed")
    return {"content_type": "output", "text": given} if isinstance(given, str) else given


def _origin_metadata(child: Family, context: CompiledContext) -> dict[str, Any]:
    """Return the metadata of the parent's commit that says where it came from."""
    branch = {} if child.branch is None else {_BRANCH: child.branch}
    return {_TRACT: child.tract_id, _HEAD: context.head, **branch}


def _source_of(metadata: dict[str, Any]) -> Origin | None:
    """Return the child that a commit came from; None if it is no outcome of one."""
    tract_id, branch = metadata.get(_TRACT), metadata.get(_BRANCH)
    return None if tract_id is None else Origin(tract_id, branch)
