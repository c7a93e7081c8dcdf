"""Work of more than a second has a progress bar, which disappears at the end."""

import io
import sys
import threading
from contextlib import contextmanager

import nbformat
import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.__main__ import main
from tract_jupyter.models import Work, observing, tracked, working
from tract_jupyter.notebook import ProgressBars, on_terminal, progress_html, progress_text


class Place:
    """Records each drawing, and signals it."""

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


def test_quick_work_has_no_progress_bar():
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


def test_work_without_a_display_or_an_observer_shows_nothing():
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


@contextmanager
def listening():
    """The started work, in order."""
    told = []

    @contextmanager
    def silent(work):
        told.append(work)
        yield

    with observing(silent):
        yield told


@pytest.fixture
def told():
    """The work that the test starts."""
    with listening() as told:
        yield told


def test_packages_report_their_progress(tract, told):
    tract.user("a")
    tract.user("b")
    tract.verify()
    tract.gc()
    tract.compress(summarizer=lambda *_: "a and b")
    assert {(one.what, one.total) for one in told} >= {
        ("Writing summaries", 1),
        ("Checking commits", 2),
        ("Checking the database", None),
        ("Looking for unreachable commits", None),
    }
    assert all(one.total in {None, one.done} for one in told)


def test_a_cassette_that_is_read_is_work(told, tmp_path):
    path = tmp_path / "talk.cassette.jsonl"
    with Tract.open(record=path) as tract:
        tract.configure_llm(ScriptedClient("Hello."))
        tract.chat("Hi")
    told.clear()
    with Tract.open(replay=path) as tract:
        assert tract.chat("Hi").text == "Hello."
    (reading,) = [one for one in told if one.what == f"Reading {path.name}"]
    assert reading.done == reading.total >= 3


def test_a_replay_in_the_first_cell_names_the_store_that_it_opens(shell, tmp_path):
    with Tract.open(record=tmp_path / "talk.jsonl"):
        pass
    shell.run("%config TractJupyter.store = ':memory:'")
    assert shell.run("%reload_ext tract_jupyter").ok
    with listening() as told:
        assert shell.run(f"%tract cassette replay {tmp_path / 'talk.jsonl'}").ok
    assert "Opening :memory: to replay talk.jsonl" in [one.what for one in told]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """The displayed work of the command line, with its output device."""
    shown = []

    class Bars(ProgressBars):
        def __init__(self, place):
            super().__init__(place, after=3_600)
            self._where = place

        def __call__(self, work):
            shown.append((work.what, work.total, type(self._where()).__name__))
            return super().__call__(work)

    monkeypatch.setattr("tract_jupyter.notebook.ProgressBars", Bars, raising=False)
    return shown


@pytest.fixture
def store(tmp_path):
    for name in ("one", "two"):
        with Tract.open(tmp_path / "tract.db", tract_id=name) as tract:
            tract.user("Hi")
    return tmp_path / "tract.db"


@pytest.mark.parametrize(("stderr", "place"), [(Terminal, "OnTerminal"), (io.StringIO, "NoneType")])
def test_the_command_line_shows_progress_of_verify_on_a_terminal(shown, store, monkeypatch, stderr, place):
    monkeypatch.setattr(sys, "stderr", stderr())
    assert main(["verify", str(store)]) == 0
    assert ("Checking tracts", 2, place) in shown
    assert ("Checking commits", 1, place) in shown


@pytest.mark.slow
def test_the_command_line_counts_notebooks(shown, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    for name in ("a", "b", "c"):
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / f"{name}.ipynb")
    assert main(["verify", str(tmp_path)]) == 0
    assert shown == [("Running notebooks", 3, "OnTerminal")]


def test_a_bar_on_a_terminal_is_wiped(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    place = on_terminal()
    place.draw(Work("Checking commits", 2, 1), 3)
    place.clear()
    assert "Checking commits [" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert on_terminal() is None
