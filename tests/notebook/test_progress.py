"""What takes longer than a second has a bar, which is gone when it is done."""

import threading

import pytest

from tract_jupyter.models import Work, observing, tracked, working
from tract_jupyter.notebook import ProgressBars, progress_html, progress_text


class Place:
    """Notes what is drawn, and says when that is."""

    def __init__(self):
        self.drawn = []
        self.cleared = 0
        self.is_drawn = threading.Event()

    def draw(self, work, seconds):
        self.drawn.append((work.what, work.done, work.total))
        self.is_drawn.set()

    def clear(self):
        self.cleared += 1


@pytest.fixture
def place():
    place = Place()
    with observing(ProgressBars(lambda: place, after=0.0, every=60)):
        yield place


def test_work_that_takes_long_is_shown_and_then_gone(place):
    with working("Counting", 10) as work:
        work.advance(4)
        assert place.is_drawn.wait(30)
        assert not place.cleared
    assert place.drawn[0][0] == "Counting"
    assert place.cleared == 1


def test_what_is_quick_is_never_shown():
    place = Place()
    with observing(ProgressBars(lambda: place, after=3_600)), working("Counting"):
        pass
    assert (place.drawn, place.cleared) == ([], 0)


def test_work_that_fails_leaves_no_bar(place):
    def work():
        with working("Counting"):
            assert place.is_drawn.wait(30)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()
    assert place.cleared == 1


def test_work_within_work_is_a_part_of_it(place):
    with working("All"):
        assert place.is_drawn.wait(30)
        assert list(tracked([1, 2], "Each")) == [1, 2]
    assert {what for what, *_ in place.drawn} == {"All"}


def test_nothing_is_shown_where_nobody_looks_on_or_listens():
    with observing(ProgressBars(lambda: None)), working("Counting") as work:
        work.advance()
    assert list(tracked("ab", "Each")) == ["a", "b"]
    assert work.done == 1


def test_the_words_of_a_bar():
    assert progress_text(Work("Opening a.db"), 3.4) == "Opening a.db … 3 s"
    text = progress_text(Work("Checking", 1_000, 500), 61)
    assert text == f"Checking [{'#' * 12}{'·' * 12}] 500 of 1,000, 61 s"
    page = progress_html(Work("Checking <b>", 2, 3), 1)
    assert "<b>" not in page
    assert "width:100.0%" in page


def test_rooms_say_what_they_do(tract):
    told = []

    class Silent:
        def __init__(self, work):
            told.append(work)

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            return None

    with observing(Silent):
        tract.exchange.import_messages([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
        tract.verify()
        tract.gc()
        tract.compress(summarizer=lambda *_: "a and b")
    assert {(one.what, one.total) for one in told} >= {
        ("Importing", 2),
        ("Writing summaries", 1),
        ("Checking commits", 2),
        ("Checking the database", None),
        ("Looking for commits that nothing leads to", None),
    }
    assert all(one.total in {None, one.done} for one in told)
