"""Compression: summaries replace runs of messages, anywhere in the context."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.context.ancestry import BranchHistory, name_of, names_of
from tract_jupyter.context.commits import draft
from tract_jupyter.context.compile import recounted
from tract_jupyter.context.diff import diff_contexts
from tract_jupyter.context.splice import splice
from tract_jupyter.context.summaries import (
    SUMMARIZING,
    Source,
    inherited,
    with_writer,
    writer_of,
    writer_options,
)
from tract_jupyter.context.timeline import PER_MESSAGE
from tract_jupyter.exceptions import CompressionError, HistoryError
from tract_jupyter.models import (
    APPROXIMATE,
    COMPRESSED_FROM,
    CompressGroup,
    CompressPlan,
    CompressResult,
    Message,
    Price,
    Priority,
    tracked,
)
from tract_jupyter.storage import APPEND, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.models import CommitInfo, CompiledContext
    from tract_jupyter.storage import Draft, Entry


def price(
    before: CompiledContext,
    after: CompiledContext,
    dropped: Collection[str],
    read: int,
    written: int,
) -> Price:
    """Compute the price.

    Args:
        before: the context before the compression.
        after: the context after it.
        dropped: the summarized commits.
        read: input tokens of the summarizer; 0 without a summarizer.
        written: output tokens of the summarizer.
    """
    index = next(i for i, m in enumerate(before.messages) if m.commit_hash in dropped)
    unchanged = sum(message.token_count for message in before.messages[:index])
    return Price(
        saved_per_call=before.token_count - after.token_count,
        cache_kept=unchanged,
        broken_index=index,
        broken_commit=before.messages[index].commit_hash,
        read_anew=after.token_count - unchanged,
        summarizer_input=read,
        summarizer_output=written,
        token_source=after.token_source,
    )


class Range(NamedTuple):
    """The commits to compress: a list or a range, each by hash, prefix, branch or `CommitInfo`.

    An edit or annotation means the message that it changes; as an end of a range, its own place.
    """

    commits: Iterable[str | CommitInfo] | None = None
    from_commit: str | CommitInfo | None = None
    to_commit: str | CommitInfo | None = None
    preserve: Iterable[str | CommitInfo] = ()
    one_summary: bool = False
    """One summary for all messages, across preserved ones."""


class Selection(NamedTuple):
    """The messages that a compression replaces, and the messages of the range that it preserves."""

    groups: tuple[CompressGroup, ...]
    preserved: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def dropped(self) -> frozenset[str]:
        """All summarized commits."""
        return frozenset(commit for group in self.groups for commit in group.commits)

    @property
    def messages(self) -> list[Message]:
        """The messages to summarize."""
        return [message for group in self.groups for message in group.messages]


def select(history: BranchHistory, wanted: Range, resolve: Callable[[str], str]) -> Selection:
    """Find the runs of messages to summarize.

    Pinned and preserved messages stay and end a run. Unselected messages also end a run, except skipped ones: these do
    not appear in the context and belong to the run around them.
    """
    try:
        chosen = _chosen(history, wanted, resolve)
        protected = {
            _entry(history, name, resolve).commit_hash for name in names_of(wanted.preserve, "preserve")
        }
    except HistoryError as error:
        raise CompressionError(str(error)) from None
    preserved = tuple(
        e.commit_hash
        for e in history.appends()
        if e.commit_hash in protected or (e.commit_hash in chosen and history.priority(e) is Priority.PINNED)
    )
    runs = _runs(history, chosen.difference(preserved), protected)
    if wanted.one_summary:
        runs = [[entry for run in runs for entry in run]]
    groups = tuple(_group(history, run) for run in runs if any(_shows(history, e) for e in run))
    if not groups:
        raise CompressionError(_nothing(history, chosen, preserved))
    skipped = tuple(e.commit_hash for run in runs for e in run if not _shows(history, e))
    dropped = {commit for group in groups for commit in group.commits}
    return Selection(groups, preserved, tuple(commit for commit in skipped if commit in dropped))


def _chosen(history: BranchHistory, wanted: Range, resolve: Callable[[str], str]) -> set[str]:
    if wanted.commits is not None:
        if wanted.from_commit is not None or wanted.to_commit is not None:
            raise CompressionError("got both commits and a range; use commits, or from_commit and to_commit")
        entries = [_entry(history, name, resolve) for name in names_of(wanted.commits, "commits")]
        merge = next((entry for entry in entries if entry.operation != APPEND), None)
        if merge is not None:
            raise CompressionError(
                f"{merge.commit_hash[:8]} is a merge, not a message; name the merged messages instead"
            )
        return {entry.commit_hash for entry in entries}
    first, last = 0, len(history.entries) - 1
    if wanted.from_commit is not None:
        first = history.index(_hash(history, name_of(wanted.from_commit, "from_commit"), resolve))
    if wanted.to_commit is not None:
        last = history.index(_hash(history, name_of(wanted.to_commit, "to_commit"), resolve))
    if first > last:
        ends = [history.entries[place].commit_hash[:8] for place in (first, last)]
        raise CompressionError(f"the range is empty: {ends[0]} comes after {ends[1]}; swap them")
    return {e.commit_hash for e in history.entries[first : last + 1] if e.operation == APPEND}


def _entry(history: BranchHistory, name: str, resolve: Callable[[str], str]) -> Entry:
    return history.entry(_hash(history, name, resolve))


def _hash(history: BranchHistory, name: str, resolve: Callable[[str], str]) -> str:
    # thousands of full hashes need no query
    return name if name in history.place else resolve(name)


def _runs(history: BranchHistory, chosen: Collection[str], protected: Collection[str]) -> list[list[Entry]]:
    runs: list[list[Entry]] = []
    run: list[Entry] = []
    passed: list[Entry] = []  # unselected, skipped: part of the run if it continues
    for entry in history.appends():
        if entry.commit_hash in chosen:
            if not run:
                run = []
                runs.append(run)
            run += [*passed, entry]
            passed = []
        elif run and not _shows(history, entry) and entry.commit_hash not in protected:
            passed.append(entry)
        else:
            run, passed = [], []
    return runs


def _group(history: BranchHistory, run: list[Entry]) -> CompressGroup:
    messages = tuple(history.messages[e.commit_hash] for e in run if _shows(history, e))
    criteria = tuple(criterion for e in run if (criterion := history.criteria(e)) is not None)
    return CompressGroup(tuple(e.commit_hash for e in run), messages, criteria)


def _shows(history: BranchHistory, entry: Entry) -> bool:
    return history.priority(entry) is not Priority.SKIP


def _nothing(history: BranchHistory, chosen: set[str], preserved: Collection[str]) -> str:
    if not chosen:
        return f"nothing to compress on {history.branch!r}: the range has no messages"
    if chosen <= set(preserved):
        return (
            f"nothing to compress on {history.branch!r}: all {len(chosen)} messages of the range are pinned or "
            "preserved; set the priority of messages to compress to 'normal', or choose a larger range"
        )
    return f"nothing to compress on {history.branch!r}: the other messages of the range are skipped already"


# expected length of a summary without a target, relative to its messages
_GUESSED_SHARE: Final = 0.2


class CompressScope(NamedTuple):
    """The state of a branch, and the selection of a compression."""

    history: BranchHistory
    selection: Selection


class Compressor:
    """Compresses the current branch of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def look(self, wanted: Range, expected: str | None = None) -> CompressScope:
        """Return the current branch and the selection of a compression."""
        here = self._repository.refs.on_branch("compress", expected)
        history = BranchHistory.read(here, self._repository)
        return CompressScope(history, select(history, wanted, self._repository.refs.resolve))

    def preview(self, scope: CompressScope, source: Source) -> CompressPlan:
        """Return the plan of a `compress` with its price. Writes nothing and calls no summarizer."""
        contents = source.provided(scope.selection.groups)
        texts = None if contents is None else source.checked(contents, scope.selection.groups)
        return self._plan(scope, texts, source.target_tokens)

    def _plan(
        self, scope: CompressScope, texts: Sequence[str] | None, target_tokens: int | None
    ) -> CompressPlan:
        history, selection = scope
        known: Sequence[str | None] = texts or [None] * len(selection.groups)
        summaries = [
            self._message(group, text, target_tokens)
            for group, text in zip(selection.groups, known, strict=True)
        ]
        before = self._repository.corrections.context(history.context)
        after = self._repository.corrections.context(_replaced(history.context, selection, summaries))
        read = written = 0
        if texts is None:
            read = self._corrected(history, sum(group.tokens for group in selection.groups))
            written = self._corrected(
                history, sum(summary.token_count - PER_MESSAGE for summary in summaries)
            )
        return CompressPlan(
            branch=history.branch,
            head=history.head,
            groups=selection.groups,
            preserved=selection.preserved,
            skipped=selection.skipped,
            price=price(before, after, selection.dropped, read, written),
            before=before,
            after=after,
            diff=diff_contexts(before, after),
            is_estimate=texts is None,
        )

    def compress(self, scope: CompressScope, source: Source, message: str | None) -> CompressResult:
        """Replace messages with summaries.

        Raises:
            CompressionError: a summary was rejected; nothing was changed.
            BranchMovedError: another process or thread moved the branch; nothing was changed.
        """
        history, selection = scope
        texts = source.texts(selection.groups)  # slow: hold no transaction and no lock
        return self._write(history, selection, texts, message)

    def propose(self, scope: CompressScope, source: Source, guidance: str | None = None) -> dict[str, Any]:
        """Return the fields for `carry_out`, as JSON values. Calls the summarizer and writes nothing.

        If all attempts were rejected, the proposal has the last one: the reviewer can correct it.

        Raises:
            CompressionError: a summary is missing or not a text.
        """
        history, selection = scope
        contents = source.provided(selection.groups)
        if contents is None:
            counting = replace(source, count=self._repository.counter.count_text)
            groups = tracked(selection.groups, SUMMARIZING)
            texts = [counting.attempted(group, guidance)[0] for group in groups]
        else:
            texts = contents
        return {
            "branch": history.branch,
            "head": history.head,
            "summaries": texts,
            "writers": [writer_of(text) for text in texts],
            "source_commits": [list(group.commits) for group in selection.groups],
            "preserved_commits": list(selection.preserved),
            "original_tokens": sum(group.tokens for group in selection.groups),
            "estimated_tokens": self.tokens(texts),
            "most_tokens": [source.limit(group) for group in selection.groups],
            "price": str(self._plan(scope, texts, None).price),
        }

    def carry_out(self, fields: Mapping[str, Any], source: Source, message: str | None) -> CompressResult:
        """Execute a proposal. Later commits of the branch stay.

        Raises:
            CompressionError: a summary was rejected, or its messages changed since; nothing was changed.
            BranchMovedError: another branch is the current one; nothing was changed.
        """
        history, selection = self.selected(fields)
        self.check_lengths(fields)
        texts = source.checked(fields["summaries"], selection.groups)
        written = [with_writer(*pair) for pair in zip(texts, fields["writers"], strict=True)]
        return self._write(history, selection, written, message)

    def check_lengths(self, fields: Mapping[str, Any]) -> None:
        """Raise `CompressionError` if a summary is longer than the limit of its proposal."""
        for index, (text, most) in enumerate(zip(fields["summaries"], fields["most_tokens"], strict=True)):
            tokens = self._repository.counter.count_text(text) if isinstance(text, str) else 0
            if most is not None and tokens > most:
                target = fields.get("target_tokens")
                about_target = f" (the target is {target:,})" if target is not None else ""
                raise CompressionError(
                    f"summary {index} has {tokens:,} tokens, and the maximum is {most:,}{about_target}. Nothing was "
                    "changed; shorten it"
                )

    def selected(self, fields: Mapping[str, Any]) -> CompressScope:
        """Return the selection of a proposal on the current state of the branch."""
        runs = fields["source_commits"]
        wanted = Range(
            [commit for run in runs for commit in run],
            preserve=fields["preserved_commits"],
            one_summary=len(runs) == 1,
        )
        scope = self.look(wanted, fields["branch"])
        if runs != [list(group.commits) for group in scope.selection.groups]:
            raise CompressionError(
                "the summaries do not belong to these runs of messages; nothing was changed. Propose it again"
            )
        self._check_unchanged(scope.history, fields)
        return scope

    def _check_unchanged(self, history: BranchHistory, fields: Mapping[str, Any]) -> None:
        """Check that no summarized message changed since the proposal."""
        if history.head == fields["head"]:
            return
        proposed_at = Position(history.branch, fields["head"])
        before = BranchHistory.read(proposed_at, self._repository)
        for name in (commit for run in fields["source_commits"] for commit in run):
            was, now = (
                (version.messages.get(name), version.retention.get(name), version.winners.get(name))
                for version in (before, history)
            )
            if was != now:
                raise CompressionError(
                    f"{name[:8]}, which a summary replaces, has changed since the proposal; nothing was compressed. "
                    "Propose it again"
                )

    def tokens(self, texts: Sequence[str]) -> int:
        """Return the tokens of summaries."""
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise CompressionError(
                    f"summary {index} is {type(text).__name__}, not a text; nothing was changed. Pass a text, or a "
                    "summarizer that returns one"
                )
        return sum(self._repository.counter.count_text(text) + PER_MESSAGE for text in texts)

    def _write(
        self, history: BranchHistory, selection: Selection, texts: Sequence[str], message: str | None
    ) -> CompressResult:
        put = {
            group.commits[0]: [self._draft(history, group, text, message)]
            for group, text in zip(selection.groups, texts, strict=True)
        }
        sources = [list(group.commits) for group in selection.groups]
        tokens = history.here.context_tokens
        note = message or f"{sum(map(len, sources))} commits"
        spliced = splice(
            self._repository,
            history, selection.dropped, put, "compress", note,
            lambda done: {
                "source_commits": sources,
                "summary_commits": [entry.commit_hash for entry in done.put],
                "tokens_before": tokens,
                "tokens_after": done.head.context_tokens,
            },
        )  # fmt: skip
        return CompressResult(
            branch=history.branch,
            old_head=history.head,
            new_head=spliced.head.commit_hash,
            source_commits=tuple(group.commits for group in selection.groups),
            summary_commits=tuple(entry.commit_hash for entry in spliced.put),
            preserved_commits=selection.preserved,
            copies=spliced.copies,
            tokens_before=self._corrected(history, tokens),
            tokens_after=self._corrected(history, spliced.head.context_tokens),
            token_source=self._token_source(history),
        )

    def _draft(self, history: BranchHistory, group: CompressGroup, text: str, message: str | None) -> Draft:
        priority, retention = inherited(group)
        origin = {"head": history.head, "commits": list(group.commits)}
        return draft(
            _content(text),
            self._repository.counter,
            message=message,
            priority=priority,
            retention=retention,
            **writer_options(text, {COMPRESSED_FROM: origin}),
        )

    def _message(self, group: CompressGroup, text: str | None, target_tokens: int | None) -> Message:
        """Return the summary as a message, or a placeholder with an estimate."""
        if text is None:
            count = len(group.messages)
            tokens = target_tokens or max(1, round(group.tokens * _GUESSED_SHARE))
            text = f"(summary of {count} message{'s' * (count > 1)})"
        else:
            tokens = self._repository.counter.count_text(text)
        priority, _ = inherited(group)
        return Message(
            "assistant", text, priority=priority or Priority.NORMAL, token_count=tokens + PER_MESSAGE
        )

    def _corrected(self, history: BranchHistory, tokens: int) -> int:
        return self._repository.corrections.tokens(tokens, self._token_source(history))

    def _token_source(self, history: BranchHistory) -> str:
        name = self._repository.counter.name
        return name if history.context.token_source == name else APPROXIMATE


def _content(text: str) -> dict[str, Any]:
    return {"content_type": "dialogue", "role": "assistant", "text": text, "name": None}


def _replaced(
    context: CompiledContext, selection: Selection, summaries: Sequence[Message]
) -> CompiledContext:
    first = {group.messages[0].commit_hash: s for group, s in zip(selection.groups, summaries, strict=True)}
    dropped = selection.dropped
    messages: list[Message] = []
    for message in context.messages:
        if message.commit_hash in first:
            messages.append(first[message.commit_hash])
        elif message.commit_hash not in dropped:
            messages.append(message)
    return recounted(context, messages)
