"""The magics, in a shell without a front end."""

import json
import re
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook import commands
from tract_jupyter.notebook.commands import all_commands, command_names, find_command
from tract_jupyter.notebook.panels import panel_data
from tract_jupyter.review import shown_code

CELL = '''%%tract_operation citation_check --activate
"""Verify source URLs."""
urls: Annotated[list[str], "URLs to verify"]
verified: bool = False

def verify(pending, strict: bool = False):
    """Check that all URLs are in the context."""
    import os
    os.system("true")
    pending.fields["verified"] = True
    pending.approve()

def burst(pending):
    """Raise."""
    value = pending.fields["urls"]
    return 1 / 0
'''


def test_activate_registers_at_once_and_shows_the_findings(shell):
    result = shell.run(CELL)
    assert result.ok
    assert "Operation citation_check is active" in result.text
    assert "os.system" in result.text
    assert "\n9 " in result.text  # the line number in the cell
    assert "fire_citation_check" in dir(shell.namespace["tools"])


def test_repeated_findings_are_one_row_with_the_worst_first(shell):
    result = shell.run(
        CELL.replace('    os.system("true")\n', '    open("a")\n' + '    os.system("true")\n' * 3)
    )
    rows = [line for line in result.text.splitlines() if " TJ" in line]
    assert rows[0].startswith("10, 11, 12  critical  TJ101")
    assert sum("TJ101" in row for row in rows) == 1


def test_without_activate_it_only_waits(shell):
    result = shell.run(CELL.replace(" --activate", ""))
    assert "[pending] Activate operation citation_check" in result.text
    assert not shell.namespace["tract"].status().operations
    assert shell.namespace["tract"].status().waiting == 1
    assert "[pending] Activate" in shell.run("%tract inbox").text


WAITING = CELL.replace(" --activate", "")
BODY = CELL.partition("\n")[2]
MAGIC = f"get_ipython().run_cell_magic('tract_operation', 'citation_check', {BODY!r})"
NESTED = f"get_ipython().run_cell({WAITING!r}, store_history=True)"
NESTED_TWICE = f"get_ipython().run_cell('1', store_history=True)\n{NESTED}"
AS_JSON = """%%tract_operation tidy --json
{"name": "tidy", "description": "Tidy", "actions": {"go": {"description": "Go", "code": "pending.approve()"}}}
"""


@pytest.mark.parametrize(
    ("cell", "is_typed"),
    [
        (WAITING, True), (MAGIC, False), (NESTED, False), (NESTED_TWICE, False), (AS_JSON, False),
        (WAITING.replace("Raise.", "Raise\u200b."), False),
    ],
)  # fmt: skip
def test_only_code_typed_in_the_cell_counts_as_read(shell, cell, is_typed):
    assert shell.run(cell).ok
    tract = shell.namespace["tract"]
    (stored,) = tract.review.inbox()
    asked = tract.reviewer.asked_here(stored.pending_id)
    ticket = tract.reviewer.show_again(asked)
    assert bool(ticket.needed) is not is_typed
    assert ("data-line" in panel_data(ticket)["body_html"]) is not is_typed
    asked.approve()
    assert code_is_read(tract, {"urls": ["a"]} if asked.spec.fields else {}) is is_typed


def code_is_read(tract, fields):
    """Fire the operation. Return True if its code counts as read; its values never do."""
    (name,) = tract.operations.registry.operation_names
    ticket = tract.reviewer.show(tract.fire(name, fields, review=True))
    pieces = [piece for block in ticket.request.code for piece in shown_code(block).pieces()]
    code = {piece.key for piece in pieces} - {""}
    assert ticket.needed >= code
    assert bool(ticket.needed - code) is bool(fields)
    return not code


@pytest.mark.parametrize(
    ("cell", "is_typed"), [(CELL, True), (MAGIC.replace("check'", "check --activate'"), False)]
)
def test_activated_code_must_be_read_at_a_firing_unless_the_user_typed_it(shell, cell, is_typed):
    assert shell.run(cell).ok
    assert code_is_read(shell.namespace["tract"], {"urls": ["a"]}) is is_typed


def test_the_same_code_is_read_if_a_model_proposes_it_later(shell):
    shell.run(WAITING)
    tract = shell.namespace["tract"]
    (stored,) = tract.review.inbox()
    typed = tract.reviewer.asked_here(stored.pending_id)
    typed.reject("later")
    pending = tract.operations.propose(typed.spec, actor="agent:model")
    assert tract.reviewer.show(pending).needed
    pending.named(pending.fingerprint).approve()
    assert not code_is_read(tract, {"urls": ["a"]})
    shell.run(WAITING)  # it is already active, and now the user has typed it
    assert code_is_read(tract, {"urls": ["b"]})


