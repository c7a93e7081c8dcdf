"""Summaries: their source, length limits, retention rules and retries.

Compressions, shorter tool results, and results of children use this module.
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
_TEXT: Final = "Pass a text, or a summarizer that returns one"
_SHORTER: Final = "Shorten it: it must not be longer than the replaced messages"
_LIMITS: Final = "Shorten it, or set a larger target_tokens or token_tolerance"
_VALID: Final = "Change the summary, or the validator"
_ALWAYS_ALLOWED: Final = 100
"""The minimum length limit of a summary, in tokens."""
TOKEN_TOLERANCE: Final = 500
MAX_RETRIES: Final = 3
SUMMARIZING: Final = "Writing summaries"
"""The progress label for the user."""

_SUMMARIZER: Final = "summarizer must be a function (messages, criteria, instructions, target_tokens) -> str"


class ModelText(str):
    """A text by a model.

    Attributes:
        generation_config: the model's name, if the reply has it.
        usage: the token usage, in the form of a reply's commit.
    """

    __slots__ = ("generation_config", "usage")
    generation_config: dict[str, Any]
    usage: dict[str, Any]

    def __new__(
        cls, text: str, generation_config: dict[str, Any] | None = None, usage: dict[str, Any] | None = None
    ) -> Self:
        """Create it from the text."""
        instance = super().__new__(cls, text)
        instance.generation_config, instance.usage = generation_config or {}, usage or {}
        return instance

    def after(self, earlier: Iterable[object]) -> ModelText:
        """Return the text with the usage of earlier rejected texts."""
        used = [text.usage for text in earlier if isinstance(text, ModelText) and text.usage]
        if not used:
            return self
        failed = [*used, *self.usage.get("failed_tries", ())]
        return ModelText(self, self.generation_config, {**self.usage, "failed_tries": failed})


def writer_of(text: object) -> dict[str, Any] | None:
    """Return the model of a text, as JSON; None without a model."""
    if not isinstance(text, ModelText):
        return None
    return {"text": _digest(text), "generation_config": text.generation_config, "usage": text.usage}


def with_writer(text: str, writer: Mapping[str, Any] | None) -> str:
    """Attach the result of `writer_of` to a text, unless the text changed since."""
    if writer is None or writer["text"] != _digest(text):
        return text
    return ModelText(text, writer["generation_config"], writer["usage"])


def writer_options(text: object, metadata: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return options of a commit: `metadata`, the model of its text, and the usage."""
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
    """The source of summaries: one text for each group, or a function that writes them.

    Attributes:
        content: the texts.
        summarizer: writes the texts.
        target_tokens: the length of each text.
        instructions: instructions for the summarizer.
        validator: finds problems of a text; see `diagnosis_of`.
        token_tolerance: accepted tokens over the target.
        max_retries: the maximum number of retries for each text; a retry includes the problem.
        count: counts the tokens of a text; None disables length checks. Counts of providers correct neither these
            counts nor the limits: a proposal's fields include its limits, and an approval binds to them.

    Raises:
        CompressionError: invalid values.
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
            raise CompressionError("got both content and a summarizer; use only one of them")
        if self.content is not None and not _is_content(self.content):
            raise CompressionError(
                "content must be the summary as a text, or a list of texts with one for each run of messages, "
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
                raise CompressionError(f"{name} must be a whole number, 0 or more; got {number!r}")
        if self.instructions is not None:
            check_text(self.instructions, "instructions", error=CompressionError)
        if self.validator is not None and not callable(self.validator):
            raise CompressionError(
                f"validator must be a function that takes a text, not {type(self.validator).__name__}"
            )

    def provided(self, groups: Sequence[CompressGroup]) -> list[str] | None:
        """Return the caller's texts; None if there are none."""
        if self.content is None:
            return None
        texts = [self.content] if isinstance(self.content, str) else list(self.content)
        if len(texts) != len(groups):
            sizes = ", ".join(str(len(group.messages)) for group in groups)
            raise CompressionError(
                f"got {_count(len(texts), 'summary', 'summaries')} for {_count(len(groups), 'run', 'runs')} of "
                f"messages ({sizes} messages), which pinned, preserved or unnamed messages separate. Pass content as "
                "a list with a summary for each run"
            )
        return texts

    def texts(self, groups: Sequence[CompressGroup]) -> list[str]:
        """Return the summaries, written and checked."""
        provided = self.provided(groups)
        if provided is not None:
            return self.checked(provided, groups)
        return [self._accepted(group) for group in tracked(groups, SUMMARIZING)]

    def limit(self, group: CompressGroup) -> int | None:
        """Return the token limit for the summary of a group; None for no limit.

        A summarizer's text may not be longer than its messages, for any target.
        """
        bounds = []
        if self.target_tokens is not None:
            tolerance = TOKEN_TOLERANCE if self.token_tolerance is None else self.token_tolerance
            bounds.append(self.target_tokens + tolerance)
        if self.content is None:
            bounds.append(_own_limit(group))
        return min(bounds, default=None)

    def checked(self, texts: Sequence[str], groups: Sequence[CompressGroup]) -> list[str]:
        """Return the summaries if they have no problem.

        Raises:
            CompressionError: a summary has a problem.
        """
        for text, group in zip(texts, groups, strict=True):
            problem = self.problem(text, group)
            if problem is not None:
                raise CompressionError(f"{problem.text}; nothing was changed. {problem.remedy}")
        return list(texts)

    def problem(self, text: object, group: CompressGroup) -> Problem | None:
        """Return the problem of a summary, if any."""
        first = f"the summary of the messages from {group.commits[0][:8]} on"
        if not isinstance(text, str):
            return Problem(f"{first} is {type(text).__name__}, not a text", _TEXT)
        if not text.strip():
            return Problem(f"{first} is empty", _TEXT)
        if self.count is not None and (limit := self.limit(group)) is not None and self.count(text) > limit:
            target = "" if self.target_tokens is None else f" (the target is {self.target_tokens:,})"
            return Problem(
                f"{first} has {self.count(text):,} tokens, and the maximum is {limit:,}{target}",
                _SHORTER if self.content is None and limit == _own_limit(group) else _LIMITS,
            )
        try:
            missing = [
                pattern for criteria in group.criteria for pattern in Retention.missing(criteria, text)
            ]
        except ContentError as error:
            raise CompressionError(
                f"{first} cannot be checked: {error}; nothing was changed. {_KEEPS}"
            ) from None
        if missing:
            names = ", ".join(map(repr, dict.fromkeys(missing)))
            return Problem(f"{first} must contain {names}, but does not", _KEEPS)
        diagnosis = "" if self.validator is None else diagnosis_of(self.validator(text))
        return Problem(f"{first} is invalid: {diagnosis}", _VALID) if diagnosis else None

    def _accepted(self, group: CompressGroup) -> str:
        text, problems = self.attempted(group)
        if not problems:
            return text
        tries = f" ({len(problems)} attempts failed)" if len(problems) > 1 else ""
        reasons = "; ".join(dict.fromkeys(problem.text for problem in problems))
        remedies = ". ".join(dict.fromkeys(problem.remedy for problem in problems))
        raise CompressionError(f"{reasons}{tries}; nothing was changed. {remedies}")

    def attempted(self, group: CompressGroup, guidance: str | None = None) -> tuple[str, list[Problem]]:
        """Write the summary of a group, with retries until it has no problem.

        Returns:
            The last result of the summarizer, of any type, and the problems of all attempts; no problems if the last
            one is accepted.
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
            # a value that is not a text is an error of the function: no retry
            if len(problems) > self.max_retries or not isinstance(text, str):
                return text, problems

    def write(self, group: CompressGroup, guidance: str | None = None, problem: str | None = None) -> str:
        """Call the summarizer for a group.

        Args:
            group: the messages.
            guidance: text before the instructions.
            problem: the problem of the last attempt; text after the instructions.

        Raises:
            CompressionError: there is no summarizer, or it takes other arguments.
        """
        summarizer = self.summarizer
        if summarizer is None:
            raise CompressionError("there is no summary for the messages; pass content, or a summarizer")
        instructions = guided(guidance, self.instructions)
        if problem is not None:
            again = f"Your last text was rejected: {problem}. Write it again."
            instructions = f"{instructions}\n\n{again}" if instructions else again
        arguments = (group.messages, group.criteria, instructions, self.target_tokens)
        try:
            return summarizer(*arguments)
        except TypeError as error:
            inside = error.__traceback__ and error.__traceback__.tb_next
            if inside or _takes(summarizer, arguments):
                raise
            raise CompressionError(
                f"{_SUMMARIZER}, but this one does not take these four arguments ({error}); nothing was changed. Add "
                "the parameters, or *args"
            ) from error


def _own_limit(group: CompressGroup) -> int:
    """Return the token limit of a summary without a target."""
    return max(group.tokens, _ALWAYS_ALLOWED)


def guided(guidance: str | None, instructions: str | None) -> str | None:
    """Join guidance and instructions for a summarizer."""
    if not guidance:
        return instructions
    return f"Guidance:\n{guidance}" + (f"\n\n{instructions}" if instructions else "")


def _is_content(value: object) -> bool:
    """Return True if it is a text or a sequence of texts."""
    return isinstance(value, Iterable) and not isinstance(value, Mapping | AbstractSet | bytes | bytearray)


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
    """Return the priority and retention criteria of a summary: the next compression has the same rules."""
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


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def summarizer_for(
    client: LLMClient | None,
    content: object,
    summarizer: Summarizer | None,
    system_prompt: str | None = None,
    context: Sequence[Message] = (),
) -> Summarizer | None:
    """Return the summarizer: the caller's, or a model if the caller gave neither content nor a summarizer."""
    if content is not None or summarizer is not None or client is None:
        return summarizer
    if system_prompt is not None:
        check_text(system_prompt, "system_prompt")
    return LLMSummarizer(client, system_prompt=system_prompt, context=context)


