"""Summaries: who writes them, how long they may be, what they must keep, and how often writing is tried again.

Compressions, shorter answers of tools, the outcomes of children and curated histories all get their texts here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from tract_jupyter import prompts
from tract_jupyter.exceptions import CompressionError, ContentError
from tract_jupyter.llm import Reply, WholeReplies
from tract_jupyter.models import Priority, Retention, check_text, diagnosis_of, sha256, tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.models import CompressGroup, LLMClient, Message, Summarizer


_KEEPS: Final = "Change the summary, or annotate the important message without retain_match"
_TEXT: Final = "Give a text, or a summarizer that returns one"
_SHORTER: Final = "Shorten it: it may be no longer than the messages that it stands for"
_LIMITS: Final = "Shorten it, or give a larger target_tokens or token_tolerance"
_VALID: Final = "Change the summary, or what the validator demands"
_ALWAYS_ALLOWED: Final = 100
"""Tokens that a summary may have, however little it stands for."""
TOKEN_TOLERANCE: Final = 500
MAX_RETRIES: Final = 3
SUMMARIZING: Final = "Writing summaries"
"""What a person is told meanwhile."""

_SUMMARIZER: Final = "a summarizer is a function (messages, criteria, instructions, target_tokens) -> str"


class ModelText(str):
    """A text that a model wrote.

    Attributes:
        generation_config: names the model, if its reply does.
        usage: the tokens that it took, as a reply's commit keeps them.
    """

    __slots__ = ("generation_config", "usage")
    generation_config: dict[str, Any]
    usage: dict[str, Any]

    def __new__(
        cls, text: str, generation_config: dict[str, Any] | None = None, usage: dict[str, Any] | None = None
    ) -> Self:
        """Make it of the text."""
        made = super().__new__(cls, text)
        made.generation_config, made.usage = generation_config or {}, usage or {}
        return made

    def after(self, earlier: Iterable[object]) -> ModelText:
        """Return it with the usage of earlier texts, in whose place it was written."""
        used = [one.usage for one in earlier if isinstance(one, ModelText) and one.usage]
        if not used:
            return self
        failed = [*used, *self.usage.get("failed_tries", ())]
        return ModelText(self, self.generation_config, {**self.usage, "failed_tries": failed})


def writer_of(text: object) -> dict[str, Any] | None:
    """Return who wrote a text, as JSON; None unless a model did."""
    if not isinstance(text, ModelText):
        return None
    return {"text": _digest(text), "generation_config": text.generation_config, "usage": text.usage}


def with_writer(text: str, writer: Mapping[str, Any] | None) -> str:
    """Return a text with who wrote it, as `writer_of` has it; as it is if it was changed since."""
    if writer is None or writer["text"] != _digest(text):
        return text
    return ModelText(text, writer["generation_config"], writer["usage"])


def writer_options(text: object, metadata: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the options of a commit, with `metadata`, that say which model wrote its text, and its usage."""
    if not isinstance(text, ModelText):
        return {"metadata": dict(metadata), "generation_config": None}
    usage = {"usage": text.usage} if text.usage else {}
    return {"metadata": {**metadata, **usage}, "generation_config": text.generation_config}


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass"))


