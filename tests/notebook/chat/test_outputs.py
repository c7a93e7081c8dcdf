"""Outputs of kernel scripts below their row: live, rich, bounded."""

import gc
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from IPython.core.displaypub import DisplayPublisher

from tests.review.fakes import FakeChannel, answering, click
from tests.review.rehearsed import LOOK
from tests.review.scripted import ScriptedClient, call, reply
from tests.scripts.rehearsals import rehearse_in
from tract_jupyter.notebook.chat import ScriptOutputs, TractSource, TurnLog, TurnOutputs
from tract_jupyter.rehearsal import Output

PNG = "iVBORw0KGgo="
WIDGET = "application/vnd.jupyter.widget-view+json"


class Publisher(DisplayPublisher):
    """A display publisher with hooks, like the one of the kernel."""

    def __init__(self):
        super().__init__()
        self.hooks = []
        self.sent = []

    def register_hook(self, hook):
        self.hooks.append(hook)

    def unregister_hook(self, hook):
        self.hooks.remove(hook)

    def publish(self, data, metadata=None, *, transient=None, update=False, **_):
        kind = "update_display_data" if update else "display_data"
        self._send(kind, {"data": data, "metadata": metadata or {}, "transient": transient or {}})

    def clear_output(self, wait=False):
        self._send("clear_output", {"wait": wait})

    def _send(self, kind, content):
        message = {"msg_type": kind, "content": content}
        for hook in self.hooks:
            message = hook(message)
            if message is None:
                return
        self.sent.append(message)


@pytest.fixture
def turn(bare_shell, tract):
    """Run a turn whose model runs a script in the kernel, and return its log."""
    publisher = Publisher()
    shell = bare_shell.ip
    shell.display_pub = publisher

    def run(code, *, decide="approve", backend="kernel", take=None):
        arguments = {"code": code, "backend": backend}
        tract.configure_llm(ScriptedClient(reply(None, call("notebook_execute", arguments, "c1")), "Done."))
        answer = (lambda ticket: click(ticket, "keep")) if decide == "keep" else answering(decide)
        tract.reviewer.channel = FakeChannel(answer)
        log = run.log = TurnLog(TractSource(tract))
        run.draws = []
        tract.scripts.shown = TurnOutputs(
            shell, take or log.take_outputs, lambda at_once=False: run.draws.append((at_once, log.view()))
        )
        tract.chat("Go", on_turn=log.add, tools="code")
        return log

    run.publisher = publisher
    return run


def results(view):
    return [block.html for block in view.blocks() if block.html.startswith('<div class="result')]


SHOWN = {
    "print('a < b')": '<div class="result stdout"><pre>a &lt; b</pre></div>',
    "import sys; print('w', file=sys.stderr)": '<div class="result stderr"><pre>w</pre></div>',
    "[1, 2]": '<div class="result display"><pre>[1, 2]</pre></div>',
    "for n in range(3): print('\\r', n, end='')": '<div class="result stdout"><pre> 2</pre></div>',
    "print('\\x1b[31mred\\x1b[0m')": '<pre><span style="color:#e75c58">red</span></pre>',
    "1 / 0": '<div class="result error"><pre>Traceback',
    "from IPython.display import display, HTML\ndisplay(HTML('<b onclick=go()>x</b>'))": "<b>x</b></div>",
    f"from IPython.display import display\ndisplay({{'image/png': '{PNG}', 'text/plain': 'fig'}}, raw=True)":
        f'<img data-lm-suppress-shortcuts="true" tabindex="0" alt="fig" src="data:image/png;base64,{PNG}">',
    "from IPython.display import display\ndisplay({'image/svg+xml': '<svg onload=go()>'}, raw=True)":
        '<img data-lm-suppress-shortcuts="true" tabindex="0" alt="" src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9Z28oKT4=">',
    "from IPython.display import display\ndisplay({'text/markdown': '**x**<script>'}, raw=True)": "<strong>x</strong>",
}  # fmt: skip


