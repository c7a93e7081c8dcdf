"""Create commits, and read single commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from tract_jupyter.context.timeline import totals_after
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import (
    BranchMovedError,
    CommitNotFoundError,
    ContentError,
    EditTargetError,
    nearest,
)
from tract_jupyter.models import (
    APPROXIMATE,
    BudgetAction,
    CommitOperation,
    Priority,
    Retention,
    ToolCall,
    canonical_json,
    check_dict,
    check_tag,
    check_text,
    check_words,
    cut,
    named_text,
    plain_content,
    several,
    sha256,
    text_of,
)
from tract_jupyter.storage import ANNOTATE, APPEND, EDIT, EMPTY, MERGE, NO_TAGS, Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import BaseModel
    from sqlalchemy import Connection

    from tract_jupyter.context.files import Attachable
    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.timeline import Totals
    from tract_jupyter.models import AttachedFile, CommitInfo, TokenBudget, TokenCounter
    from tract_jupyter.storage import Entry, Position


_MESSAGE_LENGTH = 100
_HASH_LENGTH = 64


def draft(
    content: dict[str, Any],
    counter: TokenCounter,
    *,
    operation: str = APPEND,
    edit_target: str | None = None,
    message: str | None = None,
    priority: Priority | str | None = None,
    retention: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    generation_config: dict[str, Any] | None = None,
    tags: Iterable[str] = (),
    tools_hash: str | None = None,
    files: Sequence[AttachedFile] = (),
) -> Draft:
    """Create a draft of checked content; options as for `Tract.commit`. The size of an image or PDF is an estimate."""
    if metadata is not None:
        check_dict(metadata, "metadata")
    if generation_config is not None:
        check_dict(generation_config, "generation_config")
    payload = canonical_json(content).encode()
    text, counted_by = text_of(content), counter.name
    tokens = counter.count_text(text)
    if metadata and metadata.get("tool_calls"):
        metadata = {**metadata, "tool_calls": _calls(metadata["tool_calls"])}
        tokens += counter.count_text(canonical_json(metadata["tool_calls"]))  # requests include them
    if files:
        text = named_text((file.attachment for file in files), text)
        tokens += sum(file.tokens(counter.count_text) for file in files)
        is_exact = all(file.attachment.kind == "text" for file in files)
        counted_by = counter.name if is_exact else APPROXIMATE
    return Draft(
        content["content_type"],
        payload,
        sha256(payload),
        first_line(text) if message is None else _checked_message(message),
        tokens,
        counted_by,
        operation,
        edit_target,
        None if priority is None else Priority(priority).value,
        canonical_json(retention) if retention else None,
        canonical_json(metadata) if metadata else EMPTY,
        canonical_json(generation_config) if generation_config else EMPTY,
        _tags_json(tags) if tags else NO_TAGS,
        tools_hash,
        files=tuple([file.data for file in files]),
    )


def _calls(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise ContentError(f"tool_calls must be a list of calls, not {type(value).__name__}")
    return [
        call.to_dict() if isinstance(call, ToolCall) else ToolCall.from_dict(call).to_dict() for call in value
    ]


def annotation(target: str, priority: Priority, reason: str, retention: dict[str, Any] | None) -> Draft:
    """Create a draft that sets the priority of `target`."""
    check_text(reason, "reason")
    content = {"content_type": "annotation", "priority": priority.value, "reason": reason}
    payload = canonical_json(content).encode()
    return Draft(
        content_type="annotation",
        payload=payload,
        content_hash=sha256(payload),
        message=first_line(reason),
        token_count=0,
        token_counter="",
        operation=ANNOTATE,
        edit_target=target,
        priority=priority.value,
        retention_json=canonical_json(retention) if retention else None,
    )


def merge_draft(message: str, parents: tuple[str, ...], details: dict[str, Any]) -> Draft:
    """Create a draft of a merge commit. Contexts do not include it."""
    payload = canonical_json({"content_type": "merge", **details}).encode()
    return Draft(
        content_type="merge",
        payload=payload,
        content_hash=sha256(payload),
        message=message,
        token_count=0,
        token_counter="",
        operation=MERGE,
        merge_parents=parents,
    )


def first_line(text: str) -> str:
    """Return the log line for a text."""
    line = " ".join(text[:500].replace("\0", " ").split())  # PostgreSQL's text has no NUL
    return cut(line, _MESSAGE_LENGTH)


def _checked_message(message: str) -> str:
    check_words(check_text(message, "message"))
    return message


def _tags_json(tags: Iterable[str]) -> str:
    names = several(tags, "tags")
    for tag in names:
        check_tag(tag)
    return canonical_json(sorted(set(names)))


_ATTEMPTS: Final = 100


class CommitOptions(TypedDict, total=False):
    """The options of `commit` and of `user`, `assistant`, ...; see `Tract.commit`."""

    operation: CommitOperation | Literal["append", "edit"]
    edit_target: str | None
    message: str | None
    priority: Priority | str | None
    retain: str | None
    retain_match: Sequence[str]
    retain_match_mode: Literal["substring", "regex"]
    metadata: dict[str, Any] | None
    generation_config: dict[str, Any] | None
    tools: list[dict[str, Any]] | None
    tags: Iterable[str]
    attachments: Sequence[Attachable]


OPTIONS: Final = tuple(CommitOptions.__annotations__)
"""The names of the options of `commit`."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `TypeError` for an option that `commit` does not have."""
    if not CommitOptions.__optional_keys__.issuperset(options):
        unknown = next(name for name in options if name not in OPTIONS)
        known = ", ".join(OPTIONS)
        raise TypeError(
            f"commit() has no option {unknown!r}.{nearest(unknown, OPTIONS)} Its options are {known}"
        )