def test_running_it_again_says_that_nothing_changed(shell):
    shell.run(CELL)
    assert "already active" in shell.run(CELL).text


def test_a_changed_operation_shows_the_diff(shell):
    shell.run(CELL)
    result = shell.run(CELL.replace('os.system("true")', "pass"))
    assert '-    os.system("true")' in result.text
    assert "+    pass" in result.text


def test_a_changed_proposal_keeps_the_active_version(shell):
    shell.run(CELL)
    before = shell.namespace["tract"].operations.registry.get_spec("citation_check")
    result = shell.run(CELL.replace(" --activate", "").replace('os.system("true")', "pass"))
    assert "Replace operation citation_check" in result.text
    assert shell.namespace["tract"].operations.registry.get_spec("citation_check") is before


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%tract_operation x\na: int = f()", "line 2: a default must be a literal"),
        ("%%tract_operation x\n\ndef a(pending):\n    x = (\n", "line 4"),
        ("%%tract_operation x\ndef a(pending):\n    y = 1\n    break\n", "line 4.*outside loop"),
        ("%%tract_operation approve\na: int = 1", "'approve' is reserved"),
        ("%%tract_operation merge\na: int = 1", "built-in operation"),
        ("%%tract_operation x-y\na: int = 1", "not a valid name for an operation"),
        ("%%tract_operation x\na: strng = 1", "Did you mean"),
        ("%%tract_operation x --json\n{", "not valid JSON"),
        ("%%tract_operation\na: int = 1", "name the operation"),
    ],
)
@pytest.mark.parametrize("option", ["", " --activate"])
def test_an_invalid_cell_gives_an_error_and_registers_nothing(shell, cell, words, option):
    first, rest = cell.split("\n", 1)
    result = shell.run(f"{first}{option}\n{rest}")
    import re

    assert not result.ok
    assert re.search(words, result.text), result.text
    assert "Traceback" not in result.text
    tract = shell.namespace["tract"]
    assert not tract.status().operations
    assert not tract.review.inbox()
    assert not tract.events()


def test_fire_returns_the_pending(shell):
    shell.run(CELL)
    shell.run("urls = ['https://example.com']")
    shell.run("p = %tract_fire citation_check urls=$urls verified=True")
    pending = shell.namespace["p"]
    assert pending.status == "approved"
    assert pending.fields == {"urls": ["https://example.com"], "verified": True}
    assert pending.triggered_by == "%tract_fire"


def test_a_handler_handles_it(shell):
    shell.run(CELL)
    shell.run("tract.on('citation_check', lambda p: p.reject('not today'))")
    shell.run("p = %tract_fire citation_check urls=[]")
    assert shell.namespace["p"].rejection_reason == "not today"


def test_review_puts_it_on_display_whatever_handlers_there_are(shell):
    shell.run(CELL)
    shell.run("tract.on('citation_check', lambda p: p.approve())")
    result = shell.run("p = %tract_fire citation_check urls=[] --review")
    assert "[pending] citation_check" in result.text
    assert shell.namespace["p"].status == "pending"


def test_ask_puts_it_on_display_when_nothing_handles_it(shell):
    shell.run(CELL.replace("--activate", "--activate --ask"))
    assert "[pending]" in shell.run("p = %tract_fire citation_check urls=[]").text
    shell.run("tract.on('citation_check', lambda p: p.approve())")
    assert "[pending]" not in shell.run("p = %tract_fire citation_check urls=[]").text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("citation_chek urls=[]", "Did you mean 'citation_check'"),
        ("citation_check", "'urls' is missing"),
        ("citation_check urls=['a',1]", "valid string"),
        ("citation_check urls=[] verified=1", "valid boolean"),
        ("citation_check urls=[] verifed=True", "Did you mean 'verified'"),
        ("citation_check urls=$nothing", "no variable 'nothing'"),
    ],
)
def test_an_invalid_firing_gives_an_error_without_a_traceback(shell, line, words):
    shell.run(CELL)
    result = shell.run(f"%tract_fire {line}")
    assert not result.ok
    assert words in result.text
    assert "Traceback" not in result.text


def test_an_action_that_raises_shows_the_authors_line(shell):
    shell.run(CELL)
    shell.run("tract.on('citation_check', lambda p: p.burst())")
    result = shell.run("%tract_fire citation_check urls=[]")
    assert not result.ok
    assert "ZeroDivisionError" in result.text
    assert "return 1 / 0" in result.text
    assert "<action:citation_check.burst>" in result.text


