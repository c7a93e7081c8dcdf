"""What a provider answered instead of a reply, in our words and without keys."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.models.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import httpx

    from tract_jupyter.llm.call import Call

_UNAUTHORIZED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500
_TIMEOUTS: Final = frozenset({408, 504, 524})
_SHORTEST_SECRET: Final = 4
_LONGEST_ANSWER: Final = 500  # characters of it in a message
_ADVICE: Final = {
    400: "Look at the options and messages of this call",
    403: "Check what the key may be used for",
    404: "Check base_url, which ends with the version (/v1), and the name of the model",
    413: "Send a shorter context",
    429: "Ask again later, or less often",
}


class Failures:
    """Makes the errors of one client.

    Args:
        place: the provider's address, for messages.
        secrets: texts that no message may hold, also if the provider repeats them.
        about_key: what to do where the provider does not take the key.
    """

    def __init__(self, place: str, secrets: Iterable[str], about_key: str) -> None:
        self._place = place
        self._about_key = about_key
        found = {text for secret in secrets for text in _forms(secret) if len(text) >= _SHORTEST_SECRET}
        # the longest first: one may be a part of another
        self._secrets = sorted(found, key=len, reverse=True)

    def error(self, why: str, advice: str = "Ask again", **details: Any) -> LLMRequestError:
        """An error that tells what happened, why, and what to do."""
        return LLMRequestError(self._masked(f"{self._place} gave no reply: {why}. {advice}"), **details)

    def refused(self, response: httpx.Response, body: bytes) -> LLMRequestError:
        """The error for an answer that is no success."""
        status, said = response.status_code, _json_of(body)
        told = said.get("error") if isinstance(said, dict) else None
        told = told if isinstance(told, dict) else {"message": told or body.decode("utf-8", "replace")}
        text = one_line(self._masked(str(told.get("message") or told)), _LONGEST_ANSWER)
        # https://platform.openai.com/docs/guides/error-codes: paying helps, waiting does not
        is_spent = "insufficient_quota" in {told.get("code"), told.get("type")}
        code = (
            "rate_limited" if status == _TOO_MANY else "timeout" if status in _TIMEOUTS else "provider_error"
        )
        after = retry_after(response.headers.get("retry-after"))
        pause = "" if after is None else f" in {after:.0f} s"
        reason = one_line(response.reason_phrase, 100)
        advice = _ADVICE.get(status, f"Ask again{pause or ' later'}")
        advice = self._about_key if status == _UNAUTHORIZED else advice
        return self.error(
            f"HTTP {status} {reason}: {text or 'without a text'}{pause and f' (try again{pause})'}",
            "Look at your account with the provider" if is_spent else advice,
            code=code, status=status, retry_after=after,
            is_transient=not is_spent and (status in {_TOO_MANY, *_TIMEOUTS} or status >= _SERVER_ERROR),
        )  # fmt: skip

    def reply_of(self, body: bytes) -> dict[str, Any]:
        """Read a whole reply.

        Raises:
            LLMRequestError: it is no JSON object, or it tells of an error.
        """
        reply = _json_of(body)
        if not isinstance(reply, dict):
            begins = one_line(self._masked(body[:_LONGEST_ANSWER].decode("utf-8", "replace")), 100)
            raise self.error(
                f"its answer is no JSON object; it begins with {begins!r}",
                "Check base_url, which ends with the version (/v1)", is_transient=False,
            )  # fmt: skip
        self.check_event(reply)
        return reply

    def check_event(self, event: dict[str, Any]) -> None:
        """Raise `LLMRequestError` if it tells of an error, as some providers do with status 200."""
        told = event.get("error")
        if told and not event.get("choices"):
            text = told.get("message", told) if isinstance(told, dict) else told
            raise self.error(f"it says {one_line(self._masked(str(text)), _LONGEST_ANSWER)!r}")

    @contextmanager
    def named(self, call: Call) -> Iterator[None]:
        """Have what httpx raises be errors of ours; after a call was ended it is that, whatever broke."""
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
            return self.error(
                f"it cannot be reached ({what})", "Check base_url, and that the server is running",
                code=code, is_transient=True,
            )  # fmt: skip
        if isinstance(error, httpx.TimeoutException):
            # not sent again by itself: the provider may be at work on it, and be paid for it
            return self.error("it was silent for too long", "Give a longer timeout", code="timeout")
        return self.error(
            f"the connection broke ({what})", is_transient=isinstance(error, httpx.TransportError)
        )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _forms(secret: str) -> tuple[str, ...]:
    """What a provider may repeat of it: of a header `Bearer KEY` the key alone, too."""
    words = secret.split()
    return (secret.strip(), words[1]) if len(words) == 2 else (secret.strip(),)  # noqa: PLR2004 # a scheme and a key


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number or a date, RFC 9110 section 10.2.3."""
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


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
