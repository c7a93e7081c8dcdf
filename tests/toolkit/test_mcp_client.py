"""External MCP servers, each in its own process: correct ones made with the official SDK, and faulty ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.toolkit.servers import command, until
from tract_jupyter.exceptions import (
    AdminLimitError,
    McpConnectionError,
    McpError,
    McpResultError,
    McpStartError,
    McpTimeoutError,
    ToolExecutionError,
)
from tract_jupyter.toolkit import McpServer


@pytest.fixture(scope="module")
def honest():
    """A correct server. It is shared, because importing the SDK takes a second."""
    with McpServer("honest", command("honest")) as server:
        yield server


@pytest.fixture
def liar():
    """Return a function that makes a faulty server."""
    made = []

    def make(way, *arguments, **options):
        made.append(McpServer("liar", command("liar", way, *arguments), **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


def pid_of(server):
    return int(server.call("go"))


def is_alive(pid):
    """Return True if a process runs. A zombie process does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- normal use


def test_tools_are_listed_with_the_claims_of_the_server(honest):
    tools = {tool.name: tool for tool in honest.list_tools()}
    assert {"add", "find", "fail"} <= set(tools)
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].input_schema["required"] == ["a"]
    assert set(tools["find"].output_schema["properties"]) == {"name", "population"}
    assert (tools["find"].read_only, tools["add"].read_only) == (True, None)
    assert honest.listed == tuple(tools.values())


def test_code_gets_the_structured_content_without_its_wrapper_or_the_text(honest):
    assert honest.call("find", {"name": "Rom"}) == {"name": "Rom", "population": 3}
    assert honest.call("add", {"a": 1, "b": 2}) == 3
    assert honest.call("echo", {"text": "héllo 😀"}) == "héllo 😀"


def test_an_error_of_the_tool_is_an_error_of_the_call(honest):
    with pytest.raises(ToolExecutionError, match=r"honest.fail\(why='x'\) failed: Error executing tool fail"):
        honest.call("fail", {"why": "x"})
    with pytest.raises(ToolExecutionError, match="Unknown tool: nothing"):
        honest.call("nothing")
    with pytest.raises(ToolExecutionError, match="valid integer"):
        honest.call("add", {"a": "x"})
    assert honest.call("add", {"a": 1}) == 2


@pytest.mark.parametrize("value", [{1}, float("nan"), "\ud800", b"x", {1: 2}])
def test_arguments_without_a_json_form_are_refused_here(honest, value):
    with pytest.raises(ToolExecutionError, match="cannot be sent"):
        honest.call("echo", {"text": value})
    assert honest.call("echo", {"text": "on"}) == "on"


@pytest.mark.slow
def test_a_timed_out_call_is_cancelled_and_the_connection_stays_usable(honest):
    with pytest.raises(McpTimeoutError, match=r"did not answer within 1 s.*may have had its effect"):
        honest.call("sleep", {"seconds": 60}, timeout=1)
    until(lambda: "cancelled" in honest.call("notes"))


def test_calls_of_several_threads_run_side_by_side(honest):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: honest.call("together", {"count": 8}, timeout=60), range(8)))
    assert sorted(found) == list(range(8))