def with_calls(
    options: Mapping[str, Any], tool_calls: Sequence[ToolCall | dict[str, Any]]
) -> Mapping[str, Any]:
    """Add tool calls to the options of a message."""
    if not tool_calls:
        return options
    return {**options, "metadata": {**metadata_of(options), "tool_calls": tool_calls}}


def metadata_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata in the options."""
    metadata: dict[str, Any] | None = options.get("metadata")
    if metadata is None:
        return {}
    check_dict(metadata, "metadata")
    return metadata


class Commits:
    """The commits of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.counter = repository.corrections.counter
        self.budget: TokenBudget | None = None

    def commit(
        self,
        content: BaseModel | dict[str, Any],
        *,
        operation: str = APPEND,
        edit_target: str | None = None,
        tools: list[dict[str, Any]] | None = None,
        retain: str | None = None,
        retain_match: Sequence[str] = (),
        retain_match_mode: str = "substring",
        **options: Any,
    ) -> CommitInfo:
        """Add a commit to the current branch; options as for `Tract.commit`."""
        target = self._edit_target(operation, edit_target)
        if retain is not None or retain_match != () or retain_match_mode != "substring":
            options["retention"] = Retention.of(retain, retain_match, retain_match_mode)
        options["tools_hash"] = None if tools is None else self._repository.toolsets.store(tools)
        return self._appended(content, target, options)

    def edit(self, original: str, content: dict[str, Any], **options: Any) -> CommitInfo:
        """Edit a message, by its own full hash, that the caller read in the same transaction."""
        return self._appended(content, original, options)

    def _appended(
        self, content: BaseModel | dict[str, Any], target: str | None, options: Mapping[str, Any]
    ) -> CommitInfo:
        kind = APPEND if target is None else EDIT
        new = self.draft(content, operation=kind, edit_target=target, **options)
        entry = self._repository.writer.append(new, self._budget_check())
        return entry.info(entry.starting_priority())

    def say(self, content: dict[str, Any], edit: str | None, options: Mapping[str, Any]) -> CommitInfo:
        """Commit a message, or an edit of one."""
        check_options(options)
        if edit is not None:
            options = {**options, "operation": EDIT, "edit_target": edit}
        return self.commit(content, **options)

    def commit_on(self, branch: str, content: dict[str, Any], **options: Any) -> None:
        """Add a commit to a branch other than the current one; `undo` on that branch reverts it.

        Raises:
            BranchNotFoundError: unknown branch.
            BranchMovedError: all attempts lost a race.
            BudgetExceededError: the result exceeds the token budget.
        """
        new, check = self.draft(content, **options), self._budget_check()
        for attempt in range(_ATTEMPTS):
            here = self._repository.refs.at(branch)
            if check is not None:
                check(totals_after(here.context_tokens, here.context_messages, new))
            try:
                self._repository.writer.write(Plan(branch, here.commit_hash, here, [new], "commit"))
            except BranchMovedError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def annotate(
        self, name: str, priority: Priority, reason: str = "", retention: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> CommitInfo:  # fmt: skip
        """Set the priority of a commit of the current branch; for an edit, of the edited commit."""
        entry, here = self.with_position(name)
        if entry.operation == EDIT and entry.edit_target is not None:
            entry = self.entry(entry.edit_target)
        if entry.operation != CommitOperation.APPEND:
            raise EditTargetError(
                f"{entry.commit_hash[:8]} is {_article(entry)} and has no priority; use the commit of a message"
            )
        self._check_history(entry, here)
        draft = annotation(entry.commit_hash, priority, reason, retention)
        if metadata:
            draft = draft._replace(metadata_json=canonical_json(metadata))
        placed = self._repository.writer.append(draft, self._budget_check())
        return placed.info(placed.starting_priority())

    def get(self, name: str) -> CommitInfo:
        """Return one commit, by hash, prefix or branch. If it is on the current branch, it has its priority there."""
        entry, here = self.with_position(name)
        return self.infos([entry], here.commit_hash)[0]

    def infos(self, entries: Sequence[Entry], head: str | None) -> list[CommitInfo]:
        """Return commits for readers. Commits in the history of `head` have their effective priority there."""
        appended = [entry.commit_hash for entry in entries if entry.operation == APPEND]
        merges = [entry.commit_hash for entry in entries if entry.operation == MERGE]
        needs_timeline = self._repository.timelines.is_cached(head)  # it costs nothing then
        parents: Mapping[str, tuple[str, ...]] = {}
        if merges or (appended and not needs_timeline):
            with self._repository.database.read() as connection:
                parents = self._repository.rows.merge_parents_of(connection, merges) if merges else {}
                needs_timeline = needs_timeline or bool(
                    self._repository.rows.changes_to(connection, appended)
                )
        priorities = {entry.commit_hash: entry.starting_priority() for entry in entries}
        if needs_timeline:
            with self._repository.timelines.lock:
                timeline = self._repository.timelines.at(head)
                for commit_hash in appended:
                    place = timeline.place.get(commit_hash)
                    if place is not None:
                        priorities[commit_hash] = timeline.priority(timeline.steps[place])
        return [
            entry.info(priorities[entry.commit_hash], parents.get(entry.commit_hash, ())) for entry in entries
        ]

    def entry(self, name: str) -> Entry:
        """Return one stored commit."""
        with self._repository.database.read() as connection:
            return self._lookup(connection, name)

    def with_position(self, name: str) -> tuple[Entry, Position]:
        """Return one stored commit, and the current branch and its tip from the same read."""
        with self._repository.database.read() as connection:
            return self._lookup(connection, name), self._repository.refs.here(connection)

    def entries(self, hashes: Iterable[str]) -> list[Entry]:
        """Return stored commits by their full hashes."""
        with self._repository.database.read() as connection:
            return [self._of_hash(connection, commit_hash) for commit_hash in hashes]

    def _lookup(self, connection: Connection, name: str) -> Entry:
        if isinstance(name, str) and len(name) == _HASH_LENGTH:  # a full hash has precedence, as in git
            entry = self._repository.rows.get(connection, name)
            if entry is not None:
                return entry
        return self._of_hash(connection, self._repository.refs.find(connection, name))

    def _of_hash(self, connection: Connection, commit_hash: str) -> Entry:
        entry = self._repository.rows.get(connection, commit_hash)
        if entry is None:
            raise CommitNotFoundError(
                f"there is no commit {commit_hash[:12]} in this tract; log() lists its commits"
            )
        return entry

    def draft(
        self, content: BaseModel | dict[str, Any], *, attachments: Sequence[Attachable] = (), **options: Any
    ) -> Draft:
        """Return a checked draft for a plan."""
        full_content, files = self._repository.files.attached(plain_content(content), attachments)
        return draft(full_content, self.counter, files=files, **options)

    def check_target(self, name: str) -> Entry:
        """Return the target commit of an edit."""
        try:
            target, here = self.with_position(name)
        except CommitNotFoundError as error:
            raise EditTargetError(str(error)) from None
        if target.operation == EDIT:
            raise EditTargetError(
                f"{target.commit_hash[:8]} is an edit itself; edit the original, {target.edit_target or ''}"
            )
        if target.operation != CommitOperation.APPEND:
            raise EditTargetError(
                f"{target.commit_hash[:8]} is {_article(target)} and has no text; edit the commit of a message"
            )
        self._check_history(target, here)
        return target

    def _edit_target(self, operation: str, edit_target: str | None) -> str | None:
        if operation == APPEND:
            if edit_target is not None:
                raise EditTargetError("edit_target requires operation='edit'")
            return None
        kind = CommitOperation(operation)
        if kind is not CommitOperation.EDIT:
            raise EditTargetError(
                f"commit() cannot {kind.value!r}; it appends or edits. Use the method {kind.value}()"
            )
        if edit_target is None:
            raise EditTargetError("an edit needs edit_target: the hash of the commit to replace")
        return self.check_target(edit_target).commit_hash

    def _check_history(self, target: Entry, here: Position) -> None:
        with self._repository.timelines.lock:
            known = self._repository.timelines.at(here.commit_hash).place if here.commit_hash else {}
            if target.commit_hash in known:
                return
        where = f"branch {here.branch!r}" if here.branch else "HEAD"
        raise EditTargetError(f"{target.commit_hash[:8]} is not in the history of {where}; switch first")

    def _budget_check(self) -> Callable[[Totals], None] | None:
        """Return a check of one commit against the budget. A retry repeats only rejections, not warnings."""
        budget, has_warned = self.budget, False
        if budget is None:
            return None

        def check(totals: Totals) -> None:
            nonlocal has_warned
            if not has_warned or budget.action is BudgetAction.REJECT:
                has_warned = True
                self.check_budget(totals.tokens)

        return check

    def check_budget(self, tokens: int) -> None:
        """Check a token count of the tract's counter against the budget, if any."""
        if self.budget is not None:
            self.budget.check(self._repository.corrections.tokens(tokens), self.counter.name)


def _article(entry: Entry) -> str:
    return {"edit": "an edit", "annotate": "an annotation", "merge": "a merge"}[entry.operation]
