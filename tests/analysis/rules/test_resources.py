"""What takes all memory or time, and what only looks so."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import found

TAKES_MEMORY = [
    "x = 9**9**9", "x = 10**(10**7)", "n = 10**9\nx = 2**n", "x = 1 << 10**8", "x = list(range(10**11))",
    "x = 'a' * 10**10", "x = [0] * 10**9", "x = bytes(10**10)", "import numpy as np\nnp.zeros((10**6, 10**6))",
    "import math\nmath.factorial(10**8)", "sum(range(10**12))", "for i in range(10**12):\n    print(i)",
    "[i for i in range(10**11)]", "import itertools\nlist(itertools.product('ab', repeat=60))",
    "import numpy as np\nnp.arange(10**11)", "x = set(range(int(1e11)))",
]  # fmt: skip
NEVER_ENDS = [
    "while True:\n    pass", "while 1:\n    x += 1", "for _ in iter(int, 1):\n    pass",
    "import itertools\nsum(itertools.repeat(1))", "import itertools\nfor x in itertools.count():\n    print(x)",
    "import itertools\nlist(map(str, itertools.count()))", "import itertools\n[x for x in itertools.cycle('ab')]",
    "while True:\n    for x in y:\n        break", "while True:\n    def f():\n        return 1",
    "names = [1]\nfor name in names:\n    names.append(name)", "import itertools\nc = itertools.count()\nlist(c)",
]  # fmt: skip
WAITS_FOREVER = [
    "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()", "import time\ntime.sleep(10**6)",
    "import threading\ne = threading.Event()\ne.wait()", "import queue\nq = queue.Queue()\nq.get()",
]  # fmt: skip
MATCHES_FOREVER = [
    r"import re\nre.match(r'(a+)+$', x)", r"import re\nre.compile(r'^(\w+\s?)*$')", r"import re\nre.search('(a|a)*b', x)",
    r"import re\nre.sub(r'([a-z]*)*!', '', x)",
]  # fmt: skip
QUIET = [
    "x = 2**64", "x = 10**9", "x = [0] * 1000", "list(range(1000))", "x = '-' * 80", "m ** 2", "2.0 ** x",
    "for i in range(10**12):\n    if f(i):\n        break", "range(10**12)", "import numpy as np\nnp.zeros((1000, 1000))",
    "while True:\n    if f():\n        break", "def g():\n    while True:\n        yield 1",
    "def f():\n    while True:\n        return 1", "while True:\n    x = next(it)", "while x:\n    pass",
    "import itertools\nfor i, x in zip(itertools.count(), 'ab'):\n    print(i)",
    "import itertools\nlist(itertools.islice(itertools.count(), 3))", "for x in iter(file.read, ''):\n    print(x)",
    "for row in rows:\n    out.append(row)", "import time\ntime.sleep(1)",
    "import threading\nl = threading.Lock()\nl.acquire()\nl.release()\nl.acquire()",
    "import threading\ne = threading.Event()\nstart(e)\ne.wait()", "import threading\ne = threading.Event()\ne.wait(1)",
    "import queue\nq = queue.Queue()\nq.put(1)\nq.get()", "def f():\n    return f()\nf()",
    r"import re\nre.match(r'(\d+)-(\d+)', x); re.compile(r'(a+b)*')", "re.split('(,+)', x)",
]  # fmt: skip


def cases():
    for rule, snippets in {
        "TJ701": TAKES_MEMORY, "TJ702": NEVER_ENDS, "TJ703": WAITS_FOREVER, "TJ704": MATCHES_FOREVER,
    }.items():  # fmt: skip
        yield from ((rule, snippet.replace("\\n", "\n")) for snippet in snippets)


@pytest.mark.parametrize(("rule", "code"), list(cases()))
def test_reported(rule, code):
    assert {(rule, "medium"), (rule, "high")} & found(code)


@pytest.mark.parametrize("code", [snippet.replace("\\n", "\n") for snippet in QUIET])
def test_quiet(code):
    assert found(code) == set()
