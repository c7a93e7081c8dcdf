"""`%tract model`, `%tract cost`, `%tract budget`; and keys in cells."""

from __future__ import annotations

import getpass
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from IPython.core.error import StdinNotImplementedError

from tests.llm.providers import Answer, provider
from tests.review.scripted import ScriptedClient, reply
from tract_jupyter.llm import PROVIDERS
from tract_jupyter.models import SentContext, message_with

KEY = "sk-abcdefghijklmnopqrstuvwx0042"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """No keys from the environment of the machine, and no keyring."""
    for each in PROVIDERS.values():
        for variable in (*each.key_variables, *each.url_variables):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)


def typing(monkeypatch, answer):
    """Answer the prompt for a key with this text, or raise this exception."""
    asked = []

    def ask(prompt):
        asked.append(prompt)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(getpass, "getpass", ask)
    return asked


# --- %tract model


def test_the_command_lists_configured_keys_and_suggests_a_model(shell, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    ring = SimpleNamespace(get_password=lambda service, user: KEY if user == "openrouter" else None)
    monkeypatch.setitem(sys.modules, "keyring", ring)
    text = shell.run("%tract model").text
    assert "No model is chosen yet." in text
    assert "%tract model openai/gpt-6-luna chooses a model" in text
    assert "OPENAI_API_KEY is not set" in text
    assert "from ANTHROPIC_API_KEY" in text
    assert "from keyring tract_jupyter/openrouter" in text
    assert KEY[:8] not in text


def test_a_model_is_chosen_and_asked(shell):
    with provider(Answer(reply("Hello."))) as here:
        text = shell.run(f"%tract model mine --base-url {here.url}").text
        assert "mine" in text
        assert here.url in text
        assert f"mine at {here.url}" in shell.run("%tract status").text
        assert "mine: mine" not in shell.run("%tract status").text
        assert shell.run("print(tract.chat('Hi').text)").text == "Hello.\n"
    assert here.bodies[0]["model"] == "mine"


def test_a_name_without_an_address_says_how_to_write_one(shell):
    error = shell.run("%tract model my-model").error
    assert "or a plain NAME with base_url (%tract model NAME --base-url URL)" in error


def test_the_tables_are_named_as_in_the_help(shell):
    shell.run("%tract model ollama/qwen3")
    text = shell.run("%tract model").text
    assert text.index("Chosen") < text.index("everything") < text.index("Available")
    assert "list chosen and available models" in shell.run("%tract help model").text


def test_a_model_without_a_key_names_the_missing_key(shell):
    text = shell.run("%tract model anthropic/claude-sonnet-5-5").text
    assert (
        "Until the kernel ends. For every kernel, set c.TractJupyter.model = 'anthropic/claude-sonnet-5-5' in "
        "ipython_config.py." in text
    )
    assert "There is no key yet: %tract model anthropic/claude-sonnet-5-5 --key asks for it." in text
    assert "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN" in text


def test_one_for_each_purpose(shell):
    shell.run("%tract model ollama/qwen3")
    text = shell.run("%tract model ollama/small --for compress").text
    assert "everything else  ollama/qwen3" in text
    assert "compress         ollama/small" in text
    text = shell.run("%tract model off --for compress").text
    assert "everything  ollama/qwen3" in text
    assert "small" not in text
    assert "ollama" not in shell.run("%tract model off").text


def test_a_key_is_asked_for_and_never_shown(shell, monkeypatch):
    asked = typing(monkeypatch, f" {KEY} ")
    with provider(Answer(reply("Hello."))) as here:
        text = shell.run(f"%tract model openai/gpt-6-luna --key --base-url {here.url}").text
        shell.run("tract.chat('Hi')")
        text += shell.run("%tract model").text + shell.run("tract.models").text
    assert asked == ["Key for openai/gpt-6-luna: "]
    assert here.requests[0][1]["Authorization"] == f"Bearer {KEY}"
    assert "this session" in text
    assert KEY[:8] not in text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (StdinNotImplementedError("no stdin"), "no user is available to type here. The model is chosen"),
        (EOFError(), "no user is available to type here. The model is chosen"),
        (" ", "no key was typed"),
    ],
)
def test_a_missing_key_input_gives_an_error_but_chooses_the_model(shell, monkeypatch, answer, told):
    typing(monkeypatch, answer)
    result = shell.run("%tract model openai/gpt-6-luna --key")
    assert told in result.error
    assert "openai/gpt-6-luna" in shell.run("%tract model").text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gpt-6-luna", "write PROVIDER/NAME"),
        ("a b", "usage: %tract model"),
        ("--for compress", "usage: %tract model"),
        ("openai/x --for", "--for needs a purpose"),
        ("openai/x --for paint", "operation must be 'chat'"),
        ("openai/x --base-url --key", "--base-url needs an address"),
        ("openai/x --base-url nonsense", "base_url must be an address such as"),
        ("openai/x --loud", "has no option '--loud'"),
    ],
)
def test_an_invalid_line_gives_an_error_and_changes_no_model(shell, line, told):
    result = shell.run(f"%tract model {line}")
    assert told in result.error
    assert shell.namespace["tract"].models.purposes == {}


