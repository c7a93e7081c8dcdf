"""Forks: a conversation goes on from one of its steps in another way, beside what it was.

A fork is a branch. What comes before it are the same commits, so that it costs nothing and providers have it in their
cache; only what is asked from there on is new.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, DetachedHeadError, LLMError, RunError, UndecidedError
from tract_jupyter.llm import CostReport, provider_of
from tract_jupyter.models import TurnOutcome, brief_repr, canonical_json, check_text, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Models
    from tract_jupyter.models import CommitInfo, LLMClient
    from tract_jupyter.runs.costs import Costs
    from tract_jupyter.runs.turn import RunResponse

ORIGINAL: Final = "original"
"""How a fork's own branch is called in what says what was changed."""
ERROR: Final = "error"
_HEADS: Final = ("Name", "Changed", "Model", "Outcome", "Text", "Steps", "Calls", "Tokens", "Cost")
_TEXT: Final = 48
_CHANGED: Final = 32
_TOOL: Final = "tool_io"


@dataclass(frozen=True, slots=True)
class Fork:
    """What a conversation came to from one of its steps on: a branch, with the figures of what was asked since.

    Attributes:
        name: of the branch.
        base: the newest commit that it shares with the original; None if there is none.
        head: its newest commit.
        changed: what is otherwise, in words; `original` for what it was.
        outcome: how its turn ended: those of `TurnOutcome`, or `error`.
        note: what that means; empty for an answer.
        text: what the model said last.
        model: who replied; empty if nobody did.
        steps: how many replies came.
        calls: how many answers of tools.
        report: what the replies used and cost, as their commits say; what came before the fork is not in it.
    """

    name: str
    base: str | None
    head: str | None
    changed: str
    outcome: str
    note: str = ""
    text: str = ""
    model: str = ""
    steps: int = 0
    calls: int = 0
    report: CostReport = field(default_factory=CostReport)

    def __str__(self) -> str:
        return self.text or self.note

    @property
    def row(self) -> tuple[str, ...]:
        """What a table shows of it."""
        cost = self.report.cost
        price = "" if not self.report.lines else "unknown" if cost is None else str(cost)
        return (
            self.name, one_line(self.changed, _CHANGED), self.model, self.outcome,
            one_line(self.text or self.note, _TEXT), f"{self.steps:,}", f"{self.calls:,}",
            f"{self.report.tokens:,}", price,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForkTable:
    """Forks side by side; `str` gives them as a table."""

    forks: tuple[Fork, ...] = ()

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of the columns."""
        return _HEADS

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row for each fork."""
        return tuple(fork.row for fork in self.forks)

    def __len__(self) -> int:
        return len(self.forks)

    def __iter__(self) -> Iterator[Fork]:
        return iter(self.forks)

    def __getitem__(self, name: str) -> Fork:
        """Return the fork of that name.

        Raises:
            KeyError: there is none.
        """
        for fork in self.forks:
            if fork.name == name:
                return fork
        raise KeyError(name)

    def __str__(self) -> str:
        table = [self.heads, *self.rows]
        widths = [max(len(row[at]) for row in table) for at in range(len(self.heads))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join(lines) if self.forks else "there are no forks; t.fork(COMMIT, model=...) makes one"

    __repr__ = __str__


class Forks:
    """The forks of a tract in this session. Calling it puts them side by side, with what they were forked from.

    Args:
        tract: what is changed on a fork.
        repository: its history.
        chat: asks for a reply, as `Tract.chat` does.
        models: those that a fork may name.
        costs: says what replies cost.
    """

    def __init__(
        self,
        tract: object,
        repository: Repository,
        chat: Callable[..., RunResponse],
        models: Callable[[], Models],
        costs: Costs,
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._chat = chat
        self._models = models
        self._costs = costs
        self._made: dict[tuple[str, str | None], list[Fork]] = {}  # by the branch and commit that they left

    def __call__(self) -> ForkTable:
        """Return the forks of this session side by side, each below what it was forked from.

        Raises:
            StoreError: the store cannot be read.
        """
        found: list[Fork] = []
        for (branch, base), forks in self._made.items():
            found += [self._original(branch, base), *forks]
        return ForkTable(tuple(found))

    def make(
        self,
        at: str | None = None,
        *,
        name: str | None = None,
        model: str | LLMClient | Callable[..., Any] | None = None,
        prompt: str | None = None,
        answer: object = None,
        change: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> Fork:
        """Let the conversation go on from one of its steps in another way; see `Tract.fork`.

        Raises:
            TractError: as of `Tract.fork`.
        """
        here = self._repository.refs.position
        if here.branch is None:
            raise DetachedHeadError("HEAD is detached, and a fork comes back to a branch; switch to one")
        commit = self._repository.commits.get(at or "HEAD")
        role = self._role(commit)
        if prompt is not None:
            check_text(prompt, "prompt")
            if answer is not None:
                raise ContentError("a fork has another prompt or another answer; make one fork for each")
        if answer is not None and role != "tool":
            raise ContentError(
                f"commit {commit.short_hash} is no answer of a tool, so there is none to change; log() shows which are"
            )
        kept = self._later_answers(commit) if role == "tool" else []
        base = _base(commit, role, kept, has_prompt=prompt is not None, has_answer=answer is not None)
        name = name or self._free_name()
        settings, asked = self._asked(model)
        self._repository.refs.branch(name, source=base, is_empty=base is None)
        try:
            if answer is not None:
                self._answer(commit, answer, kept)
            if change is not None:
                change(self._tract)
            start = self._repository.refs.position.commit_hash
            with asked:
                outcome, note, text = self._went_on(prompt, {**settings, **options})
            fork = self._read(
                name, base, start, _changed(model, prompt, answer, change, options), outcome, note, text
            )
        finally:
            self._repository.refs.switch(here.branch)
        self._made.setdefault((here.branch, base), []).append(fork)
        return fork

    # --- where it begins

    def _role(self, commit: CommitInfo) -> str:
        content = self._repository.commits.entry(commit.commit_hash).content
        return "tool" if commit.content_type == _TOOL else str(content.get("role") or commit.content_type)

    def _later_answers(self, answer: CommitInfo) -> list[CommitInfo]:
        """Return the answers that follow one directly: those to the other calls of its step."""
        later: list[CommitInfo] = []
        for info in self._repository.history.log(None):
            if info.commit_hash == answer.commit_hash:
                following = []
                for one in reversed(later):
                    if one.content_type != _TOOL:
                        break
                    following.append(one)
                return following
            later.append(info)
        return []  # it is on another branch

    def _free_name(self) -> str:
        taken = {one.name for one in self._repository.refs.list_branches()}
        return next(name for number in range(1, len(taken) + 2) if (name := f"fork-{number}") not in taken)

    def _asked(self, model: Any) -> tuple[dict[str, Any], AbstractContextManager[object]]:
        """Return the options that have a model asked, and what has another client asked meanwhile."""
        if model is None:
            return {}, nullcontext()
        models = self._models()
        if isinstance(model, str) and model not in models and provider_of(model.strip()) is None:
            return {"model": check_text(model, "model")}, nullcontext()  # of the same client
        return {}, models.lent(model)

    # --- what is changed

    def _answer(self, commit: CommitInfo, answer: object, kept: list[CommitInfo]) -> None:
        """Commit another answer of a tool, and again those of the calls after it."""
        commits = self._repository.commits
        text = answer if isinstance(answer, str) else canonical_json(answer)
        content = commits.entry(commit.commit_hash).content
        metadata = {key: value for key, value in commit.metadata.items() if key != "original_content"}
        with self._repository.writer.batch():
            commits.commit({**content, "payload": {"content": text}, "status": None}, metadata=metadata)
            for one in kept:
                commits.commit(commits.entry(one.commit_hash).content, metadata=dict(one.metadata))

    def _went_on(self, prompt: str | None, options: dict[str, Any]) -> tuple[str, str, str]:
        """Ask, and return how that ended; errors of a model are an outcome like others."""
        try:
            response = self._chat(prompt, **options)
        except (LLMError, RunError, UndecidedError) as error:
            return ERROR, str(error), ""
        return str(response.outcome), response.note, response.text

    # --- what came of it

    def _read(
        self, name: str, base: str | None, start: str | None, changed: str, outcome: str, note: str, text: str
    ) -> Fork:
        """Return a fork with the figures of the commits after `start`."""
        head = self._repository.refs.at(name).commit_hash
        since = self._since(head, start)
        replies = [one for one in since if self._role(one) == "assistant"]
        lines = [line for one in replies for line in self._costs.of(one.commit_hash).lines]
        models = [str(one.generation_config.get("model") or "") for one in replies]
        return Fork(
            name, base, head, changed, outcome, note, text, models[-1] if models else "", len(replies),
            sum(one.content_type == _TOOL for one in since), CostReport.of(lines),
        )  # fmt: skip

    def _since(self, head: str | None, start: str | None) -> list[CommitInfo]:
        found: list[CommitInfo] = []
        while head is not None and head != start:
            info = self._repository.commits.get(head)
            found.append(info)
            head = info.parent_hash
        return found[::-1]

    def _original(self, branch: str, base: str | None) -> Fork:
        """Return how the conversation itself goes on where it was forked."""
        head = self._repository.refs.at(branch).commit_hash
        last = self._repository.commits.get(head) if head is not None and head != base else None
        is_reply = (
            last is not None and self._role(last) == "assistant" and not last.metadata.get("tool_calls")
        )
        text = ""
        if last is not None and is_reply:
            text = str(self._repository.commits.entry(last.commit_hash).content.get("text") or "")
        outcome = str(TurnOutcome.ANSWER) if is_reply else "open"
        return self._read(branch, base, base, ORIGINAL, outcome, "", text)


def _base(
    commit: CommitInfo, role: str, later: list[CommitInfo], *, has_prompt: bool, has_answer: bool
) -> str | None:
    """Return the newest commit that a fork keeps."""
    if has_answer or (role == "user" and has_prompt) or (role == "assistant" and not has_prompt):
        return commit.parent_hash
    return later[-1].commit_hash if later else commit.commit_hash


def _changed(model: Any, prompt: str | None, answer: object, change: Any, options: dict[str, Any]) -> str:
    told = []
    if model is not None:
        told.append(f"model {model}" if isinstance(model, str) else f"model {type(model).__name__}")
    if prompt is not None:
        told.append(f"prompt {brief_repr(prompt)}")
    if answer is not None:
        told.append(f"answer {brief_repr(answer)}")
    if change is not None:
        told.append(getattr(change, "__name__", "change"))
    told += [f"{name}={brief_repr(value)}" for name, value in options.items()]
    return ", ".join(told) or "again"