class Problem(NamedTuple):
    """The problem of a summary, and the remedy."""

    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Source:
    """Texts that are given, one for each group, or a function that writes them.

    Attributes:
        content: the texts.
        summarizer: writes them instead.
        target_tokens: how long each should be.
        instructions: what the summarizer is told.
        validator: says what is wrong with a text; see `diagnosis_of`.
        token_tolerance: how many tokens over the target are still good.
        max_retries: how often the summarizer is asked again at most, and told what was wrong, for each text.
        count: counts the tokens of a text; without it no length is checked. What a provider counted corrects neither
            these nor the limits: a proposal's limits are among its fields, and an approval binds to them.

    Raises:
        CompressionError: these cannot be summaries.
    """

    content: str | Sequence[str] | None = None
    summarizer: Summarizer | Callable[..., str] | None = None
    target_tokens: int | None = None
    instructions: str | None = None
    validator: Callable[[str], object] | None = None
    token_tolerance: int | None = None
    max_retries: int = MAX_RETRIES
    count: Callable[[str], int] | None = None

    def __post_init__(self) -> None:
        if self.content is not None and self.summarizer is not None:
            raise CompressionError("give content, or a summarizer that writes it, not both")
        if self.content is not None and not _is_content(self.content):
            raise CompressionError(
                "content is the summary as a text, or a list of texts with one for each run of messages, "
                f"not {type(self.content).__name__}"
            )
        if self.summarizer is not None and not callable(self.summarizer):
            raise CompressionError(f"{_SUMMARIZER}, not {type(self.summarizer).__name__}")
        target = self.target_tokens
        if target is not None and (isinstance(target, bool) or not isinstance(target, int) or target < 1):
            raise CompressionError(f"target_tokens is a number of tokens for each summary, got {target!r}")
        for name in ("token_tolerance", "max_retries"):
            number = getattr(self, name)
            is_left_out = number is None and name == "token_tolerance"
            if not is_left_out and (type(number) is not int or number < 0):
                raise CompressionError(f"{name} is a whole number from 0 on, got {number!r}")
        if self.instructions is not None:
            check_text(self.instructions, "instructions", error=CompressionError)
        if self.validator is not None and not callable(self.validator):
            raise CompressionError(
                f"a validator is a function that is given the text, not {type(self.validator).__name__}"
            )

    def given(self, groups: Sequence[CompressGroup]) -> list[str] | None:
        """Return the texts that are given, None if there are none.

        Raises:
            CompressionError: there are more or fewer than groups.
        """
        if self.content is None:
            return None
        texts = [self.content] if isinstance(self.content, str) else list(self.content)
        if len(texts) != len(groups):
            sizes = ", ".join(str(len(group.messages)) for group in groups)
            raise CompressionError(
                f"{_count(len(texts))} given for {len(groups)} runs of messages (of {sizes} messages): what is pinned, "
                "preserved or not named stands between them. Give content as a list with a summary for each"
            )
        return texts

    def texts(self, groups: Sequence[CompressGroup]) -> list[str]:
        """Return the summaries, written and checked.

        Raises:
            CompressionError: there are none, or they are not good, or the summarizer takes other arguments.
        """
        given = self.given(groups)
        if given is not None:
            return self.checked(given, groups)
        return [self._good(group) for group in tracked(groups, SUMMARIZING)]

    def limit(self, group: CompressGroup) -> int | None:
        """Return how many tokens the summary of a group may have; None for any number.

        What a summarizer writes is no longer than what it stands for, whatever the target is.
        """
        bounds = []
        if self.target_tokens is not None:
            tolerance = TOKEN_TOLERANCE if self.token_tolerance is None else self.token_tolerance
            bounds.append(self.target_tokens + tolerance)
        if self.content is None:
            bounds.append(_own_limit(group))
        return min(bounds, default=None)

    def checked(self, texts: Sequence[str], groups: Sequence[CompressGroup]) -> list[str]:
        """Return the summaries, if they are good.

        Raises:
            CompressionError: one is not.
        """
        for text, group in zip(texts, groups, strict=True):
            problem = self.problem(text, group)
            if problem is not None:
                raise CompressionError(f"{problem.text}; nothing was changed. {problem.remedy}")
        return list(texts)

    def problem(self, text: object, group: CompressGroup) -> Problem | None:
        """Return the problem of a summary; None if it is good.

        Raises:
            CompressionError: a pattern that it must match takes too long for it.
        """
        first = f"the summary of the messages from {group.commits[0][:8]} on"
        if not isinstance(text, str):
            return Problem(f"{first} is {type(text).__name__}, and no text", _TEXT)
        if not text.strip():
            return Problem(f"{first} is empty", _TEXT)
        if self.count is not None and (limit := self.limit(group)) is not None and self.count(text) > limit:
            target = "" if self.target_tokens is None else f" (the target is {self.target_tokens:,})"
            return Problem(
                f"{first} has {self.count(text):,} tokens, and {limit:,} are the most{target}",
                _SHORTER if self.content is None and limit == _own_limit(group) else _LIMITS,
            )
        try:
            missing = [one for criteria in group.criteria for one in Retention.missing(criteria, text)]
        except ContentError as error:
            raise CompressionError(
                f"{first} cannot be checked: {error}; nothing was changed. {_KEEPS}"
            ) from None
        if missing:
            names = ", ".join(map(repr, dict.fromkeys(missing)))
            return Problem(f"{first} must contain {names}, and does not", _KEEPS)
        diagnosis = "" if self.validator is None else diagnosis_of(self.validator(text))
        return Problem(f"{first} is not good: {diagnosis}", _VALID) if diagnosis else None

    def _good(self, group: CompressGroup) -> str:
        """Have the summary of a group written.

        Raises:
            CompressionError: none was good.
        """
        text, problems = self.attempted(group)
        if not problems:
            return text
        tries = f" ({len(problems)} attempts, none of which was good)" if len(problems) > 1 else ""
        told = "; ".join(dict.fromkeys(one.text for one in problems))
        remedies = ". ".join(dict.fromkeys(one.remedy for one in problems))
        raise CompressionError(f"{told}{tries}; nothing was changed. {remedies}")

    def attempted(self, group: CompressGroup, guidance: str | None = None) -> tuple[str, list[Problem]]:
        """Have the summary of a group written until it is good, or no attempt is left.

        Args:
            group: what it stands for.
            guidance: told before the instructions.

        Returns:
            The last text, which may be anything that the summarizer gives, and what is wrong with each, if the last one
            is not good.

        Raises:
            CompressionError: there is no summarizer, or it takes other arguments.
        """
        problems: list[Problem] = []
        earlier: list[object] = []
        while True:
            text: Any = self.write(group, guidance, problems[-1].text if problems else None)
            text = text.after(earlier) if isinstance(text, ModelText) else text
            earlier = [text]
            problem = self.problem(text, group)
            if problem is None:
                return text, []
            problems.append(problem)
            # what is no text is no model's mistake, and would be made again
            if len(problems) > self.max_retries or not isinstance(text, str):
                return text, problems

    def write(self, group: CompressGroup, guidance: str | None = None, problem: str | None = None) -> str:
        """Have the summarizer write the summary of a group.

        Args:
            group: what it stands for.
            guidance: told before the instructions.
            problem: what was wrong with the last one; told after them.

        Raises:
            CompressionError: there is none, or it takes other arguments.
        """
        summarizer = self.summarizer
        if summarizer is None:
            raise CompressionError(
                "nothing to put in the place of the messages; give content, or a summarizer"
            )
        instructions = guided(guidance, self.instructions)
        if problem is not None:
            again = f"Your last text was not good: {problem}. Write it anew."
            instructions = f"{instructions}\n\n{again}" if instructions else again
        arguments = (group.messages, group.criteria, instructions, self.target_tokens)
        try:
            return summarizer(*arguments)
        except TypeError as error:
            inside = error.__traceback__ and error.__traceback__.tb_next
            if inside or _takes(summarizer, arguments):
                raise
            raise CompressionError(
                f"{_SUMMARIZER}, and is called with these four arguments; this one does not take them ({error}); "
                "nothing was changed. Give it these parameters, or *args"
            ) from error