@pytest.mark.slow
def test_the_variables_of_this_process_are_not_passed_on(honest, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with McpServer("other", command("honest"), env={"GIVEN": "1"}) as other:
        assert "GIVEN" in other.call("environment")
        assert "OPENAI_API_KEY" not in other.call("environment")


def test_a_tool_added_by_the_server_is_listed_after_its_notification(honest):
    assert "grown" not in {tool.name for tool in honest.listed}
    honest.call("grow", {"name": "grown"})
    until(lambda: "grown" in {tool.name for tool in honest.listed})


def test_an_older_server_can_also_notify_about_changed_tools(liar):
    server = liar("changes")
    server.start()
    before = server.listed
    server.call("go")
    until(lambda: server.listed is not before)
    assert [set(tool.input_schema["properties"]) for tool in (*before, *server.listed)] == [{"n"}, {"m"}]


def test_a_server_is_started_at_the_first_use_and_stays_running(liar):
    server = liar("pid")
    assert not server.is_running
    first = pid_of(server)
    assert server.is_running
    assert pid_of(server) == first


def test_closing_ends_it_for_good(liar):
    server = liar("pid")
    pid = pid_of(server)
    server.close()
    server.close()
    assert not is_alive(pid)
    with pytest.raises(McpStartError, match="was closed"):
        server.call("go")


# --- limits of responses


def test_images_and_files_are_described(liar):
    assert liar("image", 400_000).call("go") == (
        "look:\n[image, image/png, 1,200,000 bytes]\n[resource a://b, 3 bytes]\n[resource a://b]\nwritten\n"
        "[link to resource c://d, c]"
    )


def test_too_much_text_is_refused_and_the_connection_stays_open(liar):
    server = liar("big", 1_000_001)
    for _ in range(2):
        with pytest.raises(
            McpResultError, match=r"liar.go answered with 1,000,001 bytes.*the limit is 1,000,000"
        ):
            server.call("go")
    assert server.is_running
    assert len(liar("big", 1_000_000).call("go")) == 1_000_000
    assert len(liar("big", 1_000_001, result_bytes=2_000_000).call("go")) == 1_000_001


@pytest.mark.parametrize("way", [("big", 50_000_000), ("endless_line",)])
def test_a_message_without_measure_ends_the_connection_and_fills_no_memory(liar, way):
    server = liar(*way)
    with pytest.raises(McpConnectionError, match="a message of more than 16,777,216 bytes"):
        server.call("go")
    assert not server.is_running


def test_empty_and_wordless_answers(liar):
    assert liar("empty").call("go") is None
    with pytest.raises(ToolExecutionError, match="gave no reason"):
        liar("error_without_words").call("go")


def test_an_invalid_call_result_is_refused(liar):
    server = liar("no_answer")
    with pytest.raises(
        McpResultError, match="sent an answer of 'go', which is invalid: content: Input should be"
    ):
        server.call("go")
    assert server.is_running


def test_output_of_a_server_is_kept_short_and_out_of_the_notebook(liar, capfd):
    server = liar("chatty")
    assert server.call("go", {"n": 1}) == '{"n": 1}'
    until(lambda: "forgotten print" in server.stderr)
    assert len(server.stderr) <= 4_000
    liar("garbage").call("go")
    assert capfd.readouterr() == ("", "")


# --- ends of a server


def test_a_server_that_dies_during_a_call_is_restarted_for_the_next_call(liar):
    server = liar("dies")
    for _ in range(2):
        with pytest.raises(
            McpConnectionError, match=r"may have had its effect.*exit code 3. It wrote: out of memory"
        ):
            server.call("go")


def test_a_server_that_died_between_calls_is_restarted_without_an_error(liar):
    server = liar("pid")
    first = pid_of(server)
    os.kill(first, signal.SIGKILL)
    until(lambda: not server.is_running)
    assert pid_of(server) != first


@pytest.mark.parametrize(
    "place",
    [
        {"url": "http://me:pw-5@127.0.0.1:9/mcp"},
        {"url": "http://pw-5@127.0.0.1:9/mcp"},
        {"url": "http://127.0.0.1:9/mcp?k=pw-5#a"},
        {"url": "http://127.0.0.1:9/mcp?x=http://a@b&k=pw-5"},
        {"command": ["no-such-program", "--api-key=pw-5-4KdJ9x2Lm", "--port", "80"]},
        {"command": ["no-such-program", "--token", "pw-5-4KdJ9x2Lm", "postgres://me:pw-5@db/birds"]},
    ],
)
@pytest.mark.parametrize("limits", ["", "mcp_servers = ['https://mcp.example.org/*']"])
def test_an_error_has_no_key_of_an_address_or_a_command_line(admin_file, place, limits):
    admin_file.write_text(limits)
    with McpServer("private", **place) as server, pytest.raises((McpStartError, AdminLimitError)) as raised:
        server.start()
    assert "pw-5" not in f"{raised.value}{server!r}"
    assert "127.0.0.1:9/mcp" in repr(server) or "no-such-program" in repr(server)


@pytest.mark.slow
def test_a_server_that_closes_its_output_is_a_connection_error(liar):
    with pytest.raises(McpConnectionError, match="it ended the connection"):
        liar("closes").call("go")


def test_a_server_that_never_answers_is_a_timeout(liar):
    server = liar("silent")
    for _ in range(2):
        with pytest.raises(McpTimeoutError):
            server.call("go", timeout=0.1)
    assert server.is_running


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("dies_at_start", "exit code 1. It wrote: no configuration here"),
        ("hangs", "not ready within 2 s. It wrote: still loading"),
    ],
)
def test_a_server_that_does_not_get_ready_is_a_start_error(liar, way, words):
    server = liar(way, start_timeout=2)
    with pytest.raises(McpStartError, match=words):
        server.call("go")
    assert not server.is_running


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("no_list", "which is invalid: tools: Input should be a valid list"),
        ("endless", "an endless list of tools; the maximum is 1,000"),
        ("crowd", "an endless list of tools; the maximum is 1,000"),
    ],
)
def test_an_invalid_list_of_tools_is_refused(liar, way, words):
    with pytest.raises(McpResultError, match=words):
        liar(way).start()