def test_tool_errors_show_the_users_line_and_no_frames_of_ours(shell):
    shell.run(CELL)
    result = shell.run("tools.fire_citation_check(urls=[2])")
    assert "tools.fire_citation_check(urls=[2])" in result.text
    assert "ToolExecutionError: fire_citation_check(urls=[2]) failed" in result.text
    assert "bridge.py" not in result.text


def test_the_list_of_tools_shows_locked_tools_and_tools_of_the_user(shell):
    shell.run(
        "@tract.tool(read_only=True)\ndef shout(text: str) -> str:\n    'Say it loudly.'\n    return text.upper()"
    )
    assert shell.run("tools.shout('a')").ok
    shell.run("tract.executor.lock_tool('gc', 'not today')")
    shown = shell.run("%tract tools").text
    assert "Say it loudly." in shown
    assert "writes, locked" in shown
    assert "not today" in shell.run("tools.gc()").text


def test_every_command_shows_html_and_text(shell):
    shell.run(CELL)
    shell.run("tract.user('<b>bold</b>')\n%tract_fire citation_check urls=[]")
    for command in ("", "status", "log", "log 5", "ops", "tools", "inbox", "help"):
        result = shell.run(f"%tract {command}")
        assert result.ok, command
        assert result.text.strip(), command
        assert re.search(r'class="tract[- "]', result.html), command
    assert "&lt;b&gt;bold&lt;/b&gt;" in shell.run("%tract log").html


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hlp", "Did you mean 'help'"),
        ("log many", "takes one number"),
        ("log 0", "takes one number"),
        ("ops now", "takes no arguments"),
        ("review", "name one stored operation"),
        ("review nothing", "no stored operation 'nothing'"),
    ],
)
def test_an_invalid_command_gives_an_error_without_a_traceback(shell, line, words):
    result = shell.run(f"%tract {line}")
    assert not result.ok
    assert words in result.text
    assert "Traceback" not in result.text


def test_the_magics_document_themselves(shell):
    magic = shell.ip.find_cell_magic("tract_operation")
    assert "--activate" in magic.__doc__
    assert "never executed" in magic.__doc__
    assert "%tract inbox" in shell.ip.find_line_magic("tract").__doc__
    assert "--review" in shell.ip.find_line_magic("tract_fire").__doc__


def test_a_models_json_is_shown_and_runs_nothing(shell, tmp_path):
    mark = tmp_path / "mark"
    spec = {"name": "evil", "actions": {"go": {"code": f"open({str(mark)!r}, 'w')\npending.approve()"}}}
    result = shell.run(f"%%tract_operation --json\n{json.dumps(spec)}")
    assert "[pending] Activate operation evil" in result.text
    shell.run("%tract inbox")
    shell.run("dir(tools); tract.status()")
    assert not mark.exists()


def test_quarantined_operations_are_listed_and_can_be_reviewed(shell, data_dir):
    shell.run(CELL)
    (data_dir / "tract_jupyter" / "secret").write_bytes(b"x" * 32)  # another user
    shell.run("%reload_ext tract_jupyter")
    assert "not approved" in shell.run("%tract").text
    assert "you have not approved it here" in shell.run("%tract ops").text
    assert "Did you mean" not in shell.run("%tract_fire citation_check urls=[]").text
    assert "[pending] Activate operation citation_check" in shell.run("%tract review citation_check").text


def test_expressions_in_a_line_are_not_evaluated(shell):
    shell.run(CELL)
    shell.run("n = ['a']\ndef f(m):\n    p = %tract_fire citation_check urls=$m\n    return p")
    assert "neither a Python literal nor JSON" in shell.run("%tract_fire citation_check urls={1+1}").error
    assert "neither a Python literal nor JSON" in shell.run("%tract_fire citation_check urls={n}").error
    assert shell.run("print(f(['b']).fields)").text.startswith("{'urls': ['b']")


def test_no_magic_expands_its_line(bare_shell):
    def registered():
        kinds = bare_shell.ip.magics_manager.lsmagic()
        return {(kind, name) for kind, names in kinds.items() for name in names}

    before = registered()
    bare_shell.run("%load_ext tract_jupyter")
    ours = registered() - before
    assert {name for _, name in ours} >= {
        "tract",
        "tract_operation",
        "tract_fire",
        "tract_script",
        "tract_run",
        "tract_chat",
        "tract_profile",
    }
    expanded = []
    bare_shell.namespace["boom"] = lambda: expanded.append("boom")
    bare_shell.namespace["Spy"] = type("Spy", (), {"__format__": lambda *_: expanded.append("spy") or "x"})()
    for kind, name in sorted(ours):
        for line in ("{boom()}", "$Spy", "{Spy}", "name {boom()}", "--out {boom()}"):
            bare_shell.run(f"%{name} {line}" if kind == "line" else f"%%{name} {line}\n1")
    assert not expanded


