"""`%tract decide`: full requests and typed decisions, in every kind of front end."""

import re
import sqlite3
from contextlib import closing

import pytest
from IPython.core.completer import provisionalcompleter

DEFINE = '''%%tract_operation deploy --activate --ask
"""Put it into production."""
x: int = 1
note: str = ""

def go(pending, n: int = 2, dry: bool = False):
    pending.fields['x'] = n
    pending.approve()

def touch(pending):
    pending.fields['x'] += 1

def stop(pending, why: str):
    pending.reject(why)
'''


@pytest.fixture
def fire(shell):
    """A function that fires an operation with a request, and returns the pending and a short id."""
    assert shell.run(DEFINE).ok

    def make(**fields):
        pending = shell.namespace["tract"].fire("deploy", fields, review=True)
        shell.namespace["tract"].reviewer.keep(pending)
        return pending, pending.pending_id[:8]

    return make


def last(shell):
    return shell.namespace["tract"].review.decisions(limit=1)[0]


def test_nothing_waits(shell):
    result = shell.run("%tract decide")
    assert result.ok
    assert "No requests need a decision." in result.text


def test_without_an_id_the_oldest_request_is_shown_with_its_commands(shell, fire):
    _, first = fire(x=3)
    fire(x=4)
    text = shell.run("%tract decide").text
    for part in ("[pending] deploy", "def go(pending, n: int = 2", "pending.fields['x'] = n", "x: int = 3"):
        assert part in text
    for line in ("approve", "reject REASON", "go [n=int] [dry=bool]", "stop why=str"):
        assert f"%tract decide {first} {line}" in text


def test_completion_does_not_display_the_request(shell, fire):
    pending, name = fire(x=3)
    tract = shell.namespace["tract"]
    tract.reviewer.keep(pending, unshown=True)
    (before,) = tract.review.inbox()
    line = f"%tract decide {name} "
    with provisionalcompleter():
        offered = {one.text for one in shell.ip.Completer.completions(line, len(line))}
    assert {"go", "approve", "reject"} <= offered
    assert tract.review.inbox() == [before]
    assert pending.is_unshown


def test_a_title_that_the_store_holds_moves_no_cursor(shell, fire, tmp_path):
    fire()
    with closing(sqlite3.connect(tmp_path / ".tract" / "tract.db")) as connection, connection:
        connection.execute("UPDATE pendings SET title = char(27) || '[2Jdeploy' || char(10) || 'x'")
    fire(x=2)
    assert "\ufffd[2Jdeploy x" in shell.run("%tract decide zzzz approve").error


def test_nothing_is_approved_that_was_not_shown_in_full_before(shell, fire):
    pending, name = fire(x=3)
    text = shell.run(f"%tract decide {name} approve").text
    assert "def go(pending, n: int = 2" in text
    assert "Nothing is decided yet" in text
    assert pending.status == "pending"
    result = shell.run(f"%tract decide {name} approve")
    assert result.ok
    assert "[approved] deploy" in result.text
    assert (pending.status, last(shell).channel) == ("approved", "command")


def test_a_request_that_an_action_changed_is_shown_again_before_approval(shell, fire):
    pending, name = fire(x=3)
    shell.run(f"%tract decide {name}")
    assert shell.run(f"%tract decide {name} touch").ok
    assert pending.status == "pending"
    text = shell.run(f"%tract decide {name} approve").text
    assert "x: int = 4" in text
    assert pending.status == "pending"
    shell.run(f"%tract decide {name} approve")
    assert (pending.status, pending.fields["x"]) == ("approved", 4)