def test_a_local_server_is_queried_only_with_the_local_option(shell, monkeypatch):
    looked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            looked.append(self.path)
            self.send_response(200)
            self.end_headers()
            if len(looked) == 1:
                self.wfile.write(b'{"data": [{"id": "qwen3:8b"}]}')
            with suppress(OSError):  # the client leaves
                while len(looked) > 1:
                    self.wfile.write(b" " * 100_000)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OLLAMA_HOST", f"http://127.0.0.1:{server.server_port}")
        shell.run("%tract model")
        assert looked == []
        assert "%tract model ollama/qwen3:8b" in shell.run("%tract model --local").text
        assert looked == ["/v1/models"]
        assert "does not answer" in shell.run("%tract model --local").text  # endless
        server.shutdown()
        thread.join()
    assert "does not answer" in shell.run("%tract model --local").text
    assert len(looked) == 2


def test_completion(shell):
    shell.run("tract.models.add('local', base_url='http://127.0.0.1:9/v1')")
    offered = shell.complete("%tract model ")
    assert {"local", "openai/gpt-6-luna", "--for", "--key", "--base-url", "--local"} <= set(offered)
    assert "consult" in shell.complete("%tract model openai/x --for ")


def test_the_setting_is_the_model_of_each_kernel(shell):
    shell.run("%config TractJupyter.model = 'ollama/qwen3'")
    shell.run("%reload_ext tract_jupyter")
    assert "qwen3 at http://127.0.0.1:11434/v1" in shell.run("tract.models").text


def test_a_setting_that_names_no_model_is_refused(shell, caplog):
    shell.run("%config TractJupyter.model = 'qwen3'")
    assert "Use PROVIDER/NAME" in caplog.text


