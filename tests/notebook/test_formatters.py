"""IPython shows the value types as views until the formatters are unregistered."""

import re
import subprocess
import sys

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.context import diff_contexts
from tract_jupyter.llm import Models
from tract_jupyter.models import CompiledContext, Message
from tract_jupyter.notebook import formatters

CONTEXT = CompiledContext((Message("user", "hello", token_count=5),), 8, "o200k_base", "a" * 64)
SHOW = "from IPython.display import display; display(value)"


@pytest.fixture
def registered(bare_shell):
    formatters.register(bare_shell.ip)
    yield bare_shell
    formatters.unregister(bare_shell.ip)


@pytest.mark.parametrize(
    ("value", "text"),
    [(CONTEXT, "Context: 1 message at aaaaaaaa"), (diff_contexts(CONTEXT, CONTEXT), "no changes, ±0 tokens")],
    ids=["context", "difference"],
)
def test_a_value_is_shown_as_its_view(registered, value, text):
    registered.namespace["value"] = value
    result = registered.run(SHOW)
    assert "tract-views" in result.html
    assert text in result.text
    assert text in registered.run("value").text
    assert repr(value) in registered.run("print(repr(value))").text


def test_a_reply_is_shown_as_its_run_if_there_was_one(registered, tract):
    tract.configure_llm(ScriptedClient("Yes.", "No."))
    plain, told = tract.chat("Well?"), tract.chat("Really?", on_event=lambda _: None)
    registered.namespace.update(plain=plain, told=told)
    assert registered.run("plain").text == "Out[0]: Yes.\n"
    assert f"Run {told.run.run_id[:8]}: done" in registered.run("told").text


