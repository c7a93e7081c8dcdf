"""Merge another branch into the current one.

The merge commit joins the histories and adds nothing to the context. A change of only one side is accepted. If both
sides changed a message differently, the merge needs a decision. The decision becomes an edit or annotation after the
merge commit. If both sides changed a priority, the merged branch's priority is used. The merge is one write, and one
`undo` reverts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.context.commits import annotation, merge_draft
from tract_jupyter.context.sides import compare_branches, same_content
from tract_jupyter.context.splice import write_copies
from tract_jupyter.context.writer import Plan
from tract_jupyter.exceptions import (
    CommitNotFoundError,
    HistoryError,
    MergeConflictError,
    NothingToMergeError,
)
from tract_jupyter.models import (
    Action,
    ConflictKind,
    MergeResult,
    MergeType,
    Priority,
    Resolution,
    check_text,
    check_words,
)
from tract_jupyter.storage import EDIT, NO_TAGS, Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic import BaseModel

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.sides import Divergence, Heads, Sides, State
    from tract_jupyter.models import Conflict, Resolver
    from tract_jupyter.storage import Entry, Step


_SHORTEST_PREFIX = 4
_HOW: Final = (
    "Decide with resolver='ours' or 'theirs', a dict from each conflict's key to 'ours', 'theirs', 'skip' or a "
    "Resolution, or a function that receives each conflict and returns one of these"
)


def decide(conflicts: Sequence[Conflict], resolver: Resolver | None, doing: str) -> dict[str, Resolution]:
    """Call a resolver, and return its decisions by the conflict's key.

    A function or a dict may also decide warnings. `'ours'` and `'theirs'` decide only blocking conflicts.
    """
    decided = answers(conflicts, resolver)
    aborted = [c for c in conflicts if c.key in decided and decided[c.key].action is Action.ABORT]
    if aborted:
        reason = decided[aborted[0].key].reason
        raise MergeConflictError(
            f"{doing} was aborted at {aborted[0]}{f' ({reason})' if reason else ''}; nothing was written",
            aborted,
        )
    still_open = [c for c in conflicts if c.is_blocking and c.key not in decided]
    if still_open:
        listed = "".join(f"\n  - {conflict}" for conflict in still_open)
        raise MergeConflictError(
            f"{doing} needs decisions, and nothing was written:{listed}\n{_HOW}", still_open
        )
    return decided


def answers(conflicts: Sequence[Conflict], resolver: Resolver | None) -> dict[str, Resolution]:
    """Return a resolver's decisions by the conflict's key. Undecided conflicts are not included.

    Raises:
        HistoryError: the resolver or its result is invalid.
    """
    ask = _asker(conflicts, resolver)
    return {conflict.key: answer for conflict in conflicts if (answer := ask(conflict)) is not None}


def _asker(
    conflicts: Sequence[Conflict], resolver: Resolver | None
) -> Callable[[Conflict], Resolution | None]:
    if resolver is None:
        return lambda _: None
    if isinstance(resolver, str):
        if resolver not in (Action.OURS, Action.THEIRS):
            raise HistoryError(f"invalid resolver {resolver!r}. {_HOW}")
        return lambda conflict: Resolution(resolver) if conflict.is_blocking else None
    if isinstance(resolver, Mapping):
        return _by_name(conflicts, resolver)
    if not callable(resolver):
        raise HistoryError(f"invalid resolver {resolver!r}. {_HOW}")
    return lambda conflict: _resolution(resolver(conflict))


def _by_name(
    conflicts: Sequence[Conflict], resolver: Mapping[str, Resolution | str]
) -> Callable[[Conflict], Resolution | None]:
    """Return decisions by conflict, from its key, its target's hash or a prefix of the hash."""
    resolutions: dict[str, Resolution | None] = {}
    for name, answer in resolver.items():
        matches = [c for c in conflicts if _is_named(c, name)]
        if len(matches) != 1:
            keys = ", ".join(c.key for c in conflicts) or "none"
            raise HistoryError(
                f"the resolver's key {name!r} matches {len(matches)} conflicts instead of one; nothing was written. "
                f"The keys are: {keys}"
            )
        if matches[0].key in resolutions:
            raise HistoryError(f"the resolver decides {matches[0].key} twice; nothing was written")
        resolutions[matches[0].key] = _resolution(answer)
    return lambda conflict: resolutions.get(conflict.key)


def _is_named(conflict: Conflict, name: object) -> bool:
    if not isinstance(name, str):
        return False
    return name == conflict.key or (len(name) >= _SHORTEST_PREFIX and conflict.target.startswith(name))


def _resolution(answer: object) -> Resolution | None:
    if answer is None or isinstance(answer, Resolution):
        return answer
    return Resolution(Action(str(answer)))


