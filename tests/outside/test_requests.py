"""The four forms of permission requests, with messages like the agents' messages, and hostile messages."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.outside.conftest import call
from tract_jupyter.loop import CallEnded, TurnNoted
from tract_jupyter.outside import AGENTS, OUTSIDE_AGENT

PAGE = Path(__file__).parents[2] / "docs" / "outside_agents.md"
ONCE = {"optionId": "yes", "name": "Allow", "kind": "allow_once"}
NO = {"optionId": "no", "name": "Reject", "kind": "reject_once"}
CODEX_OPTIONS = [
    {"optionId": "allow_once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "allow_session", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "allow_always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "cancel", "name": "Cancel", "kind": "reject_once"},
]
DIFF = {"type": "diff", "path": "new.py", "oldText": None, "newText": "print(1)\n"}


def test_claude_sends_arguments_and_the_diff_with_the_request(chat, known, user):
    about = {
        "toolCallId": "toolu_9dc4", "name": "Write", "status": "pending", "title": "Write new.py", "kind": "edit",
        "rawInput": {"file_path": "new.py", "content": "print(1)\n"}, "content": [DIFF],
        "locations": [{"path": "new.py"}],
    }  # fmt: skip
    options = [
        {"optionId": "allow-with-updates", "name": "Yes, allow all edits during this session", "kind": "allow_always"},
        {"optionId": "allow-once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "reject", "name": "No", "kind": "reject_once"},
    ]  # fmt: skip
    chat(known(prompts=[[["ask", {"call": about, "options": options}]]]))
    (request,) = user.requests
    assert request.title == "Fake wants to create new.py"
    assert request.code[0].code == "print(1)\n"
    assert not any(table.title == "Arguments" for table in request.tables)  # the diff shows them


def test_the_diff_shows_each_place_that_the_agent_may_change(chat, known, user, tmp_path):
    """It does not say if it replaces the first one or all."""
    (tmp_path / "a.py").write_text("go()\nx = 1\ngo()\n")
    diff = {"type": "diff", "path": str(tmp_path / "a.py"), "oldText": "go()", "newText": "stop()"}
    about = {
        "toolCallId": "t1",
        "name": "Edit",
        "title": "Edit",
        "kind": "edit",
        "status": "pending",
        "content": [diff],
    }
    chat(known(prompts=[[["ask", {"call": about}]]]))
    (request,) = user.requests
    assert request.code[0].code.count("+stop()") == 2
    assert "occurs several times" in request.why


def test_a_replacement_at_many_places_takes_little_memory(chat, known, user, tmp_path):
    (tmp_path / "a.txt").write_text("a" * 50_000)
    diff = {"type": "diff", "path": str(tmp_path / "a.txt"), "oldText": "a", "newText": "b" * 100_000}
    about = {"toolCallId": "t1", "name": "Edit", "kind": "edit", "status": "pending", "content": [diff]}
    chat(known(prompts=[[["ask", {"call": about}]]]))
    (request,) = user.requests
    assert len(request.code[0].code) < 250_000  # not five billion
    assert "occurs many times, and the diff shows only the first change" in request.why


def test_codex_sends_the_diff_and_the_arguments_in_an_earlier_message(chat, known, user, log):
    edit = {
        "toolCallId": "call_1",
        "title": "Editing files",
        "kind": "edit",
        "status": "pending",
        "content": [DIFF],
    }
    tool = {"toolCallId": "call_2", "title": "Tool", "kind": "execute", "status": "pending",
            "rawInput": {"server": "birds", "tool": "count", "arguments": {"where": "Ulm"}}}  # fmt: skip
    asks = {"toolCallId": "call_1", "title": "Edit files", "locations": [{"path": "new.py"}]}
    asks_tool = {"toolCallId": "call_2", "kind": "execute", "status": "pending"}
    steps = [
        ["call", edit], ["ask", {"call": asks, "options": CODEX_OPTIONS}],
        ["call", tool], ["ask", {"call": asks_tool, "options": CODEX_OPTIONS, "meta": {"is_mcp_tool_approval": True}}],
    ]  # fmt: skip
    chat(known(prompts=[steps], log=log.place))
    first, second = user.requests
    assert first.code[0].code == "print(1)\n"
    assert "'where': 'Ulm'" in str(second.tables[0].rows)
    assert [one["optionId"] for one in log.entries("outcome")] == ["allow_once", "allow_once"]


def test_gemini_sends_arguments_as_a_text_and_a_command_as_the_title(chat, known, user):
    tool = {"toolCallId": "count-1", "title": "count (birds MCP Server)", "kind": "other", "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": '{"where": "Ulm"}'}}]}  # fmt: skip
    shell = {
        "toolCallId": "shell-2",
        "title": "touch a.txt",
        "kind": "execute",
        "status": "pending",
        "content": [],
    }
    steps = [["ask", {"call": tool}], ["ask", {"call": shell}]]
    chat(known(prompts=[steps], settings={"title_is_command": True}))
    first, second = user.requests
    assert '{"where": "Ulm"}' in str(first.tables[0].rows)
    assert second.title == "Fake wants to run a shell command"
    assert second.code[0].code == "!touch a.txt"
    assert "all your rights" in second.summary


def test_opencode_sends_no_arguments_and_the_request_says_so(chat, known, user, log):
    about = {
        "toolCallId": "prt_1",
        "title": "birds_count",
        "kind": "other",
        "status": "pending",
        "rawInput": {},
    }
    late = {"toolCallId": "prt_1", "status": "in_progress", "rawInput": {"where": "Ulm"}}
    steps = [["call", about], ["ask", {"call": about, "does": [["progress", late]]}]]
    _, events = chat(known(prompts=[steps], log=log.place))
    (request,) = user.requests
    assert "It does not say with which arguments." in request.why
    (ended,) = [event for event in events if isinstance(event, CallEnded)]
    assert 'Called with: {"where":"Ulm"}' in ended.text


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([NO, {**ONCE, "kind": "allow_always"}], None),
        ([{**ONCE, "optionId": "always", "name": "Always"}, NO], None),
        ([{**ONCE, "name": "Yes, for this session"}, {**ONCE, "optionId": "b"}, NO], "b"),
        ("nonsense", None),
        ([], None),
        ([ONCE, NO], "yes"),
        ([ONCE, {**ONCE, "kind": "allow_always"}], None),
    ],
)
def test_only_an_option_that_allows_once_is_ever_chosen(chat, known, log, options, chosen):
    about = call(rawInput={"command": "touch a"}, kind="execute")
    request = {"sessionId": "s1", "toolCall": about, "options": options}
    chat(known(prompts=[[["request", "session/request_permission", request]]], log=log.place))
    answers = [one["result"]["outcome"] for one in log.entries("answer")]
    assert [one.get("optionId") for one in answers] == [chosen]
    assert chosen or answers[0]["outcome"] == "cancelled"


def test_every_argument_is_in_view_as_the_agent_sent_it_last(chat, known, user):
    both = {"file_path": "a.txt", "path": "b.txt", "content": "one", "newText": "two", "old_string": ["x"]}
    two = {"command": "ls", "cmd": "rm c.txt"}
    begun = call("c3", rawInput={"file_path": "d.txt", "content": "th"})
    whole = call("c3", rawInput={"file_path": "d.txt", "content": "three"})
    odd = call("c4", kind="execute", rawInput={"command": "echo \ud800", "n": float("nan")})
    steps = [
        ["ask", {"call": call("c1", rawInput=both)}], ["ask", {"call": call("c2", kind="execute", rawInput=two)}],
        ["call", begun], ["ask", {"call": whole}], ["ask", {"call": odd}],
    ]  # fmt: skip
    chat(known(prompts=[steps]))
    views = [str([*request.code, *request.tables]) for request in user.requests]
    assert all(text in views[0] for text in ("a.txt", "b.txt", "one", "two", "'x'"))
    assert all(text in views[1] for text in ("!ls", "rm c.txt"))
    assert "+three" in user.requests[2].code[0].code
    assert "nan" in views[3]


def test_a_request_with_the_id_of_an_ended_call_is_another_call(chat, known, user):
    about = call(kind="execute", rawInput={"command": "ls"})
    chat(
        known(
            prompts=[
                [
                    ["call", about],
                    ["ask", {"call": about}],
                    ["ask", {"call": {"toolCallId": "c1", "title": "rm x"}}],
                ]
            ]
        )
    )
    first, second = user.requests
    assert first.code[0].code == "!ls"
    assert not second.code
    assert "It does not say with which arguments." in second.why


def test_a_title_hides_nothing_and_a_python_file_has_findings(chat, known, user):
    text = "import shutil\nshutil.rmtree('/home')\n"
    about = call(title="Read file \u202egnp", kind="read", rawInput={"path": "a.py", "content": text})
    chat(known(prompts=[[["call", about], ["ask", {"call": about}]]]))
    (request,) = user.requests
    assert request.title == "Fake wants to create a.py"
    assert "It calls this a read, which is wrong." in request.why
    assert request.code[0].findings
    assert "\u202e" not in str(request)


def test_an_existing_file_is_called_overwritten_and_problems_of_its_diff_are_named(chat, known, user, folder):
    (folder / "old.py").write_text("x = 1\n")
    (folder / "data.bin").write_bytes(b"\xff")
    diffs = [
        {**DIFF, "path": "old.py"},
        {**DIFF, "path": "data.bin"},
        {**DIFF, "path": "old.py", "oldText": "y = 1\n"},
    ]
    user.rejects()
    asks = [["ask", {"call": call(f"c{number}", content=[one])}] for number, one in enumerate(diffs)]
    chat(known(prompts=[[*asks, ["text", "Bye."]]]))
    text, binary, missing = user.requests
    assert text.title == "Fake wants to overwrite old.py"
    assert "-x = 1\n+print(1)" in text.code[0].code
    assert binary.title == "Fake wants to overwrite data.bin"
    assert "not a text of up to 10 MB: data.bin." in binary.why
    assert "The text that it replaces is not there: old.py." in missing.why


def test_paths_outside_of_the_folder_are_named(chat, known, user, folder):
    (folder / "link").symlink_to("/etc")
    diffs = [{**DIFF, "path": path} for path in ("../other.txt", "link/passwd")]
    about = call(content=diffs)
    user.rejects()
    chat(known(prompts=[[["ask", {"call": about}]]]))
    (request,) = user.requests
    assert f"outside of the folder: {folder.parent / 'other.txt'}, /etc/passwd" in request.why


def test_a_notebook_file_is_refused_with_a_remedy_and_no_question(chat, known, tract, user, log, folder):
    (folder / "birds.txt").symlink_to("birds.ipynb")
    (folder / "in").mkdir()
    for place, link in (
        (folder / "in" / "linked.ipynb", "hard.txt"),
        (folder.parent / "open.ipynb", "hard.json"),
    ):
        place.write_text("{}")
        (folder / link).hardlink_to(place)
    tract.outside.watch_saves = lambda: SimpleNamespace(path=folder.parent / "open.ipynb", is_saved_only=True)
    asks = [
        ["ask", {"call": call(path, content=[{**DIFF, "path": path}])}]
        for path in ("Birds.IPYNB", "birds.txt", "hard.txt", "hard.json")
    ]
    nested = {"changes": {"birds.ipynb": {"type": "update"}}}
    asks.append(["ask", {"call": call("nested", kind="edit", rawInput=nested)}])
    prompts = [asks, [["text", "In a cell then."]]]
    response, _ = chat(known(prompts=prompts, log=log.place))
    assert not user.requests
    assert {(folder / name).read_text() for name in ("hard.txt", "hard.json")} == {"{}"}
    assert response.text == "In a cell then."
    assert "the open notebook would overwrite" in log.sent("session/prompt")[1]["prompt"][0]["text"]


def test_another_notebook_can_read_and_reject_the_request(chat, known, tract, user):
    stored = []

    async def decide(request):
        from tract_jupyter.review import Answer

        stored.extend(tract.review.inbox())
        return Answer("reject", {"reason": "no"})

    user.decide = decide
    from tract_jupyter.review import personal_channel

    tract.reviewer.channel = personal_channel("other")(decide)
    about = call(rawInput={"command": "touch a\ntouch b"}, kind="execute")
    chat(known(prompts=[[["ask", {"call": about}]]]))
    (row,) = stored
    assert (row.operation, row.actor, row.fields["command"]) == (
        OUTSIDE_AGENT,
        "outside:fake",
        "touch a\ntouch b",
    )


def test_only_requests_for_a_tool_of_exactly_our_server_need_no_user(chat, known, tract, user, log):
    class Server:
        name, url, headers = "kernel_1f2e", "http://127.0.0.1:1/mcp", {"Authorization": "Bearer x"}

    tract.outside.server = Server

    def claude(name, source):
        meta = {"claudeCode": {"mcpServer": {"name": name, "source": source}}}
        return call(f"c-{name}-{source}", name=f"mcp__{name}__run_code", kind="other",
                    rawInput={"code": "1"}, _meta=meta)  # fmt: skip

    calls = [claude("kernel_1f2e", "dynamic"), claude("kernel_1f2e", "project"), claude("kernel", "dynamic")]
    calls.append(call("t", title="mcp__kernel_1f2e__run_code", rawInput={"server": "kernel_1f2e"}))
    calls.append({**claude("kernel_1f2e", "dynamic"), "toolCallId": "d", "content": [DIFF]})
    calls.append(
        call("s", rawInput={"server": "kernel_1f2e", "command": "rm x"}, _meta={"is_mcp_tool_approval": True})
    )
    chat(known(prompts=[[["ask", {"call": one}] for one in calls]], log=log.place))
    assert len(user.requests) == 5
    assert log.sent("session/new")[0]["mcpServers"] == [
        {"type": "http", "name": "kernel_1f2e", "url": "http://127.0.0.1:1/mcp",
         "headers": [{"name": "Authorization", "value": "Bearer x"}]}
    ]  # fmt: skip


def test_a_title_counts_as_our_tool_only_if_the_whole_request_matches(chat, known, tract, user):
    class Server:
        name, url, headers = "kernel_1f2e", "http://127.0.0.1:1/mcp", {}

    tract.outside.server = Server
    ours = call("a", title="kernel_1f2e_run_code", kind="other", rawInput={})
    others = [
        {**ours, "toolCallId": "b", "title": "kernel_run_code"},
        {**ours, "toolCallId": "c", "title": "kernel_1f2e_run_code; rm x"},
        {**ours, "toolCallId": "d", "kind": "execute"},
        {**ours, "toolCallId": "e", "rawInput": {"command": "rm x"}},
        {
            **ours,
            "toolCallId": "f",
            "content": [{"type": "diff", "path": "x", "oldText": None, "newText": "1"}],
        },
    ]
    steps = [["ask", {"call": one}] for one in (ours, *others)]
    chat(known(prompts=[steps], settings={"title_is_tool": True}))
    assert len(user.requests) == len(others)


def test_an_agent_with_trusted_settings_gets_the_kernel_only_without_project_files(
    chat, known, tract, user, log, folder
):
    class Server:
        name, url, headers = "kernel_1f2e", "http://127.0.0.1:1/mcp", {}

    tract.outside.server = Server
    settings = {
        "environment": {"TRUSTS": "no"},
        "kernel_environment": {"TRUSTS": "yes"},
        "kernel_options": ("--only={server}",),
        "no_kernel_with": (".settings",),
        "no_kernel_below": (".variables",),
        "server_option": "all_of_server",
    }
    once = {"optionId": "once", "name": "Allow once", "kind": "allow_once"}
    always = {"optionId": "all_of_server", "name": "Allow all", "kind": "allow_always"}
    asked = [
        ["ask", {"call": call("a"), "options": [always, once]}],
        ["ask", {"call": call("b"), "options": [once]}],
    ]
    name = known(prompts=[[["env"], *asked]], settings=settings, log=log.place)
    chat(name)
    assert len(user.requests) == 1
    assert {one["optionId"] for one in log.entries("outcome")} == {"once"}
    for file in (folder / ".settings", folder.parent / ".variables"):
        file.touch()
        _, events = chat(name)
        assert any(str(file) in getattr(event, "text", "") for event in events)
        file.unlink()
        chat(name)
    assert [one["TRUSTS"] for one in log.entries("env")] == ["yes", "no", "yes", "no", "yes"]
    assert log.entries("options") == [
        ["--only=kernel_1f2e"],
        [],
        ["--only=kernel_1f2e"],
        [],
        ["--only=kernel_1f2e"],
    ]
    assert [len(one["mcpServers"]) for one in log.sent("session/new")] == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("settings", AGENTS, ids=lambda one: one.name)
def test_the_table_is_complete(settings):
    assert settings.about.endswith(".")
    assert settings.install
    assert "kernel_1" in str(settings.meta("kernel_1")) or not settings.session_meta
    assert settings.mode or settings.environment
    assert settings.verified or "Not verified" in settings.about
    assert (
        settings.is_known
        == bool(settings.verified)
        == ("decides by itself when to ask" not in settings.about)
    )
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {settings.title} |")]
    assert row.endswith(f"| {settings.verified or 'not verified'} |")
    assert f"| `{settings.name}` |" in PAGE.read_text()


def test_hostile_values_of_a_call_do_no_harm(chat, known, user):
    fields = [
        {"title": ["x"], "kind": 5, "status": {"a": 1}, "rawInput": "*** Begin Patch", "content": "x", "_meta": "y"},
        {"title": "a\ud800b", "rawInput": {"command": [], "x": "\ud800"}, "content": [None, {"type": "diff"}]},
        {"name": "../../etc " * 20, "rawInput": {"big": "x" * 100_000}},
        {"toolCallId": None}, {"toolCallId": ""},
    ]  # fmt: skip
    steps = [["ask", {"call": {"toolCallId": f"c{number}", **one}}] for number, one in enumerate(fields[:3])]
    steps += [["update", "tool_call", one] for one in fields[3:]]
    _, events = chat(known(prompts=[steps]))
    assert len(user.requests) == 3
    assert "*** Begin Patch" in str(user.requests[0].tables)
    assert len([event for event in events if isinstance(event, TurnNoted)]) == 3


def test_a_call_with_other_arguments_than_approved_gives_a_warning(chat, known, user):
    def asks(call_id, before, *reports, **more):
        about = call(call_id, kind="execute", rawInput=before, **more)
        return [
            "ask",
            {"call": about, "does": [["progress", {"toolCallId": call_id, **one}] for one in reports]},
        ]

    def raw(**arguments):
        return {"rawInput": arguments}

    edit = {**DIFF, "oldText": "one\n", "newText": "two\n"}
    steps = [
        asks("c1", {"command": "ls", "n": float("nan")}, raw(command="ls", cwd="/", description="it adds some"),
             {"content": [{"type": "content", "content": {"type": "text", "text": "command"}}]}),
        asks("c2", {"cmd": ["echo", "a b"]}, raw(command="echo 'a b'")),
        asks("c3", {"filepath": "new.py"}, raw(filePath="new.py", oldString="one", newString="two"), content=[edit]),
        asks("c4", {}, raw(where="Ulm")),
        asks("c5", {"command": "ls"}, raw(command="rm -r ~"), raw(command="rm -r /")),
        asks("c6", {"where": "Ulm", "n": 1}, raw(where="Bonn", n=1)),
        asks("c7", {"where": "Ulm"}, raw(command="ls")),
        asks("c8", {"filepath": "new.py"}, raw(filePath="other.py", content="two"), content=[edit]),
    ]  # fmt: skip
    _, events = chat(known(prompts=[steps]))
    assert len(user.requests) == 8
    found = [one for one in events if isinstance(one, TurnNoted) and "other arguments" in one.title]
    assert all(one.is_warning for one in found)
    assert [one.text for one in found] == [
        'It reports: {"command":"rm -r ~"}', 'It reports: {"n":1,"where":"Bonn"}', 'It reports: {"command":"ls"}',
        'It reports: {"content":"two","filePath":"other.py"}',
    ]  # fmt: skip
    assert found[0].title == "Fake called execute with other arguments than you approved."
