"""The permission mode, the environment, loaded sessions, and the settings."""

import json
import subprocess

import pytest

from tests.outside.conftest import command
from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, OutsideAgentError
from tract_jupyter.outside import AGENTS


def test_the_mode_that_asks_is_set_before_each_turn(chat, known, log):
    agent = known(prompts=[[["text", "One."]], [["text", "Two."]]], log=log.place)
    chat(agent, "One?")
    chat(agent, "/two")
    methods = [one["method"] for one in log.entries() if "method" in one]
    assert methods == [
        "initialize", "session/new", "session/set_mode", "session/prompt", "session/set_mode", "session/prompt"
    ]  # fmt: skip
    assert log.sent("session/set_mode")[0]["modeId"] == "default"
    assert log.sent("initialize")[0]["clientCapabilities"]["fs"] == {
        "readTextFile": False,
        "writeTextFile": False,
    }
    assert log.sent("initialize")[0]["clientCapabilities"]["terminal"] is False


@pytest.mark.parametrize(
    "script",
    [
        {"modes": ["auto"]}, {"modes": []}, {"ignores_mode": True}, {"config": True, "ignores_mode": True},
        {"errors": {"session/set_mode": {"code": -32602, "message": "no"}}},
    ],
)  # fmt: skip
def test_without_the_mode_that_asks_nothing_is_sent(chat, known, log, script, tract):
    with pytest.raises(OutsideAgentError, match=r"asks before it acts|refused session/set_mode"):
        chat(known(log=log.place, **script))
    assert not log.sent("session/prompt")
    assert tract.outside.running == ()
    assert not [message for message in tract.compile().messages if message.role == "assistant"]


def test_the_mode_is_a_config_option_of_newer_agents(chat, known, log):
    response, _ = chat(known(config=True, log=log.place))
    assert response.text == "Done."
    assert log.sent("session/set_config_option") == [{"sessionId": "s1", "configId": "m", "value": "default"}]


def test_an_agent_that_leaves_the_mode_during_the_turn_is_cancelled(chat, known, log, tract):
    steps = [["text", "I go on alone."], ["mode", "bypass"], ["cancelled"]]
    agent = known(prompts=[steps, [["text", "Back."]]], log=log.place)
    with pytest.raises(OutsideAgentError, match="changed to its mode 'bypass', in which it does not ask"):
        chat(agent)
    response, _ = chat(agent, "Again.")
    assert any(one.get("method") == "session/cancel" for one in log.entries())
    assert response.text == "Back."
    assert len(log.sent("session/set_mode")) == 2


def test_a_session_is_loaded_in_another_process_in_the_mode_that_asks(known, log, tmp_path, folder):
    agent = known(loads=True, log=log.place, mode_after_load="auto")
    for text in ("One.", "Two."):
        with Tract.open(tmp_path / "store.db") as tract:
            response = tract.chat(text, agent=agent)
            assert response.text == "Done."
    assert log.sent("session/load")[0]["sessionId"] == "s1"
    assert len(log.sent("session/set_mode")) == 2
    assert log.sent("session/prompt")[1]["prompt"] == [{"type": "text", "text": "Two."}]


