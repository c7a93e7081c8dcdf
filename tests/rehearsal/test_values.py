"""Safe forms: each value is read back as it was written, with shared and cyclic references."""

from __future__ import annotations

import collections
import datetime as dt
import math
import pathlib
import random
import re
import uuid
import zoneinfo
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tract_jupyter.rehearsal import Decoder, Encoder, UnsafeValueError

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")


def copy_of(value, **known):
    buffers = Encoder({id(one): name for name, one in known.items()}).encode(value)
    return Decoder(known).decode([bytes(buffer) for buffer in buffers])


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
PLAIN = [
    None, True, 0, -1, 2**63, -(2**200), 1.5, -0.0, math.inf, 1j, "", "grün", "\ud800", "a\0b", b"", b"x\0", bytearray(b"y"), ...,
    dt.date(2024, 2, 29), dt.datetime(2024, 1, 1, 2, tzinfo=BERLIN, fold=1), dt.datetime(2024, 1, 1, microsecond=3),  # noqa: DTZ001
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2), "X")), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.time(1, 2, 3, 4),
    dt.timedelta(-1, 2, 3), BERLIN, Decimal("1.50"), Decimal("NaN"), Fraction(1, 3), uuid.UUID(int=5), pathlib.Path("a/b"), pathlib.PureWindowsPath("c:/d"),
    range(1, 9, 2), slice(None, 2), (), (1, (2, "x")), [1, [2.5, None]], {"a": [1], (1, 2): {3}}, {1, 2, "x"}, frozenset({("a", 1)}),
    collections.deque([1, 2], 3), collections.Counter("abca"), collections.OrderedDict(b=1, a=2), collections.defaultdict(list, {"a": [1]}),
    [True, 1, 1.0, "1"],
]  # fmt: skip


@pytest.mark.parametrize(
    "value", PLAIN, ids=[f"{number} {type(value).__name__}" for number, value in enumerate(PLAIN)]
)
def test_plain_values_are_read_back(value):
    copy = copy_of(value)
    assert type(copy) is type(value)
    assert repr(copy) == repr(value)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.complex_numbers(), st.decimals(), st.fractions(), st.dates(),
    st.datetimes(timezones=st.one_of(st.none(), st.timezone_keys(allow_prefix=False).map(zoneinfo.ZoneInfo))), st.times(), st.timedeltas(), st.uuids(),
)  # fmt: skip
KEYS = st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.tuples(st.integers(), st.text()))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(KEYS, inner),
        st.tuples(inner, inner),
        st.sets(KEYS),
        st.frozensets(KEYS),
    ),
    max_leaves=20,
)


def plain(value):
    """Return a form that can be compared: sets in order, and numbers as text."""
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(repr, map(plain, value)))
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), list(map(plain, value))
    return type(value), repr(value)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_any_nested_value_is_read_back(value):
    assert plain(copy_of(value)) == plain(value)


def test_shared_and_cyclic_references_are_kept():
    inner = [1]
    cyclic = {"twice": [inner, inner], "tuple": (inner,)}
    cyclic["self"] = cyclic
    copy = copy_of(cyclic)
    assert copy["self"] is copy
    assert copy["twice"][0] is copy["twice"][1] is copy["tuple"][0]


def test_values_of_one_encoder_share_objects():
    encoder, decoder = Encoder(), Decoder()
    shared = [1]
    one = decoder.decode(encoder.encode({"a": shared}))
    with pytest.raises(UnsafeValueError):
        encoder.encode([shared, object()])
    other = decoder.decode(encoder.encode([shared]))
    assert other[0] is one["a"]


def test_an_object_that_the_reader_knows_is_written_by_name():
    model = object()
    assert copy_of([model, 1], model=model) == [model, 1]


def test_deep_nesting_needs_no_deep_stack():
    value: list = []
    for _ in range(10_000):
        value = [value]
    copy = copy_of(value)
    for _ in range(10_000):
        (copy,) = copy
    assert copy == []


class Own(list):
    pass


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "an object has no safe form"),
        (lambda: 0, "a function has no safe form"),
        (Own(), "an Own is a subclass of list"),
        (collections.namedtuple("Point", "x")(1), "a Point is a subclass of tuple"),  # noqa: PYI024
        (collections.defaultdict(lambda: 0), "a defaultdict with a function has no safe form"),
        (np.array([object()]), "an object has no safe form"),
        (pd, "a module has no safe form"),
        (re.compile("x"), "a Pattern has no safe form"),
        (np.memmap, "a type has no safe form"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
def test_other_values_are_refused_with_a_reason(value, reason):
    with pytest.raises(UnsafeValueError, match=reason):
        copy_of([value])


ARRAYS = [
    np.arange(12).reshape(3, 4).T, np.zeros((2, 0)), np.array(5), np.array([("a", [1.5, 2])], dtype=[("n", "U3"), ("v", "f8", (2,))]),
    np.array([True, False]), np.array([1, None, "x", [1]], object), np.array(["2024-01-01", "NaT"], "M8[D]"), np.array([1, 2], "m8[ns]"),
    np.arange(10)[::2], np.arange(4, dtype=">i4"), np.array(["ab", "c"]), np.array([b"ab"]), np.array([1 + 2j]), np.float16([1.5]),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype)[:30])
