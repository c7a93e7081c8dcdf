from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, codes, found
from tract_jupyter.analysis import transform


@pytest.mark.parametrize(
    "code",
    [
        "!ls", "x = 1\n!ls", "!!ls", "x = !ls", "a.b, c = !ls {x}", "if x:\n    !ls\n", "%%bash\nls", "%%sh\nls",
        "\n\n%%bash\nls", "%%!\nls", "%%script perl\nx", "%system ls", "%sx ls", "x = %sx ls", "%sc x=ls",
        "for f in fs:\n    x = !cat {f}\n    print(x)", "  !ls", "x = [\n1]\n!ls", "s = '''\n'''\n!ls",
    ],
)  # fmt: skip
def test_shell_escapes(code):
    assert ("TJ103", "critical") in found(code)
    assert "TJ901" not in codes(code)


@pytest.mark.parametrize(
    ("code", "level"),
    [
        ("%pip install x", "high"),
        ("%run other.py", "high"),
        ("%load_ext evil", "high"),
        ("%%javascript\nfetch('x')", "high"),
        ("%%writefile ../x.py\nx", "high"),
        ("%%writefile x.py\nx", "low"),
        ("%%sql\nselect 1", "high"),
        ("%%never_heard_of\nx", "medium"),
        ("%never_heard_of", "low"),
        ("x = %env PATH", "medium"),
        ("%env PATH=/x", "high"),
        ("%set_env LD_PRELOAD x.so", "high"),
        ("%cd /", "medium"),
        ("%cd data", "low"),
        ("get_ipython().run_line_magic('run', 'x.py')", "high"),
        ("get_ipython().run_line_magic('sx', 'ls')", "critical"),
    ],
)
def test_the_level_of_a_magic_follows_its_effect(code, level):
    assert [str(f.level) for f in analyze(code).findings if f.code == "TJ104"] == [level]


@pytest.mark.parametrize(
    "code",
    [
        "%matplotlib inline\nimport numpy as np", "%load_ext autoreload\n%autoreload 2", "len?", "?len", "x.y??",
        "%timeit -n1 sum(x)", "%%time\nx = 1", "%%capture out\nprint(1)", "%tract_fire deploy env=prod", "%timeit",
        "%%tract_operation\nname: x", "%load_ext tract_jupyter", "get_ipython().run_line_magic('matplotlib', 'inline')",
        "%who", "await f()", "async with x: pass", "return 1", "x = y % z", "y = (a\n% b)", 's = """\n!ls\n%x\n"""',
        "if x != 1: pass", "f(a\n  !=b)", "x = a \\\n% b", "%time x = 1\nprint(x)", "x = %timeit -o f()",
    ],
)  # fmt: skip
def test_everyday_syntax_is_quiet(code):
    assert found(code) == set()


@pytest.mark.parametrize(
    "code",
    [
        "%timeit eval('1')",
        "%%time\neval('1')",
        "%%capture\neval('1')",
        "%%timeit eval('1')\n1",
        "%time eval('1')",
    ],
)
def test_python_inside_magics_is_analysed(code):
    assert ("TJ102", "critical") in found(code)


UNKNOWN_MAGICS = {
    "%%never_heard_of\nimport os\nos.system('x')": ("TJ101", "critical"),
    "%%never_heard_of a b\n!ls": ("TJ103", "critical"),
    "%%never_heard_of\nimport shutil\nshutil.rmtree('/')": ("TJ203", "critical"),
    "%%never_heard_of\ncd x\nrm -rf ~/data": ("TJ103", "high"),
    "%%never_heard_of db\nDROP TABLE x;": ("TJ206", "high"),
    "%%never_heard_of\nselect 1;\n-- a\ntruncate table x": ("TJ206", "high"),
    "%never_heard_of rm -rf ~/data": ("TJ103", "high"),
    "%never_heard_of drop table x": ("TJ206", "high"),
}


@pytest.mark.parametrize(("code", "finding"), UNKNOWN_MAGICS.items())
def test_arguments_of_an_unknown_magic_are_analysed(code, finding):
    assert finding in found(code)


def test_the_place_within_an_unknown_magic_is_true():
    finding = next(f for f in analyze("%%x y\na = 1\neval('1')").findings if f.code == "TJ102")
    assert (finding.span.line, finding.text) == (3, "eval")


@pytest.mark.parametrize(
    "body", ["x = 1", "x <- c(1, 2)", "SELECT 1", "ls", "fn main() {}", "drop the table"]
)
def test_a_harmless_body_of_an_unknown_magic_is_medium(body):
    assert found(f"%%never_heard_of\n{body}") == {("TJ104", "medium")}


def test_magics_of_this_package_are_known():
    assert found("%%tract_operation\nname: x\ncode: |\n  rm -rf x") == set()


def test_showing_all_variables_of_the_environment():
    assert found("%env") == {("TJ104", "high")}
    assert found("%env HOME") == {("TJ104", "medium")}


def test_code_after_a_shell_escape_is_analysed():
    assert {("TJ103", "critical"), ("TJ102", "critical")} <= found("!ls\neval('1')")
    assert {("TJ103", "critical"), ("TJ901", "high")} <= found("!ls\ndef f(:")


@pytest.mark.parametrize(
    "code", ["!a \\\n b\nx = 1", "%%bash\na\nb", "x\ny?\n%z\r\n!q", "%%time\nx", "", "\n\n"]
)
def test_transforming_keeps_the_number_of_lines(code):
    assert transform(code).code.count("\n") == code.count("\n")


def test_plain_python_comes_back_unchanged():
    code = "x = (1\n  % 2)\ns = '''\n%a\n!b'''\n# !c\ny = x \\\n  % 3\nz = '%d' % x\n"
    assert transform(code).code == code
    assert transform(code).escapes == ()


AUTOMAGIC = {
    "pip install x": ("TJ104", "high"), "rm -rf x": ("TJ104", "high"), "sx(id)": ("TJ103", "critical"),
    "system reboot": ("TJ103", "critical"), "cat /etc/passwd": ("TJ104", "medium"), "  run x.py": ("TJ104", "high"),
    "/eval x": ("TJ102", "critical"), ",exec x": ("TJ102", "critical"), ";eval x y": ("TJ102", "critical"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "finding"), AUTOMAGIC.items())
def test_magics_and_calls_without_their_signs(code, finding):
    assert finding in found(code)


@pytest.mark.parametrize(
    "code", ["cat + 1", "more = 1", "run", "history", "ls", "load.x", "cd data", "x = 1\npip"]
)
def test_cells_that_are_python_after_all(code):
    assert found(code) == set()


def test_a_user_function_is_not_taken_for_a_magic():
    assert found("run (1)", "def run(x):\n    return x") == set()


@pytest.mark.parametrize("code", ["%run?", "%%bash?", "!ls?", "x?", "?x", "os.path??"])
def test_asking_for_help_runs_nothing(code):
    assert found(code) == set()


def test_findings_in_magics_without_a_percent_sign_have_a_position():
    (finding,) = [f for f in analyze("  rm -rf x").findings if f.code == "TJ104"]
    assert (finding.span.column, finding.span.end_column, finding.text) == (2, 10, "rm -rf x")
    (finding,) = [f for f in analyze("/eval x").findings if f.code == "TJ102"]
    assert finding.text == "eval"