@pytest.mark.parametrize(
    "line", ["reject  not before  Friday", "reject reason='not before  Friday'", "rej not before  Friday"]
)
def test_a_rejection_needs_no_reading_and_keeps_its_words(shell, fire, line):
    pending, name = fire()
    assert shell.run(f"%tract decide {name} {line}").ok
    assert (pending.status, pending.rejection_reason) == ("rejected", "not before  Friday")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("go", {"x": 2, "note": ""}),
        ("go n=7 dry=true", {"x": 7, "note": ""}),
        ("go n=7   dry=True", {"x": 7, "note": ""}),
        ('approve x=5 note="two words"', {"x": 5, "note": "two words"}),
        ("approve note=7", {"x": 3, "note": "7"}),
        ("session", {"x": 3, "note": ""}),
    ],
)
def test_values_stand_in_the_line(shell, fire, line, fields):
    pending, name = fire(x=3)
    shell.run(f"%tract decide {name}")
    result = shell.run(f"%tract decide {name} {line}")
    assert result.ok, result.error
    assert (pending.status, pending.fields) == ("approved", fields)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fly", "'fly' is not one of its actions"),
        ("go n=many", "should be a valid integer"),
        ("go m=1", "there is no value 'm'"),
        ("go n=1 n=2", "'n' has two values"),
        ("stop", "why"),
        ("approve y=1", "there is no value 'y'"),
        ("approve y", "'y' is not name=value"),
        ("session x=1", "session takes no values"),
    ],
)
def test_an_invalid_line_decides_nothing(shell, fire, line, said):
    pending, name = fire(x=3)
    shell.run(f"%tract decide {name}")
    result = shell.run(f"%tract decide {name} {line}")
    assert said in result.error + result.text
    assert pending.status == "pending"


def test_the_id_is_optional_for_a_single_request_and_can_be_shortened(shell, fire):
    pending, name = fire()
    shell.run("%tract decide")
    assert shell.run("%tract decide approve").ok
    assert pending.status == "approved"
    (one, first), (two, second) = fire(x=2), fire(x=3)
    told = shell.run("%tract decide approve").error
    assert "requests wait, so say which one: %tract decide ID approve" in told
    assert f"{first} deploy" in told
    assert "no waiting request has an id" in shell.run(f"%tract decide {name} approve").error  # it is decided
    length = next(n for n in range(4, 9) if first[:n] != second[:n])
    assert shell.run(f"%tract decide {first[:length]} reject").ok
    assert (one.status, two.status) == ("rejected", "pending")


@pytest.mark.parametrize("show", ["tract.reviewer.show(p)", "%tract inbox"])
def test_every_text_of_a_request_names_the_line(shell, fire, show):
    pending, name = fire()
    shell.namespace["p"] = pending
    assert f"%tract decide {name}" in shell.run(show).text


def test_a_request_of_another_process_can_be_decided_here(shell, fire):
    _, name = fire()
    shell.run("%reload_ext tract_jupyter")  # the closed store forgets the pending
    assert "def go(pending" in shell.run(f"%tract decide {name}").text
    assert shell.run(f"%tract decide {name} go n=9").ok
    assert "No requests need a decision" in shell.run("%tract inbox").text


def test_a_decision_shows_the_number_of_open_requests(shell, fire):
    fire()
    _, name = fire(x=2)
    assert "1 more waits" in shell.run(f"%tract decide {name} reject").text


@pytest.mark.parametrize(
    ("typed", "status", "x"),
    [
        (["go n=7 dry=true"], "approved", 7),
        (["stop not on a Friday"], "rejected", 1),
        (["approve x=5"], "approved", 5),
        (["go m=7", "fly away", "go n=8"], "approved", 8),
        (["go", "9", ""], "approved", 9),
    ],
)
def test_a_prompt_takes_the_values_in_its_line_too(shell, fire, monkeypatch, typed, status, x):
    pending, name = fire()
    front_end = shell.namespace["tract"].reviewer.channel._front_end
    monkeypatch.setattr(type(front_end), "takes_input", True)
    given = iter(typed)
    monkeypatch.setattr("builtins.input", lambda prompt: next(given))
    text = shell.run(f"%tract decide {name}").text
    assert (pending.status, pending.fields["x"]) == (status, x)
    assert next(given, None) is None
    for word, why in {
        "go m=7": "there is no value 'm'",
        "fly away": "'fly' is not one of its actions",
    }.items():
        assert (why in text) == (word in typed)


