"""`Session`: several tracts in one store, and their agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self
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
from tract_jupyter.exceptions import CompressionError, SessionError, TractExistsError
from tract_jupyter.models import (
    CollapseResult,
    CompressGroup,
    Inheritance,
    brief_repr,
    check_budget,
    repr_of_whole,
)
from tract_jupyter.open_tracts import OpenTracts
from tract_jupyter.storage import MEMORY, Database, RefRows, TractRows, triggered

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from tract_jupyter.context import Family
    from tract_jupyter.models import (
        CompiledContext,
        Summarizer,
        TokenBudget,
        TokenCounter,
        TractInfo,
        Validator,
    )
    from tract_jupyter.review import Trust
    from tract_jupyter.toolkit import ToolProfile
    from tract_jupyter.tract import Tract


_NAME_LENGTH = 255  # the column's width


class Session:
    """The tracts of one store, opened by `Session.open`: one database, one account of costs. Threads may share it.

    Args:
        database: an open database.
        tokenizer: counts the tokens of all tracts; tiktoken if its vocabulary is installed, else an estimate.
        trust: signs and verifies approvals; the user's own by default.
        around: an open tract that creates the session; the session shares its account and cassettes.
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
        """Open or create a store. A new store has no tracts.

        Args:
            path: an SQLite file; `:memory:` is not persistent.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            tokenizer: counts tokens; tiktoken if its vocabulary is installed, else an estimate.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.

        Raises:
            StoreError: the store is locked, read-only, corrupt, or from a newer version; see the subclass.
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
        """Create an empty tract.

        Args:
            display_name: a name for the user; need not be unique.
            tract_id: 1 to 32 letters, digits, `_`, `-` or `.`; random if omitted.
            budget: the size limit of its context; not stored.
            record: a cassette for all traffic of the session; see `Tract.cassette.record`.
            replay: a cassette to replay. The tract gets the recorded id and the same commits; see
                `Tract.cassette.replay`.

        Raises:
            TractExistsError: the id is taken.
            SessionError: invalid id or name.
            ContentError: the budget is not a `TokenBudget`.
            CassetteError: the cassette cannot be recorded or replayed, or `record` and `replay` are both set; no tract
                was created.
        """
        self._tracts.check_open()
        check_budget(budget)
        if replay is not None:
            from tract_jupyter.llm import recorded_tract_id

            tract_id = recorded_tract_id(replay, tract_id, record)
        new_id = uuid4().hex if tract_id is None else tract_id
        with self._database.write() as connection:
            if isinstance(new_id, str) and RefRows(new_id).has_head(connection):
                raise TractExistsError(f"The tract {new_id!r} already exists. Open it with get_tract.")
            make_tract(connection, new_id, checked_name(display_name))
            opened = self._tracts.open(new_id)
            self._tracts.close_on_rollback(opened)
            if record is not None:
                opened.tract.cassette.record(record)
            if replay is not None:
                opened.tract.cassette.replay(replay)
        opened.tract.budget = budget
        return self._tracts.keep(opened)

    def get_tract(self, tract_id: str) -> Tract:
        """Return a tract by its id, or an agent on a branch by `tract:branch`.

        Each call returns the same object until it is released or closed.

        Raises:
            UnknownTractError: no tract or agent has this id.
        """
        return self._tracts.get(tract_id)

    def release_tract(self, tract_id: str) -> None:
        """Close a tract or agent of this session without changes of the store. A second call does nothing.

        Raises:
            UnknownTractError: no tract or agent has this id.
        """
        self._tracts.release(tract_id)

    def list_tracts(self) -> list[TractInfo]:
        """Return all tracts of the store with their state, oldest first. `children()` of a tract lists its agents."""
        self._tracts.check_open()
        with self._database.read() as connection:
            return self._rows.all(connection)

    def resume(self) -> Tract:
        """Return the tract with the latest commit, its own or a child's; without commits, the newest tract.

        Raises:
            SessionError: the store has no tracts.
        """
        self._tracts.check_open()
        with self._database.read() as connection:
            newest = self._rows.last_worked_on(connection)
        if newest is None:
            raise SessionError(
                f"Nothing to resume: {self.location} has no tracts yet. Create one with create_tract."
            )
        return self.get_tract(newest)

    # --- agents

    def spawn(
        self,
        parent: Tract,
        *,
        purpose: str,
        inheritance: Inheritance | Literal["head_snapshot", "full_clone"] = "head_snapshot",
        display_name: str | None = None,
        max_tokens: int | None = None,
        granted: ToolProfile | str | None = None,
    ) -> Tract:
        """Create a child tract that inherits context from its parent. The parent does not change.

        A full clone has every message with its edits, annotations and tags, in the order of the context. It flattens
        merges: the merged messages take their place. A snapshot is one instruction. The tools in effect at the parent's
        HEAD stay in effect. The child uses its parent's models until it selects its own.

        The child has its parent's tools, with their locks and permission. Tools for a context act on the child's
        context. Requests about its calls go to the inbox of the top tract.

        Args:
            parent: a tract of this session, or an agent.
            purpose: the purpose of the child.
            inheritance: `head_snapshot` or `full_clone`.
            display_name: the child's name for the user; its purpose if omitted.
            max_tokens: the maximum length of a snapshot. It drops the oldest messages first, pinned ones last.
            granted: the parent's tools that the child may call, as a profile or its name; all if omitted. The profile
                is signed and stored with the child.

        Raises:
            SessionError: the parent is empty or not in this session, or options conflict; nothing was created.
            ContentError: unknown profile.
            TrustError: the granted profile cannot be signed.
        """
        from tract_jupyter.toolkit import rights_of

        parent = self._tracts.check(parent)
        rights = rights_of(granted)
        inherited = parent.family.prepare_inheritance(Inheritance(inheritance), max_tokens)
        name = checked_name(first_line(_checked_purpose(purpose)) if display_name is None else display_name)
        request = {
            "purpose": purpose, "display_name": name, "inheritance": inherited.inheritance.value,
            "max_tokens": max_tokens,
            **({} if rights is None else {"granted": rights.to_dict()}),
        }  # fmt: skip
        child_id = parent.cassette.draw_id(request, lambda: uuid4().hex)
        with self._database.write() as connection:
            self._tracts.check_new(connection, child_id)
            make_tract(connection, child_id, name)
            opened = self._tracts.open(child_id)
            opened.tract.family.inherit(inherited, purpose)
            _delegate(parent, opened.tract, rights)
            self._tracts.close_on_rollback(opened)
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
        """Commit a child's result to another tract, usually its parent. The child does not change.

        Args:
            child: a tract or agent with commits.
            into: the tract or agent that receives the result, on its current branch.
            content: the result, as a text or a content; a text becomes an `output`.
            summarizer: writes the result from the child's messages. The default without `content` is the model of
                `into` or of the child.
            instructions: instructions for the summarizer.
            target_tokens: the length of the text; this and the next four as for `Tract.compress`.
            validator: finds problems of the text.
            max_retries: the maximum number of retries.
            token_tolerance: accepted tokens over the target.
            system_prompt: replaces the default system prompt of the configured model.
            message: one line for the log.
            triggered_by: the trigger, for the log.

        Raises:
            SessionError: child and target are the same, the child is empty, or there is no acceptable result; nothing
                was changed.
            CompressionError: an invalid number or validator; nothing was changed.
            ContentError: the result is invalid content.
            DetachedHeadError: `into` has no current branch.
        """
        child, into = self._tracts.check(child), self._tracts.check(into)
        if child.family.agent_id == into.family.agent_id:
            raise SessionError("A tract cannot collapse into itself. Give its parent or another tract.")
        context = child.compile()
        if context.head is None:
            raise SessionError(f"Nothing to collapse: {child.family.agent_id} has no commits yet.")
        clients = (tract.models.available("compress") for tract in (into, child))
        writer = summarizer_for(next(filter(None, clients), None), content, summarizer, system_prompt)
        _check_source(content, writer)
        result = content if content is not None else _write_result(context, Source(
            None, writer, target_tokens, instructions, validator, token_tolerance, max_retries,
            into.tokenizer.count_text,
        ))  # fmt: skip
        options = writer_options(result, _origin_metadata(child.family, context))
        with into.batch(), triggered(triggered_by):
            commit = into.commit(_as_content(result), message=message, **options)
            into.family.note("collapse", {"child": child.family.agent_id, "commit": commit.commit_hash})
        return CollapseResult(commit, child.family.agent_id, context.head, context.token_count)

    # ---

    def joined_by(self, tract: Tract) -> Self:
        """Add a tract that was opened with `Tract.beside`; return the session."""
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
    """Return a valid name of a tract or agent; raise `SessionError` for an invalid one."""
    if not isinstance(name, str) or not name.strip() or len(name) > _NAME_LENGTH or "\0" in name:
        raise SessionError(f"Invalid name {str(name)[:40]!r}. Use 1 to {_NAME_LENGTH} characters.")
    return name


def _checked_purpose(purpose: str) -> str:
    if not isinstance(purpose, str) or not purpose.strip() or "\0" in purpose:
        raise SessionError(f"Invalid purpose {purpose!r}. Describe the child's task in words.")
    return purpose


def _delegate(parent: Tract, child: Tract, granted: ToolProfile | None) -> None:
    """Store the parent and the granted tools of a child."""
    from tract_jupyter.toolkit import Remembered, child_actor

    delegation = parent._parts.delegation  # noqa: SLF001 # Tract and Session cooperate
    family = child.family
    actor = child_actor("" if delegation is None else delegation.actor, family.tract_id, family.branch)
    remembered = Remembered(family.agent_id, parent.family.agent_id, granted, actor)
    remembered.save(child._parts.settings)  # noqa: SLF001 # the same


_TRACT, _HEAD, _BRANCH = "collapse_source_tract_id", "collapse_source_head", "collapse_source_branch"


def _check_source(content: object, summarizer: Summarizer | None) -> None:
    if (content is None) == (summarizer is None):
        raise SessionError(
            "A collapse needs the child's result: give content or a summarizer, not both. "
            "A configured model can write it instead."
        )
    if not (summarizer is None or callable(summarizer)):
        raise SessionError(
            f"Invalid summarizer {brief_repr(summarizer)}. Give a function that writes the result."
        )


def _write_result(context: CompiledContext, source: Source) -> str:
    group = CompressGroup((context.head or "",), tuple(context.messages))
    try:
        return source.texts([group])[0]
    except CompressionError as error:
        raise SessionError(f"The child's result is empty or rejected: {error}") from error


def _as_content(result: str | dict[str, Any] | BaseModel) -> dict[str, Any] | BaseModel:
    if isinstance(result, str) and not result.strip():
        raise SessionError("The child's result is empty. Nothing was changed.")
    return {"content_type": "output", "text": result} if isinstance(result, str) else result


def _origin_metadata(child: Family, context: CompiledContext) -> dict[str, Any]:
    """Return metadata that links the commit to the child."""
    branch = {} if child.branch is None else {_BRANCH: child.branch}
    return {_TRACT: child.tract_id, _HEAD: context.head, **branch}
