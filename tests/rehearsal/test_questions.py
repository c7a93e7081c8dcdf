"""The count of questions about notebook tasks, as `python -m benchmarks rehearsal` makes it."""

import pytest

from benchmarks.questions import Questions, count_questions
from tests.rehearsal.conftest import skip_unless
from tract_jupyter.scripts import Rehearsing

pytest.importorskip("pandas")


@pytest.mark.slow
def test_looks_ask_nothing_and_all_effects_of_a_script_are_one_question(monkeypatch, caplog):
    caplog.set_level("INFO", "benchmarks.questions")  # a failure shows why there was a question
    skip_unless("full")
    monkeypatch.setattr(Rehearsing, "is_on", True)
    # two looks; a script without a look, and its check; two looks and a script that books a room
    assert count_questions(each=61) == Questions(tasks=3, always=2 + 2 + 4, looking=0 + 1 + 2)
