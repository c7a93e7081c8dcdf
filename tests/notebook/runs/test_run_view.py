"""The view of a run: table, timeline, reasons, and safe text."""

import re

import pytest

from tests.notebook.outline import stands_alone
from tests.notebook.runs.examples import AFTER, FIVE, HOSTILE, ZERO, event, op, operation, run
from tract_jupyter.notebook.runs import RunView, inspected
from tract_jupyter.runs import OperationStatus, RunNote, RunStatus, Skip


def html_of(shown, **parts):
    html = RunView(shown, **parts).to_html()
    stands_alone(html)
    return html


def rows_of(html):
    """The operations in the table, with the text of each cell."""
    table = html.partition('data-testid="tract-run-operations"')[2].partition("</table>")[0]
    rows = [
        [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", table)
    ]
    return {row[0]: row for row in rows if row and row[0] != "main call"}


def test_head_table_and_time_line():
    html = html_of(run(*FIVE))
    for word in (
        "Run 7f3a9c1e",
        "generate",
        "research",
        "main",
        "4.00 s",
        "c0ffee12",
        "abababab",
        "The survey.",
    ):
        assert word in html
    rows = rows_of(html)
    assert len(rows) == 5
    assert rows["guard"][3:8] == ["✓ done, required", "", "80 ms", "1", "1"]
    assert [row[8] for row in rows.values()] == ["", "", "retrieve, guard", "guard", ""]
    assert "up to 2 operations at once" in html
    assert "Committed before the main call: guard → retrieve → rewrite → style" in html
    assert "its own time is not known" in html


def test_as_text():
    text = RunView(run(*FIVE), inspection=inspected(run(*FIVE))).to_text()
    assert text.startswith("Run 7f3a9c1e: done (trigger generate, profile research, branch main, time 4.00 s")
    assert re.search(r"^  ✓!guard +━ +80 ms  #1$", text, re.MULTILINE)
    assert re.search(r"^✓ main call +━+$", text, re.MULTILINE)
    assert "Committed after it: summary" in text
    assert "Prompt: 12 messages: 1 added, 2 changed, 9 unchanged" in text
    assert text.endswith("Reply:\n  The survey.")


@pytest.mark.parametrize("status", RunStatus)
def test_every_status_of_a_run(status):
    shown = run(*FIVE, status=status, failed_type="main_llm" if status == "failed" else None)
    assert f'data-status="{status.value}"' in html_of(shown)
    assert f": {status.value} (" in RunView(shown).to_text()


@pytest.mark.parametrize("status", OperationStatus)
def test_every_status_of_an_operation(status):
    html = html_of(run(op("x", status=status, start=0, took=1)))
    assert rows_of(html)["x"][3].endswith(f" {status.value}")
    assert f"tract-when tract-{status.value}" in html


def test_notes_and_debug_data_are_shown():
    told = [
        RunNote(operation_id="a", hook="before_main_llm", title="Thought", text=HOSTILE),
        RunNote(
            operation_id="b",
            hook="after_main_llm",
            title="b",
            text="Seen.",
            anchor="depth_from_end",
            depth_from_end=-2,
        ),
    ]
    shown = run(op("a", debug={"rendered": HOSTILE}), op("b"), notes=told)
    html = html_of(shown)
    assert html.count('data-testid="tract-run-notes"') == html.count('data-testid="tract-run-debug"') == 1
    assert "system, 2 messages before the end" in html
    assert HOSTILE not in html
    text = RunView(shown).to_text()
    assert "Note b, system, 2 messages before the end: Seen." in text
    assert 'Debugging a: {"rendered": ' in text
    plain = html_of(run(op("a")))
    assert "tract-run-notes" not in plain
    assert "tract-run-debug" not in plain


def test_reasons_come_once_the_worst_first():
    off = [op(f"off{n}", status="skipped", skip=Skip(reason="disabled")) for n in range(12)]
    shown = run(*off, op("bad", status="error", error_code="timeout", required=True), status="failed")
    text = RunView(shown).to_text()
    assert "✕ bad (required): It took too long.\n" in text
    assert "off0, off1, off10, off11, off2, off3, off4, off5 and 4 more: It is switched off" in text
    assert text.index("bad (required)") < text.index("off5 and 4 more")
    # once as a reason, and for each operation in the table
    assert html_of(shown).count("It is switched off in the profile.") == 1 + 12


def test_uncommitted_effects_are_reported():
    """E7: a commit error of an optional operation is visible."""
    entry = {
        "operationId": "a", "effectIndex": 0, "effectType": "artifact.upsert", "status": "error",
        "error": {"code": "policy_error", "message": "not here"},
    }  # fmt: skip
    shown = run(op("a"), reports=({"hook": "before_main_llm", "order": ["a"], "entries": [entry]},))
    said = "Its effect artifact.upsert was not committed. It requested an effect that is not allowed here: not here."
    assert said in html_of(shown)
    assert f"✕ a: {said}" in RunView(shown).to_text()


def test_an_unfinished_run_names_its_running_operations():
    plan = event("run.started", operations=(operation("a"), operation("b"), operation("c", AFTER)))
    begun = event("operation.started", 1, hook="before_main_llm", operation_id="b", started_at=ZERO + 1)
    shown = run(op("a", start=0, took=1), status="running", finished_at=None, reply=None)
    view = RunView(shown, (plan, begun), now=ZERO + 3)
    assert "1 of 3 operations have ended; running: b" in view.to_text()
    assert "time 3.00 s" in view.to_text()
    assert "width:33.3%" in view.to_html()
    assert 'data-status="running"' in view.to_html()


def test_without_operations():
    html = html_of(run())
    assert "No operations" in html
    assert "main call" in RunView(run()).to_text()


def test_one_operation_that_took_no_time():
    assert len(rows_of(html_of(run(op("x", start=0, took=0))))) == 1
    assert "✓ x" in RunView(run(op("x", start=0, took=0), reply=None)).to_text()


def many(count):
    return run(*(op(f"step{n}", start=n * 0.01, took=0.5, order=n, depends_on=(f"step{n // 2}",) if n > 1 else ())
                 for n in range(count)))  # fmt: skip


@pytest.mark.parametrize("count", [1, 5, 30, 60, 200])
def test_any_number_has_its_place(count):
    html = html_of(many(count))
    assert len(rows_of(html)) == count
    assert html.count('<span class="tract-when ') == count + 1  # plus the main call
    assert ('data-testid="tract-run-operations" open' in html) == (count <= 30)
    assert len(html) < 4_000 * (count + 5)
    assert len(RunView(many(count)).to_text().splitlines()) < 60


def test_any_text_is_safe():
    bad = op(
        HOSTILE,
        name=HOSTILE,
        kind=HOSTILE,
        status="error",
        start=0,
        took=1,
        error_code="x",
        error_message=HOSTILE,
    )
    skip = Skip(reason=HOSTILE, blocked_by=(HOSTILE,), condition={"source": HOSTILE, "actual": HOSTILE})
    shown = run(
        bad, op("y", status="skipped", skip=skip, depends_on=(HOSTILE,)), op("z", name="名前" * 40, start=0, took=1),
        run_id=HOSTILE, profile=HOSTILE, branch=HOSTILE, reply=HOSTILE, status="failed", failed_type="before_barrier",
        failed_details={"operationId": HOSTILE},
    )  # fmt: skip
    html, text = html_of(shown, inspection=inspected(shown)), RunView(shown).to_text()
    assert "<script" not in html
    for odd in ("\x1b", "\u202e", "\x00"):
        assert odd not in html
        assert odd not in text
    html.encode()
    assert "名前" * 10 in html


def test_ipython_shows_it():
    assert set(RunView(run())._repr_mimebundle_()) == {"text/html", "text/plain"}
