"""Parsing and rendering of templates, with the variables and functions of a run.

| name | value |
|---|---|
| `art.<tag>.value`, `.history` | artifacts; also `art["id"]` with the names in the context |
| `artByOpId.<operation>.value` | the values of direct dependencies |
| `messages`, `chatHistory` | all messages; only user and assistant. Each has `role` and `content` |
| `promptSystem` | all system messages that are not blank, joined by blank lines |
| `lastUserMessage`, `lastAssistantMessage` | empty if there is none; after the main call, the new reply is the last |
| `recentMessages(n)`, `recentMessagesText(n)` | the last n of user and assistant; as lines `role: content` |
| `recentMessagesByContextTokens(n)`, `...Text(n)` | as many as fit into n tokens of four characters |
| `random(n)` | 1 to n, from the run's seed |
| `now`; `user`, `char`, `chat`, `rag`, ... | the run's clock; variables of the host, which win |
"""

from __future__ import annotations

from functools import cache, lru_cache
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.pieces import cut, is_plain
from tract_jupyter.runs.templates.tags import Reader, TagBody, TemplateOutput
from tract_jupyter.runs.templates.values import MAX_SOURCE, TemplateLimits, TemplateScope, number
from tract_jupyter.runs.terms import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tract_jupyter.runs.model import OperationContext


_USUAL: Final = TemplateLimits()
_LONGEST_CACHED: Final = 20_000
"""Characters. Long templates in the cache would need much memory and slow down garbage collection."""


class Template:
    """A parsed template. Several threads may render it."""

    def __init__(self, block: TagBody) -> None:
        self._block = block

    def render(
        self,
        variables: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        strict: bool = False,
        limits: TemplateLimits = _USUAL,
        seed: object = 0,
        now: str = "",
    ) -> str:
        """Return the text. Data is inserted unchanged: template syntax in it stays text.

        Args:
            variables: JSON values by name.
            functions: functions by name, for expressions.
            strict: True to make a missing variable an error; otherwise it is empty.
            limits: the limits of this rendering.
            seed: the seed of random values.
            now: the time for `"now" | date`, as ISO 8601.

        Raises:
            TemplateError: a variable is missing, a filter fails, or a limit is exceeded; has the line.
        """
        scope = TemplateScope(
            variables or {}, functions or {}, strict=strict, limits=limits, seed=seed, now=now
        )
        out = TemplateOutput(scope)
        try:
            self._block.render(scope, out)
        except (MemoryError, RecursionError):
            raise TemplateError("the data is nested too deeply, or too large") from None
        return out.text


def parse(source: str) -> Template:
    """Parse a template. A text without placeholders may be as long as any text. Recent short templates are cached.

    Raises:
        TemplateError: invalid syntax, or too long; has the line.
    """
    if is_plain(source):
        return _read(_checked_plain(source))
    if len(source) > MAX_SOURCE:
        raise TemplateError(f"the template has {len(source)} characters, and the limit is {MAX_SOURCE}")
    return _read_cached(source) if len(source) <= _LONGEST_CACHED else _read(source)


def _checked_plain(source: str) -> str:
    if len(source) > MAX_TEXT:
        raise TemplateError(f"the text has {len(source)} characters, and the limit is {MAX_TEXT}")
    return source


def _read(source: str) -> Template:
    return Template(Reader(cut(source)).all())


_read_cached = lru_cache(maxsize=64)(_read)


_SPOKEN: Final = ("user", "assistant")
_CHARACTERS_PER_TOKEN: Final = 4

Message = dict[str, str]


def render(source: str, context: OperationContext, *, strict: bool = False, **more: Any) -> str:
    """Render a template with the variables and functions of an operation's context, and with `more` variables.

    Raises:
        TemplateError: it cannot be parsed or rendered; has the line.
    """
    if is_plain(source):
        return _checked_plain(source)
    template = parse(source)
    seed = f"{context.seed}:{context.operation_id}"
    variables = {**variables_of(context), **more}
    return template.render(variables, functions_of(context), strict=strict, seed=seed, now=context.now)


def variables_of(context: OperationContext) -> dict[str, Any]:
    """Return the variables by name."""
    messages = _messages(context)
    spoken = [one for one in messages if one["role"] in _SPOKEN]
    # the values are JSON already, so they are not copied
    artifacts = {name: dict(view) for name, view in context.artifacts.items()}
    last_reply = _last(messages, "assistant") if context.reply is None else context.reply
    return {
        "now": context.now,
        "art": artifacts,
        "artByOpId": {name: {"value": value} for name, value in context.by_operation.items()},
        "messages": messages,
        "chatHistory": spoken,
        "promptSystem": "\n\n".join(
            one["content"] for one in messages if one["role"] == "system" and one["content"].strip()
        ),
        "lastUserMessage": _last_user(context, messages),
        "lastAssistantMessage": last_reply,
        **context.variables,
    }


def functions_of(context: OperationContext) -> dict[str, Callable[..., Any]]:
    """Return the functions by name."""
    spoken = [{"role": one.role, "content": one.content} for one in context.messages if one.role in _SPOKEN]

    @cache
    def dice() -> Random:
        return Random(f"{context.seed}:{context.operation_id}:dice")  # noqa: S311 # dice, not secrets

    def recent(count: Any) -> list[Message]:
        most = int(number(count))
        return spoken[-most:] if most > 0 else []

    def by_tokens(tokens: Any) -> list[Message]:
        return _fitting(spoken, int(number(tokens)) * _CHARACTERS_PER_TOKEN)

    return {
        "recentMessages": recent,
        "recentMessagesText": lambda count: _lines(recent(count)),
        "recentMessagesByContextTokens": by_tokens,
        "recentMessagesByContextTokensText": lambda tokens: _lines(by_tokens(tokens)),
        "random": lambda most: dice().randint(1, max(1, int(number(most)))),
    }


def _messages(context: OperationContext) -> list[Message]:
    return [{"role": one.role, "content": one.content} for one in context.messages]


def _last(messages: Sequence[Message], role: str) -> str:
    return next((one["content"] for one in reversed(messages) if one["role"] == role), "")


def _last_user(context: OperationContext, messages: Sequence[Message]) -> str:
    """Return the current user's message by its key (G17); without a key, the last user message."""
    keyed = (one.content for one in context.messages if one.key is not None and one.key == context.user_key)
    return next(keyed, None) or _last(messages, "user")


def _fitting(messages: Sequence[Message], characters: int) -> list[Message]:
    fitting: list[Message] = []
    for one in reversed(messages):
        characters -= len(one["content"])
        if characters < 0:
            break
        fitting.insert(0, one)
    return fitting


def _lines(messages: Sequence[Message]) -> str:
    return "\n".join(f"{one['role']}: {one['content']}" for one in messages)
