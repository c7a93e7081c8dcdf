"""Kind `template`."""

import pytest

from tests.runs.kinds.support import done, operation_of, told, value
from tract_jupyter.runs.kinds import TemplateKind

KIND = TemplateKind()


def test_its_value_is_the_rendered_text():
    """E21, R50: the text becomes the artifact; nobody is asked."""
    params = {"template": "<{{ lastUserMessage }}>"}
    result = done(KIND, operation_of("template", params, debug={"enabled": True}))
    assert value(result) == "<hello>"
    assert result.debug["rendered"] == "<hello>"


def test_it_writes_nothing_if_it_has_no_artifact():
    assert done(KIND, operation_of("template", {"template": "x"}, artifact=None)).effects == ()


@pytest.mark.parametrize(("params", "code"), [
    ({"template": "{{ nope }}", "strictVariables": True}, "template_render_error"),
    ({"template": "{{ nope"}, "template_render_error"),
    ({"template": "{% for i in (1..999999999) %}{% endfor %}"}, "template_render_error"),
    ({}, "validation_error"),
    ({"template": 3}, "validation_error"),
    ({"template": "x", "shell": "rm"}, "validation_error"),
])  # fmt: skip
def test_what_is_wrong_has_a_code(params, code):
    """E21, R55: a missing variable, a syntax error and wrong parameters are told apart."""
    assert told(done(KIND, operation_of("template", params))) == code


def test_it_is_checked_before_it_is_saved():
    """E21, R27: wrong parameters and syntax errors are found without running anything."""

    def rules(params):
        return [rule for rule, _ in KIND.check(operation_of("template", params))]

    assert rules({"template": "{{ nope }}"}) == []
    assert rules({"template": "{{ nope"}) == ["template_syntax"]
    assert rules({}) == ["template_required"]
    assert rules({"template": "x", "more": 1}) == ["unknown_field"]
