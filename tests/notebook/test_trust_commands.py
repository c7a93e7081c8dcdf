"""Stored code without an approval of this user: request with the diff, review, revocation."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from IPython.core.completer import CompletionContext

CELL = '%%tract_operation deploy --activate\n"""Deploy."""\ntarget: str = "x"\n\ndef go(pending):\n    pending.approve()'


@pytest.fixture
def stored(shell):
    """A shell whose store has an operation with a handler."""
    shell.run(CELL)
    shell.run("tract.hooks.save_handler('deploy', 'no', \"pending.reject('never')\")")
    return shell


def tamper(shell, table, old, new):
    path = shell.namespace["tract"].location
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET spec_json = replace(spec_json, ?, ?)", (old, new))


def test_trusted_operations_and_handlers_are_listed(stored):
    text = stored.run("%tract trust").text
    assert "deploy     operation" in text
    assert "deploy/no  handler" in text


def test_revoking_deactivates_and_the_inbox_offers_it_again(stored):
    assert "is not active any more" in stored.run("%tract trust revoke deploy no").text
    stored.run("%tract trust revoke deploy")
    assert not stored.run("%tract_fire deploy").ok
    text = stored.run("%tract inbox").text
    assert "[pending] Activate operation deploy" in text
    assert "[pending] Activate handler no of deploy" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trust revoke", "To revoke an approval"),
        ("trust now", "To revoke an approval"),
        ("trust revoke nothing", "no active operation 'nothing'"),
        ("trust revoke deploy nothing", "no stored handler 'nothing'"),
        ("review nothing", "waits for review"),
        ("review deploy/nothing", "waits for review"),
        ("review", "name one"),
    ],
)
def test_an_invalid_line_gives_an_error_without_a_traceback(stored, line, words):
    result = stored.run(f"%tract {line}")
    assert not result.ok
    assert words in result.text
    assert "Traceback" not in result.text


def test_code_changed_in_the_store_is_shown_with_the_diff_and_not_run(stored, tmp_path):
    mark = tmp_path / "mark"
    tamper(stored, "operation_specs", "pending.approve()", f"open('{mark}', 'w')")
    stored.run("%reload_ext tract_jupyter")
    text = stored.run("%tract inbox").text
    assert "[pending] Activate operation deploy" in text
    assert "Changes since the last approved version" in text
    assert f"write:{mark}" in text
    assert not mark.exists()


def test_rejected_code_is_listed_but_makes_no_new_request(stored):
    stored.run("%tract trust revoke deploy no")
    stored.run("%tract inbox")
    stored.run("tract.operations.rebuild(tract.review.inbox()[0]).reject('no')")
    text = stored.run("%tract inbox").text
    assert "[pending]" not in text
    assert "%tract review deploy/no" in text
    assert "[pending] Activate handler no of deploy" in stored.run("%tract review deploy/no").text


def test_looking_twice_asks_once(stored):
    stored.run("%tract trust revoke deploy no")
    stored.run("%tract inbox")
    text = stored.run("%tract inbox").text
    assert "[pending] Activate handler no of deploy" in text
    assert "not active" not in text  # code with an open request is not listed again
    assert stored.run("print(len(tract.review.inbox()))").text.strip() == "1"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("trust ", ["revoke"]),
        ("trust revoke ", ["deploy", "gc"]),
        ("trust revoke de", ["deploy"]),
        ("trust revoke deploy ", ["no"]),
        ("trust revoke gc ", ["all"]),
        ("trust revoke deploy no ", []),
        ("trust now ", []),
        ("review ", []),
    ],
)
def test_completion_offers_approvals_that_can_be_revoked(stored, line, offered):
    stored.run("tract.hooks.save_handler('gc', 'all', 'pending.approve()')")
    assert tab(stored, line) == offered


def test_completion_offers_inactive_code_for_review(stored):
    stored.run("%tract trust revoke deploy no")
    assert tab(stored, "review ") == ["deploy/no"]
    assert tab(stored, "trust revoke ") == ["deploy"]


def tab(shell, line):
    matcher = shell.ip.Completer.custom_matchers[-1]
    text = f"%tract {line}"
    context = CompletionContext(token="", full_text=text, cursor_position=len(text), cursor_line=0, limit=100)
    return [found.text for found in matcher(context)["completions"]]


def test_a_changed_handler_is_reported_and_the_user_decides_instead(stored):
    tamper(stored, "handlers", "never", "always")
    stored.run("tract.close()")
    stored.run("%reload_ext tract_jupyter")
    assert (
        "deploy/no (%tract review NAME). Until then, their requests come to you" in stored.run("%tract").text
    )
    assert "deploy/no" in stored.run("%tract ops").text
    text = stored.run("%tract_fire deploy").text
    assert "[pending]" in text
    assert "'no', which would decide about 'deploy' first, is not approved here" in text