@pytest.mark.parametrize("command", [["/nonexistent/program"], ["/"], ["x\0y"]])
def test_a_command_that_cannot_be_started(command):
    with pytest.raises(McpStartError, match="cannot be used"):
        McpServer("x", command).start()


@pytest.mark.slow
def test_a_server_that_ignores_the_end_signal_is_killed(liar):
    server = liar("deaf")
    server.call("go")
    server.close()
    assert not server.is_running


@pytest.mark.slow
def test_child_processes_of_a_server_end_with_it(liar):
    server = liar("parent")
    child = int(server.call("go"))
    server.close()
    assert not is_alive(child)


def in_a_process(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.split(), done.stderr


@pytest.mark.slow
def test_an_interrupt_cancels_the_call():
    code = f"""
        import os, signal, threading
        from tests.toolkit.servers import until
        from tract_jupyter.toolkit.mcp.client import McpServer
        # what a shell starts in the background is made deaf to interrupts, and that is inherited
        signal.signal(signal.SIGINT, signal.default_int_handler)
        server = McpServer("honest", {command("honest")!r})
        server.start()

        def interrupt():
            until(lambda: "sleeps" in server.call("notes"))
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            server.call("sleep", {{"seconds": 60}})
        except KeyboardInterrupt:
            print("interrupted")
        until(lambda: server.call("notes") == ["sleeps", "cancelled"])
        server.close()
        """
    assert in_a_process(code) == (0, ["interrupted"], "")


@pytest.mark.slow
def test_a_process_that_ends_takes_its_servers_along():
    code = f"""
        from tract_jupyter.toolkit.mcp.client import McpServer
        server = McpServer("liar", {command("liar", "pid")!r})
        print(server.call("go"))
        """
    exit_code, (pid,), errors = in_a_process(code)
    assert (exit_code, errors) == (0, "")
    assert not is_alive(int(pid))


def test_the_error_without_the_sdk_says_how_to_install_it():
    code = """
        import sys
        sys.modules["mcp"] = None
        from tract_jupyter.toolkit.mcp.client import McpServer
        try:
            McpServer("x", ["x"]).start()
        except Exception as error:
            print(error)
        """
    assert "'tract_jupyter[mcp]'" in in_a_process(code)[1]


# --- options of a server


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "class",
        "_x",
        "fire_x",
        "list_tools",
        "fire",
        "x" * 65,
        "1x",
        None,
        "a.b",
        "agents",
        "self",
        "code",
    ],
)
def test_an_invalid_server_name_is_refused(name):
    with pytest.raises(McpError, match="cannot be the name of an MCP server"):
        McpServer(name, ["x"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either a command or a url"),
        ({"command": ["x"], "url": "http://x"}, "either a command or a url"),
        ({"command": []}, "must be a list of texts"),
        ({"command": "python server.py"}, "shlex.split"),
        ({"command": "http://x"}, "pass it by name: url='http://x'"),
        ({"command": ["x", 3]}, "must be a list of texts"),
        ({"url": "ftp://x"}, "must begin with http"),
        ({"url": ["x"]}, "must begin with http"),
        ({"command": ["x"], "timeout": "5"}, "timeout of MCP server 'x' must be a number above 0, got '5'"),
        ({"command": ["x"], "timeout": float("nan")}, "timeout .* must be a number above 0"),
        ({"command": ["x"], "longest_timeout": 0}, "longest_timeout .* must be a number above 0"),
        ({"command": ["x"], "start_timeout": None}, "start_timeout .* must be a number above 0"),
        ({"command": ["x"], "result_bytes": 0}, "result_bytes .* must be a number above 0"),
        ({"command": ["x"], "env": {"A": 1}}, "env of MCP server 'x' must be a dict of texts"),
        ({"command": ["x"], "env": ["A=b"]}, "env of MCP server 'x' must be a dict of texts"),
        ({"url": "http://x", "headers": {"A": None}}, "headers of MCP server 'x' must be a dict of texts"),
    ],
)
def test_the_error_for_invalid_server_options_gives_the_reason(options, words):
    with pytest.raises(McpError, match=words):
        McpServer("x", **options)


