"""The tool gets the displayed values, however a model writes its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter.models import distinct_repr
from tract_jupyter.toolkit import Permission

ARGUMENTS = (
    '{"to": "ada", "to": "eve"}', '{"to": "ada", "n": 1, "n": 2}', '{"t\\u006f": "eve"}', '{"to": "a\\u0000b"}', '{"to": "\\ud83d\\ude00"}', '{"to": "\\ud800"}',
    '{"to": "ada ", "more": {"to": "eve"}}', '{"to": " ada"}', '{"to": "ada\\n"}', '{"to": "\\u0430da"}', '{"to": "e\\u0301"}', '{"to": "\\u00e9"}', '{"to": "a\\u200bb"}',
    '{"to": "a\\u202eb"}', '{"to": "\\u2066a\\u2069"}', '{"to": "\\ufeffada"}', '{"to": "a", "n": 9007199254740993}', '{"to": "a", "n": 1e2}', '{"to": "a", "n": 1.0}',
    '{"to": "a", "n": "7"}', '{"to": "a", "n": true}', '{"to": "a", "n": -0}', '{"to": "a", "n": 123456789012345678901234567890}', '{"to": "a", "x": 0.1}', '{"to": "a", "x": 1e400}',
    '{"to": "a", "x": NaN}', '{"to": "a", "x": -0.0}', '{"to": "a", "x": 5e-324}', '{"to": "a", "x": 0.30000000000000004}', '{"to": "a", "more": {"a": 1, "A": 2}}',
    '{"to": "a", "more": {"e\\u0301": 1, "\\u00e9": 2}}', '{"to": "a", "more": {"": null, "__class__": "x", "self": 1}}', '{"to": "a", "more": [[[[{"to": "eve"}]]]]}',
    '{"to": 5}', '{"to": ["ada"]}', '{"to": null}', '{"to": "a", "cc": "eve"}', '{"to": "a", "approve": true, "scope": "always"}', '{"to": "a", "pending_id": "x", "action": "approve"}',
    '{"To": "a"}', '{"to ": "a"}', '["ada"]', '"ada"', "ada", '{"to": "a"}{"to": "eve"}', '{"to": "a"} // eve', "{'to': 'eve'}", '{"to": "a",}', '\ufeff{"to": "a"}', ' \n{"to": "a"}\n ',
    '{"to": "' + "a" * 3_000 + 'eve"}', '{"to": "a", "more": "' + "x\\n" * 300 + 'eve"}',
)  # fmt: skip


@pytest.fixture
def given(tract):
    """The arguments of each call of the tool."""
    found = []

    @tract.tool
    def send(to: str, n: int = 0, x: float = 0.0, more: Any = None) -> str:
        """Send a mail."""
        found.append({"to": to, "n": n, "x": x, "more": more})
        return "sent"

    tract.loop.tools = "self"
    tract.executor.permission = lambda tool, actor: Permission.ASK
    return found


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda text: ascii(text[:40]))
def test_a_tool_is_called_with_the_displayed_values(tract, given, arguments):
    shown = []

    def approve(ticket):
        (table,) = [table for table in ticket.request.tables if table.rows]
        shown.append({row.name: row.value for row in table.rows})
        click(ticket, "approve")

    tract.models.use(ScriptedClient(reply(None, call("send", arguments)), "Done."))
    tract.reviewer.channel = FakeChannel(approve, approve)
    assert tract.chat("Go.").text == "Done."
    assert len(given) == len(shown) <= 1
    for row, values in zip(shown, given, strict=True):
        assert {name: text for name, text in row.items() if name in values} == {
            name: distinct_repr(value) for name, value in values.items()
        }
