"""Requests as JSON and back, also with data changed by others."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.review.fakes import FakeChannel
from tests.review.rigging import Attacker, press
from tract_jupyter import Tract
from tract_jupyter.analysis import Category, Finding, RiskLevel, Span
from tract_jupyter.exceptions import PendingError
from tract_jupyter.models import canonical_json
from tract_jupyter.models.schema import REQUIRED, Parameter, Parameters, parse_type
from tract_jupyter.review import (
    CodeBlock,
    ReviewAction,
    ReviewRequest,
    Subject,
    ValueRow,
    ValueTable,
    request_from_dict,
    request_to_dict,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PLAIN = st.sampled_from(["str", "int", "float", "bool", "list", "dict", "Any", "Literal['a', 2, True, None]"])
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("dict[str, {}]".format),
        inner.map("Optional[{}]".format),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} | {pair[1]}"),
    ),
    max_leaves=4,
)
PARAMETER = st.one_of(
    st.builds(
        lambda name, type_, text: Parameter(name, parse_type(type_), REQUIRED, text), NAMES, TYPES, TEXTS
    ),
    st.builds(lambda name, type_, text: Parameter(name, parse_type(type_), None, text), NAMES, TYPES, TEXTS),
    st.builds(
        lambda name, value, text: Parameter(name, parse_type("Any"), value, text), NAMES, VALUES, TEXTS
    ),
)
PARAMETERS = st.lists(PARAMETER, max_size=3, unique_by=lambda p: p.name).map(
    lambda ps: Parameters("fields", ps)
)
SPANS = st.builds(Span, *[st.integers(0, 99)] * 4)
FINDINGS = st.builds(
    Finding,
    TEXTS,
    st.sampled_from(Category),
    st.sampled_from(RiskLevel),
    SPANS,
    TEXTS,
    TEXTS,
    TEXTS,
    st.floats(0, 1),
)
BLOCKS = st.builds(
    CodeBlock, TEXTS, TEXTS, st.lists(FINDINGS, max_size=2).map(tuple), TEXTS, TEXTS,
    st.sampled_from(["python", "diff"]), st.integers(1, 99), st.none() | st.integers(1, 99),
)  # fmt: skip
ACTIONS = st.builds(
    ReviewAction, NAMES, TEXTS, PARAMETERS, st.sampled_from(["approve", "reject", "neutral"]), TEXTS
)
ROWS = st.builds(ValueRow, TEXTS, TEXTS, TEXTS, TEXTS)
TABLES = st.builds(ValueTable, TEXTS, st.lists(ROWS, max_size=2).map(tuple))
SUBJECTS = st.builds(Subject, TEXTS, TEXTS, TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3))
REQUESTS = st.builds(
    ReviewRequest, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, st.lists(ACTIONS, max_size=2).map(tuple),
    st.lists(BLOCKS, max_size=2).map(tuple), st.lists(TABLES, max_size=2).map(tuple), st.none() | PARAMETERS,
    st.none() | SUBJECTS, TEXTS,
)  # fmt: skip


def stored(request):
    """Return the request as the store returns it."""
    return json.loads(canonical_json(request_to_dict(request)))


@pytest.mark.slow
@given(REQUESTS)
def test_a_request_round_trips_through_json(request_):
    again = request_from_dict(stored(request_))
    assert stored(again) == stored(request_)
    assert (again.code, again.tables, again.subject) == (request_.code, request_.tables, request_.subject)
    assert [list(map(parts, a.parameters)) for a in again.actions] == [
        list(map(parts, a.parameters)) for a in request_.actions
    ]


def parts(p):
    """Return the parts of a parameter. `1`, `1.0` and `True` differ; the order of a dict does not matter."""
    default = REQUIRED if p.required else canonical_json(p.default)
    return p.name, repr(p.annotation), default, p.description


def places(data, at=()):
    """Yield every position in a JSON value."""
    yield at
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*at, key))


@given(st.data(), REQUESTS, VALUES)
def test_whatever_is_put_anywhere_gives_a_request_or_a_plain_error(data, request_, value):
    hostile = stored(request_)
    at = data.draw(st.sampled_from(list(places(hostile))))
    if at:
        target = hostile
        for key in at[:-1]:
            target = target[key]
        target[at[-1]] = value
    else:
        hostile = value
    with contextlib.suppress(LookupError, TypeError, ValueError):
        request_to_dict(request_from_dict(hostile))


def test_a_type_that_only_the_asking_process_knows_is_checked_there():
    fields = Parameters("fields", [Parameter("c", tuple[int, int])])
    shown = ReviewRequest("", "", "", "", "", (), fields=fields)
    (read,) = request_from_dict(stored(shown)).fields
    assert (read.name, read.annotation) == ("c", parse_type("Any"))


@pytest.fixture
def waiting(own_store, spec):
    """A store with pending requests that only the asking process can run."""
    with Tract.open(url=own_store) as t:
        t.register_operation(spec(fields={"n": {"type": "int", "default": 0}}))
        t.reviewer.show(t.fire("citation_check", review=True, execute_fn=print))
        good = t.fire("citation_check", {"n": 7}, review=True, execute_fn=print)
        t.reviewer.show(good)
    return own_store


HOSTILE = ["", "{", "null", "[]", "3", '"x"', "{}", '{"request": 3}', '{"request": {}}', '{"request": []}', "[" * 9_999,
           '{"request": {"pending_id": 3}}', '{"request": null}']  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_an_unreadable_request_raises_an_error_and_does_not_hide_others(waiting, text):
    attacker = Attacker(waiting)
    (first, *_), *_ = attacker.run("SELECT pending_id FROM pendings ORDER BY created_at")
    attacker.run("UPDATE pendings SET request_json = ? WHERE pending_id = ?", text, first)
    with Tract.open(url=waiting) as t:
        t.reviewer.channel = FakeChannel()
        bad, good = t.review.inbox()
        with pytest.raises(PendingError, match="run its cell again|run the cell"):
            t.operations.rebuild(bad)
        press(t, t.reviewer.show_again(t.operations.rebuild(good)), "reject")
        assert len(t.review.inbox()) == 1


@pytest.mark.parametrize("column", ["fields_json", "created_at", "waited_until", "expires_at", "status"])
@pytest.mark.parametrize("value", ["", "x", "[1]", 3])
def test_other_columns_that_cannot_be_read_give_no_error_of_pythons_own(waiting, column, value):
    Attacker(waiting).set("pendings", **{column: value})
    with Tract.open(url=waiting) as t:
        t.reviewer.channel = FakeChannel()
        for row in t.review.inbox():
            try:
                t.reviewer.show_again(t.operations.rebuild(row))
            except PendingError:
                continue
            assert "changed in the store" in t.reviewer.channel.shown[-1][0].why or column in {
                "waited_until",
                "status",
            }