@pytest.mark.parametrize("code", SHOWN)
def test_an_output_is_shown_below_its_row(turn, code):
    log = turn(code)
    view = log.view()
    (html,) = results(view)
    assert SHOWN[code] in html
    assert html in view.to_html()
    assert not turn.publisher.sent
    kinds = [block.id.partition(".o")[0] for block in view.blocks()]
    assert kinds.index("c0.0") + 1 == [block.html for block in view.blocks()].index(html)


ACTIVE = [
    {"text/html": "<script>alert(1)</script>"},
    {"text/html": "<iframe srcdoc='<script>alert(1)</script>'></iframe>"},
    {"application/javascript": "alert(1)"},
    {"application/vnd.custom+json": "{}"},
    {WIDGET: '{"model_id": "1"}'},
    {"image/svg+xml": "<svg onload=alert(1)>", "text/html": "<canvas onclick=alert(1)>"},
]


@pytest.mark.parametrize("kind", ["result", "display"])
@pytest.mark.parametrize("data", ACTIVE, ids=[next(iter(data)) for data in ACTIVE])
def test_an_active_output_of_a_rehearsal_never_reaches_the_page(turn, tract, kind, data):
    """Scripts in it would run in the page of the user, who approved no run of the code."""
    effects = replace(LOOK, outputs=(Output(kind, "a map", data),))
    rehearse_in(tract).effects["look()"] = effects
    log = turn("look()", decide="keep")
    assert turn.publisher.sent == []
    html = log.view().to_html()
    assert "alert(1)" not in html
    assert "a map" in html
    assert "shown below this turn" not in html


def test_the_text_of_a_turn_has_them_too(turn):
    text = turn("print('one\\ntwo')\n'three'").view().to_text()
    assert "    one\n    two\n    'three'" in text


def test_a_semicolon_hides_the_value(turn):
    assert results(turn("[1, 2];").view()) == []


def test_printed_text_is_drawn_while_the_script_runs(turn):
    turn("print('one')\nprint('two')")
    drawn = [(at_once, "".join(results(view))) for at_once, view in turn.draws]
    assert drawn[0] == (True, "")
    assert next(one for one in drawn if "one" in one[1])[0] is True
    assert any("two" in shown for _, shown in drawn)
    rows = [view.parts[0].row(100) for _, view in turn.draws]
    assert {(row.state, row.what) for row in rows} == {("running", "Running a script")}
    assert all(row.seconds is not None for row in rows)


def test_the_sandbox_shows_none(turn):
    log = turn("print('one')", backend="sandbox")
    assert results(log.view()) == []


def test_without_a_row_the_cell_shows_it(turn):
    turn(
        "from IPython.display import display\ndisplay({'text/plain': 'x'}, raw=True)",
        take=lambda outputs: False,
    )
    assert len(turn.publisher.sent) == 1


@pytest.mark.parametrize(
    ("data", "is_here"),
    [
        ({"text/html": "<p>x</p>", "application/vnd.dataresource+json": "{}"}, True),
        ({"image/png": PNG, "application/pdf": "x"}, True),
        ({"text/plain": "x"}, True),
        ({"text/html": "<div></div><script>draw()</script>"}, False),
        ({"application/vnd.vegalite.v5+json": "{}", "text/plain": "chart"}, False),
        ({"application/javascript": "go()"}, False),
        ({WIDGET: {"model_id": "1"}, "text/plain": "Slider"}, False),
    ],
)
def test_outputs_that_need_javascript_are_shown_below_the_turn(turn, data, is_here):
    code = f"from IPython.display import display\nimport json\ndisplay(json.loads({json.dumps(data)!r}), raw=True)"
    (html,) = results(turn(code).view())
    assert (turn.publisher.sent == []) is is_here
    assert ("Interactive output: shown below this turn." in html) is not is_here


def test_a_page_that_draws_widgets_has_a_place_for_each():
    made = ScriptOutputs(SimpleNamespace(author="user", backend="kernel", is_kept=False), has_widgets=True)
    assert made.show({WIDGET: {"model_id": "a<1"}, "text/plain": "Slider"}, {})
    assert not made.show({"text/html": "<script>draw()</script>"}, {})
    html, elsewhere = (one.html for one in made.now())
    assert html == '<div class="result display" data-widget="a&lt;1"><pre>Slider</pre></div>'
    assert "Interactive output" in elsewhere


