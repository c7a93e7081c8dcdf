"""The live panel of one request without a front end: answers, and the message about a late answer."""

import re

import pytest

from tract_jupyter.models.schema import Parameters
from tract_jupyter.notebook.panels import Panel, panel_data, record_html
from tract_jupyter.operations import OperationSpec
from tract_jupyter.review import Ticket
from tract_jupyter.scripts import PendingScript
from tract_jupyter.toolkit import PendingToolCall, ToolDefinition


@pytest.fixture
def ticket(tract, spec):
    tract.register_operation(spec())
    return tract.reviewer.show(tract.fire("citation_check", {"urls": ["a"]}, review=True))


def click(panel, action="approve", arguments="{}", round_id=None, seen=None):
    content = {"action": action, "arguments": arguments, "round_id": round_id or panel.view["round_id"]}
    seen = sorted(panel._ticket.needed) if seen is None else seen
    panel._on_message(panel, {"type": "decide", "seen": seen, **content}, [])


def test_a_click_with_changed_values(ticket):
    click(Panel(ticket), arguments='{"edits":{"urls":["b"]}}')
    assert ticket.status == "approved"
    assert ticket.pending.fields["urls"] == ["b"]


def test_a_late_click_shows_the_earlier_decision_with_channel_and_time(ticket):
    first, second = Panel(ticket), Panel(ticket)
    click(first, "reject", '{"reason":"zebra"}')
    assert second.view["is_open"]  # no message has arrived
    click(second)
    assert not second.view["is_open"]
    assert second.view["late"].startswith("Another decision came first: rejected by ")
    assert "(panel), 20" in second.view["late"]
    assert "zebra" in second.view["body_html"]


def test_a_click_on_an_earlier_showing_shows_the_present_one(ticket):
    panel = Panel(ticket)
    earlier = panel.view["round_id"]
    ticket.new_round("it changed")
    click(panel, round_id=earlier)
    assert ticket.status.is_open
    assert panel.view["round_id"] == ticket.round_id
    assert "Not taken" in panel.view["late"]


def test_a_click_that_is_sent_again_is_not_late(ticket):
    panel = Panel(ticket)
    round_id = panel.view["round_id"]
    click(panel, round_id=round_id)
    click(panel, round_id=round_id)
    assert panel.view["late"] == ""
    assert panel.heard == round_id
    assert len(ticket.pending.tract.events("decision")) == 1


@pytest.mark.parametrize("action", ["approve", "verify"])
def test_a_request_not_fully_on_display_is_not_approved(ticket, action):
    panel = Panel(ticket)
    everything = sorted(ticket.needed)
    drawn = []
    panel.observe(drawn.append, "view")
    for seen in ([], everything[1:], "everything", None, [7, *everything[1:]]):
        content = {"action": action, "arguments": "{}", "round_id": ticket.round_id, "seen": seen}
        panel._on_message(panel, {"type": "decide", **content}, [])
        assert ticket.status.is_open
        assert "have not been on display here" in panel.view["late"]
    assert len(drawn) == 5  # each refusal is drawn
    click(panel, action)
    assert not ticket.status.is_open


def test_a_value_that_changed_was_not_on_display(ticket):
    panel = Panel(ticket)
    before = sorted(ticket.needed)
    ticket.pending.fields["urls"] = ["another"]
    ticket.new_round()
    panel.refresh()
    click(panel, seen=before)
    assert ticket.status.is_open
    assert "2 of the" in panel.view["late"]  # the value and its name
    assert set(ticket.needed) & set(before)  # the code did not change
    click(panel)
    assert ticket.status == "approved"


def test_a_rejection_needs_no_reading(ticket):
    click(Panel(ticket), "reject", seen=[])
    assert ticket.status == "rejected"


def test_values_that_cannot_be_read_decide_nothing_and_say_so(ticket):
    panel = Panel(ticket)
    drawn = []
    panel.observe(drawn.append, "view")
    for number in (1, 2):
        click(panel, arguments='{"uses":03}')
        assert len(drawn) == number  # each time, because the script of the page waits for it
        assert panel.view["late"].startswith("Nothing was decided")
        assert panel.heard == panel.view["round_id"] == ticket.round_id
    assert ticket.status.is_open
    click(panel)
    assert ticket.status == "approved"
    panel.refresh()
    assert panel.view["late"] == ""


