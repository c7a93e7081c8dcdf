"""Forked kernels: they import this package themselves, and their exit code is known. Other programs start as usual."""

import os
import signal
import sys

import pytest
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import local_provisioner

LOADED = "import sys; print('sqlalchemy' in sys.modules, [name for name in sys.modules if 'tract_jupyter' in name], sys.argv[0])"


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="kernels are forked on Linux")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # jupyter_client leaves its sockets to the collector
def test_a_forked_kernel_imports_this_package_itself_and_its_end_is_known(tmp_path, monkeypatch, launch_warm):
    started = []
    monkeypatch.setattr(
        local_provisioner,
        "launch_kernel",
        lambda *words, **more: started.append(launch_warm(*words, **more)) or started[0],
    )
    manager, client = start_new_kernel(cwd=str(tmp_path))
    texts = []
    client.execute_interactive(
        LOADED,
        timeout=60,
        allow_stdin=False,
        output_hook=lambda m: texts.append(m["content"].get("text", "")),
    )
    client.stop_channels()
    (kernel,) = started
    assert "".join(texts).startswith("True [] ")
    assert "ipykernel_launcher" in "".join(texts)
    assert kernel.poll() is None
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()
    assert kernel.wait() == -signal.SIGKILL


def test_other_programs_are_started_as_usual(launch_warm):
    assert launch_warm([sys.executable, "-c", "raise SystemExit(3)"], independent=True).wait() == 3