def _own_limit(group: CompressGroup) -> int:
    """Return how many tokens the summary of a group may have at most, whatever the target is."""
    return max(group.tokens, _ALWAYS_ALLOWED)


def guided(guidance: str | None, instructions: str | None) -> str | None:
    """Return what a summarizer is told: the guidance first."""
    if not guidance:
        return instructions
    return f"Guidance:\n{guidance}" + (f"\n\n{instructions}" if instructions else "")


def _is_content(given: object) -> bool:
    """Return True if it is a text or a sequence of texts."""
    return isinstance(given, Iterable) and not isinstance(given, Mapping | AbstractSet | bytes | bytearray)


def _takes(function: Callable[..., object], arguments: Sequence[object]) -> bool:
    """Return True if a function accepts these arguments, or if its signature is unknown."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def inherited(group: CompressGroup) -> tuple[Priority | None, dict[str, Any] | None]:
    """Return the priority and retention criteria of a summary: the next compression must keep what this one had to."""
    important = any(message.priority is Priority.IMPORTANT for message in group.messages)
    if not important:
        return None, None
    return Priority.IMPORTANT, _joined(group.criteria)


def _joined(criteria: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    instructions = dict.fromkeys(c["instructions"] for c in criteria if c["instructions"])
    regex = any(c["match_mode"] == "regex" for c in criteria)
    patterns = dict.fromkeys(
        re.escape(pattern) if regex and c["match_mode"] != "regex" else pattern
        for c in criteria
        for pattern in c["match_patterns"]
    )
    return Retention.of("\n".join(instructions) or None, list(patterns), "regex" if regex else "substring")


def _count(summaries: int) -> str:
    return "1 summary was" if summaries == 1 else f"{summaries} summaries were"


def summarizer_for(
    client: LLMClient | None,
    content: object,
    summarizer: Summarizer | None,
    system_prompt: str | None = None,
    context: Sequence[Message] = (),
) -> Summarizer | None:
    """Return who writes summaries: a model, where there is one and nothing else is given.

    Args:
        client: asks the model.
        content: the summaries, if they are given.
        summarizer: writes them, if one is given.
        system_prompt: what the model is told about its task, instead of the usual words.
        context: the messages around, shown to the model.
    """
    if content is not None or summarizer is not None or client is None:
        return summarizer
    if system_prompt is not None:
        check_text(system_prompt, "system_prompt")
    return LLMSummarizer(client, system_prompt=system_prompt, context=context)


class LLMSummarizer:
    """A `Summarizer` that asks a client.

    Args:
        client: who is asked.
        system_prompt: instead of the usual words about the task.
        context: the whole context, which is shown beside the messages, to be understood by.
    """

    task: ClassVar[str] = prompts.SUMMARIZE

    def __init__(
        self, client: LLMClient, *, system_prompt: str | None = None, context: Sequence[Message] = ()
    ) -> None:
        self._client = client
        self._system_prompt = self.task if system_prompt is None else system_prompt
        self._context = context

    def __call__(
        self,
        messages: Sequence[Message],
        criteria: Sequence[dict[str, Any]],
        instructions: str | None,
        target_tokens: int | None,
    ) -> str:
        """Return the text; see `protocols.Summarizer`.

        Raises:
            LLMResponseError: the client's reply cannot be read.
        """
        kept = [part for each in criteria for part in (each["instructions"], *each["match_patterns"]) if part]
        wanted = prompts.wishes(instructions, target_tokens, kept)
        asked = self._request(messages, wanted, _around(self._context, messages))
        return _ask(self._client, self._system_prompt, asked)

    def _request(self, messages: Sequence[Message], wanted: str, around: Sequence[str]) -> str:
        return prompts.summary_request(list(map(message_text, messages)), wanted, around)


class AnswerShortener(LLMSummarizer):
    """The same for single answers of tools."""

    task = prompts.SHORTEN

    def _request(self, messages: Sequence[Message], wanted: str, around: Sequence[str]) -> str:
        (answer,) = messages
        return prompts.shortening_request(answer.name or "", str(answer.content), wanted, around)


def _around(context: Sequence[Message], taken: Sequence[Message]) -> list[str]:
    """Return the other messages of a context, as texts."""
    hashes = {message.commit_hash for message in taken}
    return [message_text(message) for message in context if message.commit_hash not in hashes]


def guidance(client: LLMClient, task: str, texts: Sequence[str], instructions: str | None) -> str:
    """Ask a client what matters in some texts, before they are summarized.

    Args:
        client: who is asked.
        task: what is about to be done, as in `sum messages up`.
        texts: what it is done with.
        instructions: what whoever asked wants.

    Raises:
        LLMResponseError: the client's reply cannot be read.
    """
    return str(_ask(client, prompts.GUIDE.format(task=task), prompts.guidance_request(texts, instructions)))


def message_text(message: Message) -> str:
    """Return a message with its role, as text."""
    return f"[{message.role}] {message.told}"


def _ask(client: LLMClient, system: str, asked: str) -> ModelText:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": asked}]
    reply = Reply.of(WholeReplies(client).chat(messages))
    return ModelText(reply.text, {"model": reply.model} if reply.model else {}, reply.usage)
