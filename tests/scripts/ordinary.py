"""Scripts as a model writes them: each runs, and its last expression has the value next to it.

The tools are from `tests.scripts.conftest.shop`. Many would be refused by a check that infers types.
"""

from __future__ import annotations

ORDINARY = [
    # values that may be missing
    ("row = tools.rows()[0]\ntools.put(text=row.get('name'))", "put ada"),
    ("tools.put(text=tools.find(q='a'))", "put apple"),
    ("found = tools.find(q='a')\nif found:\n    tools.put(text=found)\nfound", "apple"),
    ("text = tools.find(q='zzz') or 'nothing'\ntools.put(text=text)", "put nothing"),
    ("names = {r['id']: r.get('name') for r in tools.rows()}\ntools.put(text=names[1])", "put ada"),
    ("best = None\nfor row in tools.rows():\n    best = row['name']\ntools.put(text=best)", "put bob"),
    (
        "best = None\nfor r in tools.rows():\n    if best is None or r['n'] > best['n']:\n        best = r\nbest['name']",
        "ada",
    ),
    ("best = None\ndef note(x):\n    global best\n    best = x\nnote('x')\ntools.put(text=best)", "put x"),
    ("state = {'last': None}\nstate['last'] = 'x'\ntools.put(text=state['last'])", "put x"),
    ("texts = [None]\ntexts[0] = 'x'\ntools.put(text=texts[0])", "put x"),
    ("import re\nm = re.search(r'\\w+', ' ab ')\ntools.put(text=m.group())", "put ab"),
    (
        "found = [r.get('name') for r in tools.rows() if r['n'] > 1]\ntools.put(text=found[0] if found else None)",
        "put ada",
    ),
    # mixed values
    ("row = {'q': 'a', 'n': 1}\ntools.put(text=row['q'], n=row['n'])", "put a"),
    (
        "rows = [{'q': 'a', 'n': 1}, {'q': 'b', 'n': 2}]\n[tools.put(text=r['q'], n=r['n']) for r in rows]",
        ["put a", "put b"],
    ),
    ("row = {'text': 'a', 'n': 1}\ntools.put(**row)", "put a"),
    ("args = ['a', 1]\ntools.put(*args)", "put a"),
    ("for text, n in [('a', 1), ('b', 2)]:\n    done = tools.put(text=text, n=n)\ndone", "put b"),
    ("for args in [{'text': 'a'}, {'text': 'b', 'n': 2}]:\n    done = tools.put(**args)\ndone", "put b"),
    ("value = '7'\nvalue = int(value)\ntools.put(text='a', n=value)", "put a"),
    (
        "import json\ndata = json.loads('{\"t\": \"a\", \"n\": 2}')\ntools.put(text=data['t'], n=data['n'])",
        "put a",
    ),
    ("pair = ('a', 1)\ntools.put(pair[0], pair[1])", "put a"),
    ("tools.put(text='a' if tools.rows() else None)", "put a"),
    (
        "rows = tools.rows()\nrows.append({'name': 'eve', 'n': 0, 'id': 3})\ntools.put(text=rows[-1]['name'])",
        "put eve",
    ),
    ("tools.save(rows=[{'q': 'a', 'n': 1}])", 1),
    ("rows = []\nfor i in range(2):\n    rows.append({'q': str(i), 'n': i})\ntools.save(rows=rows)", 2),
    ("tools.scale(x=2)", 4.0),
    ("tools.scale(x=sum(r['n'] for r in tools.rows()))", 6.0),
    ("tools.put(text=str(len(tools.rows())))", "put 2"),
    ("tools.put(text=f'{tools.scale(x=1):.1f}')", "put 2.0"),
    # errors that the script handles
    (
        "try:\n    tools.add(a='x')\nexcept ToolExecutionError as error:\n    print(error)\n'went on'",
        "went on",
    ),
    ("try:\n    tools.put(txt='x')\nexcept Exception as error:\n    said = 'txt' in str(error)\nsaid", True),
    (
        "try:\n    done = tools.put(text=5)\nexcept ToolExecutionError:\n    done = tools.put(text='5')\ndone",
        "put 5",
    ),
    ("try:\n    tools.nope()\nexcept AttributeError as error:\n    said = str(error)\n'nope' in said", True),
    ("try:\n    import numpy as np\nexcept ImportError:\n    np = None\nnp is None", True),
    ("try:\n    cache\nexcept NameError:\n    cache = {}\ncache", {}),
    (
        "def safe(**args):\n    try:\n        return tools.add(**args)\n    except ToolExecutionError:\n        return None\nsafe(a='x')",
        None,
    ),
    (
        "def add(a):\n    return tools.add(a=a)\ntry:\n    add('x')\nexcept ToolExecutionError:\n    ok = True\nok",
        True,
    ),
    ("tools.put(text=5) if False else 'skipped'", "skipped"),
    ("debug = False\nif debug:\n    tools.dump_all()\ndebug", False),
    ("False and tools.nope()", False),
    (
        "for r in tools.rows():\n    if r['n'] > 0:\n        break\n    tools.put(text=r['n'])\nr['name']",
        "ada",
    ),
    # shapes of code
    ("from tools import put, find as look\nput(look(q='a'))", "put apple"),
    ("import tools as t\nt.put(text='a')", "put a"),
    ("def later():\n    return helper(2)\ndef helper(n):\n    return tools.scale(x=n)\nlater()", 4.0),
    ("put = tools.put\nput(text='a')", "put a"),
    ("call = {'put': tools.put}['put']\ncall(text='a')", "put a"),
    (
        "match tools.rows():\n    case [first, *rest]:\n        done = (first['name'], len(rest))\ndone",
        ("ada", 1),
    ),
    ("total = 0\nwhile total < 3:\n    total += 1\nelse:\n    done = tools.scale(x=total)\ndone", 6.0),
    ("(n := tools.scale(x=1)) and n", 2.0),
    ("sorted(tools.rows(), key=lambda r: r['n'])[0]['name']", "bob"),
    ("x: Unknown = 1\nx", 1),
    ("exec('made = 3')\nmade", 3),
    ("async def go():\n    return tools.scale(x=1)\nawait go()", 2.0),
]
"""Pairs of a script and the value of its last expression."""
