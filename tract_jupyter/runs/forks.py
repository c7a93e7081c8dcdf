"""Forks: a conversation goes on from one of its steps in another way, beside what it was.

A fork is a branch. What comes before it are the same commits, so that it costs nothing and providers have it in their
cache; only what is asked from there on is new.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    BranchExistsError,
    BranchNotFoundError,
    ContentError,
    DetachedHeadError,
    LLMError,
    RunError,
    TractError,
    UndecidedError,
)
from tract_jupyter.llm import CostReport, costs_of_block
from tract_jupyter.models import (
    COMPRESSED_FROM,
    Priority,
    TurnOutcome,
    brief_repr,
    canonical_json,
    check_text,
    one_line,
)
from tract_jupyter.storage import ANNOTATE, APPEND, OwnHead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import CostLine, Models
    from tract_jupyter.loop import ToolLoop
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
_REPLIES: Final = frozenset({"dialogue", "reasoning"})
"""The types of content that stand for a reply, and may be asked for again."""


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
        return (
            "\n".join(lines) if self.forks else "there are no forks; tract.fork(COMMIT, model=...) makes one"
        )

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a fork begins.

    Attributes:
        base: the newest commit that it keeps; None for none.
        aside: messages that it has and does not send: those that another one takes the place of.
        question: what the user said last, if the model is to be asked again.
        answered: the answer that is another one.
        kept: the answers after that.
    """

    base: str | None
    aside: tuple[str, ...] = ()
    question: str | None = None
    answered: CommitInfo | None = None
    kept: tuple[CommitInfo, ...] = ()


