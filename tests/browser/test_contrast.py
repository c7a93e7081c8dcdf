"""The helper that computes contrast: its results, and the elements that it ignores."""

import pytest

from tests.browser.contrast import poor_contrast


@pytest.fixture(scope="module")
def page(browser):
    """A page that never shows JupyterLab; each test sets all of its content."""
    page = browser.new_page((600, 400))
    yield page
    page.context.close()


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<p style="color:#000">a</p>', []),
        ('<p style="color:#767676">a</p>', []),
        ('<p class="x y" style="color:#777">a  b</p>', ['4.48 p.x.y "a b"']),
        ('<div style="background:#000"><p style="color:#555">a</p></div>', ['2.82 p "a"']),
        ('<div style="background:rgb(0 0 0 / 50%)"><p style="color:#000">a</p></div>', ['5.24 p "a"']),
        ('<div style="background:linear-gradient(#000, #000), #fff"><p style="color:#000">a</p></div>', []),
        ('<p style="color:#000; opacity:.5">a</p>', ['3.98 p "a"']),
        ('<p style="color:color-mix(in srgb, #000 40%, #fff)">a</p>', ['2.85 p "a"']),
        ('<p style="color:var(--x, #eee)">a</p>', ['1.16 p "a"']),
        ('<input placeholder="why" style="color:#000">', ['4.48 input "why"']),
        ('<input value="v" style="color:#aaa">', ['2.32 input "v"']),
        ('<button disabled style="color:#eee">a</button>', []),
        ('<button aria-disabled="true" style="color:#eee; background:#fff">a</button>', ['1.16 button "a"']),
        ('<details><summary>s</summary><p style="color:#eee">a</p></details>', []),
        ("<style>p { color: #eee }</style><p hidden>a</p>", []),
    ],
)  # fmt: skip
def test_texts_that_stand_out_too_little_are_found(page, html, found):
    page.set_content(
        f"<style>::placeholder {{ color: #777; opacity: 1 }} input {{ background: #fff }}</style>{html}"
    )
    least = 7 if "50%" in html else 4.5
    assert poor_contrast(page.locator("body"), least) == found


def test_the_worst_comes_first(page):
    page.set_content('<b style="color:#999">a</b><i style="color:#ccc">b</i>')
    assert [line.split()[1] for line in poor_contrast(page.locator("body"))] == ["i", "b"]