RESULTS = {
    "compress": (lambda t: t.compress(content="Short."), "Main: 3 commits became 1 summary"),
    "plan": (lambda t: t.preview_compress(content="Short."), "3 messages become 1 summary: "),
    "expand": (
        lambda t: t.expand(t.compress(content="S.").summary_commits[0]),
        "Main: a summary became 3 messages",
    ),
    "gc": (lambda t: t.gc(), "Removed 0 commits"),
    "merge": (lambda t: t.merge("side"), "Main: merged side (1 commit)"),
    "rebase": (lambda t: (t.switch("side"), t.rebase("main"))[1], "Side: is based on main"),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_is_shown_as_a_sentence_without_its_hashes(registered, tract, case):
    tract.user("One")
    tract.assistant("Two " * 40)
    tract.branch("side")
    tract.user("Beside")
    tract.switch("main")
    tract.user("Three")
    make, told = RESULTS[case]
    registered.namespace["value"] = value = make(tract)
    result = registered.run(SHOW)
    assert result.text.startswith(told)
    assert len(result.text) < 400
    assert not re.search(r"[0-9a-f]{9,}", result.text)
    assert 'role="heading"' in result.html
    assert str(value)[0] in registered.run("print(value)").text


@pytest.mark.parametrize(
    "shown",
    """t.status(); t.user("One"); t.verify(); t.history.log(); t.list_branches(); t.reflog(); t.events(); t.tags.list()
    t.preview_undo(); t.undo(); t.costs(); t.costs.turns(); t.costs.set_budget(usd=1); t.costs.of_rewrite(t.head)
    t.runs.roots(); t.runs.events(t.runs.roots()[0].run_id); t.runs.preview(); t.runs(); t.loop.turns()
    t.session.list_tracts(); t.orchestrate("now"); t.orchestrator.config; t.scripts.run("1 + 1")
    t.scripts.savings; t.preview_merge("side"); t.merge("side"); t.compress(content="S"); t.gc(); t.policies.list()
    t.review.decisions(); t.executor.tools(); t.executor.execute("status", {}); t.agents.limits; t.tool_turns.results()
    t.compile_records.newest(); t.cassette.record(p); t.fork(at="HEAD", name="f"); t.get_commit("HEAD"); t.compile()
    t.runs; t.session; t.orchestrator; t.scripts; t.cassette; t.costs; t.review; t.review.grants; t.review.trust
    t.hooks; t.operations; t.agents; t.models; t.policies; t.loop; t.tags; t.history; t.workspace; t.mcp; t.profiles
    t.forks; t.family; t.autonomy; t.compile_records""".replace("\n", ";").split(";"),
)
def test_each_result_has_a_short_display_without_whole_hashes(registered, tract, tmp_path, shown):
    tract.configure_llm(ScriptedClient("One.", "Two.", "Three."))
    tract.user("Question", tags=["a"])
    tract.branch("side")
    tract.user("Beside")
    tract.switch("main")
    tract.chat("Really?", on_event=lambda _: None)
    registered.namespace.update(t=tract, p=tmp_path / "cassette.json")
    result = registered.run(f"value = {shown.strip()}\n{SHOW}")
    if registered.namespace["value"] in ([], None):
        return  # nothing to show
    assert result.ok
    assert 'role="heading"' in result.html or "tract" in result.html
    assert " at 0x" not in result.html
    shown = re.sub('title="[^"]*"|data-[a-z-]+="[^"]*"|postgresql[^<]*', "", result.html)
    assert not re.search(r"[0-9a-f]{32,}", shown)


def test_other_lists_and_dicts_are_shown_as_ever(registered):
    class Own(list):
        def _repr_mimebundle_(self, **_):
            return {"text/html": "<b>own</b>"}

    registered.namespace["Own"] = Own
    assert not registered.run("[1, 2]").html
    assert not registered.run("{'a': []}").html
    assert registered.run("display(Own([1]))").html == "<b>own</b>"


def test_models_are_shown_as_a_table_without_keys(registered, monkeypatch):
    monkeypatch.setenv("MINE", "Zq7-secret")
    models = registered.namespace["value"] = Models()
    assert "No models yet" in registered.run(SHOW).html
    models.add("local", base_url="http://127.0.0.1:9/v1", model="<b>qwen3", key_env="MINE")
    models.add_credential("other", of="local", key_env="MINE")
    result = registered.run(SHOW)
    assert "key from MINE (set)" in result.html
    models.use("ollama/small", operation="compress")
    assert "In use for compress: small at http" in registered.run(SHOW).text
    assert "another key of local" in result.text
    assert "<b>" not in result.html
    assert "Zq7" not in result.html + result.text


def test_after_unregistering_nothing_is_left(bare_shell):
    bundles = bare_shell.ip.display_formatter.mimebundle_formatter
    before = dict(bundles.type_printers), dict(bundles.deferred_printers)
    bare_shell.namespace["value"] = CONTEXT
    for is_shown in (False, True):
        formatters.register(bare_shell.ip)
        if is_shown:
            assert "tract-views" in bare_shell.run(SHOW).html
        formatters.unregister(bare_shell.ip)
        assert (dict(bundles.type_printers), dict(bundles.deferred_printers)) == before
    assert bare_shell.run(SHOW).html == ""


def test_unregistering_keeps_a_formatter_of_the_user(registered):
    bundles = registered.ip.display_formatter.mimebundle_formatter
    bundles.for_type(CompiledContext, lambda *_, **__: {"text/html": "mine"})
    formatters.unregister(registered.ip)
    registered.namespace["value"] = CONTEXT
    assert registered.run(SHOW).html == "mine"
    formatters.unregister(registered.ip)
    bundles.pop(CompiledContext)


def test_registering_imports_no_view_and_no_value_type():
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from tract_jupyter.notebook import formatters
formatters.register(InteractiveShell.instance())
print(*(name for name in sys.modules if name.startswith("tract_jupyter.")))
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(output.split()) == {
        "tract_jupyter.notebook",
        "tract_jupyter.notebook.formatters",
    }


def test_a_tract_is_shown_until_the_formatters_are_gone(bare_shell, tract):
    bare_shell.namespace["value"] = tract
    formatters.register(bare_shell.ip)
    assert "tract-overview" in bare_shell.run(SHOW).html
    formatters.unregister(bare_shell.ip)
    assert not bare_shell.run(SHOW).html
