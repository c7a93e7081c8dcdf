"""Builds the JupyterLab extension into the wheel and the source distribution, if Node is there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
NAME = "tract-jupyter-labextension"
BUILT = HERE / "build" / NAME
STAMP = BUILT / "sources.sha256"  # the sources that the build is of; each build removes it first
SOURCES = (
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "webpack.config.cjs",
    "src/*",
    "style/*",
    "schema/*",
)
TARGET = f"share/jupyter/labextensions/{NAME}"


class LabExtensionHook(BuildHookInterface[Any]):
    """Adds the built extension to what hatchling packs. An older build of the same sources is used again.

    With `TRACT_REQUIRE_LABEXTENSION=1` in the environment, a build without the extension is an error.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build the extension, and name its files."""
        problem = _build()
        if problem and os.environ.get("TRACT_REQUIRE_LABEXTENSION") == "1":
            raise RuntimeError(problem)
        if problem:
            self.app.display_warning(
                f"The JupyterLab extension is left out: {problem} Everything else works without it."
            )
        elif self.target_name == "sdist":
            build_data["force_include"][str(HERE / "build")] = "labextension/build"
        else:
            build_data["shared_data"] |= {
                str(BUILT): TARGET,
                str(HERE / "install.json"): f"{TARGET}/install.json",
            }


def _build() -> str | None:
    """Return None if the build of the present sources is there, else why it is not."""
    digest = _hash_sources()
    if STAMP.is_file() and STAMP.read_text() == digest:
        return None
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "its build needs Node.js 18 or newer with npm."
    for command in ("run build",) if _has_packages() else ("ci", "run build"):
        # npm, with fixed arguments
        run = subprocess.run([npm, *command.split()], cwd=HERE, capture_output=True, text=True, check=False)  # noqa: S603
        if run.returncode:
            lines = (run.stdout + run.stderr).strip().splitlines()
            return f"`npm {command}` failed: {' '.join(lines[-3:])}."
    STAMP.write_text(digest)
    return None


def _has_packages() -> bool:
    installed = HERE / "node_modules" / ".package-lock.json"
    return installed.is_file() and installed.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime


def _hash_sources() -> str:
    digest = hashlib.sha256()
    for file in sorted(path for pattern in SOURCES for path in HERE.glob(pattern)):
        digest.update(f"{file.relative_to(HERE).as_posix()}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
