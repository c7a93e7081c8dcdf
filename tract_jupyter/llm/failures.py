"""Errors of requests: the provider's report in any wording, and the remedy."""

from __future__ import annotations

import json
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.llm.secret_shapes import mask_secrets
from tract_jupyter.models import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import httpx

    from tract_jupyter.llm.call import ModelCall


NO_ATTACHMENTS: Final = (
    r"(?i)(image|vision|multimodal|mmproj|\bpdf\b|document block|input_file|file content).{0,80}"
    r"(not support|unsupported|not allowed|only supported|not available|required for|is not a)"
    r"|(not support|unsupported|support).{0,30}(image|vision|\bpdf\b|file input|document)"
    r"|not a multimodal|at most 0 (image|file)|unknown (variant|part type).{0,4}(image|file|input_)"
)
"""How providers and servers say that a model takes no images or files."""
NO_TOOLS: Final = (
    r"(?i)(\btools?\b|function calling).{0,40}(not support|unsupported|not enabled|not available|requires? --)"
    r"|(not support|unsupported|endpoints found that support).{0,20}(\btools?\b|function calling)"
)
"""How providers and servers say that a model cannot call tools."""
_ABOUT_IMAGES: Final = re.compile(r"(?i)\bimages?\b|image_url|input_image")


def takes_no_attachments(error: Exception) -> bool:
    """Return True if an error says that the model takes no images or files."""
    return re.search(NO_ATTACHMENTS, str(error)) is not None


