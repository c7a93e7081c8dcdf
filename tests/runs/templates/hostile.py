"""Templates and data that need a lot of work, and end at a limit."""

BIG = "x" * 1_000_000
DATA = {"a": "a", "big": BIG, "list": list(range(1_000)), "maps": [{"a": place} for place in range(1_000)]}
TEMPLATES = [
    "{% for i in (1..9000) %}{% case 1 %}{% when 2" + ",2" * 45_000 + "%}{% endcase %}{% endfor %}",
    "{% for i in (1..9000) %}{% cycle 1" + ",1" * 45_000 + "%}{% endfor %}",
    "{% for i in (1..9000) %}{% if false %}" + "{% elsif false %}" * 5_000 + "{% endif %}{% endfor %}",
    "{% for i in (1..9000) %}{% if 1 %}" + "{% if 1 %}{% endif %}" * 4_500 + "{% endif %}{% endfor %}",
    "{% for i in (1..9000) %}" + "{{ a.b.c }}" * 9_000 + "{% endfor %}",
    "{% for i in (1..900) %}x{% endfor %}" * 2_700,
    "{% assign n = 99 %}" + "{% assign n = n | times: n %}" * 3_000,
    "{% for i in (1..9000) %}{% if maps == maps %}{% endif %}{% endfor %}",
    "{% assign list = big | split: '' %}{% for i in (1..9000) %}{% assign m = list | sort %}{% endfor %}",
    "{% assign list = '1,2,3' | split: ',' %}" + "{% assign list = list | concat: list %}" * 2_500,
    "{% assign list = list | concat: maps %}" * 2_500,
    "{% assign a = a | append: 'xxxxxxxxxx' %}" * 2_400,
    "{{ a" + " | upcase" * 11_000 + " }}",
    "{{ '" + "%41" * 33_000 + "' | url_decode }}",
    "{{ '" + "1 " * 49_000 + "' | date: '%Y' }}",
    "{{ 'now' | date: '" + "%c" * 49_000 + "' }}",
    "{{ a" + "['x" * 33_000 + " }}",
    "{% if " + "(" * 99_000 + "%}{% endif %}",
    "{{ a" + " " * 99_000 + " }}",
    ("{{ a" + " " * 1_900 + "x }}") * 52,
    "\n" * 99_000 + "{{ a | nope }}",
]  # fmt: skip

NUMBERS = list(range(60_000))
FILTERS = [
    ("escape_once", "<" * 900_000), ("escape_once", "&" * 900_000), ("strip_html", "<" * 900_000), ("url_encode", "\u00e9" * 900_000),
    ("url_decode", "%41" * 300_000), ("date: '%c%c%c%+%x%r'", "March 14, 2016 9:30 pm"), ("times: 7", 1.5e300), ("uniq", NUMBERS),
    ("sum", [place / 10 for place in NUMBERS]), ("sort_natural", [str(place) for place in NUMBERS]), ("concat: value", NUMBERS),
    ("join: ', '", [{"a": place} for place in range(12_000)]), ("where: 'a', 1", [{"a": place} for place in range(12_000)]),
]  # fmt: skip


def in_a_loop(filters: str) -> str:
    """Return a template that applies filters to `value` 60,000 times."""
    return f"{{% for i in (1..60000) %}}{{% assign made = value | {filters} %}}{{% endfor %}}"
