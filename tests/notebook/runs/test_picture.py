"""The data for the view of a run: live states, the order of commits, the time of the main call."""

from tests.notebook.runs.examples import AFTER, BEFORE, FIVE, ZERO, event, op, operation, run
from tract_jupyter.notebook.runs import NodeState, picture

PLAN = event(
    "run.started", operations=(operation("a"), operation("b", depends_on=("a",)), operation("c", AFTER))
)


def going(*operations, **parts):
    return run(
        *operations, **{"status": "running", "finished_at": None, "reply": None, "prompt": (), **parts}
    )


def states(shown):
    return {node.id: node.state for node in shown.nodes}


def test_operations_that_have_not_begun_are_planned():
    shown = picture(going(), [PLAN])
    assert states(shown) == dict.fromkeys("abc", NodeState.PLANNED)
    assert shown.main is NodeState.PLANNED
    assert shown.ended == 0


def test_events_set_the_states_of_operations():
    events = [
        PLAN,
        event("operation.started", 1, hook=BEFORE, operation_id="a", started_at=ZERO + 1),
        event("operation.started", 2, hook=BEFORE, operation_id="b", started_at=ZERO + 2),
        event(
            "operation.progress",
            3,
            hook=BEFORE,
            operation_id="b",
            data={"done": 1, "total": 4, "message": "pages"},
        ),
        event("operation.attempt", 3, hook=BEFORE, operation_id="b", attempt=2),
        event("operation.waiting", 3, hook=AFTER, operation_id="c"),
        event("operation.started", 4, hook=BEFORE, operation_id="unknown", started_at=ZERO),
    ]
    shown = picture(going(op("a", start=1, took=0.5)), events)
    assert states(shown) == {"a": NodeState.DONE, "b": NodeState.RUNNING, "c": NodeState.WAITING}
    b = shown.of(BEFORE)[1]
    assert (b.note, b.attempts, b.span.end) == ("attempt 2", 2, None)
    assert shown.at == ZERO + 4
    assert picture(going(), events, now=ZERO + 60).at == ZERO + 60


def test_progress_in_words():
    def note(**data):
        return (
            picture(going(), [PLAN, event("operation.progress", hook=BEFORE, operation_id="a", data=data)])
            .nodes[0]
            .note
        )

    assert note(done=1, total=4, message="pages") == "1 of 4 pages"
    assert note(text="half\nway") == "half way"
    assert note(anything=[1]) == ""


def test_effects_are_committed_by_dependency_order_and_id():
    """R60, G8, G9: the ready queue. Only completed operations have effects."""
    done = [
        op("a", order=5), op("b", order=1, depends_on=("a",)), op("op10", order=3), op("op2", order=3),
        op("late", status="error", order=0),
    ]  # fmt: skip
    shown = picture(run(*done))
    assert [node.id for node in shown.committed[BEFORE]] == ["op10", "op2", "a", "b"]
    assert [node.committed for node in shown.committed[BEFORE]] == [1, 2, 3, 4]


def test_reports_know_better():
    shown = picture(run(op("a"), op("b"), reports=({"hook": "before_main_llm", "order": ["b", "a"]},)))
    assert [node.id for node in shown.committed[BEFORE]] == ["b", "a"]


def test_an_aborted_run_has_no_commits():
    """E14: operations that were completed before have no effects."""
    shown = picture(run(op("a"), op("b", AFTER), status="aborted", reply=None))
    assert shown.committed == {BEFORE: [], AFTER: []}
    assert shown.main is NodeState.SKIPPED
    assert shown.main_span is None


def test_an_unfinished_run_shows_commits_only_after_their_event():
    begun = event("operation.started", hook=BEFORE, operation_id="b", started_at=ZERO)
    assert not picture(going(op("a")), [PLAN, begun]).committed[BEFORE]
    assert picture(going(op("a")), [PLAN, event("commit.finished", hook=BEFORE)]).committed[BEFORE]


def test_the_main_call():
    assert picture(run(*FIVE)).main_span == (ZERO + 1.73, ZERO + 3.1, False)
    times = [event("main_llm.started", 1.5), event("main_llm.finished", 3)]
    assert picture(run(*FIVE), times).main_span == (ZERO + 1.5, ZERO + 3, True)
    assert picture(going(), times[:1]).main is NodeState.RUNNING
    assert picture(run(status="failed", failed_type="main_llm", reply=None)).main is NodeState.ERROR
    assert picture(run(status="aborted", finish_reason="user_abort")).main is NodeState.ABORTED


def test_a_circle_of_dependencies_can_be_drawn():
    """G6: such a plan is refused, but can be drawn."""
    shown = picture(
        run(
            op("a", depends_on=("b",)),
            op("b", depends_on=("a",)),
            op("c", depends_on=("c",)),
            status="failed",
        )
    )
    assert len(shown.nodes) == 3