def is_about_images(error: Exception) -> bool:
    """Return True if an error is about images: the model takes none, or one of them is damaged."""
    return takes_no_attachments(error) or _ABOUT_IMAGES.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of failure: the code and reason of its error, whether it may pass, and what to do."""

    code: str = "provider_error"
    reason: str | None = None
    is_transient: bool = False
    advice: str = "Check the options and messages of this call"


_BUSY: Final = _Kind(
    "rate_limited", None, is_transient=True, advice="Try again{pause}, or send fewer requests"
)
_OVERLOADED: Final = _Kind(reason="overloaded", is_transient=True, advice="Try again{pause}")
_TIMED_OUT: Final = _Kind("timeout", None, is_transient=True, advice="Try again{pause}")
_BROKEN: Final = _Kind(is_transient=True, advice="Try again{pause}")
_NO_KEY: Final = _Kind(reason="authentication", advice="{key}")
_FORBIDDEN: Final = _Kind(reason="authentication", advice="Check the permissions of the key")
_SPENT: Final = _Kind(reason="out_of_credit", advice="Check your account with the provider")
_NOT_FOUND: Final = _Kind(reason="not_found", advice="Check {url}, and the name of the model")
_MOVED: Final = _Kind(reason="not_found", advice="Check {url}: the server has another address")
_TOO_LONG: Final = _Kind(
    reason="context_too_long", advice="Send a shorter context: compress it, or leave messages out"
)
_INVALID: Final = _Kind(reason="invalid_request")
_UNKNOWN: Final = _Kind(advice="Try again")

# by a word in the body, because a failure within a stream has status 200
_BY_WORD: Final = {
    "rate_limit_error": _BUSY, "rate_limit_exceeded": _BUSY, "too_many_requests": _BUSY,
    "overloaded_error": _OVERLOADED, "overloaded": _OVERLOADED, "slow_down": _OVERLOADED,
    "service_unavailable": _OVERLOADED, "service_unavailable_error": _OVERLOADED,
    "timeout_error": _TIMED_OUT, "request_timeout": _TIMED_OUT, "vector_store_timeout": _TIMED_OUT,
    "api_error": _BROKEN, "server_error": _BROKEN, "internal_server_error": _BROKEN, "internal_error": _BROKEN,
    "authentication_error": _NO_KEY, "invalid_api_key": _NO_KEY, "permission_error": _FORBIDDEN,
    "billing_error": _SPENT, "insufficient_quota": _SPENT, "billing_hard_limit_reached": _SPENT,
    "not_found_error": _NOT_FOUND, "model_not_found": _NOT_FOUND,
    "request_too_large": _TOO_LONG, "context_length_exceeded": _TOO_LONG, "string_above_max_length": _TOO_LONG,
    "invalid_request_error": _INVALID, "invalid_prompt": _INVALID,
}  # fmt: skip
_BY_STATUS: Final = {
    400: _INVALID, 401: _NO_KEY, 402: _SPENT, 403: _FORBIDDEN, 404: _NOT_FOUND, 408: _TIMED_OUT, 409: _BROKEN,
    413: _TOO_LONG, 422: _INVALID, 429: _BUSY, 503: _OVERLOADED, 504: _TIMED_OUT, 524: _TIMED_OUT, 529: _OVERLOADED,
}  # fmt: skip
_IS_TOO_LONG: Final = re.compile(
    r"context.{0,10}(length|window|size)|prompt is too long|input is too long|maximum context|too many (input )?tokens",
    re.IGNORECASE,
)
_IS_SPENT: Final = re.compile(r"(?i)credit balance is too low|insufficient (balance|credits?|funds)\b")
"""Anthropic says `invalid_request_error` with status 400, as for any other problem of a request."""
_OK, _MULTIPLE_CHOICES, _BAD_REQUEST, _TOO_MANY, _SERVER_ERROR = 200, 300, 400, 429, 500
_SHORTEST_SECRET: Final = 4
_BEGINNING: Final = 8  # a cut answer may end with this many characters of a secret
_OLLAMA: Final = ":11434"  # its port
_LONGEST_PLACE: Final = 200
_LONGEST_ANSWER: Final = 500  # characters of it in a message
_PAGE_START: Final = 20
_LONGEST_PAGE: Final = 20_000
_MARKUP: Final = re.compile(r"(?is)<(script|style)\b.*?(?:</\1>|$)|<[^>]*>")


class Failures:
    """Creates the errors of one client.

    Args:
        place: the provider's address, for messages.
        secrets: texts that no message may contain, even if the provider repeats them.
        about_key: the remedy if the provider refuses the key.
        about_url: the advice if the address does not exist.
        hints: remedies by a pattern of the provider's text.
    """

    def __init__(
        self,
        place: str,
        secrets: Iterable[str],
        *,
        about_key: str,
        about_url: str,
        hints: Mapping[str, str],
    ) -> None:
        self._place = place
        self._about = {"key": about_key, "url": about_url}
        self._hints = hints
        forms = {text for secret in secrets for text in _forms(secret) if len(text) >= _SHORTEST_SECRET}
        # the longest first: one may be a part of another
        self._secrets = sorted(forms, key=len, reverse=True)
        begins = {re.escape(text[:_BEGINNING]) for text in forms if len(text) > _BEGINNING}
        self._begun = re.compile(rf"(?:{'|'.join(sorted(begins))})\S*") if begins else None

    def error(self, why: str, advice: str = "Try again", **details: Any) -> LLMRequestError:
        """Return an error with problem, reason and remedy."""
        return LLMRequestError(self._masked(f"{self._place} gave no reply: {why}. {advice}"), **details)

    def refused(self, response: httpx.Response, body: bytes) -> LLMRequestError:
        """Return the error for a response that is not a success."""
        status, reply = response.status_code, json_of(body)
        report = reply.get("error") if isinstance(reply, dict) else None
        if response.has_redirect_location:
            place = one_line(response.headers["location"].partition("?")[0], _LONGEST_PLACE)
            report = f"the new address is {place}"
        after = retry_after(response.headers.get("retry-after"))
        exact = retry_after(response.headers.get("retry-after-ms"))
        after = after if exact is None else exact / 1000
        should_retry = response.headers.get("x-should-retry")
        return self._classified(
            report or _page_text(body.decode("utf-8", "replace")),
            f"{f'HTTP {status} {one_line(response.reason_phrase, 100)}'.strip()}: ",
            status=status,
            after=after,
            again={"true": True, "false": False}.get(should_retry or ""),
        )

    def reported(self, error: object) -> LLMRequestError:
        """Return the error for an error report with status 200, such as one within a stream."""
        return self._classified(error, "it says: ")

    def reply_of(self, body: bytes, response: httpx.Response) -> dict[str, Any]:
        """Read a whole reply."""
        reply = json_of(body)
        if not body.strip():
            status = f"HTTP {response.status_code} {one_line(response.reason_phrase, 100)}".strip()
            raise self.error(
                f"its answer is empty ({status})", f"Check {self._about['url']}", is_transient=False
            )
        if not isinstance(reply, dict):
            begins = one_line(self._masked(body[:_LONGEST_ANSWER].decode("utf-8", "replace")), 100)
            raise self.error(
                f"its answer is not a JSON object; it begins with {begins!r}",
                f"Check {self._about['url']}", is_transient=False,
            )  # fmt: skip
        return reply

    def _classified(
        self,
        report: object,
        where: str,
        *,
        status: int | None = None,
        after: float | None = None,
        again: bool | None = None,
    ) -> LLMRequestError:
        fields: Mapping[str, Any] = report if isinstance(report, dict) else {"message": report}
        text = one_line(self._masked(str(fields.get("message") or report)), _LONGEST_ANSWER).rstrip(" .")
        kind = _kind(fields, text, status)
        pause = "" if after is None else f" in {after:.0f} s"
        hint = next((hint for pattern, hint in self._hints.items() if re.search(pattern, text)), None)
        is_later = f"{pause or ' later'}"
        advice = hint or kind.advice.format(pause=is_later, **self._about)
        code = "rate_limited" if status == _TOO_MANY else kind.code
        return self.error(
            f"{where}{text or 'no text'}{pause and f' (try again{pause})'}", advice,
            code=code, status=status, retry_after=after, reason=kind.reason,
            is_transient=kind.is_transient if again is None else again,
        )  # fmt: skip

    @contextmanager
    def named(self, call: ModelCall) -> Iterator[None]:
        """Convert exceptions of httpx. After a cancelled call, every exception means that."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            call.check()
            raise self._of_transport(error) from None
        except LLMRequestError:
            call.check()
            raise
        call.check()

    def _of_transport(self, error: Exception) -> LLMRequestError:
        import httpx

        what = one_line(str(error), _LONGEST_ANSWER) or type(error).__name__
        if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
            code = "timeout" if isinstance(error, httpx.TimeoutException) else "provider_error"
            start = "Start it with ollama serve, or check its address, OLLAMA_HOST"
            return self.error(
                f"it cannot be reached ({what})",
                start if _OLLAMA in self._place else "Check base_url, and that the server is running",
                code=code, is_transient=True,
            )  # fmt: skip
        if isinstance(error, httpx.TimeoutException):
            # not sent again by itself: the provider may be at work on it, and be paid for it
            return self.error("it did not answer in time", "Set a longer timeout", code="timeout")
        return self.error(
            f"the connection broke ({what})", is_transient=isinstance(error, httpx.TransportError)
        )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        if self._begun is not None:
            text = self._begun.sub("***", text)
        return mask_secrets(text, "***")