class Forks:
    """The forks of a tract in this session. Calling it puts them side by side, with what they were forked from.

    Args:
        tract: what is changed on a fork.
        repository: its history.
        chat: asks for a reply, as `Tract.chat` does.
        models: those that a fork may name.
        costs: says what replies cost.
        loop: says how answers of tools are shown to a model.
    """

    def __init__(
        self,
        tract: object,
        repository: Repository,
        chat: Callable[..., RunResponse],
        models: Callable[[], Models],
        costs: Costs,
        loop: Callable[[], ToolLoop],
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._chat = chat
        self._models = models
        self._costs = costs
        self._loop = loop
        self._made: dict[tuple[str, str | None], list[Fork]] = {}  # by the branch and commit that they left

    def __call__(self) -> ForkTable:
        """Return the forks of this session side by side, each below what it was forked from.

        Raises:
            StoreError: the store cannot be read.
        """
        found: list[Fork] = []
        for (branch, base), forks in self._made.items():
            with suppress(BranchNotFoundError):  # it was deleted since
                found.append(self._original(branch, base))
            found += forks
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
        _check(prompt, answer, change, options)
        here = self._repository.refs.position
        if here.branch is None:
            raise DetachedHeadError("HEAD is detached, and a fork stands beside a branch; switch to one")
        commit = self._repository.commits.get("HEAD" if at is None else at)
        start = self._start(commit, has_prompt=prompt is not None, has_answer=answer is not None)
        told = _changed(model, prompt, answer, change, options)
        with self._asked(model), costs_of_block() as spent:
            self._models().default.check("chat")
            head = OwnHead(
                self._branch(name, start.base),
                refusal="a fork stays on its own branch, so HEAD cannot be moved from within it; branch(..., "
                "switch=False) makes a branch",
            )
            with self._repository.refs.with_head(head):
                fork_branch, paid = head.branch or "", spent
                try:
                    self._change(fork_branch, start, prompt, answer, change)
                    paid = (
                        spent.copy()
                    )  # what was paid for until here is on the branch, a reply that is cut is not
                    fork = self._went_on(fork_branch, start.base, told, prompt, options, paid)
                except BaseException as error:
                    if self._has_results(start.base, paid=bool(paid)):
                        error.add_note(
                            f"Branch {fork_branch!r} of this fork stays, as it has what a model was paid for; "
                            f"delete_branch({fork_branch!r}, force=True) removes it."
                        )
                    else:
                        self._give_up(head, here.branch)
                    raise
        self._made.setdefault((here.branch, start.base), []).append(fork)
        return fork

    def _change(
        self,
        name: str,
        start: _Start,
        prompt: str | None,
        answer: object,
        change: Callable[[Any], object] | None,
    ) -> None:
        """Change what is to be changed."""
        for one in start.aside:
            self._repository.commits.annotate(
                one, Priority.SKIP, "set aside in a fork, where another one comes"
            )
        if answer is not None:
            self._answer(start, answer)
        if change is not None:
            change(self._tract)
            if prompt is None:
                self._ask_again(start, name)

    def _went_on(
        self,
        name: str,
        base: str | None,
        changed: str,
        prompt: str | None,
        options: dict[str, Any],
        before: Iterable[CostLine],
    ) -> Fork:
        """Ask, and return what came of it; errors of a model, or of a function that stands for one, are an outcome."""
        begin = self._repository.refs.position.commit_hash
        outcome, note, text = ERROR, "", ""
        try:
            response = self._chat(prompt, **options)
        except (LLMError, RunError, UndecidedError) as error:
            note = str(error)
        except TractError:  # it was asked for in a way that cannot be
            raise
        except Exception as error:  # noqa: BLE001 # a model may be anybody's function
            note = f"{type(error).__name__}: {error}"
        else:
            outcome, note, text = str(response.outcome), response.note, response.text
        return self._read(name, base, begin, changed, outcome, note, text, before)

    # --- where it begins

    def _start(self, commit: CommitInfo, *, has_prompt: bool, has_answer: bool) -> _Start:
        """Return where a fork begins at a commit."""
        role = self._role(commit)
        if has_answer:
            if role != "tool":
                raise ContentError(
                    f"commit {commit.short_hash} is no answer of a tool, so there is none to change; log() shows "
                    "which are"
                )
            return _Start(commit.parent_hash, answered=commit, kept=tuple(self._later_answers(commit)))
        if has_prompt and role == "user":
            return _Start(commit.parent_hash)
        # the answers of a step stay together; and what was called before a prompt has its answers
        later = self._later_answers(commit) if role == "tool" or (has_prompt and role == "assistant") else []
        end = later[-1] if later else commit
        said = [one for one in self._repository.compiler.of(end.commit_hash).messages if one.role != "system"]
        if has_prompt:
            is_open = bool(said) and said[-1].role == "user" and said[-1].commit_hash is not None
            return _Start(end.commit_hash, (str(said[-1].commit_hash),) if is_open else ())
        replies: list[str] = []
        while said and said[-1].role == "assistant":
            replies.append(self._reply(said.pop().commit_hash, commit))
        if not said or said[-1].commit_hash is None:
            raise ContentError(
                f"before commit {commit.short_hash} nothing was said that a model could reply to; give a prompt, or "
                "another commit"
            )
        base: str | None = end.commit_hash
        while base is not None:  # what is only about those replies goes with them
            info = self._repository.commits.get(base)
            if not {info.commit_hash, info.edit_target}.intersection(replies):
                break
            replies = [one for one in replies if one != base]
            base = info.parent_hash
        asked = next((one.commit_hash for one in reversed(said) if one.role == "user"), None)
        return _Start(base, tuple(replies), question=asked)

    def _reply(self, found: str | None, commit: CommitInfo) -> str:
        """Return the commit of a reply, which may be asked for again."""
        info = None if found is None else self._repository.commits.get(found)
        if info is None or info.content_type not in _REPLIES or COMPRESSED_FROM in info.metadata:
            what = "a summary" if info is not None and COMPRESSED_FROM in info.metadata else "no reply"
            raise ContentError(
                f"what the context ends with at commit {commit.short_hash} is {what} of a model, so there is no "
                "question to ask again; give a prompt, or another commit"
            )
        return info.commit_hash

    def _role(self, commit: CommitInfo) -> str:
        if commit.operation != APPEND:
            return commit.operation
        content = self._repository.commits.entry(commit.commit_hash).content
        return "tool" if commit.content_type == _TOOL else str(content.get("role") or commit.content_type)

    def _later_answers(self, commit: CommitInfo) -> list[CommitInfo]:
        """Return the answers that follow a commit directly, on the current branch or else on another one."""
        refs = self._repository.refs
        tips = [refs.position.commit_hash, *(one.commit_hash for one in refs.list_branches())]
        for tip in dict.fromkeys(tips):
            if tip is None or commit.commit_hash not in self._ancestors(tip):
                continue
            following: list[CommitInfo] = []
            for info in self._since(tip, commit.commit_hash):
                if info.content_type != _TOOL:
                    break
                following.append(info)
            return following
        return []

    def _ancestors(self, tip: str) -> set[str]:
        with self._repository.timelines.lock:
            return {step.commit_hash for step in self._repository.timelines.at(tip).steps}

    def _branch(self, name: str | None, base: str | None) -> str:
        """Make the branch of a fork, and return its name."""
        refs = self._repository.refs
        if name is not None:
            refs.branch(name, source=base, switch=False, is_empty=base is None)
            return name
        for number in count(1):
            free = f"fork-{number}"
            with suppress(BranchExistsError):
                refs.branch(free, source=base, switch=False, is_empty=base is None)
                return free
        raise AssertionError

    @contextmanager
    def _asked(self, model: Any) -> Iterator[None]:
        """Have another model asked in this fork, and what is chosen within it count there alone."""
        models = self._models()
        if model is None:
            with models.default.apart():
                yield
        elif isinstance(model, str) and models.named(check_text(model, "model")) is None:
            with models.default.apart(model):  # of the same client
                yield
        else:
            with models.lent(model):
                yield

    def _has_results(self, base: str | None, *, paid: bool) -> bool:
        """Return True if the current branch has a reply that its base has not; if something was paid, anything new."""
        try:
            before = set() if base is None else self._ancestors(base)
            here = self._repository.refs.position.commit_hash
            new = set() if here is None else self._ancestors(here) - before
            roles = {self._role(self._repository.commits.get(one)) for one in new}
        except TractError:  # the store cannot be read, or the branch is gone
            return True
        return "assistant" in roles or (paid and bool(roles - {ANNOTATE}))

    def _give_up(self, head: OwnHead, back: str) -> None:
        """Remove the branch of a fork that came to nothing."""
        name, head.branch = head.branch or "", back
        with suppress(TractError):
            self._repository.refs.delete(name, force=True)

    # --- what is changed

    def _answer(self, start: _Start, answer: object) -> None:
        """Commit another answer of a tool, as a model is shown it, and again those of the calls after it."""
        if start.answered is None:
            return
        commits, commit = self._repository.commits, start.answered
        content = commits.entry(commit.commit_hash).content
        metadata = {key: value for key, value in commit.metadata.items() if key != "original_content"}
        shown = self._loop().shown(
            answer if isinstance(answer, str) else canonical_json(answer),
            str(metadata.get("tool_call_id", "")),
            1 + len(start.kept),
        )
        if shown.whole is not None:
            metadata["original_content"] = shown.whole
        with self._repository.writer.batch():
            commits.commit({**content, "payload": {"content": shown.text}, "status": None}, metadata=metadata)
            for one in start.kept:
                commits.commit(commits.entry(one.commit_hash).content, metadata=dict(one.metadata))

    def _ask_again(self, start: _Start, name: str) -> None:
        """Say the question again if `change` has put something else into its place, such as a summary.

        Raises:
            ContentError: there is nothing to reply to.
        """
        here = self._repository.refs.position.commit_hash
        messages = () if here is None else self._repository.compiler.of(here).messages
        said = [one for one in messages if one.role != "system"]
        if said and said[-1].role != "assistant":
            return
        if here is None or start.question is None or start.question in self._ancestors(here):
            raise ContentError(
                f"after `change`, the context on {name!r} ends with nothing that a model could reply to; give a "
                "prompt, which comes after it"
            )
        entry = self._repository.commits.entry(start.question)
        self._repository.commits.commit(entry.content, metadata=dict(entry.info(Priority.NORMAL).metadata))

    # --- what came of it

    def _read(
        self,
        name: str,
        base: str | None,
        start: str | None,
        changed: str,
        outcome: str,
        note: str,
        text: str,
        before: Iterable[CostLine] = (),
    ) -> Fork:
        """Return a fork with the figures of the commits after `start`, and with what was spent before."""
        head = self._repository.refs.at(name).commit_hash
        since = self._since(head, start)
        replies = [one for one in since if self._role(one) == "assistant"]
        lines = [line for one in replies for line in self._costs.of(one.commit_hash).lines]
        models = [str(one.generation_config.get("model") or "") for one in replies]
        return Fork(
            name, base, head, changed, outcome, note, text, models[-1] if models else "", len(replies),
            sum(one.content_type == _TOOL for one in since), CostReport.of([*before, *lines]),
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


def _check(prompt: object, answer: object, change: object, options: dict[str, Any]) -> None:
    if prompt is not None:
        if not check_text(prompt, "prompt").strip():
            raise ContentError(
                "the prompt is empty, so no fork was made; leave it out to have the context answered"
            )
        if answer is not None:
            raise ContentError("a fork has another prompt or another answer; make one fork for each")
    if change is not None and not callable(change):
        raise ContentError(
            f"change is a function that is called with the fork's tract, such as lambda t: t.compress(), not "
            f"{brief_repr(change)}"
        )
    if "text" in options:
        raise ContentError("a fork has no text: what the user says is its prompt")


def _changed(model: Any, prompt: str | None, answer: object, change: Any, options: dict[str, Any]) -> str:
    told = []
    if model is not None:
        told.append(f"model {model if isinstance(model, str) else _name_of(model)}")
    if prompt is not None:
        told.append(f"prompt {brief_repr(prompt)}")
    if answer is not None:
        told.append(f"answer {brief_repr(answer)}")
    if change is not None:
        told.append(_name_of(change, "change"))
    told += [f"{name}={brief_repr(value)}" for name, value in options.items()]
    return ", ".join(told) or "again"


def _name_of(given: Any, otherwise: str = "") -> str:
    """Return how a function or a client is called; of a function without a name, the line that it stands in."""
    name, code = getattr(given, "__name__", type(given).__name__), getattr(given, "__code__", None)
    if name != "<lambda>" or code is None:
        return str(name)
    return f"{otherwise} in line {code.co_firstlineno}".lstrip()
