"""Forks: a conversation continues from one of its steps with another model or prompt, on a branch.

The commits before the step are shared, so they cost nothing, and providers have them in their cache.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    BranchExistsError,
    BranchNotFoundError,
    ContentError,
    DetachedHeadError,
    LLMConfigError,
    LLMError,
    OutsideAgentError,
    RunError,
    TractError,
    UndecidedError,
)
from tract_jupyter.llm import CostReport
from tract_jupyter.models import COMPRESSED_FROM, Priority, TurnOutcome, brief_repr, check_text, one_line
from tract_jupyter.storage import APPEND, OwnHead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Models
    from tract_jupyter.models import CommitInfo, LLMClient
    from tract_jupyter.runs.costs import Costs
    from tract_jupyter.runs.turn import RunResponse

ORIGINAL: Final = "original"
"""The change of the branch that was forked."""
ERROR: Final = "error"
_HEADS: Final = ("Name", "Changed", "Model", "Outcome", "Text", "Steps", "Calls", "Tokens", "Cost")
_TEXT: Final = 48
_CHANGED: Final = 32
_TOOL: Final = "tool_io"
_REPLIES: Final = frozenset({"dialogue", "reasoning"})
"""The types of content that a model can be asked for again."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch on which a conversation continues, with the figures of its new commits.

    Attributes:
        name: the branch.
        base: the newest commit that it shares with the original; None if there is none.
        head: its newest commit.
        changed: the difference from the original, in words; `original` for the original itself.
        outcome: the end of its turn: one of `TurnOutcome`, or `error`.
        note: the reason for that end; empty for an answer.
        text: the model's last text.
        model: the model that replied; empty if none did.
        steps: the number of replies.
        calls: the number of tool calls with an answer.
        report: the tokens and costs of the replies.
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
        """Its row in a table."""
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