@pytest.mark.parametrize(
    "content",
    [None, "x", {}, {"type": "decide"}, {"type": "decide", "action": 1, "arguments": {}, "round_id": "x"},
     {"type": "decide", "action": "approve", "arguments": {}, "round_id": 1}],
)  # fmt: skip
def test_other_messages_do_nothing(ticket, content):
    panel = Panel(ticket)
    panel._on_message(panel, content, [])
    assert ticket.status.is_open
    assert panel.heard == ""


def test_a_page_cannot_change_the_displayed_content(ticket):
    panel = Panel(ticket)
    shown = {**panel.view}
    forged = {"view": {"body_html": "<b>harmless</b>", "needed": 0}, "heard": "all"}
    panel._handle_msg(
        {"content": {"data": {"method": "update", "state": forged, "buffer_paths": []}}, "buffers": []}
    )
    assert (panel.view, panel.heard) == (shown, "")


def of_script(tract, code, notebook_id="user"):
    return Panel(Ticket(PendingScript(code, notebook_id=notebook_id, tract=tract), lambda _: None)).view


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("open('a').read()", "1 low finding in line 1"),
        ("open('a').read()\nx = 1\nopen('b').read()\nopen('c').read()", "3 low findings in lines 1, 3 and 4"),
        ("x = 1\n\nimport requests\nimport httpx", "2 medium findings in lines 3 and 4"),
        ("open('a').read()\n" * 5, "5 low findings in lines 1, 2, 3 and others"),
        ("from pathlib import Path", "1 low finding in line 1"),
    ],
)
def test_a_badge_names_the_lines_of_findings_and_each_number_is_a_button(tract, code, said):
    view = of_script(tract, code)
    assert re.sub(r"<[^>]+>", "", view["risk_html"].replace("</span><", "</span> <")) == said
    lines = re.findall(r'<button[^>]*aria-label="line (\d+)">\1</button>', view["risk_html"])
    assert lines == re.findall(r"\d+", said)[1:]
    assert all(f'<span class="n" aria-hidden="true">{line}</span>' in view["body_html"] for line in lines)
    assert "`" not in view["risk_html"] + view["body_html"].partition("About rule")[0]


def test_a_script_is_shown_as_code(tract):
    view = of_script(tract, "rows = tools.status()\n\nprint(rows)")
    assert view["about"] == "Can call the tool status"
    assert "Can call the tool status" not in view["body_html"] + view["risk_html"]
    assert view["needed"] == 3
    assert view["is_short"]
    assert view["body_html"].startswith('<div class="code"')
    assert 'data-name="code"' in view["body_html"]
    assert "<table" not in view["body_html"]
    assert not of_script(tract, "x = 1\n" * 16)["is_short"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os\n# Count <all> rows.\nx = 1", "“Count &lt;all&gt; rows.”"), ("print(1)", "Run a script"),
        ("x = '# no comment'\ny = 2", "Run a script"), ("#!x\n#\n## Plot\nx = 1", "“Plot”"),
    ],
)  # fmt: skip
def test_code_is_named_by_its_first_comment_and_never_repeated(tract, code, told):
    view = of_script(tract, code)
    assert f">{told}</b>" in view["headline_html"]
    assert 'aria-label="runs in your kernel"' in view["headline_html"]
    assert code not in view["headline_html"] + view["about"] + str(view["values"])


def test_the_record_of_a_changed_script_shows_the_code_that_ran(tract):
    script = PendingScript("top = 3\nprint(top)", notebook_id="user", tract=tract, execute_fn=None)
    ticket = tract.reviewer.show(script)
    click(Panel(ticket), arguments='{"edits":{"code":"top = 5\\nprint(top)"}}')
    line = record_html(ticket).partition("<summary")[2].partition("</summary>")[0]
    assert "2 lines of code" in line
    assert "code changed" in line


@pytest.mark.parametrize(
    ("code", "brief"),
    [
        ("a = 1\n\n\nb = 2\n", "4 lines of code"),
        ("\n\nprint(1)\n", "print(1)"),
        ("a = 1\nb = 2\n\n", "2 lines"),
    ],
)
def test_a_row_counts_the_lines_of_a_script_as_an_editor_does(tract, code, brief):
    ticket = Ticket(PendingScript(code, notebook_id="user", tract=tract), lambda _: None)
    assert brief in record_html(ticket).partition("</summary>")[0]


def test_the_row_of_a_script_names_its_files_once(tract):
    view = of_script(tract, "import pandas as pd\npd.read_csv('data/x.csv')\npd.read_csv('/etc/x.csv')")
    assert view["about"] == "Can read /etc/x.csv and data/x.csv"
    assert view["body_html"].partition("About this request")[0].count('class="says"') == 1