def test_the_plain_text_of_a_large_table_is_cut():
    made = outputs()
    made.show({"text/html": "<p>x</p>", "text/plain": "row\n" * 10_000}, {})
    (one,) = made.now()
    assert one.plain.endswith("row\n… 20,000 more characters")
    assert len(one.plain) < 20_100


def outputs(room=lambda size: True):
    return ScriptOutputs(SimpleNamespace(author="user", backend="kernel", is_kept=False), room)


def test_a_display_is_replaced_by_its_id_and_cleared():
    made = outputs()
    made.show({"text/plain": "0 %"}, {}, "bar")
    made.write("stdout", "between")
    made.show({"text/plain": "50 %"}, {}, "bar", is_update=True)
    assert [one.text for one in made.now()] == ["50 %", "between"]
    assert not made.show({"text/plain": "x"}, {}, "other", is_update=True)
    made.clear(wait=True)
    assert len(made.now()) == 2
    made.show({"text/plain": "1"}, {}, "bar")
    assert [one.text for one in made.now()] == ["1"]
    made.clear(wait=False)
    assert made.now() == ()


def test_unchanged_outputs_are_the_same_objects():
    made = outputs()
    made.write("stdout", "one")
    made.show({"text/plain": "x"}, {})
    made.write("stdout", "two")
    before = made.now()
    made.write("stdout", "three")
    after = made.now()
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True, False]


def test_outputs_above_a_limit_are_cut_with_a_message():
    made = outputs()
    for number in range(60):
        made.show({"text/plain": str(number)}, {})
    assert made.now()[-1].text == "… 10 more outputs not shown. A script shows at most 50."
    made = outputs()
    made.show({"text/html": "x" * 600_000}, {})
    made.show({"image/png": "A" * 5_000_000}, {})
    made.show({"text/plain": "x" * 30_000}, {})
    html = [one.html for one in made.now()]
    assert "This output has 600.0 kB" in html[0]
    assert "This output has 5.0 MB" in html[1]
    assert "… 10,000 more characters" in html[2]
    assert max(map(len, html)) < 21_000
    full = outputs(room=lambda size: False)
    full.show({"text/plain": "x"}, {})
    assert "the outputs of a turn can have at most 20.0 MB" in full.now()[0].text


def test_a_tqdm_bar_is_shown_once_with_its_current_state(monkeypatch):
    class Bar:
        __module__ = "tqdm.notebook"
        comm = "open"
        pbar = None
        done = 0

        def __repr__(self):
            return f"{self.done}/10"

    bar = Bar()
    module = SimpleNamespace(_instances={"1": bar})
    monkeypatch.setitem(sys.modules, "ipywidgets.widgets.widget", module)
    made = outputs()
    assert made.show({WIDGET: {"model_id": "1"}, "text/plain": "0/10"}, {})
    assert [one.text for one in made.now()] == ["0/10"]
    bar.done = 10
    assert [one.text for one in made.now()] == ["10/10"]
    bar.comm = None
    assert made.now() == ()


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_bar_that_has_ended_keeps_its_text(is_closed):
    from tqdm.notebook import tqdm

    bar = tqdm(total=2, display=False)
    made = outputs()
    assert made.show({WIDGET: {"model_id": bar.container.model_id}, "text/plain": ""}, {})
    bar.update(2)
    if is_closed:
        bar.close()
    drawn = made.now()
    assert "2/2" in drawn[0].text
    bar.start_t -= 100
    if is_closed:
        assert made.now() == drawn  # its seconds do not change
    del bar
    gc.collect()
    assert made.now()[0].text == drawn[0].text


def test_a_script_that_was_stopped_did_not_fail(turn):
    log = turn("raise KeyboardInterrupt")
    row = log.view().parts[0].row(100)
    assert (row.state, row.what, row.badge) == ("stopped", "Script stopped", "")


def test_the_title_names_the_error(turn):
    row = turn("{}['revenue']").view().parts[0].row(100)
    assert (row.state, row.what, row.badge) == ("failed", "Script failed: KeyError: 'revenue'", "")