def test_arrays_are_read_back(array):
    copy = copy_of(array)
    assert type(copy) is np.ndarray
    assert (copy.dtype, copy.shape, copy.flags.writeable) == (array.dtype, array.shape, array.flags.writeable)
    np.testing.assert_array_equal(copy, array)


@pytest.mark.parametrize(
    "scalar",
    [
        np.float32(1.5),
        np.int8(-3),
        np.datetime64("2024-01-01"),
        np.str_("abc"),
        np.bool_(True),
        np.complex64(1j),
    ],
)
def test_scalars_of_numpy_are_read_back(scalar):
    copy = copy_of(scalar)
    assert type(copy) is type(scalar)
    assert copy == scalar


def test_masked_arrays_are_read_back():
    masked = np.ma.masked_array([1, 2, 3], [0, 1, 0], fill_value=9)
    copy = copy_of(masked)
    assert copy.tolist() == [1, None, 3]
    assert copy.fill_value == 9


def test_copied_views_of_one_array_remain_views():
    array = np.zeros(10)
    copy, view = copy_of([array, array[2:8:2]])
    view[:] = 1
    assert copy.tolist() == [0, 0, 1, 0, 1, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    "make",
    [
        np.random.default_rng,
        np.random.RandomState,
        random.Random,
        lambda seed: np.random.Generator(np.random.MT19937(seed)),
    ],
)
def test_copied_random_generators_continue_from_the_same_state(make):
    generator = make(3)
    generator.random()
    assert copy_of(generator).random() == generator.random()


