"""Markup in every text of a tract, through every display: no page may run or load anything for it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from IPython.utils.capture import capture_output

from tests.notebook.test_displays import LINES
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter.models import Allowance
from tract_jupyter.notebook.chat import markdown_html
from tract_jupyter.notebook.panels import Panel, record_html
from tract_jupyter.operations import ActionDef, OperationSpec

PAYLOADS = (
    "<script>pwned()</script>", "<ScRiPt src=//evil.example/pwned></sCrIpT>", "<script/x>pwned()</script/>", "<<script>pwned()//<</script>",
    "<scr<script>ipt>pwned()</scr</script>ipt>", "</script><script>pwned()</script>", "</style><script>pwned()</script>", "</textarea><script>pwned()</script>",
    "</title><svg onload=pwned()>", "</pre></code></details></div></section><img src=x onerror=pwned()>", "--><img src=x onerror=pwned()>",
    "]]><img src=x onerror=pwned()>", "<![CDATA[<img src=x onerror=pwned()>]]>", "<?xml-stylesheet href=javascript:pwned()?>", "<!--<img src=x onerror=pwned()>",
    "<img src=x onerror=pwned()>", "<img/src='x'/onerror=pwned()>", "<img src=x\nonerror\n=\npwned()>", "<img src=`x`onerror=pwned()>", "<img srcset='pwned 1x'>",
    '" onmouseover=pwned() x="', "' onfocus=pwned() autofocus x='", '"><svg onload=pwned()>', "'><svg/onload=pwned()>", "` onclick=pwned() `",
    "<svg><animate onbegin=pwned() attributeName=x>", "<svg><use href='data:image/svg+xml,pwned#x'/></svg>", "<svg><script>pwned()</script></svg>",
    "<svg><a xlink:href='javascript:pwned()'><text>x</text></a></svg>", "<math><mtext><img src=x onerror=pwned()></mtext></math>",
    "<math href='javascript:pwned()'>x</math>", "<iframe src=javascript:pwned()>", "<iframe srcdoc='<script>pwned()</script>'>", "<object data=javascript:pwned()>",
    "<embed src=javascript:pwned()>", "<form action=javascript:pwned()><button>x", "<button formaction=javascript:pwned()>x", "<input autofocus onfocus=pwned()>",
    "<details open ontoggle=pwned()>", "<video><source onerror=pwned()>", "<body onload=pwned()>", "<base href='//evil.example/pwned/'>", "<meta http-equiv=refresh content='0;javascript:pwned()'>",
    "<link rel=stylesheet href=//evil.example/pwned>", "<style>*{background:url(//evil.example/pwned)}</style>", "<p style='background:url(//evil.example/pwned)'>x",
    "<noscript><p title='</noscript><img src=x onerror=pwned()>'>", "<template><img src=x onerror=pwned()></template>", "<a href=javascript:pwned()>x</a>",
    "<a href='java\tscript:pwned()'>x</a>", "<a data-commandlinker-command='pwned'>x</a>", "<x-pwned onclick=pwned()>", "&lt;img src=x onerror=pwned()&gt;", "&#60;script>pwned()</script>",
    "\x01<\x0cscript>pwned()</script>", "\uff1cscript\uff1epwned()", "\u202e<script>pwned()</script>\u2066", "\x1b]8;;javascript:pwned()\x07x\x1b]8;;\x07",
    "[x](javascript:pwned())", "![x](//evil.example/pwned)", "[x]: javascript:pwned()\n\n[x]", "<javascript:pwned()>", "[x](data:text/html,<script>pwned()</script>)",
    "```<script>pwned()</script>", "```\n</code></pre><script>pwned()</script>\n```", "| <script>pwned()</script> |\n|---|\n| <img src=x onerror=pwned()> |", "$$\\href{javascript:pwned()}{x}$$",
)  # fmt: skip
TAGS = {
    "a", "b", "blockquote", "br", "button", "caption", "circle", "code", "col", "colgroup", "dd", "defs", "del", "desc", "details", "div", "dl", "dt", "em", "footer", "g",
    "h3", "h4", "header", "hr", "i", "input", "ins", "kbd", "label", "li", "line", "mark", "ol", "p", "path", "pattern", "polyline", "pre", "rect", "s", "samp", "section", "select", "option", "small", "span", "strong",
    "style", "sub", "summary", "sup", "svg", "table", "tbody", "td", "text", "textarea", "tfoot", "th", "thead", "time", "title", "tr", "tspan", "u", "ul", "var",
}  # fmt: skip
LOADS = {"action", "background", "data", "formaction", "poster", "src", "srcdoc", "srcset", "xlink:href"}
KINDS = {"text/html", "text/plain"}


class Inert(HTMLParser):
    """A parser that fails at markup which could run or load something, and collects the text."""

    RCDATA_CONTENT_ELEMENTS = ()  # from Python 3.14, it skips the tags in a title; in SVG, a title has tags

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert "pwned" not in name, (tag, name)
            assert name not in LOADS, (tag, name)
            assert not name.startswith("data-commandlinker"), (tag, name)
            if name == "href":
                assert re.match("(https?|mailto):|#", value or ""), (tag, value)
            if name in {"style", "class", "id"}:
                assert "pwned" not in (value or ""), (tag, name, value)

    def handle_data(self, data):
        assert self.cdata_elem is None or "pwned" not in data
        self.text += data

    def never(self, what):
        """Refuse comments, declarations and processing instructions: the displays have none."""
        raise AssertionError(what)

    handle_comment = handle_decl = handle_pi = unknown_decl = never


def texts(page: str) -> str:
    return re.sub(r"\s+", "", Inert(page).text)


@pytest.fixture
def told(shell):
    """A shell whose tract has each payload in all texts that a model or a tool can write."""
    t = shell.namespace["tract"]

    @t.tool(read_only=True)
    def look(text: str) -> str:
        """Look something up."""
        if len(text) % 2:
            raise ValueError(text)
        return text

    @t.tool
    def write(text: str) -> str:
        """Write something down."""
        return text

    for number, evil in enumerate(PAYLOADS):
        t.user(evil, message=evil, metadata={evil: evil})
        t.tags.register(f"tag{number}", evil)
        t.models.use(
            ScriptedClient(
                reply(evil, call("look", {"text": evil}), model=evil),
                reply(None, call("no_such" + evil, {evil: evil}), call("look", evil)),
                reply(evil, reasoning=evil, model=evil),
            )
        )
        t.chat(evil, tools="self", limits=Allowance(steps=9))
    return shell


def outputs(shell, cell):
    """Run a cell, and return its HTML. Every other output must be plain text."""
    with capture_output() as captured:
        shell.ip.run_cell(cell)
    kinds = {kind for output in captured.outputs for kind in output.data}
    assert kinds <= KINDS, kinds
    printed = (
        captured.stdout + captured.stderr + "".join(o.data.get("text/plain", "") for o in captured.outputs)
    )
    assert "\x1b]" not in printed
    assert "\u202e" not in printed
    return "".join(output.data.get("text/html", "") for output in captured.outputs)


def check(shell, *cells):
    """Run each cell, look at its pages, and return their texts without spaces."""
    found = ""
    for cell in cells:
        page = outputs(shell, cell)
        try:
            found += texts(page)
        except AssertionError as error:
            raise AssertionError(cell, *error.args) from error
    return found


def visible(evil):
    """Return a part of a payload that no display marks, escapes, cuts or reads as Markdown."""
    return max(re.findall(r"[\w<>/=():;,.@-]+", evil), key=len)[:16]


VIEWS = ("display(tract)", "display(tract.compile())", "display(tract.diff())", "display(tract.models)")
COMMANDS = tuple(f"%tract {line}" for line in LINES)


@pytest.mark.slow
def test_histories_and_turns(told):
    told.namespace.update(markdown_html=markdown_html, payloads=PAYLOADS)
    turns = (f"%tract chat show {number + 1}" for number in range(len(PAYLOADS)))
    shown = check(told, "%tract log 500", "%tract log 500 --events", *VIEWS, *turns, *COMMANDS)
    assert [evil for evil in PAYLOADS if visible(evil) not in shown] == []


@pytest.mark.parametrize("evil", PAYLOADS, ids=ascii)
def test_prose(evil):
    Inert(markdown_html(evil))
    Inert(
        markdown_html(
            f"- {evil}\n> {evil}\n\n# {evil}\n\n```py\n{evil}\n```\n\n*{evil}* `{evil}` [{evil}](https://example.org)"
        )
    )


@pytest.fixture
def asked(tract):
    """Ask one question of each kind, with a payload in each of its texts; return the tickets."""

    @tract.tool
    def write(text: str, more: dict[str, str] | None = None) -> str:
        """Write something down."""
        return text

    def ask(evil):
        code = f"x = {evil!r}\npending.approve()"
        fields = {"f": {"type": "str", "description": evil, "default": evil}}
        made = OperationSpec("op", evil, fields, {"act": ActionDef("act", evil, {"n": "str"}, code)})
        tract.executor.execute("write", {"text": evil, "more": {evil: evil}}, actor=f"agent:{evil}")
        tract.scripts.run(f"# {evil!r}\ntools.write(text={evil!r})", backend="sandbox")
        tract.propose_operation(made, actor="agent:a")
        tract.register_operation(made)
        tract.fire("op", {"f": evil}, review=True, execute_fn=print)
        return [tract.reviewer.show_again(tract.operations.rebuild(row)) for row in tract.review.inbox()]

    return ask


@pytest.mark.slow
@pytest.mark.parametrize("evil", PAYLOADS, ids=ascii)
def test_questions(asked, evil):
    tickets = asked(evil)
    assert len(tickets) == 4
    for ticket in tickets:
        pages = [part for name, part in Panel(ticket).view.items() if name.endswith("html")]
        assert visible(evil) in "".join(map(texts, pages))
        ticket.pending.reject(evil)
        assert visible(evil) in texts(record_html(ticket))


EVERYTHING = "\n\n".join(PAYLOADS)
MADE = """
from tests.agents.cast import Cast
from tract_jupyter.runs.profile import OperationProfile, run_operation
from tract_jupyter.toolkit import Permission
evil = EVERYTHING
line = " ".join(evil.split())

