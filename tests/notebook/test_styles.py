"""An output has exactly the style rules that it needs."""

from tract_jupyter.notebook.views import Html, styled

ROW = Html('<div class="tract"><details class="row"><summary><b class="name">x</b></summary></details></div>')


def test_an_output_has_the_style_rules_that_it_uses():
    page = styled(ROW)
    assert page.endswith(ROW)
    assert ".tract.tract .row > summary" in page
    assert ".tract.tract .name" in page
    assert "--ink-0" in page
    assert len(page) < 4_000


def test_an_output_has_no_unused_style_rules():
    page = styled(ROW)
    for name in (".badge", ".i-wait", "textarea", ".diff", "@keyframes", "table.t"):
        assert name not in page


def test_an_output_with_a_running_icon_has_its_animation():
    assert "@keyframes tract-turn" in styled(Html('<div class="tract"><i class="i i-run"></i></div>'))


def test_choices_and_media_are_kept():
    page = styled(Html('<div class="tract"><details><summary><i class="chev"></i></summary></details></div>'))
    assert "details[open] > summary" in page
    assert "prefers-reduced-motion" in page
    assert ":is(p, h4, ul, ol)" in styled(Html('<div class="tract"><p>x</p></div>'))
    assert ":is(p, h4, ul, ol)" not in page


def test_other_sheets_are_cut_the_same_way():
    page = styled(
        Html('<div class="tract-run tract"><span class="tract-facts"></span></div>'), "views/runs.css"
    )
    assert ".tract-facts" in page
    assert ".tract-origin" not in page


def test_a_selector_with_a_nested_list_is_kept_or_removed_as_a_whole():
    page = '<div class="tract turn"><div class="prose"><p>said</p></div></div>'
    styles = styled(Html(page), "chat/chat.css").partition("</style>")[0]
    assert "tract-blink" not in styles  # the caret of a turn that is being written
    heads = [line.partition("{")[0] for line in styles.removeprefix("<style>").split("\n")]
    assert not [head for head in heads if not head.startswith((".tract", "[data-jp-theme", "@"))]


def test_a_rule_about_a_part_comes_with_the_part():
    assert ":has(> .long)" not in styled(ROW)
    assert ":has(> .long)" in styled(Html(str(ROW).replace('"name"', '"said-b long"')))
