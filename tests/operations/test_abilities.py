"""What code can do, in a sentence, for a new operation and for another version of one."""

import json

import pytest

from tract_jupyter.operations import ActionDef, OperationSpec


def summary(tract, *codes, isolation="", approve=True):
    """The sentence of the last of several versions; those before are approved."""
    said = ""
    for number, code in enumerate(codes):
        action = ActionDef("go", "Go.", {}, code, **({"isolation": isolation} if isolation else {}))
        spec = OperationSpec("one", "Do it.", {"path": {"type": "str"}}, {"go": action}, version=str(number))
        pending = tract.propose_operation(spec)
        tables = {table.title: table for table in pending.review_request().tables}
        (said,) = [table.summary for table in tables.values() if table.title.startswith("What it can")]
        pending.approve()
    return said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("pending.approve()", "No use of files, the network, other programs, tools or the context was found."),
        ("import subprocess\nsubprocess.run(['ls'])", "Can start other programs."),
        ("open('notes.txt').read()", "Can read notes.txt."),
        ("open(pending.fields['path'], 'w').write('x')", "Can write any file."),
        ("import os\nos.remove('a')\nopen('b', 'w')", "Can delete a and write b."),
        ("words = pending.tract.compile()", "Can read the context."),
        ("pending.tract.commit('x')", "Can change the context."),
        ("import requests\nrequests.get('https://example.com/x')", "Can contact example.com."),
        ("import requests\nrequests.get(pending.fields['path'])", "Can use the network."),
        ("tools.save_table(rows=1)", "Can call the tool save_table."),
        ("tools.a()\ntools.b()\ntools.c()\ntools.d()", "Can call the tools a, b and 2 more tools."),
        (
            "import subprocess\nsubprocess.run(['ls'])\npending.tract.log()\nopen(pending.fields['path'], 'w')",
            "Can start other programs, write any file and read the context.",
        ),
    ],
)  # fmt: skip
def test_a_sentence_says_what_a_new_operation_can_do(tract, code, said):
    assert summary(tract, code) == said


def test_of_another_version_it_says_what_is_new_first(tract):
    before = "pending.tract.log()\nopen(pending.fields['path'], 'w').write('x')\npending.approve()"
    after = "import subprocess\nsubprocess.run(['ls'])\npending.tract.log()\npending.approve()"
    said = "New: start other programs. Unchanged: read the context. No longer: write any file."
    assert summary(tract, before, after) == said
    assert (
        summary(tract, after, after + "\nprint(1)") == "Unchanged: start other programs and read the context."
    )


def test_the_same_stands_in_the_text_of_a_request(tract):
    from tract_jupyter.review import request_text

    spec = OperationSpec("one", "Do it.", {}, {"go": ActionDef("go", "Go.", {}, "open('a').read()")})
    ticket = tract.reviewer.show(tract.propose_operation(spec))
    assert "What it can access: Can read a." in request_text(ticket)


def test_a_sentence_survives_a_restart(tract):
    from tract_jupyter.review import request_from_dict, request_to_dict

    spec = OperationSpec("one", "Do it.", {}, {"go": ActionDef("go", "Go.", {}, "open('a').read()")})
    request = tract.propose_operation(spec).review_request()
    assert request_from_dict(json.loads(json.dumps(request_to_dict(request)))).tables == request.tables
