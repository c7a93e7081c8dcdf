"""The history in a real JupyterLab: the graph, a context, a difference, undo."""

TALK = """\
%load_ext tract_jupyter
tract.system("You help with a data set of bird sightings. Answer in one short paragraph.")
question = tract.user("Which species was seen most often in spring?")
tract.assistant("The great tit, with 412 sightings between March and May.")
tract.branch("charts")
tract.user("Draw the monthly counts.")
tract.assistant("Here is the code of a bar chart …")
tract.annotate(question.commit_hash, "pinned", reason="the question that counts")
tract.switch("main")
tract.user("And in summer?")
tract.user("Which species was seen most often in summer, and where?", edit=tract.head)
"""


def test_the_history_is_seen_and_moved_in(open_lab, screenshot):
    lab = open_lab(
        TALK, "%tract log", "tract.compile(at_commit='charts')", "%tract diff main charts", "%tract undo"
    )
    for index in range(5):
        assert lab.run_cell(index)
    graph = lab.output(1).locator("svg[role]").first
    graph.wait_for()
    assert graph.locator("title").count() > 0  # the content, on hovering
    screenshot(lab, "history-graph", 1)
    assert "great tit" in lab.text(2)
    screenshot(lab, "history-context", 2)
    assert "summer" in lab.text(3)
    screenshot(lab, "history-diff", 3)
    assert "Nothing has moved yet" in lab.text(4)
    screenshot(lab, "history-undo", 4)
    lab.theme("JupyterLab Dark")
    screenshot(lab, "history-graph-dark", 1)
    screenshot(lab, "history-context-dark", 2)


def test_the_graph_survives_in_a_reopened_notebook(open_lab):
    lab = open_lab(TALK, "%tract log")
    for index in range(2):
        assert lab.run_cell(index)
    lab.save()
    lab.reopen()
    lab.output(1).locator("svg").first.wait_for()