def _kind(report: Mapping[str, Any], text: str, status: int | None) -> _Kind:
    """Return the kind of failure: by the words of the error, or else by the status."""
    words = [report.get(name) for name in ("code", "type")]
    kinds = [_BY_WORD[word] for word in words if isinstance(word, str) and word in _BY_WORD]
    kind = next((candidate for candidate in kinds if candidate is not _INVALID), None)
    if kind is _BROKEN and status in _BY_STATUS:  # Ollama says `api_error` for almost every status
        kind = None
    number = next((word for word in words if isinstance(word, int)), None) if status is None else status
    if kind is None and (number is None or number in {400, 413, 422}) and _IS_TOO_LONG.search(text):
        return _TOO_LONG
    if kind is None and _IS_SPENT.search(text):
        return _SPENT
    if number is not None and _MULTIPLE_CHOICES <= number < _BAD_REQUEST:
        return _MOVED
    if kind is None and number is not None:
        kind = _BY_STATUS.get(number, _BROKEN if number >= _SERVER_ERROR else None)
    return kind or (kinds[0] if kinds else _UNKNOWN if status is None else _INVALID)


def _forms(secret: str) -> tuple[str, ...]:
    """Yield the forms of a secret that a provider may repeat: for `Bearer KEY` also the key, each also URL-encoded."""
    words = secret.split()
    plain = (secret.strip(), words[1]) if len(words) == 2 else (secret.strip(),)  # noqa: PLR2004 # a scheme and a key
    return (*plain, *(quote(form, safe="") for form in plain))


def retry_after(value: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks to wait: a number or a date (RFC 9110 section 10.2.3)."""
    try:
        seconds = float(value or "")
    except ValueError:
        seconds = _until(value or "")
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _until(date: str) -> float:
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, IndexError, OverflowError):
        return math.nan
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()


def _page_text(body: str) -> str:
    """Return the text of a web page, such as the error page of a proxy. Any other text is unchanged."""
    if not body.lstrip()[:_PAGE_START].lower().startswith(("<!doctype html", "<html")):
        return body
    return " ".join(_MARKUP.sub(" ", body[:_LONGEST_PAGE]).split())


def json_of(body: bytes) -> Any:
    """Return the JSON value of a body; None if the body is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