def test_help_lists_every_magic_with_its_purpose(shell):
    text = shell.run("%tract help").text
    magics = shell.ip.magics_manager.magics
    ours = {name for kind in ("line", "cell") for name in magics[kind] if name.startswith("tract")}
    assert ours == {
        "tract",
        *(
            f"tract_{name}"
            for name in (
                "operation",
                "propose",
                "fire",
                "script",
                "run",
                "check",
                "chat",
                "profile",
                "orchestrate",
                "agent",
            )
        ),
    }
    for name in ours - {"tract"}:
        assert re.search(rf"^%%?{name} +[A-Z]\w+ .*\.$", text, re.MULTILINE), name


@pytest.mark.parametrize(
    "name", ["tract_operation", "tract_script", "tract_run", "tract_chat", "tract_check"]
)
@pytest.mark.parametrize("marks", ["?", "??"])
def test_a_question_mark_behind_a_cell_magic_shows_its_help(shell, name, marks):
    asked = shell.ip.transform_cell(f"%%{name}{marks}")
    assert asked == f"get_ipython().run_line_magic('pinfo{'2' * (marks == '??')}', '%%{name}')\n"


MAGICS = [
    f"tract_{name}"
    for name in ["operation", "script", "run", "profile", "agent", "chat", "propose", "orchestrate", "check"]
]


@pytest.mark.parametrize("magic", MAGICS)
def test_the_first_line_of_a_cell_completes_its_options_and_nothing_else(shell, magic):
    line = f"%%{magic} --"
    with provisionalcompleter():
        offered = {one.text for one in shell.ip.Completer.completions(line, len(line))}
    assert offered == {*shell.ip.find_cell_magic(magic).options.flags()}


@pytest.mark.parametrize("magic", MAGICS)
def test_the_help_of_a_magic_explains_each_option(shell, magic):
    function = shell.ip.find_cell_magic(magic)
    told = " ".join(function.__doc__.split())
    for name, declared in function.options.flags().items():
        assert f"{name} " in told, name
        assert declared.for_parser["help"] in told, name


PAGES = {
    "tract_chat": "chat.md",
    "tract_script": "scripts.md",
    "tract_orchestrate": "orchestrator.md",
    "tract_check": "analysis.md",
    "tract_profile": "runs.md",
}


@pytest.mark.parametrize(("magic", "page"), PAGES.items(), ids=list(PAGES))
def test_the_page_of_a_magic_names_each_option(shell, magic, page):
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    assert [name for name in shell.ip.find_cell_magic(magic).options.flags() if name not in text] == []


@pytest.mark.parametrize(
    ("magic", "line", "fields"),
    [
        ("tract_script", "--timeout 1.5 --calls 3", {"timeout": 1.5, "calls": 3, "out": ""}),
        (
            "tract_chat",
            "--cells 3 [4] --vars a --plan",
            {"cells": ("3", "[4]"), "variables": ("a",), "plan": True},
        ),
        ("tract_chat", "", {"cells": (), "model": None, "plan": False}),
        ("tract_propose", "--tries 2 'count it'", {"tries": 2, "versions": 3, "text": "count it"}),
        ("tract_orchestrate", "--resume it's late", {"resume": "", "reason": "it's late"}),
        ("tract_orchestrate", "--resume=2", {"resume": "2", "reason": ""}),
        ("tract_check", "--strict 'a'  +  b", {"strict": True, "code": "'a'  +  b"}),
    ],
)
def test_a_line_is_read_as_its_options_are_declared(shell, magic, line, fields):
    read = shell.ip.find_cell_magic(magic).options.parse(line, None)
    assert {name: getattr(read, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("magic", "line", "told"),
    [
        (
            "tract_script",
            "--timeout soon",
            "--timeout takes a number of seconds, not 'soon'. Nothing was run",
        ),
        ("tract_script", "--calls many", "--calls takes a whole number, not 'many'. Nothing was run"),
        ("tract_chat", "--plan=yes", "--plan: ignored explicit argument 'yes'. Nothing was sent"),
        ("tract_check", "--strict=yes a", "--strict takes no value. Nothing was checked"),
        ("tract_profile", "", "give the name: %tract_profile NAME. Nothing was saved"),
    ],
)
def test_a_wrong_value_is_refused_by_the_option_that_declares_it(shell, magic, line, told):
    with pytest.raises(OperationError) as caught:
        shell.ip.find_cell_magic(magic).options.parse(line, None)
    assert str(caught.value) == told


def test_a_command_is_found_without_the_others(monkeypatch):
    names = list(all_commands())
    assert command_names() == names
    monkeypatch.setattr(commands, "all_commands", None)
    assert [find_command(name).name for name in names[:-1]] == names[:-1]
