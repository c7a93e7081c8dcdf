"""The model and options for each kind of request."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import ContentError, LLMConfigError


@pytest.fixture
def asked(tract):
    """Send a request through the tract. Return the options of the newest request."""
    tract.user("How tall is Ben Nevis?")
    client = ScriptedClient(*["1,345 m"] * 5)
    tract.configure_llm(client)

    def ask(**options):
        tract.generate(**options)
        return client.asked[-1][1]

    return ask


def test_replies_have_the_settings_unless_a_call_says_otherwise(tract, asked):
    assert asked() == {}
    assert tract.models.configure("large", temperature=0.2) == {"model": "large", "temperature": 0.2}
    assert asked() == {"model": "large", "temperature": 0.2}
    assert asked(model="small") == {"model": "small", "temperature": 0.2}
    assert tract.log()[0].generation_config["temperature"] == 0.2
    assert tract.models.configure() == {}
    assert asked() == {}


def test_each_operation_has_its_own(tract, asked):
    tract.models.configure("small", operation="compress")
    assert asked() == {}
    client = tract.llm
    tract.compress()
    assert client.asked[-1][1] == {"model": "small"}
    assert tract.models.options("compress") == {"model": "small"}
    assert tract.models.options("chat") == {}


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"operation": "paint"}, ContentError, "operation must be 'chat' or 'compress'"),
        ({"model": " "}, LLMConfigError, "a model name that the client knows"),
        ({"temperature": -1}, LLMConfigError, "a number of at least 0"),
        ({"temperature": float("nan")}, LLMConfigError, "a number of at least 0"),
        ({"temperature": True}, LLMConfigError, "a number of at least 0"),
    ],
)
def test_an_invalid_setting_changes_nothing(tract, settings, error, told):
    with pytest.raises(error, match=told):
        tract.models.configure(**settings)
    assert tract.models.options("chat") == {}


def test_a_model_asks_a_person_first(tract):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="too dear"))
    result = tract.executor.execute("configure_model", {"model": "large"}, actor="agent:1")
    assert (result.success, result.denied) == (False, True)
    assert tract.models.options("chat") == {}