class LLMSummarizer:
    """A `Summarizer` that sends requests to a client."""

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
        """Return the text; see `protocols.Summarizer`."""
        required = [
            part for each in criteria for part in (each["instructions"], *each["match_patterns"]) if part
        ]
        wanted = prompts.wishes(instructions, target_tokens, required)
        request = self._request(messages, wanted, _around(self._context, messages))
        return _ask(self._client, self._system_prompt, request)

    def _request(self, messages: Sequence[Message], wanted: str, around: Sequence[str]) -> str:
        return prompts.summary_request(list(map(message_text, messages)), wanted, around)


class AnswerShortener(LLMSummarizer):
    """A summarizer of single tool results."""

    task = prompts.SHORTEN

    def _request(self, messages: Sequence[Message], wanted: str, around: Sequence[str]) -> str:
        (answer,) = messages
        return prompts.shortening_request(answer.name or "", str(answer.content), wanted, around)


def _around(context: Sequence[Message], taken: Sequence[Message]) -> list[str]:
    """Return the other messages of a context, as texts."""
    hashes = {message.commit_hash for message in taken}
    return [message_text(message) for message in context if message.commit_hash not in hashes]


def guidance(client: LLMClient, task: str, texts: Sequence[str], instructions: str | None) -> str:
    """Ask a model for guidance: what matters in texts before their summary.

    Args:
        client: the client.
        task: the next task, such as `sum messages up`.
        texts: the texts.
        instructions: the caller's instructions.

    Raises:
        LLMResponseError: invalid reply.
    """
    return str(_ask(client, prompts.GUIDE.format(task=task), prompts.guidance_request(texts, instructions)))


def message_text(message: Message) -> str:
    """Return a message with its role, as text."""
    return f"[{message.role}] {message.told}"


def _ask(client: LLMClient, system: str, request: str) -> ModelText:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": request}]
    reply = Reply.of(WholeReplies(client).chat(messages))
    return ModelText(reply.text, {"model": reply.model} if reply.model else {}, reply.usage)
