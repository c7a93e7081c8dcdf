"""Every view of a request shows everything that an approval covers, to the last character."""

from __future__ import annotations

import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.review.builtin.test_restoring import MADE
from tests.review.fakes import FakeChannel
from tract_jupyter import Tract
from tract_jupyter.analysis import split_lines
from tract_jupyter.models import distinct, distinct_repr, printable
from tract_jupyter.models.schema import Parameters
from tract_jupyter.notebook.panels import InboxPages, InboxRow, Panel, record_html
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.review import (
    LONGEST_PIECE,
    CodeBlock,
    ReviewAction,
    ReviewRequest,
    Ticket,
    ValueRow,
    ValueTable,
    needed_pieces,
    record_text,
    request_from_dict,
    request_text,
    request_to_dict,
    shown_code,
    shown_rows,
)

HIDDEN = st.sampled_from(
    list("\x00\x07\x1b\x7f\x85\xad\u115f\u200b\u200d\u202e\u2028\u2066\u3164\ufe0f\ufeff\U000e0041\t\r\n\f")
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS | HIDDEN, max_size=40) | st.builds(
    lambda text, times: text * times,
    st.text(CHARACTERS | HIDDEN, min_size=1, max_size=5),
    st.integers(40, 500),
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
BODIES = st.lists(  # Python refuses code with a NUL
    TEXTS.map(lambda text: f"x = 1  # {' '.join(text.replace(chr(0), '').split())}"), min_size=1, max_size=450
)


class Texts(HTMLParser):
    """The text in the elements of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.keys = "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.keys += (dict(attrs).get("data-line") or "").split()

    def handle_data(self, data):
        self.text += data


def views(ticket):
    """Return each rendering of a request as plain text."""
    stored = type(
        "Stored", (), {"origin": None, "waited_until": None, "created_at": ticket.pending.created_at}
    )()
    row = InboxRow.__new__(InboxRow)
    row.stored, row.ticket, row._refusal, row._elsewhere, row._body = (
        stored,
        ticket,
        ("", ""),
        "",
        (("", ""), ""),
    )
    batch = InboxPages(1)
    batch.pages.append([row])
    return {
        "panel": Texts(Panel(ticket).view["body_html"]).text,
        "inbox row": Texts(row.body()).text,
        "inbox record": Texts(batch.record_html()).text,
        "inbox record as text": batch.record_text(),
        "prompt": request_text(ticket.request, ticket.status),
        "record": Texts(record_html(ticket)).text,
        "record as text": record_text(ticket),
    }


def plain(text):
    """Remove the additions of a listing: line ends, line numbers, continuation marks and spaces."""
    return re.sub(r"\s+", "", text)


def bound(ticket):
    """Return the texts and value reprs that the fingerprint of a fired operation or proposal covers."""
    spec = ticket.pending.spec
    yield printable(spec.description)
    for action in spec.actions.values():
        yield printable(action.description)
        yield from shown_lines(action.code)
    for name, about in spec.fields.items():
        yield name
        yield printable(about.get("description", ""))
        if "default" in about:
            yield distinct_repr(about["default"])


def shown_lines(code):
    """Return the lines of code with a mark for each ambiguous character."""
    return [distinct(line)[0] for line in split_lines(code)]


def check_all_is_in_every_view(ticket, texts):
    shown = views(ticket)
    for name, view in shown.items():
        squeezed = plain(view.replace("↪", ""))
        for text in texts:
            assert plain(text) in squeezed, (name, text)
    html = Panel(ticket).view["body_html"]
    assert set(Texts(html).keys) == ticket.needed


@pytest.fixture(scope="module")
def quiet():
    with Tract.open() as tract:
        tract.reviewer.channel = FakeChannel()
        yield tract


LAW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.slow
@LAW
@given(BODIES, TEXTS, TEXTS, VALUES)
def test_every_view_shows_the_whole_proposed_operation(quiet, body, description, about, default):
    fields = {"a": {"type": "Any", "description": about, "default": default}}
    action = ActionDef("go", about, {"n": "int"}, "\n".join(body), ["n"])
    spec = OperationSpec("proposed", description, fields, {"go": action}, version="7 beta", unhandled="ask")
    ticket = Ticket(quiet.propose_operation(spec), lambda _: None)
    check_all_is_in_every_view(ticket, [*bound(ticket), "7 beta", "ask", "n: int"])


@pytest.mark.slow
@LAW
@given(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=3, max_size=3))
def test_every_view_shows_all_arguments_of_a_tool_call(quiet, values):
    ticket = Ticket(tool_call(quiet, values), lambda _: None)
    check_all_is_in_every_view(
        ticket, [text for name in values for text in (name, distinct_repr(values[name]))]
    )


def tool_call(tract, values):
    from tract_jupyter.toolkit import PendingToolCall

    def tool(a, b, c):
        """Do it."""

    return PendingToolCall(
        "tool", values, parameters=Parameters.of(tool), definition_hash="f" * 64, code_doubt="", tract=tract
    )


@pytest.mark.slow
@LAW
@given(BODIES, TEXTS)
def test_every_view_shows_the_whole_handler_or_script(quiet, body, name):
    from tract_jupyter.scripts import PendingScript

    code = "\n".join(body)
    script = Ticket(PendingScript(code, notebook_id=name, tract=quiet), lambda _: None)
    lines = shown_lines(code)
    check_all_is_in_every_view(script, [*lines, *([distinct_repr(name)] if name else [])])
    assume("\0" not in code)  # handlers refuse NUL characters in code
    handler = Ticket(quiet.hooks.propose_handler("gc", "guard", code), lambda _: None)
    check_all_is_in_every_view(handler, [*lines, "guard", "gc"])


@given(TEXTS, st.booleans())
def test_pieces_joined_are_the_text(text, is_bound):
    table = ValueTable("t", (ValueRow.of("a", "str", text, text),), "rows" if is_bound else "nothing")
    (row,) = shown_rows(table, "id")
    note = distinct(text)[1]
    described = " ".join(filter(None, (printable(text), note and f"[description: {note}]")))
    for part, whole in ((row.value, distinct_repr(text)), (row.description, described)):
        assert "".join(piece.text for piece in part) == whole
        assert all(0 < len(piece.text) <= LONGEST_PIECE for piece in part)
        assert all(bool(piece.key) is is_bound for piece in part)
    code = shown_code(CodeBlock("t", text))
    lines = ["".join(piece.text for piece in line.pieces) for line in code.lines]
    assert lines == shown_lines(text)[: len(lines)]
    assert "".join(split_lines(text)[len(lines) :]) == ""


@given(TEXTS, TEXTS)
def test_different_code_texts_have_different_keys(one, other):
    keys = [{p.key for p in shown_code(CodeBlock("t", text)).pieces()} for text in (one, other)]
    assert (keys[0] == keys[1]) is (one == other)
    assert (keys[0] & keys[1] == set()) is (one != other)


def test_values_count_for_their_own_question_and_code_wherever_it_is_shown():
    table, block = ValueTable("t", (ValueRow("a", "", "1"),)), CodeBlock("t", "x = 1")
    first, second = (
        ReviewRequest(name, "", "", "", "", (), code=(block,), tables=(table,))
        for name in ("first", "second")
    )
    shared = {p.key for p in needed_pieces(first)} & {p.key for p in needed_pieces(second)}
    assert shared == {p.key for p in shown_code(block).pieces()}


def test_another_process_shows_the_same():
    rows = (ValueRow.of("a", "str", "x" * 500),)
    tables = (ValueTable("t", rows, "rows"), ValueTable("u", rows, "nothing"), ValueTable("v", rows))
    made = ReviewRequest(
        "id",
        "",
        "",
        "",
        "",
        (ReviewAction("go", "Go", Parameters("go", [])),),
        (CodeBlock("c", "x = 1"),),
        tables,
    )
    assert list(needed_pieces(request_from_dict(json.loads(json.dumps(request_to_dict(made)))))) == list(
        needed_pieces(made)
    )


def leaves(value):
    """Yield each text and number in the value of a field."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        yield from [] if value is None or value == "" else [str(value)]
    else:
        yield from (leaf for one in inner for leaf in leaves(one))


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_every_view_shows_all_fields_of_a_built_in_operation(make, tmp_path):
    with Tract.open(tmp_path / "t.db") as tract:
        tract.reviewer.channel = FakeChannel()
        ticket = Ticket(make(tract), lambda _: None)
        texts = [distinct_repr(leaf)[1:-1] for leaf in leaves(ticket.pending.fields)]
        for view in views(ticket).values():
            squeezed = plain(view)
            assert [text for text in texts if plain(text) not in squeezed] == []


INDISTINCT = [
    ("a\u200bb", "a\u200cb"), ("a\u200bb", "a\ufffdb"), ("ab", "a\u200bb"), ("a b", "a\xa0b"), ("a b", "a\u2003b"),
    ("!", "!\ufe0f"), ("!\ufe01", "!\ufe02"), ("漢\U000e0100", "漢"), ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f"),
    ("\u3164", "\u115f"), ("a\ufffcb", "a\U00016fe4b"), ("x\U0001d159", "x\u2800"), ("\U0001bca0", "\U0001bca3"),
    ("\U00013430", "\U00013438"), ("e\u0301", "\xe9"), ("\u212b", "\xc5"), (";", "\u037e"), ("\u1112\u1161", "\ud558"),
    ("a\U000e0041", "a\U000e0042"), ("a\\u200bb", "a\u200bb"),
    ("a\u202eb [hidden or unusual characters: column 2 U+202E]", "a\u202eb"),
    ("!" + "\ufe00" * 80, "!" + "\ufe00" * 79 + "\ufe01"),
]  # fmt: skip


@pytest.mark.parametrize("pair", INDISTINCT, ids=ascii)
def test_different_texts_never_look_alike(quiet, pair):
    for make in (value_pending, code_pending):
        one, other = (views(Ticket(make(quiet, text), lambda _: None)) for text in pair)
        for name, view in one.items():
            assert as_seen(view) != as_seen(other[name]), name


def value_pending(tract, text):
    return tool_call(tract, {"a": text, "b": 1, "c": 2})


def code_pending(tract, text):
    from tract_jupyter.scripts import PendingScript

    return PendingScript(f"label = '{text}'", notebook_id="", tract=tract)


def as_seen(view):
    """Return the visible characters of a page, without ids, hashes and times."""
    seen = "".join(
        " " if unicodedata.category(char) == "Zs" else char
        for char in unicodedata.normalize("NFC", view)
        if unicodedata.category(char) not in {"Cf", "Cc", "Cn"}
        and not (0xFE00 <= ord(char) <= 0xFE0F or ord(char) >= 0xE0000)
        and char not in "\u2800\u3164\u115f\ufffc\U00016fe4\U0001d159"
    )
    return re.sub(r"\b(?:[0-9a-f]{8}|[0-9a-f]{16}|[0-9a-f]{64})\b|\d\d:\d\d(:\d\d)?", "", seen)