def test_the_environment_has_no_secrets_unless_they_are_named(chat, known, log, monkeypatch, tract):
    for name in ("ANTHROPIC_API_KEY", "JUPYTER_TOKEN", "OTHER_KEY", "TRACT_SECRET", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret-1")
    agent = known(prompts=[[["env"]], [["env"]]], log=log.place, settings={"environment": {"NO_HOOKS": "1"}})
    chat(agent)
    tract.outside.use(agent, env=["OTHER_KEY"])
    chat(agent, "Again.")
    first, second = log.entries("env")
    assert "secret-1" not in first.values()
    assert first["NO_HOOKS"] == "1"
    assert {name for name, value in second.items() if value == "secret-1"} == {"OTHER_KEY"}


def test_a_project_that_makes_the_agent_run_programs_is_refused(
    chat, known, log, folder, tmp_path, monkeypatch
):
    agent = known(log=log.place, settings={"project_file": ".fake/config.toml"})
    file = tmp_path / ".fake" / "config.toml"
    file.parent.mkdir()
    file.symlink_to("nowhere")
    with pytest.raises(OutsideAgentError, match=r"would run programs of .*config\.toml without a question"):
        chat(agent)
    assert not log.entries()
    monkeypatch.setenv("HOME", str(tmp_path))  # the user's own settings
    assert chat(agent)[0].text == "Done."


def test_settings_of_a_project_cannot_switch_the_questions_off():
    known = {one.name: one for one in AGENTS}
    assert known["gemini"].environment["GEMINI_CLI_TRUST_WORKSPACE"] == "false"
    assert known["opencode"].environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    rules = json.loads(known["opencode"].environment["OPENCODE_PERMISSION"])
    assert {"*", "bash", "edit", "webfetch"} <= rules.keys()
    assert {name for name, rule in rules.items() if rule != "ask"} == {"task"}
    assert rules["task"] == "deny"
    assert known["claude"].meta("kernel")["claudeCode"]["options"]["settingSources"] == []
    assert known["codex"].project_file


def test_a_command_line_replaces_the_program_and_keeps_the_mode(tract, log, known):
    agent = known(dies_at=["initialize"])
    settings = tract.outside.use(agent, command=command(log=log.place))
    assert settings.mode == "default"
    assert tract.chat("Hello.", agent=agent).text == "Done."
    assert log.sent("session/set_mode")


def test_a_command_line_without_the_program_arguments_gets_no_options_and_no_kernel(chat, tract, log, known):
    class Server:
        name, url, headers = "kernel_1f2e", "http://127.0.0.1:1/mcp", {}

    tract.outside.server = Server
    agent = known(settings={"command": ("/no/such", "--acp"), "kernel_options": ("--only={server}",)})
    line = command(
        prompts=[[["env"]]], log=log.place
    )  # like 'docker run IMAGE' with the arguments in its entry point
    tract.outside.use(agent, command=line)
    _, events = chat(agent)
    assert any(
        "does not end with the arguments of the program (--acp)" in getattr(one, "text", "") for one in events
    )
    tract.outside.use(agent, command=f"{line} --acp --more")
    chat(agent)
    assert log.entries("options") == [[], ["--acp", "--more", "--only=kernel_1f2e"]]
    assert [len(one["mcpServers"]) for one in log.sent("session/new")] == [0, 1]


@pytest.fixture
def adapter(tmp_path, log):
    """The adapter program of an agent, next to its inner program. Its shell command would start `node`."""
    package = tmp_path / "lib/node_modules/@openai/codex/bin"
    package.mkdir(parents=True)
    (package / "codex.js").touch()
    program = tmp_path / "lib/node_modules/adapter/index.js"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {command(prompts=[[['env']]], log=log.place)}\n")
    program.chmod(0o755)
    node = tmp_path / "bin/node"
    node.parent.mkdir()
    node.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    node.chmod(0o755)
    link = node.with_name("adapter")
    link.symlink_to(program)
    return link


def test_the_inner_program_gets_its_options_unless_the_user_sets_another_program(
    tract, known, log, adapter, monkeypatch
):
    (codex,) = [one for one in AGENTS if one.name == "codex"]
    agent = known(settings={"inner": codex.inner})
    tract.outside.use(agent, command=str(adapter))
    tract.chat("Hello.", agent=agent)
    (env,) = log.entries("env")
    path = f"{adapter.parent}:{env['PATH']}"
    started = subprocess.run(
        [env["CODEX_PATH"], "app-server", "-c", "a b"],
        env={**env, "PATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    program, *options = started.stdout.decode().splitlines()
    assert program.endswith("/node_modules/@openai/codex/bin/codex.js")
    off = [f"features.{name}=false" for name in ("plugins", "apps", "remote_plugin")]
    assert options == [*(word for one in off for word in ("-c", one)), "app-server", "-c", "a b"]

    monkeypatch.setenv("CODEX_PATH", "/my/codex")
    tract.outside.use(agent, command=str(adapter), env=["CODEX_PATH"])
    tract.chat("Hello again.", agent=agent)
    assert log.entries("env")[-1]["CODEX_PATH"] == "/my/codex"
    assert codex.inner.variables(adapter.parent.parent / "elsewhere") == {}


def test_an_agent_that_is_not_logged_in_says_how(chat, known):
    errors = {"session/new": {"code": -32000, "message": "Authentication required"}}
    with pytest.raises(OutsideAgentError, match="Fake is not logged in. Log in with its own program"):
        chat(known(errors=errors))
    with pytest.raises(OutsideAgentError, match="Fake is not logged in. Log in with its own program"):
        chat(known(errors={"session/prompt": errors["session/new"]}))
    with pytest.raises(OutsideAgentError, match=r"in a terminal \(fake login\), and send the message again"):
        chat(known("other", errors=errors, settings={"login": "fake login"}))


def test_a_login_in_a_terminal_is_one_row_with_its_command(chat, known, log, tract, monkeypatch):
    login = [
        {"id": "a", "name": "Subscription", "type": "terminal", "args": ["login", "--for; rm x"]},
        {"id": "b", "name": "Console\u202e", "type": "terminal", "env": {"TO": "console"}},
        {"id": "c", "name": "Key"}, {"id": "d", "type": "terminal", "args": "nonsense", "env": [1]}, "nonsense",
    ]  # fmt: skip
    errors = {"session/new": {"code": -32000, "message": "Authentication required"}}
    agent = known(errors=errors, login=login, log=log.place)
    tract.outside.use(agent, command="/usr/bin/env " + command(errors=errors, login=login, log=log.place))
    with pytest.raises(OutsideAgentError) as refused:
        chat(agent)
    text = str(refused.value)
    assert log.sent("initialize")[0]["clientCapabilities"]["auth"] == {"terminal": True}
    assert "Run its command in a terminal, and send the message again: /usr/bin/env " in text
    assert "login '--for; rm x' (Subscription); env TO=console /usr/bin/env" in text
    assert "(d). Or name the variable of its key: %tract agent use fake --env NAME. It offers: Key." in text
    assert "\u202e" not in text
    assert not log.sent("authenticate")


def test_another_version_of_the_protocol_is_refused(chat, known):
    with pytest.raises(OutsideAgentError, match="speaks version 2 of ACP"):
        chat(known(version=2))


def test_names_and_command_lines(tract, tmp_path):
    with pytest.raises(OutsideAgentError, match=r"Unknown agent 'cloude'. Known agents: claude, codex"):
        tract.outside.use("cloude")
    with pytest.raises(OutsideAgentError, match="has no name"):
        tract.outside.use("")
    with pytest.raises(OutsideAgentError, match="command line of the agent is invalid"):
        tract.outside.use("agent 'x")
    with pytest.raises(OutsideAgentError, match=r"'/no/such' was not found"):
        tract.chat("Hello.", agent="/no/such --acp")
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    with pytest.raises(OutsideAgentError, match="is not a program that you may run. Check its path"):
        tract.chat("Hello.", agent=str(broken))
    broken.chmod(0o755)
    with pytest.raises(OutsideAgentError, match="cannot be started: No such file or directory") as caught:
        tract.chat("Hello.", agent=str(broken))
    assert "Traceback" not in str(caught.value)
    assert not tract.outside.use(command()).is_known


def test_other_options_are_refused_before_anything_is_sent(tract):
    for options in ({"tools": "self"}, {"model": "x"}, {"profile": "p"}, {"trigger": "other"}):
        with pytest.raises(ContentError, match="takes `name`, `attachments` and `on_turn` only"):
            tract.chat("Hello.", agent=command(), **options)
    with pytest.raises(ContentError, match="not resumed"):
        tract.chat(None, agent=command())
    assert tract.head is None