def test_another_command_folder_or_variable_is_another_server():
    options = [{}, {"env": {"DB": "test"}}, {"env": {"DB": "real"}}, {"cwd": "/"}]
    servers = [McpServer("x", ["x"], **o) for o in options]
    servers += [
        McpServer("x", ["x", "y"]),
        McpServer("x", url="http://x"),
        McpServer("x", ["x"], cwd="/\udc80"),
    ]
    assert len({server.identity for server in servers}) == len(servers)
    assert McpServer("x", ["x"]).identity == McpServer("y", ("x",)).identity


# --- over HTTP


@pytest.fixture(scope="module")
def http_port():
    """The correct server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(command("honest", port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: _answers(port))
    yield port
    process.kill()
    process.wait()


def _answers(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_http(http_port):
    with McpServer("honest", url=f"http://127.0.0.1:{http_port}/mcp") as server:
        assert server.call("find", {"name": "Rom"}) == {"name": "Rom", "population": 3}
        with pytest.raises(McpTimeoutError):
            server.call("sleep", {"seconds": 60}, timeout=1)
        until(lambda: "cancelled" in server.call("notes"))
        with pytest.raises(McpResultError, match="3,000,000 bytes"):
            server.call("echo", {"text": "x" * 3_000_000})
        before = server.listed
        server.call("grow", {"name": "over_http"})
        until(lambda: server.listed is not before)


class Answering(BaseHTTPRequestHandler):
    """An HTTP handler that gives a different wrong response for each path."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        kind, headers, body = {
            "/html": ("text/html", {}, [b"<html>"]),
            "/big": ("application/json", {}, [b"x" * 1_000_000] * 20),
            "/events": ("text/event-stream", {}, [b"data: ", *[b"x" * 1_000_000] * 20]),
            "/zip": ("application/json", {"content-encoding": "gzip"}, [b""]),
        }[self.path]
        self.send_response(200)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for part in body:
                self.wfile.write(part)
        except OSError:
            pass  # the client closed the connection, as expected

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def wrong_port():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("html", "Unexpected content type: text/html"),
        ("big", "an answer of more than 16,777,216 bytes"),
        ("events", "16777216 byte limit"),
        ("zip", "it compressed an answer"),
    ],
)
def test_an_http_server_that_does_not_speak_mcp_is_a_start_error(wrong_port, path, words):
    with pytest.raises(McpStartError, match=words):
        McpServer("x", url=f"http://127.0.0.1:{wrong_port}/{path}").start()


def test_an_unreachable_http_server_is_a_start_error():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(McpStartError, match="the connection failed"):
            McpServer("x", url=f"http://127.0.0.1:{bound.getsockname()[1]}/mcp").start()