def test_a_script_names_the_notebook_of_its_variables(tract):
    view = of_script(tract, "x = 1", "draft")
    assert view["needed"] == 3  # the line of code and the notebook
    assert [value["text"] for value in view["values"]] == ["'draft'"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("table.to_csv('sightings.csv')", "Can overwrite the existing file sightings.csv"),
        ("open('sightings.csv', 'w').write('x')", "Can overwrite the existing file sightings.csv"),
        ("open('sightings.csv', 'a').write('x')", "Can change the existing file sightings.csv"),
        ("table.to_csv('new.csv')", "Can write new.csv"),
        (
            "import pandas as pd\nd = pd.read_csv('sightings.csv')\nd['n'] = d['a'] * 2\nd.to_csv('sightings.csv')",
            "Can overwrite the existing file sightings.csv, which is read here",
        ),
        (
            "t.to_csv('sightings.csv'); t.to_csv('notes.txt'); open('other.csv').read()",
            "Can overwrite the existing files notes.txt and sightings.csv and read other.csv",
        ),
        (
            "import sqlite3\nsqlite3.connect('shop.db').execute('insert into t values (1)')",
            "Can change the existing file shop.db",
        ),
        ("import sqlite3\nsqlite3.connect('shop.db').execute('select 1')", "Can read shop.db"),
        ("import sqlite3\nsqlite3.connect('new.db').execute('create table t (a)')", "Can change new.db"),
    ],
)
def test_a_script_that_changes_a_file_says_so_once(tract, tmp_path, monkeypatch, code, said):
    monkeypatch.chdir(tmp_path)
    for name in ("sightings.csv", "notes.txt", "shop.db"):
        (tmp_path / name).write_text("1")
    view = of_script(tract, code)
    assert view["about"] == said
    assert not view["values"]
    assert " finding" in view["risk_html"]
    assert view["is_risky"] is ("existing" in said)  # then no button is highlighted
    assert not view["is_destructive"]
    assert "finding" not in view["why_all"]


@pytest.mark.parametrize("is_destructive", [False, True])
def test_a_destructive_call_is_marked(tract, is_destructive):
    @tract.tool(destructive=is_destructive)
    def drop(path: str) -> None:
        """Drop a file."""

    pending = PendingToolCall(
        "drop",
        {"path": "a"},
        parameters=Parameters.of(drop),
        definition_hash="f" * 64,
        code_doubt="",
        tract=tract,
    )
    assert Panel(Ticket(pending, lambda _: None)).view["is_destructive"] is is_destructive


NOTE = {
    "text": {"type": "str"}, "tags": {"type": "list[str]", "default": []}, "level": {"type": "int", "default": 3},
    "kind": {"type": "str", "default": "plain"}, "path": {"type": "str", "default": "~/.ssh/id"},
    "draft": {"type": "bool", "default": False}, "by": {"type": "str | None", "default": None},
}  # fmt: skip


def of_note(tract, **given):
    tract.register_operation(OperationSpec("note", "", NOTE, {}, unhandled="ask"))
    return tract.reviewer.show(tract.fire("note", {"text": "buy milk and bread", **given}))


def test_values_at_their_default_are_folded_in_one_line(tract):
    ticket = of_note(tract)
    view = panel_data(ticket)
    assert view["defaults"] == ["tags", "level", "kind", "draft", "by"]  # a path is not a plain value
    assert "tags" not in [value["name"] for value in view["values"]]
    assert "5 values at their default: tags, level, kind, draft, by</summary>" in view["body_html"]
    assert len(ticket.needed) == 4  # names and values of the text and the path
    rows = {row.name: row.value for row in ticket.request.tables[0].rows}
    assert rows["level"] == "3"  # an approval still covers it


def test_a_value_that_was_given_is_on_display(tract):
    view = panel_data(of_note(tract, level=4, by="anna"))
    assert view["defaults"] == ["tags", "kind", "draft"]
    assert {"level", "by"} <= {value["name"] for value in view["values"]}


def test_of_an_mcp_server_only_empty_defaults_are_folded(tract):
    def write(text: str, tags: list[str] | None = None, force: bool = True, kind: str = "all") -> str:
        return text

    tool = ToolDefinition("write", "Write.", Parameters.of(write), write, owner="mcp:far")
    tract.executor.add(tool)
    asked = PendingToolCall(
        "write", tool.parameters.validate({"text": "a"}), parameters=tool.parameters, tract=tract,
        definition_hash=tool.definition_hash, code_doubt="",
    )  # fmt: skip
    assert panel_data(tract.reviewer.show(asked))["defaults"] == ["tags"]
