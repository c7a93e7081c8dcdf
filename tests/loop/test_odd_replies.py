"""A turn whose reply has an odd value in one field: it answers, asks about a call, or raises one of the package's errors."""

from __future__ import annotations

import json
from collections import deque
from itertools import cycle, islice

import httpx
import pytest

from tests.llm.dialects import ALL, Said
from tests.llm.test_fuzz import changed, places
from tract_jupyter.exceptions import TractError

CALLS = Said("I look.", [("c1", "look", '{"city": "Rome"}'), ("c2", "send", '{"to": "ada"}')], "Hm.")
DEEP = json.loads("[" * 150 + "]" * 150)
ODD = (None, True, 7, -1, 10**30, 1.5, "", "x", "\ud800\x00", [], {}, [[]], [None], {"x": 1}, DEEP)
OF_EACH = 2


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ALL)
def test_an_odd_value_in_any_field(talk, done, dialect):
    answers: deque[bytes] = deque()
    whole, fine = dialect.whole(CALLS), json.dumps(dialect.whole(Said("Fine."))).encode()

    def answer(request):
        json.loads(request.content)
        return httpx.Response(200, content=answers.popleft(), headers={"content-type": "application/json"})

    talk.configure_llm(dialect.client("m", api_key="k", transport=httpx.MockTransport(answer), max_retries=0))
    start = talk.user("Hi").commit_hash
    values = cycle(ODD)
    for number, path in enumerate(places(whole)):
        for odd in islice(values, OF_EACH):
            answers.clear()
            answers.extend([json.dumps(changed(whole, path, odd)).encode(), fine, fine, fine])
            try:
                talk.chat("Go.")
            except TractError as error:
                assert "Traceback" not in str(error), (path, odd)
            except Exception as error:
                raise AssertionError((path, odd)) from error
            assert {kind for kind, *_ in done} <= {"look"}, (path, odd)
            assert talk.compile().messages[0].content == "Hi"
            for waiting in talk.review.inbox():
                talk.operations.rebuild(waiting).reject("no")
            talk.branch(f"after{number}-{ODD.index(odd)}", source=start)
    assert talk.verify() == []