def test_an_invalid_base_url_disables_only_the_model(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    shell.run("%config TractJupyter.model = 'openai/gpt-6-luna'")
    shell.run("%reload_ext tract_jupyter")
    text = shell.run("print(tract.llm)").text
    assert "TractJupyter.model: base_url must be an address such as" in text
    assert text.endswith("None\n")


# --- money


@pytest.fixture
def asked(shell):
    """A shell whose model has replied twice: once with a cost, once without."""
    tract = shell.namespace["tract"]
    for usage in ({"prompt_tokens": 1_000, "completion_tokens": 20, "cost": 0.25}, None):
        tract.models.use(ScriptedClient(reply("Hello.", usage=usage, model="m")))
        tract.chat("How tall is Ben Nevis?")
    return shell


def test_the_costs_of_the_session_are_shown(asked):
    text = asked.run("%tract cost").text
    assert "This session: 0.2500 USD and 1 request at an unknown price for 2 requests with ≈" in text
    assert "price unknown" in text
    assert (
        "To set it: tract.models.price('your ScriptedClient', input=..., output=...), in US dollars" in text
    )
    assert "How tall is Ben Nevis?" in text
    assert "1,000" in text


def test_a_turn_is_named_by_the_words_of_the_person(asked):
    tract = asked.namespace["tract"]
    tract.models.use(
        ScriptedClient(reply("A lot.", usage={"prompt_tokens": 9, "completion_tokens": 2}, model="m"))
    )
    tract.chat(message_with([SentContext("df", "DataFrame", "a b")], "What is missing?"))
    text = asked.run("%tract cost").text
    assert "What is missing?" in text
    assert "context id" not in text


def test_nothing_was_spent(shell):
    assert "no requests yet" in shell.run("%tract cost").text
    assert "much" in shell.run("%tract cost much").error
    assert "usage: %tract cost COMMIT" in shell.run("%tract cost HEAD much").error


def test_the_cost_of_one_reply_is_shown(asked):
    assert "HEAD has no token counts" in asked.run("%tract cost HEAD").text
    first = asked.namespace["tract"].log()[-2].commit_hash
    text = asked.run(f"%tract cost {first[:12]}").text
    assert "0.2500 USD for 1 request with 1,020 tokens" in text


@pytest.mark.parametrize(
    ("line", "budget"),
    [
        ("2 USD", "2.00 USD"), ("2.50usd", "2.50 USD"), ("$3", "3.00 USD"), ("50000 tokens", "50,000 tokens"),
        ("50,000 tokens", "50,000 tokens"), ("1 token", "1 token"), ("50_000 Tokens", "50,000 tokens"),
    ],
)  # fmt: skip
def test_a_budget_is_set_shown_and_removed(shell, line, budget):
    assert "There is no budget. %tract budget 2 USD" in shell.run("%tract budget").text
    assert f"This session may spend {budget}." in shell.run(f"%tract budget {line}").text
    assert f"Budget: {budget}" in shell.run("%tract cost").text
    assert "There is no budget" in shell.run("%tract budget off").text


@pytest.mark.parametrize("line", ["2", "USD", "$2 tokens", "two USD", "-1 USD", "1e3 USD", "2 EUR"])
def test_an_invalid_budget_shows_the_usage_and_sets_nothing(shell, line):
    assert "usage: %tract budget" in shell.run(f"%tract budget {line}").error
    assert shell.namespace["tract"].costs.budget is None


def test_a_budget_of_nothing(shell):
    assert "above 0" in shell.run("%tract budget 0 USD").error
    assert "a whole number above 0" in shell.run("%tract budget 0 tokens").error


def test_the_budget_refuses_in_a_cell(asked):
    asked.run("%tract budget 100 tokens")
    assert "could exceed the budget of 100 tokens" in asked.run("tract.chat('Again')").error


# --- keys in cells


def test_a_key_in_a_cell_gives_a_warning_that_does_not_repeat_it(shell):
    text = shell.run(f"x = 1\nkey = '{KEY}'").text
    assert (
        "Line 2 of this cell seems to contain a key. The notebook and IPython's history store it. Revoke"
        in text
    )
    asked = shell.run(f"%%tract_chat\nIs {KEY} valid?").text
    assert "The notebook and IPython's history store it, and the model receives it. Revoke" in asked
    assert KEY[:8] not in text
    assert shell.run("x = 'risk-management-for-absolute-beginners'").text == ""


@pytest.mark.parametrize(
    "line", ["model openai/x --key {}", "model openai/x --key={}", "nothing {}", "log {}"]
)
def test_a_key_in_a_line_is_refused_and_not_repeated(shell, line):
    result = shell.run("%tract " + line.format(KEY))
    assert "seems to contain a key" in result.error
    assert KEY[:8] not in result.error + result.text


def test_after_unloading_nothing_looks_at_cells(shell):
    shell.run("%unload_ext tract_jupyter")
    assert shell.run(f"key = '{KEY}'").text == ""


def test_the_command_does_not_suggest_a_setting_that_cannot_be_saved(shell):
    assert (
        "c.TractJupyter.model = 'ollama/qwen3' in ipython_config.py"
        in shell.run("%tract model ollama/qwen3").text
    )
    for line in ("%tract model m --base-url http://x/v1", "%tract model ollama/qwen3 --for compress"):
        text = shell.run(line).text
        assert "Until the kernel ends." in text
        assert "ipython_config" not in text
    assert "No model is chosen now." in shell.run("%tract model off").text
    assert "above 0, not 0" in shell.run("%tract budget 0 USD").error
