"""A scripted view of a turn, for tests of displays."""

from tract_jupyter.notebook.chat import Foot, MarkdownStream, TurnBlock


class StubView:
    """A turn with these blocks.

    Attributes:
        made: the number of requests for its blocks.
    """

    def __init__(
        self, blocks, foot="<span>at work</span>", actions=("stop",), *, is_over=False, turn_id="t1"
    ):
        self._blocks = list(blocks)
        self._foot = Foot(foot, actions)
        self.is_over = is_over
        self.go_on = "%tract chat resume"
        self.turn_id = turn_id
        self.made = 0

    def blocks(self):
        self.made += 1
        return list(self._blocks)

    def foot(self):
        return self._foot

    def to_html(self):
        inner, last = "", ""
        for block in self._blocks:
            css = {"row": "list", "prose": "prose"}.get(block.kind, "")
            if css != last:
                inner += ("</div>" if last else "") + (f'<div class="{css}">' if css else "")
            inner, last = inner + block.html, css
        inner += "</div>" if last else ""
        foot = f'<div class="foot">{self._foot.html}<span class="end"></span></div>'
        return f'<div class="tract turn mathjax_ignore" data-turn="{self.turn_id}">{inner}{foot}</div>'

    def to_text(self):
        return "\n".join(block.html for block in self._blocks)


def prose(text, name="p"):
    """Blocks of a reply."""
    stream = MarkdownStream()
    stream.append(text)
    return [TurnBlock(f"{name}{key}", html, kind="prose") for key, html in stream.parts()]


def row(key, name, body="<p>what came of it</p>", state="i-done", tokens="412 tokens", seconds="0.1 s"):
    """A call."""
    summary = (
        f'<i class="chev"></i><i class="i {state}"></i><span class="name">{name}</span><code class="cut"></code>'
        f'<span class="num tok wide-only">{tokens}</span><span class="num sec">{seconds}</span>'
    )
    html = (
        f'<details class="row"><summary data-lm-suppress-shortcuts="true">{summary}</summary>'
        f'<div class="body">{body}</div></details>'
    )
    return TurnBlock(key, html, kind="row")
