"""Elements of a page: safe HTML stays, and any other text is escaped with its hidden characters marked."""

from __future__ import annotations

import pytest

from tract_jupyter.notebook.views import Html, element, fragment

EVIL = "<b>\u202e&\"'"
SAFE = "&lt;b&gt;\N{REPLACEMENT CHARACTER}&amp;&quot;&#x27;"
BOLD = element("b", "x")


class Block:
    def __html__(self):
        return "<i>x</i>"


@pytest.mark.parametrize(
    ("made", "page"),
    [
        (element("p", EVIL), f"<p>{SAFE}</p>"),
        (element("p", title=EVIL), f'<p title="{SAFE}"></p>'),
        (element("p", BOLD, " & ", [EVIL, (BOLD, None)], Block()), f"<p><b>x</b> &amp; {SAFE}<b>x</b><i>x</i></p>"),
        (element("p", f"{BOLD}"), "<p>&lt;b&gt;x&lt;/b&gt;</p>"),
        (fragment(BOLD, EVIL), f"<b>x</b>{SAFE}"),
        (BOLD + EVIL, f"<b>x</b>{SAFE}"),
        (EVIL + BOLD, f"{SAFE}<b>x</b>"),
        (Html(" ").join([BOLD, EVIL]), f"<b>x</b> {SAFE}"),
        (Html("<p>{} {:>3}</p>").format(EVIL, 7), f"<p>{SAFE}   7</p>"),
        (Html("<p>%s</p>") % EVIL, f"<p>{SAFE}</p>"),
        (element("td", class_=("num", "", "dim"), data_place=3, hidden=True, open=False, id=None),
         '<td class="num dim" data-place="3" hidden></td>'),
        (element("p", class_="", aria_label=""), '<p aria-label=""></p>'),
        (element("br"), "<br>"),
        (element("summary", "x"), '<summary data-lm-suppress-shortcuts="true">x</summary>'),
        (element("pre", "x", tabindex="0"), '<pre data-lm-suppress-shortcuts="true" tabindex="0">x</pre>'),
    ],
)  # fmt: skip
def test_elements(made, page):
    assert isinstance(made, Html)
    assert made == page