FRAME = pd.DataFrame(
    {
        "i": [1, 2, 3], "f": [1.5, math.nan, 2], "o": pd.Series([1, "x", None], dtype=object), "l": pd.Series([[1], [2], [3]]), "s": ["a", None, "ü"],
        "c": pd.Categorical(["a", "b", "a"], ordered=True), "t": pd.date_range("2024", periods=3), "z": pd.date_range("2024", periods=3, tz=BERLIN),
        "n": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, None, False], dtype="boolean"), "F": pd.array([1.5, None, 2], dtype="Float64"),
        "p": pd.period_range("2024", periods=3, freq="M"), "v": pd.interval_range(0, 3), "S": pd.array(["a", None, "b"], dtype="string[python]"),
        "d": pd.timedelta_range("1s", periods=3),
    }
)  # fmt: skip
FRAMES = {
    "all types": FRAME, "transposed": FRAME[["i", "f"]].T, "empty": pd.DataFrame(), "only an index": pd.DataFrame(index=[1, 2]),
    "multi": FRAME.set_index(["i", "s"]), "times": FRAME.set_index("z"), "twice": FRAME[["i", "i"]], "described": FRAME[["i", "f"]].describe(),
    "crossed": pd.crosstab(FRAME.i, FRAME.c), "grouped": FRAME.groupby("c", observed=True).f.agg(["mean", "sum"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_pandas_are_read_back(name):
    frame = FRAMES[name]
    pd.testing.assert_frame_equal(copy_of(frame), frame, check_freq=True)


@pytest.mark.parametrize("column", FRAME.columns)
def test_series_and_arrays_of_pandas_are_read_back(column):
    pd.testing.assert_series_equal(copy_of(FRAME[column]), FRAME[column])
    array = FRAME[column].array
    pd.testing.assert_extension_array_equal(copy_of(array), array)


INDEXES = [
    pd.Index([1, 2], name="n"), pd.Index(["a", None]), pd.RangeIndex(1, 9, 2, name=("a", 1)), pd.date_range("2024", periods=3, freq="h"),
    pd.date_range("2024-10-26", periods=3, tz=BERLIN), pd.timedelta_range("1s", periods=3, freq="s"), pd.CategoricalIndex(["a", "b"]),
    pd.MultiIndex.from_product([[1, 2], ["a", "b"]], names=["x", None]), pd.interval_range(0, 2), pd.period_range("2024", periods=2, freq="D"),
]  # fmt: skip


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: type(index).__name__)
def test_indexes_are_read_back(index):
    copy = copy_of(index)
    pd.testing.assert_index_equal(copy, index, exact=True)
    assert getattr(copy, "freq", None) == getattr(index, "freq", None)


@pytest.mark.parametrize(
    "scalar",
    [
        pd.Timestamp("2024-01-01", tz="UTC"),
        pd.Timestamp("2024-01-01 12:00"),
        pd.Timedelta("1s"),
        pd.Period("2024-01", "M"),
        pd.Interval(0, 1),
        pd.NaT,
        pd.NA,
    ],
)
def test_scalars_of_pandas_are_read_back(scalar):
    copy = copy_of(scalar)
    assert type(copy) is type(scalar)
    assert copy is scalar or copy == scalar


def assigned(value, place):
    """The value after an assignment in place; the error if pandas refuses it."""
    try:
        if isinstance(value, pd.Series):
            value.iloc[0] = value.iloc[2]
        else:
            value.iloc[0, place] = value.iloc[2, place]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return value


@pytest.mark.parametrize("column", FRAME.columns)
def test_a_copy_can_be_changed_in_place_like_its_original(column):
    """Values of pandas 3 are read-only for others, and not for its own assignments."""
    place = FRAME.columns.get_loc(column)
    for value, equal in (
        (FRAME, pd.testing.assert_frame_equal),
        (FRAME[column], pd.testing.assert_series_equal),
    ):
        expected, found = assigned(value.copy(), place), assigned(copy_of(value), place)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert not isinstance(found, str), found
            equal(found, expected)


@pytest.mark.filterwarnings("error")
def test_a_wide_table_takes_another_column_without_a_warning():
    frame = pd.DataFrame(np.arange(450.0).reshape(3, 150), columns=[f"c{n}" for n in range(150)])
    copy = copy_of(frame)
    copy["new"] = 1
    pd.testing.assert_frame_equal(copy.drop(columns="new"), frame)


def test_an_array_that_the_user_locked_stays_locked():
    array = np.arange(3)
    array.flags.writeable = False
    assert not copy_of(array).flags.writeable
    series = pd.Series(array, copy=False)
    assert (
        assigned(copy_of(series), 0)
        == assigned(series, 0)
        == "ValueError: assignment destination is read-only"
    )


def test_two_values_of_pandas_do_not_change_each_other_after_they_are_read_back():
    frame = pd.DataFrame({"a": [1, 2, 3]})
    copy, column = copy_of([frame, frame["a"]])
    copy.iloc[0, 0] = 9
    assert column.tolist() == [1, 2, 3]


def test_attributes_and_flags_of_frames_are_read_back():
    frame = FRAME[["i"]].copy()
    frame.attrs = {"unit": ["m"]}
    frame.flags.allows_duplicate_labels = False
    copy = copy_of(frame)
    assert copy.attrs == {"unit": ["m"]}
    assert not copy.flags.allows_duplicate_labels


def test_tables_of_pyarrow_are_read_back():
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(FRAME[["i", "f", "s", "t", "z", "c", "n", "l"]])
    for part in (
        table,
        table.slice(1, 2),
        table.slice(1, 0),
        table["s"],
        table["c"].combine_chunks(),
        table["l"].chunk(0)[1:],
    ):
        copy = copy_of(part)
        assert type(copy) is type(part)
        assert copy.equals(part)
    frame = pd.DataFrame({"x": pd.array([1, None], dtype="int64[pyarrow]")})
    pd.testing.assert_frame_equal(copy_of(frame), frame)


def test_a_slice_of_a_table_does_not_carry_the_rest():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"text": [f"secret {number}" for number in range(10_000)]})
    buffers = Encoder().encode(table.slice(0, 1))
    assert sum(len(bytes(buffer)) for buffer in buffers) < 2_000


def test_frames_of_polars_are_read_back():
    pl = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    frame = pl.DataFrame(
        {
            "a": [1, 2, None], "s": ["x", None, "zz"], "l": [[1], [2, 3], None], "r": [{"a": 1, "b": "x"}] * 3, "b": [b"x", b"", None], "n": [None] * 3,
            "c": pl.Series(["a", "b", "a"], dtype=pl.Categorical), "e": pl.Series(["a", "b", "a"], dtype=pl.Enum(["a", "b"])),
            "t": pl.Series([1, 2, 3]).cast(pl.Time), "y": pl.Series([[1, 2]] * 3, dtype=pl.Array(pl.Int64, 2)),
            "z": pl.Series([1, 2, 3]).cast(pl.Datetime("us", "Europe/Berlin")), "d": pl.Series([1, 2, 3]).cast(pl.Duration("ms")),
        }
    )  # fmt: skip
    for part in (frame, frame[1:], frame[:0], pl.DataFrame()):
        copy = copy_of(part)
        assert copy.schema == part.schema
        assert copy.equals(part)
    assert copy_of(frame["s"]).equals(frame["s"])
    with pytest.raises(UnsafeValueError, match="Int128"):
        copy_of(pl.Series([1], dtype=pl.Int128))
