"""The view of a profile."""

from types import SimpleNamespace

from tests.notebook.outline import stands_alone
from tests.notebook.runs.examples import AFTER, BEFORE, HOSTILE, operation
from tract_jupyter.notebook import ProfileView
from tract_jupyter.runs.profile import run_operation as make


def test_operations_stand_at_each_of_their_hooks():
    view = ProfileView(
        "p", (operation("both", hooks=(BEFORE, AFTER)), operation("off", enabled=False)), is_active=True
    )
    html = view.to_html()
    stands_alone(html)
    assert "before_main_llm, after_main_llm" in html
    assert view.to_text().count("off") == 2
    assert ">active<" in html
    assert view.to_text().startswith("Profile p: active\n")


def test_an_empty_one():
    assert "It has no operations." in ProfileView("p", ()).to_text()
    stands_alone(ProfileView("p", ()).to_html())


def test_any_text_is_safe():
    warning = SimpleNamespace(where=HOSTILE, message=HOSTILE)
    view = ProfileView(
        HOSTILE,
        (operation(HOSTILE, kind=HOSTILE[:60], depends_on=(HOSTILE,)),),
        (warning,),
        facts=((HOSTILE, HOSTILE),),
        said=HOSTILE,
    )
    html = view.to_html()
    stands_alone(html)
    assert "<script" not in html
    assert "\x1b" not in html + view.to_text()
    html.encode()


def test_the_full_view_shows_descriptions_and_metadata():
    """Descriptions, capabilities and other facts about the operation."""
    shown = make(
        "hint", order=1, text="x", description="Why <b>", capabilities=["prompt", "artifact", "net"], timeout_ms=5,
        retry={"maxAttempts": 2}, provider="lane", debug={"enabled": True}, tag="hint", title="T", semantics="state",
    )  # fmt: skip
    view = ProfileView("p", (shown,), to_be_read=True)
    for told in (
        'description: "Why <b>"', 'capabilities: ["prompt", "artifact", "net"]', 'provider: "lane"', "timeoutMs: 5.0",
        'retry: {"maxAttempts": 2}', 'debug: {"enabled": true}', '"title": "T"', '"semantics": "state"',
    ):  # fmt: skip
        assert told in view.to_text()
    assert "Why &lt;b&gt;" in view.to_html()


def test_the_full_view_shows_all_parameters_of_operations():
    given = {"template": "Name <b>the</b> year.\nartifact: none", "artifact": {"tag": "not_it"}}
    shown = operation("hint", params=given, artifact={"tag": "hint"})
    view = ProfileView("p", (shown,), to_be_read=True)
    lines = view.to_text().splitlines()
    assert lines[-3:] == [
        'hint: template: "Name <b>the</b> year.\\nartifact: none"', 'artifact: {"tag": "not_it"}',
        'artifact: {"tag": "hint"}',
    ]  # fmt: skip
    html = view.to_html()
    stands_alone(html)
    assert "Name &lt;b&gt;the&lt;/b&gt; year." in html
    assert html.count(" open>") == 2
    assert ProfileView("p", (shown,)).to_html().count(" open>") == 1
    assert "template:" not in ProfileView("p", (shown,)).to_text()
