"""What all tests share."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do, before torch is loaded
# Test processes share the cores already. A test that is about threads sets their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SIGHTWORD_THREADS", "1")

import fork_server
import pytest
from hypothesis import settings
from made_once import made_once

if TYPE_CHECKING:
    from browser import Browser
    from small_run import SmallRun

# In the background of a shell SIGINT is ignored, and whatever is started here would not hear Ctrl-C, which some tests
# press. After SIGTERM too fixtures end what they have started.
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.default_int_handler)

settings.register_profile("sightword", deadline=None)  # a busy machine is no defect
settings.load_profile("sightword")

# Where useradd and sshd are, which not every user's PATH names.
os.environ["PATH"] = (
    f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/local/sbin{os.pathsep}/usr/sbin{os.pathsep}/sbin"
)

REPOSITORY = Path(__file__).resolve().parent.parent

LONGEST = (
    *("test_pages.py", "test_end_to_end.py", "test_ray.py", "test_docs.py"),
    *("test_lab.py", "test_wheel.py", "test_real_sweep.py", "test_taxonomy.py", "test_training.py", "test_remotes.py"),
    *("test_entail_training.py", "test_benchmarks.py", "test_faults.py", "test_evaluation.py", "test_judging.py"),
    *("test_reader_fuzz.py", "test_sweep.py", "test_launcher.py"),
    *("test_pipelines.py", "test_lockfile.py", "test_notebook.py", "test_installation.py"),
)
"""Files that take long. They begin first, so that no process is left alone with one of them at the end.

A process takes a file early, before the last test of another: `test_docs.py`, a short one, before a test of minutes.
"""


@pytest.hookimpl(optionalhook=True)  # without xdist there is no such hook
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Start the processes of the tests as copies of one that has loaded the large packages."""
    os.environ[fork_server.SHARED] = str(fork_server.programs())
    for spec in specs:
        spec.python = shlex.quote(str(fork_server.programs() / fork_server.WORKER))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without a test of the mark ``full`` where only such tests run: most files have none."""
    alone = config.option.markexpr == "full" and collection_path.name.startswith("test_")
    return True if alone and "mark.full" not in collection_path.read_text("utf-8") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def small_run(tmp_path_factory) -> SmallRun:
    """The sample on a few pictures, run once for all processes of the tests."""
    from small_run import SmallRun, compute

    return SmallRun(made_once(tmp_path_factory, "small-run", lambda folder: compute(REPOSITORY, folder)))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real photographs, captions and STS files."""
    folder = Path(os.environ.get("SIGHTWORD_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} does not exist (SIGHTWORD_TEST_DATA names another folder)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_caches(tmp_path_factory) -> Iterator[None]:
    """No test reads or writes the user's own store of features, or their half-done trainings."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("SIGHTWORD_STORE", "SIGHTWORD_CACHE", "SIGHTWORD_SCRATCH"):
            patch.setenv(variable, str(tmp_path_factory.mktemp(variable.lower())))
        yield


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    """A stage sets torch up for its whole process; here many share one."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_deterministic_debug_mode("default")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where nothing may be skipped (on a continuous integration machine), a skip is a failure.

    But for what needs a system that this one is not, where SIGHTWORD_TEST_NO_SYSTEM says so, and what needs a GPU.
    """
    report = yield
    foreign = item.get_closest_marker("system") and os.environ.get("SIGHTWORD_TEST_NO_SYSTEM")
    excused = foreign or item.get_closest_marker("gpu")
    strict = os.environ.get("SIGHTWORD_TEST_NO_SKIP") and not excused
    if report.skipped and not hasattr(report, "wasxfail") and strict:
        report.outcome = "failed"
        report.longrepr = f"skipped, which SIGHTWORD_TEST_NO_SKIP forbids: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from browser import Browser, program

    if program() is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    found = Browser(tmp_path_factory.mktemp("browser"))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def browser(_chromium: Browser) -> Browser:
    """A real browser with a new page of 1280 pixels; for tests with the marks ``full`` and ``system``."""
    _chromium.renew()
    return _chromium
