"""The effects of library calls are data. The user's own files add to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.helpers import analyze, found
from tract_jupyter.analysis import EffectsError, own_effects, use_effects

HOUSE = """
same = '''
acme.Client(): acme.connect() acme.Pool().get()
'''
paths = '''
read acme.frames: load
'''

[symbols]
starts-program = '''
critical acme.jobs: submit          # on the cluster
critical acme.Client(): run
'''

[keywords]
allows-code = '''
high any: post_hook
high =unsafe: mode
'''

[sets]
changes-imports = '''
high acme.settings: plugin_folder
high *: post_install
'''

[[calls]]
rule = "evaluates-expression"
names = "acme.rules: evaluate"
at = ["rule", 1]
level = "high"
levels = { plain = "none" }
"""


@pytest.fixture
def house(tmp_path):
    path = tmp_path / "effects.toml"
    path.write_text(HOUSE)
    use_effects([path])
    yield path
    use_effects([])


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (("TJ101", "critical"), "from acme.jobs import submit\nsubmit('x')"),
        (("TJ101", "critical"), "import acme\nclient = acme.connect('host')\nclient.run('x')"),
        (("TJ101", "critical"), "import acme\nwith acme.Pool().get() as client:\n    client.run('x')"),
        (("TJ204", "high"), "import acme\nacme.frames.load('/etc/x')"),
        (("TJ111", "high"), "anything(post_hook='x')"),
        (("TJ111", "high"), "anything(mode='unsafe')"),
        (("TJ406", "high"), "import acme\nacme.settings.plugin_folder = 'x'"),
        (("TJ406", "high"), "import acme\nacme.settings['plugin_folder'] = 'x'"),
        (("TJ406", "high"), "import acme\nacme.settings.update({'plugin_folder': 'x'})"),
        (("TJ406", "high"), "import acme\nsetattr(acme.settings, 'plugin_folder', 'x')"),
        (("TJ406", "high"), "config['post_install'] = 'x'"),
        (("TJ105", "high"), "import acme\nacme.rules.evaluate(data, text)"),
        (("TJ105", "high"), "import acme\nacme.rules.evaluate(data, rule='__import__(\"os\")')"),
        (("TJ105", "high"), "import acme\nacme.rules.evaluate(*given)"),
    ],
)
def test_a_users_file_defines_the_effects_of_calls(house, expected, code):
    assert expected in found(code)


@pytest.mark.parametrize(
    "code",
    [
        "import acme\nacme.rules.evaluate(data, 'a + b * 2')", "import acme\nacme.frames.load('data/x')",
        "anything(mode='safe')", "import acme\nprint(acme.settings.plugin_folder)", "class A:\n def f(self): self.post_install = 1",
    ],
)  # fmt: skip
def test_a_users_file_does_not_make_similar_calls_risky(house, code):
    assert found(code) == set()


def test_without_the_file_nothing_of_it_is_known(house):
    use_effects([])
    assert own_effects() == ()
    assert "TJ101" not in {
        finding.code for finding in analyze("import acme.jobs\nacme.jobs.submit('x')").findings
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[symbols]\nstart-program = 'high a: b'", "'start-program'.*Did you mean 'starts-program'"),
        ("[symbols]\nstarts-program = 'hihg a: b'", "hihg"),
        ("[symbol]\n", "there is no section 'symbol'"),
        ("paths = 'reads a: b'", "kind of path 'reads'"),
        ("[[calls]]\nrule = 'runs-text'\nnames = 'a: b'\n", "a.b of runs-text needs a level"),
        ("[[calls]]\nnames = 'a: b'\n", "'rule' and 'names' are required"),
        (
            "[[calls]]\nrule = 'runs-text'\nnames = 'a: b'\nlevel = 'high'\nat = 'shell'",
            "at is a list.*'shell'",
        ),
        (
            "[[calls]]\nrule = 'runs-text'\nnames = 'a: b'\nlevel = 'high'\nwhere = ['a', 'b', 'c']",
            "where is a list",
        ),
        ("[symbols", "cannot be used"),
        ("[symbols]\nstarts-program = 3", "cannot be used"),
    ],
)
def test_a_file_that_says_something_else_is_refused_and_nothing_changes(house, tmp_path, text, problem):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text)
    with pytest.raises(EffectsError, match=problem):
        use_effects([wrong])
    assert own_effects() == (str(house),)


def test_a_file_that_is_missing_and_a_text_are_refused(tmp_path):
    with pytest.raises(EffectsError, match=r"missing\.toml"):
        use_effects([tmp_path / "missing.toml"])
    with pytest.raises(EffectsError, match="as a list"):
        use_effects("effects.toml")


def test_the_example_in_the_documentation_can_be_used(tmp_path):
    text = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text(encoding="utf-8")
    path = tmp_path / "example.toml"
    path.write_text(text.partition("```toml\n# What calls return")[2].partition("```")[0].partition("\n")[2])
    use_effects([path])
    assert own_effects() == (str(path),)
    use_effects([])
