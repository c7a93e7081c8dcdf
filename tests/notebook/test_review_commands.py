"""`%tract inbox`, `%tract review`, `%tract grants`."""

import sqlite3
from contextlib import closing

import pytest

from tract_jupyter.notebook import FrontEnd
from tract_jupyter.notebook.commands import review

CELL = '''%%tract_operation deploy --activate --ask
"""Put it into production."""
target: str
n: int = 1
'''


@pytest.fixture
def deploy(shell):
    shell.run(CELL)
    return shell


def grant(shell, **options):
    shell.run(f"tract.fire('deploy', {{'target': 'a/b'}}, review=True).approve(**{options!r})")


def test_help_lists_them(shell):
    text = shell.run("%tract help").text
    for usage in ("%tract inbox", "%tract review NAME", "%tract grants [revoke ID]"):
        assert usage in text


def test_grants_are_listed_with_their_scope_values_and_uses(deploy):
    assert "None yet." in deploy.run("%tract grants").text
    grant(deploy, scope="always", uses=3, pattern={"target": "a/*"})
    grant(deploy, scope="session")
    deploy.run("tract.fire('deploy', {'target': 'a/c'})")
    text = deploy.run("%tract grants").text
    for words in ("operation deploy", "target: a/*", "always", "1 of 3", "session", "target = 'a/b'", "live"):
        assert words in text
    grant(deploy, scope="always", whom="anybody")
    assert "user" in text
    assert "anybody" in deploy.run("%tract grants").text
    assert "<code" in deploy.run("%tract grants").html


def test_a_grant_is_revoked_by_the_beginning_of_its_id(deploy):
    grant(deploy, scope="always", pattern={"target": "*"})
    (given,) = deploy.namespace["tract"].review.grants.all()
    assert "needs approval again" in deploy.run(f"%tract grants revoke {given.grant_id[:8]}").text
    assert "revoked" in deploy.run("%tract grants").text
    assert "[pending] deploy" in deploy.run("p = %tract_fire deploy target=x").text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("grants revok 1", "ID revokes one"), ("grants revoke", "ID revokes one"), ("grants revoke a b", "ID revokes one"),
        ("grants revoke ffff", "no grant begins with 'ffff'"), ("inbox now", "takes no arguments"),
    ],
)  # fmt: skip
def test_an_invalid_line_gives_an_error_without_a_traceback(deploy, line, words):
    result = deploy.run(f"%tract {line}")
    assert not result.ok
    assert words in result.text
    assert "Traceback" not in result.text


def test_the_inbox_says_which_operations_are_not_active(deploy):
    deploy.namespace["tract"].operations.quarantined["old"] = "you have not approved it here"
    text = deploy.run("%tract inbox").text
    assert "No requests need a decision" in text
    assert "%tract review old" in text


def test_the_inbox_prints_each_request_if_there_are_no_panels(deploy):
    deploy.run("for x in 'ab': tract.fire('deploy', {'target': x})")
    text = deploy.run("%tract inbox").text
    assert text.count("[pending] deploy") == 2
    assert "target: str = 'b'" in text


def test_one_by_one_says_how_many_more_there_are(deploy, monkeypatch):
    deploy.run("for x in 'abcd': tract.fire('deploy', {'target': x})")
    tract = deploy.namespace["tract"]
    few = tract.review.inbox(3)
    monkeypatch.setattr(type(tract.review), "inbox", lambda _, limit=100: few)
    text = deploy.run("%tract inbox").text
    assert text.count("[pending] deploy") == 3
    assert "1 more waits: %tract inbox shows it" in text
    monkeypatch.undo()
    assert "more wait" not in deploy.run("%tract inbox").text


def test_the_list_reads_no_more_than_it_shows(deploy, monkeypatch):
    deploy.run("for x in 'abcd': tract.fire('deploy', {'target': x})")
    monkeypatch.setattr(FrontEnd, "can_click", True)
    kind = type(deploy.namespace["tract"].review)
    monkeypatch.setattr(kind, "inbox", lambda _: pytest.fail("all is read"))
    monkeypatch.setattr(review.Inbox, "show", lambda inbox: print("the list"))
    assert deploy.run("%tract inbox").text == "the list\n"


def test_an_unreadable_request_does_not_hide_other_requests(deploy, tmp_path):
    deploy.run(CELL.replace("deploy", "other").replace(" --activate --ask", ""))
    deploy.run("tract.fire('deploy', {'target': 'a'})")
    deploy.namespace["tract"].close()
    with closing(sqlite3.connect(tmp_path / ".tract" / "tract.db")) as connection, connection:
        connection.execute("UPDATE pendings SET fields_json = '{}' WHERE operation <> 'deploy'")
    deploy.run("%reload_ext tract_jupyter")
    text = deploy.run("%tract inbox").text
    assert "[pending] deploy" in text
    assert "Activate operation other" in text
    assert "invalid JSON" in text
    assert "Traceback" not in text


def test_the_line_that_made_a_request_is_shown_as_typed(deploy):
    result = deploy.run("x = 1\np = %tract_fire deploy target='it''s'\ny = 2")
    assert ">   2  p = %tract_fire deploy target='it''s'" in result.text
    shown_again = deploy.run("1\n%tract inbox").text
    assert "tract inbox" not in shown_again  # this line did not make the request


def test_a_cell_that_is_an_operation_is_not_shown_twice(shell):
    shell.run("%%tract_operation other\nx: int = 1\ndef go(pending):\n    pending.approve()\n")
    assert "run_cell_magic" not in shell.run("%tract inbox").text


@pytest.mark.kernel
class TestInAKernel:
    """Commands that a front end sends to a kernel."""

    @pytest.fixture(autouse=True)
    def _define(self, kernel):
        kernel.run(CELL)

    def test_completion(self, kernel):
        assert "grants" in kernel.complete("%tract gr")
        assert kernel.complete("%tract grants ") == ["revoke"]
        kernel.run("tract.fire('deploy', {'target': 'a'}, review=True).approve(scope='always')")
        listed = kernel.run("%tract grants").text
        (found,) = kernel.complete("%tract grants revoke ")
        assert found in listed

    def test_without_panels_requests_share_one_output_and_are_decided_one_by_one(self, kernel):
        kernel.run("from tract_jupyter.notebook import channels; channels.PROBE_SECONDS = 0")
        kernel.run("for x in 'bc': tract.reviewer.keep(tract.fire('deploy', {'target': x}, review=True))")
        result = kernel.run("%tract inbox", typed=("approve", ""))
        assert result.ok
        assert result.html.count("tract-batch-record") >= 1
        assert "Inbox: 1 of 2 decided" in result.text
        assert "[approved] deploy (target = 'b', n = 1)" in result.text
        assert "[pending] deploy (target = 'c', n = 1)" in result.text


def test_an_operation_that_waits_for_its_approval_is_nowhere_unknown(shell):
    shell.run("%%tract_operation other\nx: int = 1\ndef go(pending):\n    pending.approve()\n")
    (waiting,) = shell.namespace["tract"].review.inbox()
    line = f"%tract decide {waiting.pending_id[:8]}"
    for typed in ("%tract_fire other", "%tract ops", "%tract review other"):
        result = shell.run(typed)
        assert line in result.error + result.text
    assert "None yet" not in shell.run("%tract ops").text
    shell.run(line)
    assert shell.run(f"{line} activate").ok
    assert "Waiting for approval" not in shell.run("%tract ops").text
