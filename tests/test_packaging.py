"""The wheel: what is in it, and the opt-in that loads the extension in every session."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LABEXTENSION = "share/jupyter/labextensions/tract-jupyter-labextension/"
STARTUP = Path(sys.prefix) / "etc" / "ipython" / "startup" / "50-tract_jupyter.py"


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    # without npm, the wheel has the present build of the JupyterLab extension, or none
    without_npm = {**os.environ, "PATH": ""}
    subprocess.run(command, cwd=ROOT, env=without_npm, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return {one.filename: one.file_size for one in zipfile.ZipFile(wheel).infolist()}


def test_the_wheel_has_every_file_of_the_package(wheel_names):
    source = ROOT / "tract_jupyter"
    files = [p for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    missing = {p.relative_to(ROOT).as_posix() for p in files} - set(wheel_names)
    assert not missing
    assert {"tract_jupyter/py.typed", "tract_jupyter/notebook/panels/panel.js"} <= set(wheel_names)


def test_the_wheel_installs_the_opt_in_and_nothing_else_beside_the_package(wheel_names):
    others = [n for n in wheel_names if not n.startswith("tract_jupyter/") and ".dist-info/" not in n]
    places = {n.partition(".data/data/")[2]: wheel_names[n] for n in others}
    extension = {n: size for n, size in places.items() if n.startswith(LABEXTENSION)}
    assert places.keys() - extension.keys() == {
        "etc/ipython/startup/50-tract_jupyter.py",
        "etc/jupyter/jupyter_server_config.d/tract_jupyter.json",
    }
    if extension:
        assert {LABEXTENSION + "package.json", LABEXTENSION + "install.json"} <= extension.keys()
        assert sum(size for n, size in extension.items() if n.endswith(".js")) < 150_000


def test_the_packages_of_the_labextension_name_no_registry():
    for name in ("package.json", "package-lock.json", ".npmrc"):
        text = (ROOT / "labextension" / name).read_text()
        assert not re.search(r"registry\.|\"resolved\"|file:|link:|/home/|/tmp/", text), name
    lock = json.loads((ROOT / "labextension" / "package-lock.json").read_text())["packages"]
    assert all("integrity" in one for path, one in lock.items() if path)


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
