"""`%tract mcp`: adding, listing and removing servers in a notebook."""

from __future__ import annotations

import shlex

import pytest
from IPython.core.completer import CompletionContext

from tests.toolkit.servers import command, scripted


def line(way, *arguments):
    """The command after `--`."""
    return shlex.join(command("liar", way, *arguments))


@pytest.fixture
def added(shell):
    """A shell with a server."""
    result = shell.run(f"%tract mcp add liar -- {line('names')}")
    assert result.ok, result.text
    return shell


def complete(shell, text):
    matcher = shell.ip.Completer.custom_matchers[-1]
    context = CompletionContext(text.rpartition(" ")[2], text, len(text), 0, None)
    return [completion.text for completion in matcher(context)["completions"]]


def test_a_server_is_added_with_its_tools(shell):
    text = shell.run(f"%tract mcp add liar -- {line('names')}").text
    assert "MCP server liar" in text
    assert "for this session only" in text
    assert "tools.liar.with_space" in text
    assert "Left out of liar" in text
    assert shell.run("print(tools.liar.go(n=1))").text == '{"n": 1}\n'


def test_servers_are_listed(added):
    text = added.run("%tract mcp").text
    assert "liar" in text
    assert "connected" in text
    assert added.run("%tract mcp list").text == text
    added.run("tract.mcp.servers['liar'].close()")
    assert "ended" in added.run("%tract mcp").text


def test_a_server_is_removed(added):
    assert "was removed" in added.run("%tract mcp remove liar").text
    assert "None. %tract mcp" in added.run("%tract mcp").text
    assert not added.run("tools.liar").ok


def test_quotes_are_a_shell_s(shell, tmp_path):
    program = tmp_path / "my server.py"
    program.write_text("import sys\nsys.exit('here I am ' + sys.argv[1])")
    text = shell.run(f"%tract mcp add x -- python '{program}' 'a  b'").text
    assert "here I am a  b" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("add", "usage: %tract "),
        ("add liar", "usage: %tract "),
        ("add liar python server.py", "%tract mcp add liar -- COMMAND ... starts"),
        ("add liar --", "-- COMMAND ... starts a server"),
        ("add liar --trust -- python", "no option '--trust'"),
        ("add liar --timeout -- python", "--timeout must be the seconds"),
        ("add liar --timeout soon -- python", "not 'soon'"),
        ("add liar --timeout 0 -- python", "timeout of MCP server 'liar' must be a number above 0"),
        ("add liar -- python 'x", "No closing quotation"),
        ("add class -- python", "cannot be the name"),
        ("add status -- python", "the tool 'status' already exists"),
        ("add liar -- /nonexistent/x", "No such file"),
        ("add liar http://127.0.0.1:1/mcp", "the connection failed"),
        ("remove", "usage: %tract "),
        ("remove lier", "no MCP server 'lier'"),
        ("start", "usage: %tract "),
    ],
)
def test_an_invalid_line_gives_an_error_without_a_traceback(shell, words, told):
    result = shell.run(f"%tract mcp {words}")
    assert not result.ok
    assert told in result.text
    assert "Traceback" not in result.text


def test_trusted_annotations_make_a_tool_read_only(shell):
    shell.run(f"%tract mcp add liar --trust-annotations -- {line('hints')}")
    assert shell.namespace["tract"].executor.get("liar.reads").traits.read_only


def test_the_timeout_of_its_calls(shell):
    shell.run(f"%tract mcp add liar --timeout 120 -- {line('names')}")
    assert shell.namespace["tract"].mcp.servers["liar"].timeout == 120


def test_a_server_with_a_tool_that_cannot_be_used_says_why(shell, tmp_path):
    program = scripted(tmp_path, [{"name": "odd", "inputSchema": {"type": "array"}}])
    for text in (
        shell.run(f"%tract mcp add raw -- {shlex.join(program)}").text,
        shell.run("%tract mcp").text,
    ):
        assert "odd" in text
        assert "its inputSchema must describe an object" in text


def test_unloading_ends_the_servers(added):
    server = added.namespace["tract"].mcp.servers["liar"]
    added.run("%unload_ext tract_jupyter")
    assert not server.is_running


def test_a_tool_that_fails_shows_no_lines_of_ours(shell):
    shell.run(f"%tract mcp add liar -- {line('error_without_words')}")
    text = shell.run("tools.liar.go(n=1)").text
    assert "the server gave no reason" in text
    assert "mcp_client" not in text


def test_completion(added):
    assert complete(added, "%tract mc") == ["mcp"]
    assert complete(added, "%tract mcp ") == ["add", "list", "remove"]
    assert complete(added, "%tract mcp remove ") == ["liar"]
    assert "--" in complete(added, "%tract mcp add x ")
    assert "liar" in complete(added, "tools.")
    assert "with_space" in complete(added, "tools.liar.")
    assert complete(added, "tools.liar.with") == ["with_space"]
    assert complete(added, "tools.status.") == complete(added, "tools.nothing.") == []


def test_help_tells_of_it(shell):
    assert "%tract mcp" in shell.run("%tract help").text
