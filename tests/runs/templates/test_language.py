"""The language of templates: outputs, tags, filters; and what is said of what cannot be read."""

import pytest

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates import parse

DATA = {"name": "Ann", "n": 3, "list": [3, 1, 2], "yes": True, "no": False, "nil": None,
        "people": [{"name": "b", "age": 2}, {"name": "a", "age": 1}, {"name": "B"}], "map": {"a": 1, "b": "x"}}  # fmt: skip


def rendered(source, **options):
    return parse(source).render(DATA, **options)


@pytest.mark.parametrize(("source", "text"), [
    ("no markup at all", "no markup at all"),
    ("", ""),
    ("{ {{ name }} } %}", "{ Ann } %}"),
    ("{{ yes }}/{{ no }}/{{ nil }}/{{ n }}/{{ 1.5 }}", "true/false//3/1.5"),
    ("{{ list }} {{ map }} {{ people[0] }}", '312 {"a":1,"b":"x"} {"name":"b","age":2}'),
    ("{{ list.size }}{{ list.first }}{{ list.last }}{{ list[1] }}{{ list[-1] }}{{ name.size }}{{ map.size }}", "3321232"[:4] + "2" + "32"),
    ('{{ map["a"] }}{{ people[0].name }}{{ map[people[1].name] }}', "1b1"),
    ("{{ 'single' }} {{ \"double\" }}", "single double"),
    ("{{ n == 3 }} {{ n != 3 }} {{ n > 1 and n <= 3 }} {{ not yes or n < 9 }}", "true false true true"),
    ("{{ nope.deep[3] }}|{{ list[9] }}|{{ name.first }}", "||"),
    ("{{ yes == 1 }}{{ n == '3' }}{{ nil == nope }}{{ '' == empty }}{{ ' ' == blank }}{{ list == empty }}", "falsefalsetruetruetruefalse"),
])  # fmt: skip
def test_outputs(source, text):
    """E21: plain text passes unchanged, values are written as they are in JSON, and what is missing is empty."""
    assert rendered(source) == text


