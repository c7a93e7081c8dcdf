"""No display allows a front end to render its text as formulas."""

from html.parser import HTMLParser

from tests.notebook.conftest import MODEL
from tract_jupyter.notebook.commands import all_commands

PROFILE = "%%tract_profile p\ndescription: $x$\noperations:\n  a:\n    text: $x$\n    into: system"
CELLS = (
    "%%tract_chat --vars model\n$x$",
    "%%tract_operation o --activate\n'''$x$'''\nx: str = '$x$'\ndef go(pending):\n    pending.approve()",
    "%%tract_operation p\n'''$x$'''\nx: str = '$x$'\ndef go(pending):\n    pending.approve()",
    "%%tract_check\nimport os\nos.remove('$x$')",
    "%%tract_script\ntools.status()",
    PROFILE,
    "%%tract_run --profile p\n$x$",
)
VALUES = (
    "display(tract)", "display(tools)", "display(tract.compile())", "display(tract.diff())",
    "display(tract.models)", "display(tract.runs()[0])", "display(tract.forks())",
)  # fmt: skip
LINES = (
    "", "status", "log", "log --events", "compile", "diff", "branch other", "merge main", "branch", "switch main", "tag HEAD t", "tag",
    "chat", "chat show", "model", "cost", "budget", "cassette", "fork", "runs", "run",
    "run --prompt", "pin main", "skip main", "unpin main", "run --dry a", "prompt $x$ --profile p", "profiles", "profile p", "ops", "tools", "tools status", "mcp",
    "agents", "notify", "autonomy", "autonomy manual", "policies", "policies log", "policies now", "orchestrator",
    "inbox", "decide", "grants", "review p", "trust", "record", "rules", "rules TJ101", "doctor", "looking", "agent", "serve off", "help", "help log", "checkout HEAD",
    "switch -", "chat undo", "undo", "undo --yes", "redo", "compress",
)  # fmt: skip


class Bare(HTMLParser):
    """The texts of a page that a front end would render as formulas."""

    def __init__(self, html):
        super().__init__()
        self.open, self.found = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag not in {"br", "hr", "input", "img"}:
            self.open.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        kept = any(
            tag == "style" or {"mathjax_ignore", "tex2jax_ignore"} <= set(css.split())
            for tag, css in self.open
        )
        if data.strip() and not kept:
            self.found.append(data)


def test_no_display_has_formulas(kernel):
    assert kernel.run(MODEL).ok
    assert kernel.run("model.usual = '$x$'").ok
    shown = {cell: kernel.run(cell).html for cell in (*CELLS, *(f"%tract {line}" for line in LINES), *VALUES)}
    assert not {cell: Bare(html).found for cell, html in shown.items() if Bare(html).found}
    assert sum(map(bool, shown.values())) > 50


def test_each_command_is_looked_at():
    assert {line.split()[0] for line in LINES if line} == set(all_commands())
