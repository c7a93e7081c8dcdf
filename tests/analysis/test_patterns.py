"""Every pattern of the analysis takes linear time, even on the worst text found for it.

``re`` does not count steps, so the tests measure the CPU time of this thread. If a text becomes eight times
as long, linear time grows by 8 and quadratic time by 64. The limit allows noise of a factor of four.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections import defaultdict, deque
from pathlib import Path

import pytest

from tests.analysis.helpers import analyze
from tract_jupyter import analysis

SHORT, LONG = 500, 4000
HARMLESS = 0.02  # seconds of CPU for the longer text
SIGNS = [*" \n\tA'\"()[]{}<>%!?/;,=.\\0@-*$:|&~^+#_", "\ue000"]
PREFIXES = ("", "a", "x = ", "%a", "<a ", "'")


def patterns():
    """Each pattern by module and name, with the methods that the package calls on it."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(analysis.__path__, f"{analysis.__name__}.")
    ]
    source = "\n".join(Path(module.__file__).read_text(encoding="utf-8") for module in modules)
    used = defaultdict(set)
    for name, method in re.findall(r"\b(\w+)(?=(?:\[[^\]]*\])?\.(\w+))", source):
        used[name].add(method)
    for module in modules:
        for name, value in vars(module).items():
            known = value.items() if isinstance(value, dict) else [("", value)]
            for key, pattern in known:
                if isinstance(pattern, re.Pattern):
                    yield f"{module.__name__.partition('analysis.')[2]}.{name}{key}", (pattern, used[name])


def seconds(pattern, method, text):
    began = time.thread_time()
    found = pattern.sub("", text) if method == "sub" else getattr(pattern, method)(text)
    if method == "finditer":
        deque(found, 0)
    return time.thread_time() - began


def worst_texts(pattern, methods):
    """The slowest combinations (method, prefix, repeated unit) for a short text, slowest first."""
    words = sorted(set(re.findall(r"[A-Za-z_]{2,}", pattern.pattern)))[:80]
    units = [*SIGNS, *words, *(word + sign for word in words for sign in " (=")]
    units += [left + right for left in SIGNS for right in SIGNS]
    prefixes = [*PREFIXES, *(f"{word} " for word in words)]
    tried = [(prefix, unit) for unit in units for prefix in (prefixes if len(unit) == 1 else PREFIXES[:1])]
    tried += [
        ("delete from ", "a"),
        ("update a set ", "a"),
        ("", "create function "),
        ("", "delete from a; "),
    ]
    timed = {
        (method, prefix, unit): seconds(pattern, method, prefix + unit * (SHORT // len(unit)) + "\0")
        for method in methods
        for prefix, unit in tried
    }
    return sorted(timed, key=timed.__getitem__, reverse=True)[:5]


PATTERNS = dict(patterns())


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "methods"), PATTERNS.values(), ids=PATTERNS.keys())
@pytest.mark.timeout(120)
def test_the_worst_text_of_each_pattern(pattern, methods):
    methods = methods & {"search", "match", "fullmatch", "finditer", "findall", "sub", "split"}
    assert methods, "nothing uses this pattern"
    for method, prefix, unit in worst_texts(pattern, methods):

        def least(size, method=method, prefix=prefix, unit=unit):
            text = prefix + unit * (size // len(unit)) + "\0"
            return min(seconds(pattern, method, text) for _ in range(3))

        assert (taken := least(LONG)) < HARMLESS or taken < 32 * least(SHORT), (method, prefix, unit)


TEXTS = {
    "line ends": "\n" * 4000,
    "spaces": "attach" + " " * 4000,
    "a name": "delete from " + "a" * 4000,
    "functions": "create function " * 250,
    "sources": "src " * 1000,
    "links": "<a " * 1300,
    "brackets": "([" * 2000,
    "formats": "%0" * 2000,
    "statements": "drop table x;" * 300,
}
CALLS = [
    "c.execute(t)", "f.write(t)", "df.query(t)", "HTML(t)", "re.compile(t)", "t.format(x)", "os.environ[t]", "open(t)",
    "x.run(t)", "f(path=t)", "y = t % z", "y = t.replace('a', t)", "%timeit c.execute(t)",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.timeout(60)
def test_a_text_is_searched_once_however_often_it_is_used(text, call):
    code = f"import re, os\nt = {text!r}\n"
    found = analyze(code + f"{call}\n" * ((20_000 - len(code)) // len(call)))
    assert "TJ903" not in {finding.code for finding in found.findings}


CHAINS = {
    "calls": ("x" + ".a(b)" * 80 + "\n") * 45,
    "aliases": "a0 = os\n" + "\n".join(f"a{i} = a{i - 1}" for i in range(1, 1500)) + "\na9.system('x')",
    "one alias": "a = os\n" + "a = a\n" * 3000,
    "nested lists": ("x = " + "[" * 90 + "]" * 90 + "\n") * 100,
    "an import": "import a" + ".b" * 9000,
    "a computed attribute": "getattr(x, 'a" + ".b" * 9000 + "')",
    "percent signs": "%" * 20_000,
    "shell lines": "!a\n" * 6000,
    "line ends": "\n" * 20_000 + "!",
    "tables": "\n".join(f"c.execute('create table a{i}'); c.execute('drop table a{i}')" for i in range(300)),
    "files": "\n".join(f"x = open('a{i}.csv').read(); open('a{i}.csv', 'w')" for i in range(350)),
    "formats": "x = '%s' * 2000 % ('a' * 4000)\ny = ('{}' * 2000).format('a' * 4000)\n" * 200,
    "environment": "".join(f"os.environ['{'aws ' * 20}{i}']\n" for i in range(200)),
}


@pytest.mark.parametrize("code", CHAINS.values(), ids=CHAINS.keys())
@pytest.mark.timeout(60)
def test_other_texts_of_20_kb(code):
    found = analyze(code).findings
    assert "TJ903" not in {finding.code for finding in found}
    assert sum(len(finding.text) + len(finding.reason) for finding in found) < 1_000_000


def test_the_reason_of_a_finding_is_limited_in_length():
    (finding,) = [
        f for f in analyze(f"import os\nsetattr(os, {'x' * 20_000!r}, y)").findings if f.level >= "high"
    ]
    assert len(finding.reason) <= 500


def test_the_clock_is_read_before_each_text(monkeypatch):
    code = "\n".join(f"c.execute('select {i}')" for i in range(10))
    assert analyze(code).findings == ()
    monkeypatch.setattr("tract_jupyter.analysis.limits.MAX_SECONDS", 0.0)
    clock = iter(range(10_000))
    monkeypatch.setattr("time.thread_time", lambda: next(clock) / 100)
    assert {finding.code for finding in analyze(code).findings} == {"TJ903"}
