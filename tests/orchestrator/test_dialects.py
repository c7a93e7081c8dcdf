"""The same run over real HTTP on loopback, in each dialect."""

from __future__ import annotations

import json

import pytest

from tests.llm.dialects import ALL, Said, made
from tests.llm.providers import Answer, provider
from tests.orchestrator.conftest import SUMMARY
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import said
from tract_jupyter import OrchestratorConfig


@pytest.mark.parametrize("dialect", ALL)
def test_an_over_budget_context_is_compressed_and_the_pinned_message_is_kept(full, dialect):
    arguments = {
        "content": "short", "reasoning": "It is full.",
        "alternatives": [{"name": "reset", "arguments": {"target": "HEAD"}, "why": "faster"}],
    }  # fmt: skip
    asks = Said("I compress.", [("c1", "compress", json.dumps(arguments))])
    answers = [Answer(dialect.whole(asks)), Answer(dialect.whole(Said("Done.")))]
    full.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve", edits={"content": SUMMARY}))
    with provider(*answers) as there:
        full.models.use(made(dialect, there), operation="orchestrate")
        full.orchestrator.config = OrchestratorConfig(model="some-model", temperature=None)
        result = full.orchestrate("it is full")
    assert (result.text, result.steps[0].decision) == ("Done.", "modified")
    assert said(full) == [("system", "Count the birds of the lake."), ("assistant", SUMMARY)]
    assert result.tokens_after < 200 < result.tokens_before
    sent = json.dumps(there.bodies[1])
    assert SUMMARY in sent
    assert "alternatives" in json.dumps(there.bodies[0])
