"""`--schema-only` sends types, names and aggregates, but no values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from tests.attachments import png
from tests.notebook.conftest import MODEL
from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.chat import HiddenValues

PEOPLE = {
    "name": ["Ada Lovelace", "Alan", "Grace Brewster Murray Hopper"],
    "age": [36, 41, 85],
    "score": [3.14159265, 1234.5678, -2.5],
    "born": [dt.date(1815, 12, 10), dt.date(1912, 6, 23), None],
}
VALUES = [
    "Ada Lovelace", "ADA LOVELACE", "Grace Brewster Murray Hop...", "36", "41.0", "36,41,85",
    "3.14159265", "3.141593", "3.142", "1,234.5678", "1234.57", "1235", "1.234568e+03", "-2.5", "1815-12-10",
    "1815-12-10T00:00:00",
]  # fmt: skip
OPEN = [
    "name age score born",
    "3 rows",
    "mean 54.0, 0.5, 1",
    "Brewster",
    "float64",
    "3.1",
    "version 1.2.3",
    "NaN True",
]


def frames(library):
    module = pytest.importorskip(library)
    return module.DataFrame(PEOPLE)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_values_of_a_table_are_hidden_and_other_text_is_kept(library):
    hidden = HiddenValues({"df": frames(library)}, ["df"])
    for text in VALUES:
        told = hidden.redact(f"a {text} z")
        assert (told[:2], told[-2:]) == ("a ", " z")
        assert "[hidden]" in told
        assert not set("123456789").intersection(told.replace("00:00", ""))
        assert not {"ada", "alan", "hopper", "murray"}.intersection(told.lower().split())
    for text in OPEN:
        assert hidden.redact(text) == text


def test_printed_pandas_tables_keep_aggregates_but_no_values():
    df = frames("pandas").astype({"age": "float32", "name": "category"}).set_index("name", append=True)
    hidden = HiddenValues({"df": df}, ["df"])
    for text in (
        df.to_string(),
        df.to_csv(),
        df.to_json(date_format="iso"),
        repr(df.values.tolist()),
    ):
        told = hidden.redact(text)
        assert not [
            word for word in ("Ada", "Alan", "Hopper", "36", "41", "1234", "2.5", "1815") if word in told
        ], told
    aggregates = hidden.redact(df.describe().to_string())
    assert "mean   54.0" in aggregates
    assert " 85" not in aggregates  # the maximum is also a value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("the secret word", "The secret word"),
        (7.25, "7.25"),
        (Decimal("12.125"), "12.125"),
        ([{"k": ("deep", b"bytes")}], "deep bytes k"),
        ({"Zed": {9}}, "Zed 9"),
        (dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC), "2024-05-01 12:30"),
        ("B-7/x", "B-7/x"),
        ("two\nlines", "two\\nlines"),
        (['O\'Hara said "no"'], "O\\'Hara said"),
    ],
)
def test_values_of_other_kinds(value, text):
    told = HiddenValues({"x": value}, ["x"]).redact(f"({text})")
    assert "[hidden]" in told
    assert not any(word in told for word in text.replace("-", " ").split())


def test_values_of_arrays():
    numpy = pytest.importorskip("numpy")
    values = {
        "a": numpy.array([[2.5, 3.5]]),
        "b": numpy.array(["Zed"]),
        "c": numpy.array(["2024-05-01"], "M8[ns]"),
        "d": numpy.float64(8.5),
    }
    assert HiddenValues(values, values).redact("2.5 3.5; Zed; 2024-05-01; 8.5").count("[hidden]") == 4


def test_new_and_earlier_values_of_a_variable_are_hidden():
    variables = {"x": ["first"]}
    hidden = HiddenValues(variables, ["x", "y"])
    variables["x"].append("second")
    variables["y"] = "third"
    assert hidden.redact("first second third") == "[hidden]"
    variables["x"] = ["fourth"]
    assert hidden.redact("first fourth") == "[hidden]"


def test_a_value_that_cannot_be_hidden_sends_nothing():
    with pytest.raises(OperationError, match=r"values of x cannot be hidden.* type object\. Use tables"):
        HiddenValues({"x": [object()]}, ["x"])
    with pytest.raises(OperationError, match="more than 200,000 different values"):
        HiddenValues({"x": list(range(200_002))}, ["x"])
    variables = {"x": 5}
    hidden = HiddenValues(variables, ["x"])
    variables["x"] = object()
    assert hidden.redact("5 and 6") == "[hidden: this text may have values of x]"


@pytest.fixture
def chat(shell):
    assert shell.run(MODEL).ok
    pytest.importorskip("pandas")
    people = {name: column for name, column in PEOPLE.items() if name != "born"}
    shell.run(f"import pandas\ndf = pandas.DataFrame({people!r})\nx = ['Zed', 7719]")
    return shell


def sent(chat):
    """Everything that the model received."""
    return "\n".join(
        str(message["content"]) for messages, _ in chat.namespace["asked"] for message in messages
    )


def leaked(text):
    return [
        word for word in ("Ada", "Alan", "Hopper", "36", "1234", "2.5", "1815", "Zed", "7719") if word in text
    ]


def test_a_cell_sends_the_schema_and_hides_values_in_context_and_results(chat, tmp_path):
    (tmp_path / "a.csv").write_text("Ada Lovelace;36\nother;99")
    chat.run(
        "replies.append(reply(None, call('notebook_execute', {'code': \"print('Zed is', 7719, 'and 99'); {'Alan': 36}\"})))"
    )
    result = chat.run("%%tract_chat --vars df x --schema-only --files a.csv\nWhat is this?")
    assert result.ok
    text = sent(chat)
    assert leaked(text.replace("What is this?", "")) == []
    assert "- age: int64" in text
    assert "list, 2 items" in text
    assert "other;99" in text
    assert "hides the values of these variables from you: df, x" in text
    assert "[hidden] is, [hidden] and 99" in text.replace("is [", "is, [")
    chat.run("replies.append(reply(None, call('notebook_execute', {'code': \"print('Zed')\"})))")
    chat.run("%%tract_chat --retry\n")
    assert leaked(sent(chat)) == []
    chat.run("replies.append(reply(None, call('notebook_execute', {'code': \"print('Zed')\"})))")
    chat.run("%%tract_chat\nAnd now?")
    assert leaked(sent(chat)) == ["Zed"]


def test_an_interrupted_turn_that_hides_values_is_continued_only_with_them_hidden(chat):
    look = "reply(None, call('notebook_execute', {'code': \"print('Zed')\"}))"
    chat.run(f"replies += [{look}, ConnectionError('offline')]")
    assert not chat.run("%%tract_chat --vars x --schema-only\nWhat is this?").ok
    before = len(chat.namespace["asked"])
    refused = chat.run("tract.chat(None)")
    assert "Continue it in its notebook with %tract chat resume" in str(refused.error)
    assert len(chat.namespace["asked"]) == before
    chat.run(f"replies.append({look})")
    assert chat.run("%tract chat resume").ok
    assert len(chat.namespace["asked"]) == before + 2
    assert leaked(sent(chat)) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--schema-only", "--schema-only hides the values of the variables in --vars, and there is none"),
        (
            "--vars df --schema-only --files dot.png",
            "--schema-only sends no images and no PDFs: leave out dot.png",
        ),
        ("--vars chat_model --schema-only", "the values of chat_model cannot be hidden"),
    ],
)
def test_refusals_send_nothing(chat, tmp_path, line, why):
    (tmp_path / "dot.png").write_bytes(png(2, 3))
    chat.run("chat_model = model")
    result = chat.run(f"%%tract_chat {line}\nWhat is this?")
    assert not result.ok
    assert why in str(result.error)
    assert chat.namespace["asked"] == []
