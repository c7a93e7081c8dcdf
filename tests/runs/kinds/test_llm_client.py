"""Kind `llm` with the project's own client: error codes, pauses, and aborts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.llm.providers import Answer, provider
from tests.runs.kinds.operations import performed
from tract_jupyter import OpenAIClient
from tract_jupyter.concurrency import StopSignal, stopped_by
from tract_jupyter.runs.kinds import Services

PARAMS = {"prompt": "Hi", "model": "m"}


def asked(there, **options):
    client = OpenAIClient("m", base_url=there.url, api_key="", backoff=0, max_retries=0, **options)
    return performed("llm", PARAMS, Services(llm=client))


def test_the_reply_is_the_value():
    with provider(Answer()) as there:
        result = asked(there)
    assert (result.status, result.effects[0].value) == ("done", "Hello")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer({}, 429, Retry_After="7"), "rate_limited"), (Answer({}, 500), "provider_error"),
        (Answer({}, 504), "timeout"), (Answer({"error": "rate limit"}, 400), "provider_error"),
        (Answer(b"oops"), "provider_error"),
    ],
)  # fmt: skip
def test_provider_errors_have_stable_codes(answer, code):
    """R55: from the client's error code, not from words in its message."""
    with provider(answer) as there:
        result = asked(there)
    assert (result.status, result.error.code) == ("error", code)
    assert result.error.details.get("retryAfterMs") == (7000 if code == "rate_limited" else None)


def test_silence_is_a_timeout():
    with provider(Answer(b"", hangs=True)) as there:
        assert asked(there, timeout=0.1).error.code == "timeout"


def test_an_abort_ends_the_call():
    """R32, G25: the operation ends as aborted while the provider is still silent."""
    abort = StopSignal()

    def run():
        with stopped_by(abort):
            return asked(there)

    with provider(Answer(b"", hangs=True)) as there, ThreadPoolExecutor() as threads:
        result = threads.submit(run)
        assert there.asked.wait(20)
        abort.set()
        assert result.result(20).status == "aborted"