class Reconciler:
    """Creates the commits that produce the merged context."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def drafts(
        self, findings: Iterable[Divergence], decided: dict[str, Resolution], *, explicit: bool = False
    ) -> list[Draft]:
        """Return the edits and annotations to add after the joined history. Its order already gives most results."""
        drafts: list[Draft] = []
        for finding in findings:
            resolution = decided.get(finding.conflict.key) if finding.conflict else None
            drafts += self._content(finding, resolution, explicit=explicit)
            drafts += self._priority(finding, resolution)
        return drafts

    def _content(
        self, finding: Divergence, resolution: Resolution | None, *, explicit: bool
    ) -> Iterator[Draft]:
        if resolution is not None and resolution.action is Action.SKIP:
            return
        if resolution is not None and resolution.replacement is not None:
            yield self._replacement(finding, resolution.replacement)
            return
        wanted = finding.wanted.winner
        chosen = _chosen(finding, resolution)
        if chosen is not None and not chosen.is_skipped:
            wanted = chosen.winner
        is_choice = chosen is not None and _is(finding, ConflictKind.BOTH_EDIT)
        if (explicit and is_choice) or not same_content(wanted, finding.in_order.winner):
            yield self._copied(finding, wanted, resolution)

    def _priority(self, finding: Divergence, resolution: Resolution | None) -> Iterator[Draft]:
        wanted, source = finding.wanted.priority, finding.wanted.priority_source
        if resolution is not None and resolution.action is Action.SKIP:
            wanted = Priority.SKIP
        elif resolution is not None and _is(finding, ConflictKind.SKIP_VS_EDIT):
            side = _chosen(finding, resolution) or _editor(finding)
            wanted, source = side.priority, side.priority_source
        if wanted is not finding.in_order.priority:
            retention = self._retention(finding, source) if wanted is not Priority.SKIP else None
            reason = resolution.reason if resolution else ""
            yield annotation(finding.target.commit_hash, wanted, reason, retention)

    def _retention(self, finding: Divergence, source: Step) -> dict[str, Any] | None:
        """Return the retention criteria of a priority. An edit without criteria keeps the original ones."""
        retention = self._entry(source).retention
        if retention is None and source.operation == EDIT:
            return self._entry(finding.target).retention
        return retention

    def _copied(self, finding: Divergence, winner: Step, resolution: Resolution | None) -> Draft:
        return Draft.of(
            self._entry(winner),
            operation=EDIT,
            edit_target=finding.target.commit_hash,
            message=_message(finding, resolution),
            priority=None,
            retention_json=None,
            tags_json=NO_TAGS,
            tools_hash=None,
            source=None,
        )

    def _replacement(self, finding: Divergence, replacement: str | dict[str, Any] | BaseModel) -> Draft:
        ours = self._entry(finding.ours.winner)
        content = with_text(ours.content, replacement) if isinstance(replacement, str) else replacement
        return self._repository.commits.draft(
            content,
            operation=EDIT,
            edit_target=finding.target.commit_hash,
            message=f"decide {finding.target.commit_hash[:8]}: a new text",
            metadata=ours.metadata,  # may contain the tool calls
            generation_config=ours.generation_config,
        )

    def _entry(self, step: Step) -> Entry:
        with self._repository.database.read() as connection:
            entry = self._repository.rows.get(connection, step.commit_hash)
        if entry is None:
            raise HistoryError(removed(step.commit_hash))
        return entry


def removed(commit_hash: str) -> str:
    """Return the error for a commit of one side that was removed while a decision was pending."""
    return (
        f"{commit_hash[:8]} no longer exists: its branch was deleted or moved, and gc removed it during the decisions; "
        "nothing was written. If you need it, restore it from a backup; delete branches and run gc only after a merge"
    )


def with_text(content: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the same content with another text."""
    if content["content_type"] == "tool_io":
        return {**content, "payload": {"content": text}}
    key = "content" if content["content_type"] == "artifact" else "text"
    if not isinstance(content.get(key), str):
        raise HistoryError(
            f"a {content['content_type']} has no text to replace; use Resolution.content({{...}})"
        )
    return {**content, key: text}


def _chosen(finding: Divergence, resolution: Resolution | None) -> State | None:
    """Return the chosen side; None without a choice between sides."""
    if resolution is None or resolution.action not in (Action.OURS, Action.THEIRS):
        return None
    return finding.ours if resolution.action is Action.OURS else finding.theirs


def _is(finding: Divergence, kind: ConflictKind) -> bool:
    return finding.conflict is not None and finding.conflict.kind is kind


def _editor(finding: Divergence) -> State:
    return finding.theirs if finding.ours.is_skipped else finding.ours


def _message(finding: Divergence, resolution: Resolution | None) -> str:
    what = "what one side changed" if resolution is None else f"{resolution.action}"
    return f"decide {finding.target.commit_hash[:8]}: {what}"