def test_the_prompt_gives_up_after_five_unreadable_answers(shell, fire, monkeypatch):
    pending, name = fire()
    front_end = shell.namespace["tract"].reviewer.channel._front_end
    monkeypatch.setattr(type(front_end), "takes_input", True)
    asked = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or "nonsense")
    text = shell.run(f"%tract decide {name}").text
    assert len(asked) == 5
    assert re.search(r"5 answers could not be read\. It waits: %tract decide \w{8} asks again", text)
    assert pending.status == "pending"
    result = shell.run("tools.fire_deploy(x=8)")
    assert len(asked) == 15  # once at its display, and once for the waiting code
    assert "5 answers could not be read" in result.error


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_request_that_code_made_invalid_can_be_rejected(shell, fire, is_shown):
    pending, name = fire()
    if is_shown:
        shell.run(f"%tract decide {name}")
    pending.fields["x"] = "many"
    shell.run(f"%tract decide {name} approve")
    assert pending.status == "pending"
    result = shell.run(f"%tract decide {name} reject it is spoilt")
    assert result.ok, result.error
    assert (pending.status, pending.rejection_reason) == ("rejected", "it is spoilt")


@pytest.mark.parametrize("value", ["many", object(), float("nan"), {1: 2}, "\ud800"])
def test_the_inbox_shows_how_to_reject_a_request_that_code_made_invalid(shell, fire, value):
    pending, name = fire()
    pending.fields["x"] = value
    inbox = shell.run("%tract inbox").text
    assert name in inbox
    assert "%tract decide ID reject REASON rejects" in inbox
    result = shell.run(f"%tract decide {name} reject spoilt")
    assert result.ok, result.error
    assert (pending.status, pending.rejection_reason) == ("rejected", "spoilt")


def test_a_decision_from_the_inbox_changes_the_pending_that_code_holds(shell, fire):
    pending, name = fire(x=3)
    shell.run("%tract inbox")
    shell.run(f"%tract decide {name}")
    assert shell.run(f"%tract decide {name} approve").ok
    assert pending.status == "approved"


@pytest.mark.parametrize("fields", ['{"x": "many"}', '{"x": 1, "more": 2}'])
def test_a_stored_request_with_invalid_fields_shows_why_and_can_be_rejected(shell, fire, tmp_path, fields):
    _, name = fire()
    with closing(sqlite3.connect(tmp_path / ".tract" / "tract.db")) as connection, connection:
        connection.execute("UPDATE pendings SET fields_json = ?", (fields,))
    shell.run("%reload_ext tract_jupyter")  # the closed store forgets the pending
    line = f"%tract decide {name} reject"
    assert "rejects it" in shell.run(f"%tract decide {name}").error
    inbox = shell.run("%tract inbox").text
    assert "deploy: 'x' should be" in inbox or "'more' is unknown" in inbox
    assert "%tract decide ID reject REASON rejects" in inbox
    assert f"{line} REASON" in shell.run(f"%tract decide {name} approve").error
    result = shell.run(f"{line} it is spoilt")
    assert result.ok, result.error
    assert (last(shell).action, last(shell).reason) == ("reject", "it is spoilt")
    assert "No requests need a decision" in shell.run("%tract inbox").text


def test_a_request_that_code_changed_is_shown_with_the_new_values(shell, fire):
    pending, name = fire(x=3)
    assert "x: int = 3" in shell.run(f"%tract decide {name}").text
    pending.fields["x"] = 8
    text = shell.run(f"%tract decide {name}").text
    assert "x: int = 8" in text
    assert "x: int = 3" not in text
    assert shell.run(f"%tract decide {name} approve").ok
    assert pending.status == "approved"


@pytest.mark.parametrize("line", ["zzzz", "zz approve"])
def test_a_mistyped_id_is_not_taken_for_an_action(shell, fire, line):
    pending, name = fire()
    error = shell.run(f"%tract decide {line}").error
    assert f"no waiting request has an id that begins with '{line.split()[0]}'" in error
    assert name in error
    assert "Its actions: " in error
    assert pending.status == "pending"


def test_a_shell_without_a_kernel_prints_a_record_only_once(shell, fire):
    """A shell without a kernel prints the record of a request only once."""
    fired = shell.run("p = tract.fire('deploy', {'x': 3})")
    assert "[pending] deploy" in fired.text
    for _ in range(2):
        assert "[pending] deploy" in shell.run("%tract inbox").text
    decided = shell.run("%tract decide approve")
    assert decided.text.count("[approved] deploy") == 1
    assert shell.namespace["p"].status == "approved"
