"""The graph of a history: positions of commits and lines, their texts, and safe text."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notebook.outline import stands_alone
from tract_jupyter.models import BranchInfo, CommitInfo, CommitOperation, Priority
from tract_jupyter.notebook.views import graph, lay_out

HOSTILE = "</title></svg><script>alert('1')</script> & \"quotes\" \x1b[31m \u202e\x00\ud800\nnext"
START = datetime(2025, 3, 4, 12, tzinfo=UTC)


def hash_of(name):
    return str(name).ljust(64, "x")


def commit(name, *parents, at=0, operation="append", target=None, **parts):
    given = {
        "tract_id": "t", "content_hash": "c", "content_type": "dialogue", "message": f"message {name}",
        "token_count": 7, "token_counter": "o200k_base", "generation": at,
        "metadata": {}, "generation_config": {}, **parts,
    }  # fmt: skip
    return CommitInfo(
        commit_hash=hash_of(name),
        parent_hash=hash_of(parents[0]) if parents else None,
        merge_parents=tuple(map(hash_of, parents[1:])),
        operation=CommitOperation(operation),
        edit_target=None if target is None else hash_of(target),
        created_at=START + timedelta(seconds=at),
        **given,
    )


def branch(name, tip, *, current=False):
    return BranchInfo(name, None if tip is None else hash_of(tip), current)


def chain(count):
    return [commit(n, *([n - 1] if n else []), at=n) for n in range(count)]


FORKED = [
    commit("a", at=0),
    commit("b", "a", at=1),
    commit("c", "b", at=2),
    commit("d", "b", at=3),
    commit("e", "c", "d", at=4, operation="merge"),
]


def text_of(commits, branches=(), head=None, **parts):
    return graph(commits, branches, head=None if head is None else hash_of(head), **parts).to_text()


def html_of(commits, branches=(), head=None, **parts):
    return graph(commits, branches, head=None if head is None else hash_of(head), **parts).to_html()


def lanes_of(text):
    """The drawing without the text."""
    lines = text.splitlines()[1:]
    return [re.split(r" [0-9a-z]x{7}|older|  +[^ ●○◆▲•◎│]", line)[0].rstrip() for line in lines]


# positions


def test_a_chain_is_one_lane():
    assert text_of(chain(3), [branch("main", 2, current=True)], 2) == (
        "History: 3 commits on 1 branch\n"
        f"● 2xxxxxxx (HEAD → main) dialogue: message 2 · 7 tokens · {local(2)}\n"
        f"● 1xxxxxxx dialogue: message 1 · 7 tokens · {local(1)}\n"
        f"● 0xxxxxxx dialogue: message 0 · 7 tokens · {local(0)}\n"
        "● normal"
    )


def local(seconds):
    return (START + timedelta(seconds=seconds)).astimezone().strftime("%H:%M:%S")


def test_a_merge_has_two_lines_to_its_parents():
    text = text_of(FORKED, [branch("main", "e", current=True), branch("side", "d")], "e")
    assert lanes_of(text)[:7] == ["◎", "├─╮", "│ ●", "● │", "├─╯", "●", "●"]
    assert "merge: message e" in text


def test_lines_cross_if_necessary():
    commits = [commit("a", at=0), commit("b", "a", at=1), commit("c", "a", at=2), commit("d", "a", at=3),
               commit("e", "b", "d", at=4, operation="merge")]  # fmt: skip
    assert "├─┴─╯" in text_of(commits, [branch("main", "e"), branch("x", "c")])


def test_a_merge_of_three_opens_a_lane_for_each():
    commits = [
        *(commit(name, at=n) for n, name in enumerate("abc")),
        commit("m", "a", "b", "c", at=9, operation="merge"),
    ]
    assert lanes_of(text_of(commits))[:2] == ["◎", "├─┬─╮"]


def test_main_keeps_the_left_lane_though_another_branch_is_newer():
    commits = [commit("a", at=0), commit("b", "a", at=1), commit("c", "a", at=2)]
    branches = [branch("dev", "c"), branch("main", "b")]
    assert lanes_of(text_of(commits, branches))[:3] == ["  ●", "● │", "├─╯"]


def test_children_are_above_their_parents_whatever_the_clock_says():
    commits = [commit("a", at=9), commit("b", "a", at=5), commit("c", "b", at=1)]
    assert [info.message for info in lay_out(commits, []).commits] == ["message c", "message b", "message a"]


def test_lines_continue_below_a_cut_history():
    text = text_of(FORKED[2:], [branch("main", "e", current=True)], "e")
    assert text.splitlines()[-2].endswith("older commits are not shown")
    assert text.splitlines()[-2].startswith("┆ ┆")
    assert 'class="tract-c0 tract-cut"' in html_of(FORKED[2:], [branch("main", "e")])


@st.composite
def histories(draw):
    count = draw(st.integers(0, 14))
    commits = []
    for number in range(count):
        known = list(range(number))
        parents = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
        commits.append(commit(number, *parents, at=draw(st.integers(0, 5))))
    shown = draw(st.permutations(commits))[: draw(st.integers(0, count))]
    tips = draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=4, unique=True)) if count else []
    return shown, [branch(f"b{tip}", tip) for tip in tips]


@given(histories())
def test_any_history_is_drawn_whole(history):
    commits, branches = history
    layout = lay_out(commits, branches)
    rows = {info.commit_hash: row for row, info in enumerate(layout.commits)}
    assert sorted(rows) == sorted(info.commit_hash for info in commits)
    wanted = sorted((rows[i.commit_hash], rows.get(p, -1)) for i in commits for p in i.parents)
    assert sorted((e.child, -1 if e.parent is None else e.parent) for e in layout.edges) == wanted
    for edge in layout.edges:
        end = len(rows) if edge.parent is None else edge.parent
        assert edge.child < end
        assert edge.child_column == layout.columns[edge.child]
        assert edge.parent is None or edge.parent_column == layout.columns[edge.parent]
        # no line runs through the dot of another commit
        assert edge.lane not in layout.columns[edge.child + 1 : end]
    drawn = graph(commits, branches, head=None)
    assert drawn.to_text()
    stands_alone(drawn.to_html())


@given(histories())
def test_lines_of_one_lane_overlap_only_if_they_have_the_same_parent(history):
    layout = lay_out(*history)
    parents = {}
    for edge in layout.edges:
        parent = layout.commits[edge.parent].commit_hash if edge.parent is not None else None
        for row in range(edge.child + 1, len(layout.commits) if edge.parent is None else edge.parent):
            assert parents.setdefault((edge.lane, row), parent) == parent or parent is None


# texts


def test_kinds_by_type_role_and_operation():
    calls = {
        "tool_calls": [
            {"id": "1", "name": "search", "arguments": {}},
            {"id": "2", "name": "read", "arguments": {}},
        ]
    }
    commits = [
        commit(0, at=0, content_type="instruction", priority=Priority.PINNED),
        commit(1, 0, at=1),
        commit(2, 1, at=2, metadata=calls),
        commit(3, 2, at=3, metadata={"tool_call_id": "1", "name": "search"}),
        commit(
            4,
            3,
            at=4,
            metadata={"tool_call_id": "2", "name": "read", "is_error": True},
            priority=Priority.SKIP,
        ),
        commit(5, 4, at=5, operation="edit", target=1),
        commit(6, 5, at=6, operation="annotate", target=3, priority=Priority.PINNED),
        commit(7, 6, at=7, operation="annotate", target=3, priority=Priority.SKIP),
        commit(8, 7, at=8, operation="annotate", target=3, priority=Priority.NORMAL),
        commit(9, 8, at=9, operation="annotate", target=3, priority=Priority.IMPORTANT),
    ]
    text = text_of(commits, roles={hash_of(1): "user", hash_of(2): "assistant"})
    for said in (
        "◆ 0xxxxxxx instruction:", "● 1xxxxxxx user:", "● 2xxxxxxx assistant calls search, read:",
        "● 3xxxxxxx result of search:", "○ 4xxxxxxx failed result of read:", "• 5xxxxxxx edit of 1xxxxxxx:",
        "• 6xxxxxxx pin 3xxxxxxx:", "• 7xxxxxxx skip 3xxxxxxx:", "• 8xxxxxxx back to normal 3xxxxxxx:",
        "• 9xxxxxxx mark important 3xxxxxxx:",
    ):  # fmt: skip
        assert said in text


@pytest.mark.parametrize("calls", [5, "x", {"a": 1}, [1, None], [{}], [{"name": None}], [{"name": 5}]])
def test_metadata_can_be_anything(calls):
    assert "dialogue" in text_of([commit(1, metadata={"tool_calls": calls})])


def test_each_priority_has_its_own_shape():
    commits = [commit(n, at=n, priority=priority) for n, priority in enumerate(Priority)]
    rows = html_of(commits).split('<g role="listitem"')[1:]
    shapes = {re.search(r'<\w+ class="tract-dot[^>]*>', row).group() for row in rows}
    diamond, triangle, circle, hollow = "l6 6l-6 6l-6-6z", "l6 10.5h-12z", 'r="4.5"', "tract-hollow"
    for shape in (diamond, triangle, circle, hollow):
        assert len([drawn for drawn in shapes if shape in drawn]) == 1
    assert text_of(commits).endswith("◆ pinned  ▲ important  ● normal  ○ skip")


def test_estimates_are_marked():
    text = text_of([commit(1, token_counter="approximate", token_count=1234)])
    assert "≈1,234 tokens" in text


def test_labels_name_branches_head_and_tags():
    commits = [commit("a"), commit("b", "a", at=1, tags=("v1", "answer"))]
    branches = [branch("main", "b", current=True), branch("dev", "b"), branch("old", "a")]
    text = text_of(commits, branches, "b")
    assert "(HEAD → main, dev, #v1, #answer)" in text
    assert "(old)" in text


def test_a_detached_head_is_shown_at_its_commit():
    text = text_of(chain(3), [branch("main", 2)], 1)
    assert "1xxxxxxx (detached HEAD)" in text
    assert "2xxxxxxx (main)" in text


def test_many_labels_are_counted():
    branches = [branch(f"b{n:03}", "a") for n in range(300)]
    text = text_of([commit("a")], branches)
    assert "(b000, b001, b002, b003, b004, b005, 294 more)" in text
    assert len(html_of([commit("a")], branches)) < 10_000


def test_branches_outside_of_the_graph_are_named():
    branches = [branch("main", 4, current=True), branch("empty", None), branch("far", 0)]
    text = text_of(chain(5)[3:], branches, 4)
    assert "Without commits: empty" in text
    assert "Not among these commits: far (0xxxxxxx)" in text
    assert "HEAD (0xxxxxxx)" in text_of(chain(5)[3:], [branch("main", 4)], 0)


def test_nothing_yet():
    for made in (text_of([], [branch("main", None, current=True)]), html_of([])):
        assert "No commits yet." in made
    assert "<svg" not in html_of([])


def test_times_are_as_long_as_tells_them_apart():
    day = 86_400
    assert re.search(r"· \d\d:\d\d:\d\d$", text_of([commit(1)]), re.MULTILINE)
    assert re.search(r"· \d\d-\d\d \d\d:\d\d$", text_of([commit(1), commit(2, at=3 * day)]), re.MULTILINE)
    assert re.search(
        r"· \d{4}-\d\d-\d\d \d\d:\d\d$", text_of([commit(1), commit(2, at=400 * day)]), re.MULTILINE
    )


def test_hovering_shows_the_content_and_the_full_hash():
    content = "x" * 700 + "\nend"
    [title] = stands_alone(
        html_of([commit(1, context_messages=3, context_tokens=99)], contents={hash_of(1): content})
    ).texts["title"]
    assert title.startswith(hash_of(1))
    assert "x" * 600 + "… 104 more characters" in title
    assert "x" * 601 not in title
    assert "the context up to here: 3 messages, 99 tokens" in title


def test_a_screen_reader_gets_a_list_of_commits():
    outline = stands_alone(html_of(chain(2), [branch("main", 1, current=True)], 1))
    assert outline.attributes["role"].count("list") == 1
    assert outline.attributes["role"].count("listitem") == 2
    labels = outline.attributes["aria-label"]
    assert f"1xxxxxxx dialogue, normal, 7 tokens, {local(1)}, HEAD → main, message 1" in labels
    assert "2 commits on 1 branch, newest first" in labels


def test_colours_do_not_change_with_a_new_branch_or_a_switch():
    def colour(name, branches):
        html = html_of([commit("a"), commit("b", "a", at=1), commit("c", "a", at=2)], branches)
        row = next(g for g in html.split('<g role="listitem"') if name in g)
        return re.search(r"tract-c\d", row).group()

    before = [branch("main", "b", current=True), branch("dev", "c")]
    after = [branch("main", "b"), branch("dev", "c", current=True), branch("zz", "c")]
    for name in ("message b", "message c"):
        assert colour(name, before) == colour(name, after)
    assert colour("message b", before) != colour("message c", before)


# any text, any size


def test_hostile_text_is_only_text():
    commits = [
        commit("a", message=HOSTILE, tags=(HOSTILE,), content_type=HOSTILE),
        commit("b", at=1, metadata={"tool_call_id": 1, "name": HOSTILE}),
    ]
    branches = [
        branch(HOSTILE, "a", current=True),
        branch("gone" + HOSTILE, "zz"),
        branch("none" + HOSTILE, None),
    ]
    made = graph(
        commits, branches, head=hash_of("a"), contents={hash_of("a"): HOSTILE}, roles={hash_of("b"): HOSTILE}
    )
    bundle = made._repr_mimebundle_()
    outline = stands_alone(bundle["text/html"])
    assert "</title></svg><script>alert('1')</script> & \"quotes\"" in outline.text
    for text in bundle.values():
        assert not set("\x1b\u202e\x00\ud800") & set(text)
        text.encode()
    assert len(bundle["text/plain"].splitlines()) == 6


@given(st.text(max_size=300))
def test_any_text_gives_balanced_html(text):
    made = graph(
        [commit("a")._replace(message=text, tags=(text,))],
        [branch(text, "a")],
        head=None,
        contents={hash_of("a"): text},
    )
    stands_alone(made.to_html())
    assert len(made.to_text().splitlines()) == 3


def test_many_commits_make_a_page_of_bounded_size():
    commits = chain(1_000)
    contents = {info.commit_hash: "word " * 10_000 for info in commits}
    html = html_of(commits, [branch("main", 999, current=True)], 999, contents=contents)
    assert len(html) < 2_000 * len(commits)
    assert html.count('role="listitem"') == 1_000


def test_a_long_message_is_cut():
    assert "x" * 71 + "…" in text_of([commit("a", message="x" * 10_000_000)])


def test_ipython_shows_it(bare_shell):
    bare_shell.namespace["made"] = graph(FORKED, [branch("main", "e", current=True)], head=hash_of("e"))
    result = bare_shell.run("from IPython.display import display; display(made)")
    assert "<svg" in result.html
    assert "├─╮" in result.text