class Forks:
    """The forks of a tract in this session. Call it to compare them with the original.

    Args:
        repository: the tract's history.
        chat: asks for a reply, as `Tract.chat` does.
        models: the models that a fork may name.
        costs: the costs of replies.
    """

    def __init__(
        self,
        repository: Repository,
        chat: Callable[..., RunResponse],
        models: Models,
        costs: Costs,
    ) -> None:
        self._repository = repository
        self._chat = chat
        self._models = models
        self._costs = costs
        self._made: dict[
            tuple[str, str | None], list[Fork]
        ] = {}  # by the original branch and the shared commit

    def __call__(self) -> ForkTable:
        """Return the forks of this session, each after its original."""
        table: list[Fork] = []
        for (branch, base), forks in self._made.items():
            with suppress(BranchNotFoundError):  # it was deleted
                table.append(self._original(branch, base))
            table += forks
        return ForkTable(tuple(table))

    def make(
        self,
        at: str | None = None,
        *,
        name: str | None = None,
        model: str | LLMClient | Callable[..., Any] | None = None,
        prompt: str | None = None,
        **options: Any,
    ) -> Fork:
        """Continue the conversation from one of its steps; see `Tract.fork`."""
        _check(prompt, model, options)
        here = self._repository.refs.position
        if here.branch is None:
            raise DetachedHeadError("HEAD is detached, but a fork needs an original branch. Switch to one.")
        commit = self._repository.commits.get("HEAD" if at is None else at)
        base, replaced = self._start(commit, has_prompt=prompt is not None)
        changed = _changed(model, prompt, options)
        with self._models.lent(model):
            if options.get("agent") is None:
                self._check_model()
            branch = self._branch(name, base)
            head = OwnHead(
                branch,
                refusal="a fork stays on its own branch, so it cannot move HEAD; branch(..., "
                "switch=False) makes a branch",
            )
            with self._repository.refs.with_head(head):
                try:
                    for one in replaced:
                        self._repository.commits.annotate(one, Priority.SKIP, "replaced in a fork")
                    fork = self._ask(branch, base, changed, prompt, options)
                except BaseException as error:
                    if self._has_reply(base):
                        error.add_note(
                            f"Branch {branch!r} of this fork stays, because it has a reply that was paid for; "
                            f"delete_branch({branch!r}, force=True) removes it."
                        )
                    else:
                        head.branch = here.branch
                        with suppress(TractError):
                            self._repository.refs.delete(branch, force=True)
                    raise
        self._made.setdefault((here.branch, base), []).append(fork)
        return fork

    def _check_model(self) -> None:
        try:
            self._models.check("chat")
        except LLMConfigError as error:
            raise LLMConfigError(
                f"{error}. Or let an outside agent continue: t.fork(COMMIT, agent='claude', prompt='...')"
            ) from None

    def _ask(
        self, name: str, base: str | None, changed: str, prompt: str | None, options: dict[str, Any]
    ) -> Fork:
        """Ask the model, and return the fork. An error of the model, or of a function in its place, is an outcome."""
        begin = self._repository.refs.position.commit_hash
        outcome, note, text = ERROR, "", ""
        try:
            response = self._chat(prompt, **options)
        except (LLMError, RunError, UndecidedError) as error:
            note = str(error)
        except OutsideAgentError as error:
            if not self._has_reply(base):  # such as an unknown agent
                raise
            note = str(error)
        except TractError:  # the request itself is wrong
            raise
        except Exception as error:  # noqa: BLE001 # a model may be any function
            note = f"{type(error).__name__}: {error}"
        else:
            outcome, note, text = str(response.outcome), response.note, response.text
        return self._read(name, base, begin, changed, outcome, note, text)

    # --- where it begins

    def _start(self, commit: CommitInfo, *, has_prompt: bool) -> tuple[str | None, list[str]]:
        """Return the newest commit that a fork keeps, and the messages before it that the fork replaces."""
        role = self._role(commit)
        if has_prompt and role == "user":
            return commit.parent_hash, []
        # the answers to the calls of a step stay together
        later = self._later_answers(commit) if role == "tool" or (has_prompt and role == "assistant") else []
        end = later[-1] if later else commit
        messages = [
            one for one in self._repository.compiler.of(end.commit_hash).messages if one.role != "system"
        ]
        if has_prompt:
            is_open = bool(messages) and messages[-1].role == "user" and messages[-1].commit_hash is not None
            return end.commit_hash, [str(messages[-1].commit_hash)] if is_open else []
        replies: list[str] = []
        while messages and messages[-1].role == "assistant":
            replies.append(self._reply(messages.pop().commit_hash, commit))
        if not messages or messages[-1].commit_hash is None:
            raise ContentError(
                f"before commit {commit.short_hash} there is no message that a model could reply to; give a prompt, or "
                "another commit"
            )
        base: str | None = end.commit_hash
        while base is not None:  # a fork does not keep the replies, nor edits and annotations of them
            info = self._repository.commits.get(base)
            if not {info.commit_hash, info.edit_target}.intersection(replies):
                break
            replies = [one for one in replies if one != base]
            base = info.parent_hash
        return base, replies

    def _reply(self, reply_hash: str | None, commit: CommitInfo) -> str:
        """Return the commit of a reply if the model can reply again."""
        info = None if reply_hash is None else self._repository.commits.get(reply_hash)
        if info is None or info.content_type not in _REPLIES or COMPRESSED_FROM in info.metadata:
            raise ContentError(
                f"the context at commit {commit.short_hash} ends with a summary or another text that is not a reply, "
                "so the model cannot reply again; give a prompt, or another commit"
            )
        return info.commit_hash

    def _role(self, commit: CommitInfo) -> str:
        if commit.operation != APPEND:
            return commit.operation
        content = self._repository.commits.entry(commit.commit_hash).content
        return "tool" if commit.content_type == _TOOL else str(content.get("role") or commit.content_type)

    def _later_answers(self, commit: CommitInfo) -> list[CommitInfo]:
        """Return the answers directly after a commit, on the current branch or else on another one."""
        refs = self._repository.refs
        tips = [refs.position.commit_hash, *(one.commit_hash for one in refs.list_branches())]
        for tip in dict.fromkeys(tips):
            if tip is not None and commit.commit_hash in self._ancestors(tip):
                return list(
                    takewhile(lambda one: one.content_type == _TOOL, self._since(tip, commit.commit_hash))
                )
        return []

    def _ancestors(self, tip: str) -> set[str]:
        with self._repository.timelines.lock:
            return {step.commit_hash for step in self._repository.timelines.at(tip).steps}

    def _branch(self, name: str | None, base: str | None) -> str:
        for free in [name] if name is not None else (f"fork-{number}" for number in count(1)):
            try:
                self._repository.refs.branch(free, source=base, switch=False, is_empty=base is None)
            except BranchExistsError:
                if name is not None:
                    raise
            else:
                return free
        raise AssertionError

    def _has_reply(self, base: str | None) -> bool:
        try:
            new = self._since(self._repository.refs.position.commit_hash, base)
            return any(self._role(one) == "assistant" for one in new)
        except TractError:  # the store cannot be read
            return True

    # --- the result

    def _read(
        self,
        name: str,
        base: str | None,
        start: str | None,
        changed: str,
        outcome: str,
        note: str,
        text: str,
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
        commits: list[CommitInfo] = []
        while head is not None and head != start:
            info = self._repository.commits.get(head)
            commits.append(info)
            head = info.parent_hash
        return commits[::-1]

    def _original(self, branch: str, base: str | None) -> Fork:
        """Return the original after the commit that its forks share."""
        head = self._repository.refs.at(branch).commit_hash
        last = self._repository.commits.get(head) if head is not None and head != base else None
        text = ""
        is_reply = (
            last is not None and self._role(last) == "assistant" and not last.metadata.get("tool_calls")
        )
        if last is not None and is_reply:
            text = str(self._repository.commits.entry(last.commit_hash).content.get("text") or "")
        outcome = str(TurnOutcome.ANSWER) if is_reply else "open"
        return self._read(branch, base, base, ORIGINAL, outcome, "", text)


def _check(prompt: object, model: object, options: dict[str, Any]) -> None:
    if prompt is not None and not check_text(prompt, "prompt").strip():
        raise ContentError("the prompt is empty, so no fork was made; omit it to answer the context")
    if "text" in options:
        raise ContentError("a fork has no text; give the user's message as `prompt`")
    if options.get("agent") is not None and (prompt is None or model is not None):
        raise ContentError(
            "An outside agent cannot repeat a request, and uses its own model, so no fork was made. Give a prompt, and "
            "no model: t.fork(COMMIT, agent='claude', prompt='...')"
        )


def _changed(model: Any, prompt: str | None, options: dict[str, Any]) -> str:
    changes = []
    if model is not None:
        changes.append(f"model {model if isinstance(model, str) else _name_of(model)}")
    if prompt is not None:
        changes.append(f"prompt {brief_repr(prompt)}")
    changes += [f"{name}={brief_repr(value)}" for name, value in options.items()]
    return ", ".join(changes) or "again"


def _name_of(client: Any) -> str:
    return str(getattr(client, "__name__", type(client).__name__))
