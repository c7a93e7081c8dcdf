"""The wheel: what is in it, and the opt-in that loads the extension in every session."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STARTUP = Path(sys.prefix) / "etc" / "ipython" / "startup" / "50-tract_jupyter.py"


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_every_file_of_the_package(wheel_names):
    source = ROOT / "tract_jupyter"
    files = [p for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    missing = {p.relative_to(ROOT).as_posix() for p in files} - wheel_names
    assert not missing
    assert {"tract_jupyter/py.typed", "tract_jupyter/notebook/panels/panel.js"} <= wheel_names


def test_the_wheel_installs_the_opt_in_and_nothing_else_beside_the_package(wheel_names):
    others = [n for n in wheel_names if not n.startswith("tract_jupyter/") and ".dist-info/" not in n]
    assert [n.partition(".data/")[2] for n in others] == ["data/etc/ipython/startup/50-tract_jupyter.py"]


SVG = "xmlns='http://www.w3.org/2000/svg'"


def test_no_asset_names_an_address():
    for path in (ROOT / "tract_jupyter").rglob("*"):
        if path.suffix in {".js", ".css"}:
            text = path.read_text().replace(SVG, "")  # a name that icons need, which nothing fetches
            assert "://" not in text, path


def ipython(tmp_path, code):
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython"), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "-c", code]
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.skipif(not STARTUP.is_file(), reason="the package is not installed in this environment")
def test_autoload_is_off_until_one_line_switches_it_on(tmp_path):
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    probe = "import sys; print('tract' in dir(), 'tract_jupyter' in sys.modules)"
    assert ipython(tmp_path, probe).split()[-2:] == ["False", "False"]
    (profile / "ipython_config.py").write_text("c.TractJupyter.autoload = True\n")
    assert ipython(tmp_path, probe).split()[-2:] == ["True", "True"]