class Evil:
    def __repr__(self):
        return evil

def fails():
    raise ValueError(evil)

tract.executor.permission = lambda *_: Permission.ALLOW
tract.models.use(Cast(boss=[evil] * 9, Agent=[evil] * 2))
mood = run_operation("mood", order=1, text=evil, into="system")
tract.profiles.save(OperationProfile.of("p", [mood], description=line), activate=True)
"""
CELLS = (
    "%%tract_agent one --description 'An agent.'\nAgent. {evil}", "tools.agents.one(evil)", "%tract agents", "%tract agents show one",
    "%%tract_chat\n{evil}", "odd = Evil()", "%%tract_chat --vars odd\n{evil}", "%%tract_chat --files '{file}'\n{evil}", "%%tract_run --profile p\n{evil}", "%tract runs",
    "%tract run", "%tract run --prompt", "%tract prompt {line} --profile p", "%tract profiles", "%tract profile p", "%%tract_orchestrate\n{evil}",
    "%tract orchestrator", "%tract orchestrator show", "%%tract_script\nevil", "%%tract_script\nfails()", "%%tract_check\nopen({evil!r})\nimport os\nos.system({line!r})",
    "%%tract_profile q\ndescription: {line!r}\noperations:\n  a:\n    text: {line!r}\n    into: system", "%tract {line}", "%%tract_{line}\nx",
    "%tract policies add pin patterns=[{line!r}]", "%tract policies", "%tract fork -- {line}", "%tract fork", "%tract log --events", "%tract",
)  # fmt: skip


def test_cells(shell, tmp_path):
    name = (
        "".join(evil for evil in PAYLOADS if evil.isprintable() and "/" not in evil and "'" not in evil)[:80]
        + ".txt"
    )
    (tmp_path / name).write_text(EVERYTHING)
    assert not outputs(shell, MADE.replace("EVERYTHING", repr(EVERYTHING)))
    parts = {"evil": EVERYTHING, "line": " ".join(EVERYTHING.split()), "file": name}
    check(shell, *(cell.format(**parts) for cell in CELLS))