@pytest.mark.parametrize(("source", "text"), [
    ("{% if n > 2 %}a{% elsif yes %}b{% else %}c{% endif %}", "a"),
    ("{% if no %}a{% elsif nope %}b{% else %}c{% endif %}", "c"),
    ("{% if '' %}empty text is true{% endif %}", "empty text is true"),
    ("{% unless no %}a{% else %}b{% endunless %}{% unless yes %}a{% elsif n == 3 %}c{% endunless %}", "ac"),
    ("{% if list contains 2 %}x{% endif %}{% if name contains 'nn' %}y{% endif %}{% if map contains 'a' %}z{% endif %}", "xyz"),
    ("{% case n %}{% when 1, 2 %}a{% when 3 or 4 %}b{% else %}c{% endcase %}", "b"),
    ("{% case name %} {% when 'x' %}a{% else %}c{% endcase %}", "c"),
    ("{% for x in list %}{{ x }}{% unless forloop.last %},{% endunless %}{% endfor %}", "3,1,2"),
    ("{% for x in list reversed limit: 2 offset: 1 %}{{ forloop.index }}{{ x }} {% endfor %}", "12 21 "),
    ("{% for x in nope %}a{% else %}none{% endfor %}", "none"),
    ("{% for i in (1..5) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "13"),
    ("{% for p in map %}{{ p[0] }}={{ p[1] }};{% endfor %}", "a=1;b=x;"),
    ("{% for a in (1..2) %}{% for b in (a..2) %}{{ a }}{{ b }} {% endfor %}{% endfor %}", "11 12 22 "),
    ("{% for i in (3..1) %}x{% endfor %}", ""),
    ("{% assign x = list | sort | join: '-' %}{{ x }}", "1-2-3"),
    ("{% capture x %}<{{ name }}>{% endcapture %}{{ x }}{{ x }}", "<Ann><Ann>"),
    ("{% increment i %}{% increment i %}{% decrement j %}", "01-1"),
    ("{% for i in (1..3) %}{% cycle 'a', 'b' %}{% endfor %}", "aba"),
    ("{% echo name | upcase %}{% # a note %}", "ANN"),
    ("a {%- if yes -%} b {%- endif -%} c {{- name -}} d", "abcAnnd"),
    ("{% raw %}{{ name }} {% if %}{% endraw %}", "{{ name }} {% if %}"),
    ("a{% comment %}{{ name | nothing }} {% if %}{% endcomment %}b", "ab"),
    ("{% for x in list %}{% assign last = x %}{% endfor %}{{ last }}{{ x }}", "2"),
])  # fmt: skip
def test_tags(source, text):
    """E21: the tags do what Liquid's do."""
    assert rendered(source) == text


@pytest.mark.parametrize(("source", "text"), [
    ("name | append: '!' | prepend: '<'", "<Ann!"),
    ("'a b' | capitalize | replace: 'b', 'c' | remove: ' '", "Ac"),
    ("'a-b-a' | replace_first: 'a', 'x' | replace_last: 'a', 'y' | upcase | downcase", "x-b-y"),
    ("' x ' | strip | append: '|'", "x|"),
    ("'a,b' | split: ',' | reverse | join: '+'", "b+a"),
    ("'abc' | split: '' | join: '.'", "a.b.c"),
    ("'abcdef' | truncate: 5", "ab..."),
    ("'one two three' | truncatewords: 2", "one two..."),
    ("'abcdef' | slice: 1, 3", "bcd"),
    ("'abcdef' | slice: -2, 9", "ef"),
    ("list | first", "3"),
    ("list | last", "2"),
    ("list | concat: list | uniq | size", "3"),
    ("people | map: 'name' | sort | join", "B a b"),
    ("people | sort_natural: 'name' | map: 'name' | join", "a b B"),
    ("people | where: 'age', 1 | map: 'name' | join", "a"),
    ("people | where: 'age' | size", "2"),
    ("people | reject: 'age' | size", "1"),
    ("people | map: 'age' | compact | sum", "3"),
    ("nope | default: 'd'", "d"),
    ("no | default: 'd', allow_false: true", "false"),
    ("map | json", '{"a":1,"b":"x"}'),
    ("'<&>' | escape", "&lt;&amp;&gt;"),
    ("'a b' | url_encode | url_decode", "a b"),
    ("7 | divided_by: 2", "3"),
    ("7 | divided_by: 2.0 | times: 2 | minus: 1 | plus: 3", "9.0"),
    ("7 | modulo: 4 | at_least: 5 | at_most: 4", "4"),
    ("1.26 | round: 1", "1.3"),
    ("1.5 | ceil", "2"),
    ("'-1.5' | abs | floor", "1"),
    ("'2026-01-02T03:04:05+01:00' | date: '%d.%m.%Y %H:%M'", "02.01.2026 03:04"),
    ("'now' | date: '%Y'", "1999"),
    ("86400 | date", "1970-01-02"),
    ("'soon' | date: '%Y'", "soon"),
])  # fmt: skip
def test_filters(source, text):
    """E21: the filters do what Liquid's do; `now` is the run's clock."""
    assert rendered("{{ " + source + " }}", now="1999-12-31T00:00:00Z") == text


@pytest.mark.parametrize(("source", "line", "told"), [
    ("a\n{{ name", 2, "'{{' is never closed"),
    ("a\nb {% if yes %}\n", 2, "'if' is never closed by 'endif'"),
    ("{% if yes %}\n{% endfor %}", 1, "'endfor' in line 2"),
    ("\n\n{% endif %}", 3, "'endif'"),
    ("{% include 'x' %}", 1, "there is no tag 'include'"),
    ("{% render 'x' %}", 1, "there is no tag 'render'"),
    ("x\n{{ name | shout }}", 2, "there is no filter 'shout'"),
    ("{{ }}", 1, "a value should come"),
    ("{{ a b }}", 1, "'b' does not belong here"),
    ("{{ 'a }}", 1, "cannot be read"),
    ("{{ a[1 }}", 1, "']' should come"),
    ("{{ a. }}", 1, "a name should come"),
    ("{% %}", 1, "no name"),
    ("{% raw %}\n", 1, "'raw' is never closed"),
    ("{% for in list %}{% endfor %}", 1, "'in' should come"),
    ("{% assign = 3 %}", 1, "a name should come"),
    ("{{ " + "9" * 40 + " }}", 1, "is too long"),
    ("{{ " + "a[" * 99 + "]" * 99 + " }}", 1, "within each other"),
    ("{% if a %}" * 99, 1, "within each other"),
    ("{{ a }}" * 99_999, None, "may have"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_line(source, line, told):
    """E21: a syntax error names its line."""
    with pytest.raises(TemplateError) as caught:
        parse(source)
    assert caught.value.line == line
    assert told in str(caught.value)


@pytest.mark.parametrize(("source", "told"), [
    ("{{ nope }}", "'nope'"),
    ("{{ map.c }}", "'map.c'"),
    ("{{ list[7] }}", "'list.7'"),
    ("{% if nope %}{% endif %}", "'nope'"),
    ("{% for x in nope %}{% endfor %}", "'nope'"),
    ("{{ nope | default: 'd' }}", "'nope'"),
])  # fmt: skip
def test_strict_variables(source, told):
    """E21: what is missing is an error if variables are strict, and empty otherwise."""
    rendered(source)
    with pytest.raises(TemplateError, match="line 2: there is no") as caught:
        rendered("\n" + source, strict=True)
    assert told in str(caught.value)


@pytest.mark.parametrize("source", [
    "{{ name | times: 2 }}", "{{ name | plus }}", "{{ 1 | divided_by: 0 }}", "{{ name | append: 'a', 'b', 'c' }}",
    "{{ n | nope: 1 }}", "{{ list | where }}", "{{ name > 3 }}", "{% for i in ('a'..3) %}{% endfor %}",
    "{{ 'x' | date: '%9999999999d' }}", "{{ f(1) }}", "{{ 3 | round: 'x' }}", "{{ name | default: 1, size: 2 }}",
])  # fmt: skip
def test_what_cannot_be_done_is_a_template_error(source):
    with pytest.raises(TemplateError, match="line 1: "):
        rendered(source)


def test_nothing_of_python_can_be_reached():
    for path in (
        "name.__class__",
        "name['__class__']",
        "map.keys",
        "list.append",
        "f.__globals__",
        "map.__class__.__mro__",
    ):
        assert rendered("{{ " + path + " }}") == ""


def test_functions_are_called_by_name():
    template = parse(
        "{{ add(1, n)[0].sum }}{% for x in add(2, 2) %}{{ x.sum }}{% endfor %}{{ 'add(1, 2)' }} add(1, 2)"
    )
    text = template.render(DATA, {"add": lambda one, other: [{"sum": one + other}]})
    assert text == "44add(1, 2) add(1, 2)"


def test_what_is_random_is_drawn_from_the_seed():
    """X10: no generator without a seed; the same seed gives the same text."""
    template = parse("{% for i in (1..20) %}{{ list | pick }}{% endfor %}")
    texts = [template.render(DATA, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