STRATEGIES = ("auto", "strict")


class MergePreview(NamedTuple):
    """Two compared branches, and the result of a merge."""

    sides: Sides
    result: MergeResult


class Merge:
    """Merges branches of one tract."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._reconciler = Reconciler(repository)

    def look(
        self,
        source_branch: str,
        *,
        strategy: str = "auto",
        no_ff: bool = False,
        expected: Heads | None = None,
    ) -> MergePreview:
        """Return the result of a merge with its conflicts. Writes nothing.

        Arguments as for `Tract.merge`, and `expected`: the positions from an earlier decision.
        """
        sides = self._look(source_branch, strategy, expected)
        return MergePreview(sides, _result(sides, no_ff=no_ff))

    def join(
        self,
        preview: MergePreview,
        *,
        resolver: Resolver | None = None,
        delete_branch: bool = False,
        message: str | None = None,
    ) -> MergeResult:
        """Merge a preview; arguments as for `Tract.merge`.

        Raises:
            BranchMovedError: the branch moved since; nothing was written.
        """
        if message is not None:
            check_words(check_text(message, "message"))
        sides, result = preview
        text = message or f"merge {result.source_branch} into {result.target_branch}"
        drafts: tuple[Draft, ...] = ()
        if result.merge_type is not MergeType.FAST_FORWARD:
            doing = f"merging {result.source_branch!r} into {result.target_branch!r}"
            decided = decide(result.conflicts, resolver, doing)
            self._check_there(sides)
            result = replace(result, resolutions=decided)
            # explicit, because a later merge in the other direction must see the choice
            settled = self._reconciler.drafts(sides.compared.findings, decided, explicit=True)
            drafts = (_merge_draft(sides, text, decided), *settled)
        # if the other branch moved, it is not deleted, and nothing is merged
        with self._repository.writer.batch():
            done = self._write(sides, result, drafts, text)
            if delete_branch:
                self._repository.refs.delete(result.source_branch)
        return done

    def _look(self, source: str, strategy: str, expected: Heads | None) -> Sides:
        if strategy not in STRATEGIES:
            raise HistoryError(
                f"invalid merge strategy {strategy!r}; use 'auto', or 'strict' to block on warnings"
            )
        sides = compare_branches(
            self._repository, source, "merge", strict=strategy == "strict", expected=expected
        )
        if source == sides.here.branch:
            raise NothingToMergeError(f"{source!r} is the current branch; switch to the target branch first")
        if sides.is_ahead:
            raise NothingToMergeError(f"{sides.here.branch!r} already has all commits of {source!r}")
        return sides

    def _check_there(self, sides: Sides) -> None:
        """Check that the merged commits still exist: decisions take time and may run any code."""
        try:
            self._repository.refs.resolve(sides.tips[1])
        except CommitNotFoundError:
            raise HistoryError(removed(sides.tips[1])) from None

    def _write(
        self, sides: Sides, result: MergeResult, drafts: tuple[Draft, ...], message: str
    ) -> MergeResult:
        plan = Plan(
            branch=result.target_branch,
            old=sides.here.commit_hash,
            base=sides.here if drafts else sides.there,
            drafts=drafts,
            operation="merge",
            message=message,
            event={
                "source_branch": result.source_branch,
                "merged": sides.there.commit_hash,
                "merge_type": result.merge_type,
                "resolutions": _names(result.resolutions),
            },
        )
        entries = write_copies(self._repository, plan, sides.here.context_tokens)
        commits = tuple(entry.commit_hash for entry in entries)
        return replace(
            result,
            merge_commit=commits[0] if commits else None,
            commits=commits,
            head=commits[-1] if commits else sides.there.commit_hash,
        )


def _result(sides: Sides, *, no_ff: bool) -> MergeResult:
    target, source = sides.names
    conflicts = sides.compared.conflicts
    if sides.is_behind and not no_ff:
        kind = MergeType.FAST_FORWARD
    elif any(conflict.is_blocking for conflict in conflicts):
        kind = MergeType.CONFLICT
    else:
        kind = MergeType.CLEAN
    return MergeResult(
        merge_type=kind,
        source_branch=source,
        target_branch=target,
        base=sides.bases[0],
        bases=sides.bases,
        incoming=tuple(step.commit_hash for step in sides.compared.theirs),
        conflicts=conflicts,
    )


def _merge_draft(sides: Sides, message: str, decided: dict[str, Resolution]) -> Draft:
    details = {"source": sides.names[1], "resolutions": _names(decided)}
    return merge_draft(message, (sides.tips[1],), details)


def _names(decided: dict[str, Resolution]) -> dict[str, str]:
    return {key: str(resolution.action) for key, resolution in decided.items()}
