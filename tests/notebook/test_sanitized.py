"""HTML of outputs without parts that run, load or affect the rest of the page."""

import pytest

from tract_jupyter.notebook.views import sanitized_html


@pytest.mark.parametrize(
    "html",
    [
        "<style>body:has(&) .foot{display:none}</style>",
        '<style>"\f"{"\f"\n} *{display:none} </style>',
        "<style>@import 'x';</style>",
        "<style>} * {display:none}</style>",
        "<style>p{background:url(x)}</style>",
    ],
)
def test_a_style_sheet_that_could_leave_its_output_is_removed(html):
    assert "<style>" not in sanitized_html(html)


@pytest.mark.parametrize(
    "style", ["position:/**/fixed", "--p:fixed", "position:var(--p)", "background:url(x)"]
)
def test_a_style_that_could_cover_the_page_is_removed(style):
    assert "fixed" not in sanitized_html(f'<p style="{style.replace("--p:fixed", "position : fixed")}">x</p>')
    assert "var(" not in sanitized_html(f'<p style="{style}">x</p>')


@pytest.mark.parametrize(
    "attribute", ['class="q"', 'class="row"', 'class="pill act"', 'id="foot"', 'data-act="undo"']
)
def test_names_of_our_own_parts_are_removed(attribute):
    assert attribute not in sanitized_html(f"<div {attribute}>x</div>")


def test_classes_and_ids_of_tables_are_kept():
    html = '<table class="dataframe" id="T_ab12"><tr><td class="data row0 col1" id="T_ab12_row0_col1">1</td></tr></table>'
    assert html in sanitized_html(html)


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<li><div><li>x</li></div></li>", "<li><div></div></li><li>x</li>"),
        ("<dd><div><dt>x</dt></div></dd>", "<dd><div></div></dd><dt>x</dt>"),
        ("<ul><li><ul><li>x</li></ul></li></ul>", "<ul><li><ul><li>x</li></ul></li></ul>"),
        ("<table><div><table>x</table></div></table>", "<table><div></div></table><table>x</table>"),
    ],
)
def test_elements_that_a_browser_closes_implicitly_are_closed(html, made):
    assert made in sanitized_html(html)


@pytest.mark.parametrize("html", ['<a b="' * 20_000, "<!--" * 20_000])
def test_text_with_unclosed_tags_is_escaped(html):
    assert sanitized_html(html).startswith("<pre>&lt;")
