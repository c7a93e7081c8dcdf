"""Hostile data: the reader refuses it with one error class, and executes and imports nothing."""

from __future__ import annotations

import collections
import datetime as dt
import json
import random
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.rehearsal.copies import frames_of
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Baseline, Decoder, Encoder, find_effects

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")


def table(*nodes, root=(0,), first=0):
    return json.dumps({"first": first, "nodes": list(nodes), "root": list(root)}).encode()


HOSTILE = {
    "empty": [], "no JSON": [b"\x80\x04."], "a pickle": [b"cos\nsystem\n(S'id'\ntR."], "no table": [b"[]"], "deep": [b"[" * 100_000], "huge number": [b"1" * 10_000],
    "unknown tag": [table(["builtins.eval", [], "1"])], "unknown library": [table(["os.system", [], "id"])], "a tag of a module": [table(["np.__import__", []])],
    "a missing node": [table(["list", [[7]]])], "a negative node": [table(["list", [[-1]]])], "a cycle of tuples": [table(["tuple", [[0]]])],
    "a dict as part": [table(["list", [{}]])], "odd keys": [table(["dict", [1]])], "an unhashable key": [table(["dict", [[1], 2]], ["list", []])],
    "a buffer that is missing": [table(["bytes", [], 5])], "a buffer as text": [table(["bytes", [], "0"])], "a known name": [table(["known", [], "__builtins__"])],
    "wrong first": [table(["list", []], first=3)], "a huge array": [table(["np.array", [], "<f8", [2**40], "C", True, 1]), b""],
    "a negative shape": [table(["np.array", [], "<f8", [-1], "C", True, 1]), b""], "objects": [table(["np.array", [], "|O", [1], "C", True, 1]), b"\0" * 8],
    "a dtype as code": [table(["np.array", [], "<f8,__import__('os')", [1], "C", True, 1]), b"\0" * 8],
    "a false truth value": [table(["np.array", [], "|b1", [1], "C", True, 1]), b"\x07"],
    "an impossible character": [table(["np.array", [], "<U1", [1], "C", True, 1]), b"\xff" * 4],
    "overlapping objects": [table(["np.array", [], {"names": ["a"], "formats": ["|O"], "offsets": [0], "itemsize": 8}, [1], "C", True, 1]), b"\0" * 8],
    "a view outside": [table(["np.view", [[1]], "<f8", [100], [8], 0, True], ["np.array", [], "<f8", [1], "C", True, 1]), b"\0" * 8],
    "a view before": [table(["np.view", [[1]], "<f8", [1], [8], -8, True], ["np.array", [], "<f8", [1], "C", True, 1]), b"\0" * 8],
    "a twister beyond its state": [table(["np.generator", [*[1] * 624, 10**6, 0, 0], "MT19937"])],
    "a time zone as path": [table(["ZoneInfo", [], "../../etc/passwd"])], "a module as time zone": [table(["ZoneInfo", [], "Europe.Berlin"])],
    "codes beyond the categories": [
        table(["pd.categorical", [[1], [2]], False], ["np.array", [], "|i1", [1], "C", True, 1], ["pd.index", [[3], None], None], ["np.array", [], "|i1", [1], "C", True, 2]),
        b"\x09", b"\x01",
    ],
    "a frame of lists": [table(["pd.frame", [[1], [1], [1]], True], ["list", []])],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_refused(name):
    with pytest.raises(RehearsalError, match="cannot be read"):
        Decoder().decode(HOSTILE[name])


def test_keys_with_equal_hashes_are_refused():
    keys = [["int", [], hex(number * (2**61 - 1) + 2**63)] for number in range(3_000)]
    equal = [node for node in keys if hash(int(node[2], 16)) == hash(int(keys[0][2], 16))]
    assert len(equal) > 1_000
    with pytest.raises(RehearsalError, match="equal hashes"):
        Decoder().decode([table(["set", [[number + 1] for number in range(len(equal))]], *equal)])


def shared(depth, tag="tuple"):
    """Return the nodes of a value with `2 ** depth` parts."""
    return [*([tag, [[number + 1], [number + 1]]] for number in range(1, depth)), [tag, [1, 2]]]


def test_large_keys_are_refused_before_they_are_hashed():
    for nodes in (
        [["set", [[1]]], *shared(40)],
        [["dict", [[1], 1]], *shared(40)],
        [["frozenset", [[1]]], *shared(40)],
        [["set", [[1]]], ["tuple", list(range(10_000))]],
        [["pd.index", [[41], [1]], None], *shared(40), ["np.objects", [], [0], True]],
        [["pd.index", [[41], None], None], *shared(40), ["np.objects", [[1]], [1], True]],
        [["pd.range", [[1]], 0, 1, 1], *shared(40)],
    ):
        with pytest.raises(RehearsalError, match="a large key"):
            Decoder().decode([table(*nodes)])
    keys = [["dict", [[2], 1]] for _ in range(2_000)]
    many = [
        ["list", [[number + 3] for number in range(2_000)]],
        ["list", []],
        ["tuple", list(range(9_000))],
        *keys,
    ]
    with pytest.raises(RehearsalError, match="too long to hash"):
        Decoder().decode([table(*many)])


def test_keys_that_share_parts_are_read():
    part = (1, 2, 3)
    value = {(part, number): {(part, part)} for number in range(2_000)}
    assert Decoder().decode([bytes(one) for one in Encoder().encode(value)]) == value


def test_equal_keys_in_many_dicts_are_refused():
    keys = [["int", [], hex(number * (2**61 - 1) + 2**63)] for number in range(7_000)]
    equal = [node for node in keys if hash(int(node[2], 16)) == hash(int(keys[0][2], 16))][:900]
    sets = [["set", [[number + 1] for number in range(len(equal))]] for _ in range(40)]
    root = ["list", [[len(equal) + 1 + number] for number in range(len(sets))]]
    with pytest.raises(RehearsalError, match="too long to hash"):
        Decoder().decode([table(root, *equal, *sets)])


def test_a_pattern_is_not_compiled():
    with pytest.raises(RehearsalError, match="unknown tag 'Pattern'"):
        Decoder().decode([table(["Pattern", [], "a", 0])])


class Loud:
    def __hash__(self):
        raise AssertionError("it was hashed")


def test_a_known_object_is_not_hashed():
    for form in (
        table(["set", [[1]]], ["known", [], "loud"]),
        table(["set", [[1]]], ["tuple", [[2]]], ["known", [], "loud"]),
    ):
        with pytest.raises(RehearsalError, match="a key"):
            Decoder({"loud": Loud()}).decode([form])


def test_arrow_buffers_are_checked():
    pytest.importorskip("pyarrow")

    def column(kind, length, *buffers, offset=0):
        numbers = [None if buffer is None else number for number, buffer in enumerate(buffers, 1)]
        form = [kind, [{"length": length, "offset": offset, "buffers": numbers}]]
        return [table(["pa.chunked", [], form]), *(buffer or b"" for buffer in buffers)]

    assert Decoder().decode(column("int64", 1, None, b"\x05" + b"\0" * 7)).to_pylist() == [5]
    offsets = np.array([0, 100], "<i4").tobytes()
    for bad in (
        column("int64", 2**40, None, b"\0" * 8), column("int64", 1, None, b"\0" * 8, offset=2**40), column("int64", 1, None, None),
        column("string", 1, None, offsets, b"abc"), column("string", 1, None, np.array([-5, 1], "<i4").tobytes(), b"abc"),
        column("string", 1, None, np.array([0, 1], "<i4").tobytes(), b"\xff"), column("int64", 8, b"", b"\0" * 64),
        column(["extension", "x"], 1, None, b"\0" * 8), column(["dictionary", "string", "string", False], 1, None, b"\0" * 8),
    ):  # fmt: skip
        with pytest.raises(RehearsalError):
            Decoder().decode(bad)


NAMESPACE_CODE = "\n".join(  # noqa: FLY002
    [
        "a = [1, {'x': (1, 2.5, None)}, b'bytes', {1, 'two'}]; a.append(a)",
        "b = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc); c = Decimal('1.5'); d = Fraction(1, 3); e = collections.Counter('abca'); f = 2**90",
        "g = np.arange(12).reshape(3, 4); h = g[1]; i = np.array([('a', 1.5)], dtype=[('n', 'U3'), ('v', 'f8')]); j = np.array([1, 'x', None], object)",
        "k = pd.DataFrame({'i': [1, 2], 's': ['a', None], 't': pd.date_range('2024', periods=2, tz='UTC'), 'n': pd.array([1, None], dtype='Int64')})",
        "l = k.set_index(['i', 's']); m = k.s.astype('category'); n = np.random.default_rng(3); o = pd.interval_range(0, 2); known = keep_me",
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def frames():
    return frames_of(
        NAMESPACE_CODE,
        {
            "np": np,
            "pd": pd,
            "dt": dt,
            "Decimal": Decimal,
            "Fraction": Fraction,
            "collections": collections,
            "keep_me": [1],
        },
    )


EVENTS = []
WATCHED = (
    "exec",
    "compile",
    "import",
    "os.",
    "subprocess.",
    "open",
    "socket.",
    "pickle.",
    "ctypes.",
    "shutil.",
    "marshal.",
)


@pytest.fixture
def audited():
    """Record the events of Python's audit hooks that show execution of code."""
    if not EVENTS:
        EVENTS.append(None)
        sys.addaudithook(
            lambda event, args: (
                EVENTS[0] is not None and event.startswith(WATCHED) and EVENTS[0].append((event, args))
            )
        )
    EVENTS[0] = []
    yield EVENTS[0]
    EVENTS[0] = None


POOL = [
    -1,
    0,
    1,
    2**31,
    2**70,
    1e308,
    "",
    "x",
    "|O",
    "<f8",
    "list",
    "tuple",
    "np.array",
    "pd.frame",
    "known",
    "\ud800",
    None,
    True,
    [],
    [0],
    [3],
    [[0]],
    {},
    {"names": []},
]


def mutated_json(value, rng):
    """Return JSON with one part replaced."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        action = rng.random()
        if action < 0.1:
            return value[:at] + value[at + 1 :]
        if action < 0.2:
            return [*value[:at], rng.choice(POOL), *value[at:]]
        return [*value[:at], mutated_json(value[at], rng), *value[at + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        return value | {key: mutated_json(value[key], rng)}
    return rng.choice(POOL)


def mutated(header, payload, rng):
    if rng.random() < 0.2:
        return mutated_json(header, rng), payload
    data = bytearray(payload)
    sizes = header.get("sizes")
    if sizes and rng.random() < 0.6:  # the table of nodes
        form = json.dumps(mutated_json(json.loads(data[: sizes[0]]), rng)).encode()
        return header | {"sizes": [len(form), *sizes[1:]]}, bytes(form + data[sizes[0] :])
    for _ in range(rng.randrange(1, 8)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return header, bytes(data)


@pytest.mark.slow
def test_mutated_reports_raise_one_class_and_run_nothing(frames, audited, tmp_path):
    rng = random.Random(7)
    baseline = Baseline.take(NAMESPACE_CODE, {"keep_me": [1]})
    find_effects(frames[1:], baseline, tmp_path)  # imports what it needs
    audited.clear()
    refused = 0
    for _ in range(800):
        changed = list(frames[1:])
        at = rng.randrange(len(changed))
        header, payload = mutated(*changed[at], rng)
        if isinstance(header, dict):
            changed[at] = (header, payload)
        try:
            find_effects(changed, baseline, tmp_path)
        except RehearsalError:
            refused += 1
    assert refused > 150
    zones = ("zoneinfo", "tzdata")
    unexpected = [
        event
        for event in audited
        if event[0] != "open" or not any(zone in str(event[1][0]) for zone in zones)
    ]
    assert not [event for event in unexpected if event[0] not in {"import", "os.listdir", "os.scandir"}], (
        unexpected[:3]
    )


def test_a_lie_about_a_variable_is_refused(tmp_path):
    baseline = Baseline.take("x = 1", {"x": 0, "other": 1})
    buffers = Encoder().encode(5)
    payload = b"".join(map(bytes, buffers))
    good = {"what": "variable", "name": "x", "action": "changed", "sizes": [len(payload)]}
    assert find_effects([(good, payload)], baseline, tmp_path).values == {"x": 5}
    for header in (
        good | {"name": "__builtins__"}, good | {"name": "get_ipython"}, good | {"name": "a b"}, good | {"name": 5}, good | {"name": "x" * 1_000},
        good | {"sizes": [3]}, good | {"sizes": [-1, len(payload) + 1]}, good | {"sizes": None}, good | {"what": "code"}, {},
        {"what": "variable", "name": "unknown", "action": "deleted"}, {"what": "setting", "kind": "sys.modules", "key": "os", "sizes": [len(payload)]},
        {"what": "setting", "kind": "os.environ", "key": "A=B", "sizes": [len(payload)]}, {"what": "digests", "digests": {"x": 0}},
    ):  # fmt: skip
        with pytest.raises(RehearsalError):
            find_effects([(header, payload)], baseline, tmp_path)
    with pytest.raises(RehearsalError, match="two effects"):
        find_effects([(good, payload), (good, payload)], baseline, tmp_path)


def test_an_import_is_named_by_the_code_and_not_by_the_data(tmp_path):
    header = {
        "what": "variable",
        "name": "json",
        "action": "changed",
        "problem": "a module has no safe form",
        "type": "module os",
    }
    assert find_effects([(header, b"")], Baseline.take("x = 1", {}), tmp_path).variables[0].problem
    imported = find_effects([(header, b"")], Baseline.take("import json", {}), tmp_path)
    assert (imported.values["json"].module, imported.variables[0].is_import) == ("json", True)


def test_no_payload_is_read_as_code(tmp_path):
    text = "__import__('os').system('touch hacked')"
    payload = b"".join(map(bytes, Encoder().encode([text])))
    header = {"what": "variable", "name": "x", "action": "changed", "sizes": [len(payload)]}
    findings = find_effects([(header, payload)], Baseline.take("x", {}), tmp_path)
    assert findings.values["x"] == [text]
    assert list(Path(tmp_path).iterdir()) == []


_VARIABLES = """
def fail(*_): raise ZeroDivisionError
class Meta(type): __hash__ = fail
class Property:
    __class__ = property(fail)
    __module__ = property(fail)
class Attributes: __getattribute__ = fail
class Hash(metaclass=Meta): pass
class Items(dict): keys = values = items = __iter__ = fail
class Parts(list): __iter__ = __len__ = fail
hostile = [Property(), Attributes(), Hash(), Items(a=1), Parts([1])]
lies = [type("Lie", (), {"__class__": kind})() for kind in (dict, list, type, type(fail), type(len), type(hostile[-1].sort), type(type(fail)), type(__import__("sys")))]
"""


def test_variables_may_raise_anything(rehearse):
    names = {"__name__": "__main__"}
    exec(_VARIABLES, names)
    values = dict(enumerate(names["hostile"] + names["lies"]))
    namespace = {"__name__": "__main__", **{f"x{number}": value for number, value in values.items()}}
    effects = rehearse(f"y = {len(namespace)}; {', '.join(namespace)};", namespace)
    assert effects.ending == "finished", effects
    assert [(one.name, one.action) for one in effects.variables] == [("y", "created")]


@pytest.mark.parametrize(
    "code",
    [
        "import warnings; warnings.filters.insert(0, 5)",
        "import logging; logging.root.level = 'x'; logging.root.handlers = 5",
    ],
)
def test_settings_with_arbitrary_values_do_not_crash_the_rehearsal(rehearse, code):
    effects = rehearse(code)
    assert effects.ending == "finished"
    assert effects.settings
    assert not effects.can_be_kept
