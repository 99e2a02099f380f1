"""Starts `python -m`, `dvc` and `sightword` in copies of one process that has loaded the large packages already.

A stage on a few pictures takes half a second, and Python takes three to load torch and pandas before. A command forks a
copy, which has the caller's user, arguments, variables, working folder and open files, and ends when the caller does.
What the copy starts as `sys.executable -m` is a copy again. The process loads no module of this project; a second one,
forked from the process, has loaded the modules too, for commands that would load these and not those of a clone.
The processes of the tests are copies too, whose `sys.executable` is Python.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import gc
import importlib
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import weakref
from pathlib import Path
from typing import NoReturn

PACKAGES = (
    *("dvc.cli.parser", "dvc.lock", "dvc.output", "dvc.repo.experiments.executor.local", "dvc.repo.experiments.ls"),
    *("dvc.repo.experiments.queue.celery", "dvc.repo.experiments.queue.workspace", "dvc.repo.experiments.run"),
    *("dvc.repo.graph", "dvc.repo.open_repo", "dvc.repo.plots", "dvc.repo.stage", "dvc.repo.trie", "dvc.scm"),
    *("dvc.stage.cache", "dvc_data.hashfile.db.local", "dvc_data.index.checkout", "dvc_data.index.push"),
    *("dulwich.porcelain", "filelock", "h5py", "jinja2", "matplotlib.backends.backend_agg"),
    *("matplotlib.backends.backend_svg", "matplotlib.figure", "mpl_toolkits.mplot3d", "networkx", "numpy"),
    *("packaging.requirements", "pandas", "PIL.Image", "PIL.ImageDraw", "pyarrow.dataset", "pyarrow.pandas_compat"),
    *("pyarrow.parquet", "pydantic.json_schema", "pydantic.main", "pydantic.plugin._schema_validator"),
    *("pydantic.validate_call_decorator", "ruamel.yaml", "safetensors.torch", "scipy.stats"),
    *("scmrepo.git.backend.pygit2.filter", "simplejpeg", "sklearn.linear_model", "torch._dynamo", "tqdm"),
)
REPOSITORY = Path(__file__).parents[2]
ROOMS = ("pipeline", "sightword")
"""Packages of this project that the second process loads."""
APART = ("sightword.export", "sightword.search")
"""Rooms that need the packages of an extra, which no other command loads."""
FIXED = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED")
"""Variables that packages or Python read as they start: a command with other values gets a Python of its own."""

WORKER = "pytest-worker"
"""The program that runs `-c` as Python does, for processes of the tests."""

SHARED = "SIGHTWORD_TEST_PROGRAMS"
"""Variable that names the folder of programs to a process of the tests, which keeps it from others."""

COPIED = str(Path(__file__).with_name("bin") / "python")
"""The Python whose commands run in copies of a process with this code."""

PEER_GROUPS = 59
"""``SO_PEERGROUPS`` of Linux."""

# Python is started by sh, as by the programs of pip: the first line of a program takes no path with a blank.
CLIENT = """#!/bin/sh
'''exec' '{python}' -SE "$0" "$@"
'''
import _signal, _socket, os, sys  # what is built on them would take longer to load than all else here
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
plain = name in ("python", {worker!r})
safe, own = False, [{python!r}, *arguments] if plain else [os.path.join({programs!r}, name), *arguments]
while arguments[:1] in (["-u"], ["-P"]):
    safe, arguments = safe or arguments[0] == "-P", arguments[1:]
ours = arguments[1:2] and arguments[1].partition(".")[0] in ("faulty_stage", "pipeline", "stages") and name == "python"
ours = name == "sightword" or ours and (safe or not any(map(os.path.exists, {rooms!r})))
ours = ours and {known!r}.issuperset(os.environ.get("PYTHONPATH", "").split(":"))
server = _socket.socket(_socket.AF_UNIX)
umask = os.umask(0)
os.umask(umask)
job = repr([name, arguments, os.getcwd(), dict(os.environ), umask, safe]).encode()
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
try:
    if (name == "python" and arguments[:1] != ["-m"]) or any(os.environ.get(key) != value for key, value in {fixed!r}):
        raise OSError("needs a Python of its own")
    server.connect({ours!r} if ours else {place!r})
    server.sendmsg([len(job).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    server.sendall(job)
except OSError:
    os.execv(own[0], own)
def told():
    return int.from_bytes(server.recv(4) or sys.exit("the fork server has ended"), "big")
child = told()
for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda number, _: os.kill(child, number))
status = told()
if os.WIFSIGNALED(status):
    if os.WTERMSIG(status) != _signal.SIGKILL:
        _signal.signal(os.WTERMSIG(status), _signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
sys.exit(os.WEXITSTATUS(status))
"""

_shared = os.environ.pop(SHARED, "")  # what runs elsewhere, such as on a disk of its own, has a server of its own
_started: dict[tuple[str, ...], tuple[Path, subprocess.Popen[bytes]]] = {}


def programs(before: tuple[str, ...] = ()) -> Path:
    """Return a folder of programs to put first on PATH; the first call starts the process.

    Args:
        before: the beginning of a command whose rest is the process.
    """
    if not before and _shared:
        return Path(_shared)
    if before not in _started:
        temporary = tempfile.TemporaryDirectory(prefix="fork-server-")
        server = begin(Path(temporary.name), os.getpid(), before)
        atexit.register(temporary.cleanup)
        atexit.register(end, server)
        _started[before] = Path(temporary.name), server
    return _started[before][0] / "bin"


def pid(before: tuple[str, ...]) -> int:
    """Return the number of a process that :func:`programs` started."""
    return _started[before][1].pid


def without_python() -> Path:
    """Return a folder to put first on PATH without Python, for projects whose stages are small."""
    return programs().parent / "no-python"


def begin(top: Path, owner: int, before: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a server that ends with its owner, and make the programs that use it."""
    folder, place = top / "bin", str(top / "open/socket")
    for each, mode in ((top, 0o755), (folder, 0o755), (top / "open", 0o777)):  # for other users
        each.mkdir(exist_ok=True)
        each.chmod(mode)
    real = Path(sys.executable).parent
    fixed = [(name, os.environ.get(name)) for name in FIXED]
    known = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep), str(REPOSITORY), str(Path(__file__).parent)}
    places = {
        "place": place,
        "ours": f"{place}-ours",
        "known": known,
        "rooms": [name + end for name in ROOMS for end in ("", ".py")],
    }
    text = CLIENT.format(python=sys.executable, programs=str(real), fixed=fixed, worker=WORKER, **places)
    for name in ("python", "dvc", "sightword", WORKER):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (top / "no-python").mkdir()
    for name in ("dvc", "sightword"):
        (top / "no-python" / name).symlink_to(folder / name)
    code = shutil.copy(__file__, top / "server.py")
    Path(code).chmod(0o644)
    server = subprocess.Popen([*before, sys.executable, code, place, str(owner)], cwd=top)
    while not Path(f"{place}-ours").exists() and server.poll() is None:
        time.sleep(0.01)
    return server


def end(server: subprocess.Popen[bytes]) -> None:
    """End one of the processes."""
    server.kill()
    server.wait()


def python() -> str:
    """Return a Python to start with ``-m``, for a test in which it is not the start that counts."""
    return str(programs() / "python")


def main() -> None:
    """Load the packages, and serve; a second process loads this project's modules, and serves too."""
    place, owner = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the owner, who hears Ctrl-C too
    owned = os.pidfd_open(int(owner))
    listening, ours = listen(place), listen(f"{place}-ours")
    for name in PACKAGES:
        importlib.import_module(name)
    prepare()
    first = os.getpid()
    if os.fork():
        ours.close()
        serve(listening, owned)
        shutil.rmtree(Path(place).parents[1], ignore_errors=True)
    else:
        listening.close()
        load_rooms()
        serve(ours, os.pidfd_open(first))


def listen(place: str) -> socket.socket:
    """Return a socket on which commands that come early wait."""
    listening = socket.socket(socket.AF_UNIX)
    umask = os.umask(0)  # for other users
    listening.bind(place)
    os.umask(umask)
    listening.listen(64)
    return listening


def prepare() -> None:
    """Do once what each command of DVC would do at its start, and drop what each copy would do at its end."""
    from dvc.cli.parser import get_main_parser

    get_main_parser()  # DVC keeps it
    end_without()


def load_rooms() -> None:
    """Load this project's modules, as a copy would that may start further copies."""
    executable, sys.executable = sys.executable, COPIED
    for room in ROOMS:
        for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            if not module.name.startswith(APART) and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    sys.executable = executable


def serve(listening: socket.socket, owned: int) -> None:
    """Fork a copy for each command, until the owner has ended."""
    gc.freeze()  # a copy's collections leave the shared memory alone
    running: dict[int, tuple[int, socket.socket]] = {}  # file of the copy: its number, and its caller
    while True:
        callers = [caller for _, caller in running.values()]
        ready = select.select([listening, owned, *running, *callers], [], [])[0]
        if owned in ready:
            break
        for ended, (child, caller) in [*running.items()]:
            if ended in ready:
                del running[ended]
                os.close(ended)
                tell(caller, os.waitpid(child, 0)[1])
                caller.close()
            elif caller in ready:  # it is gone
                end_group(child)
        if listening in ready:
            caller, _ = listening.accept()
            if child := begun(caller, [listening, *callers]):
                running[os.pidfd_open(child)] = child, caller
    for child, _ in running.values():
        end_group(child)


def end_without() -> None:
    """Drop what packages would do at the end of each copy: reports and finalizers that touch all of their memory."""
    from torch._dynamo import utils

    atexit.unregister(utils.dump_compile_times)
    for one in gc.get_objects():
        if type(one) is weakref.finalize:
            one.atexit = False


def tell(caller: socket.socket, number: int) -> None:
    """Send a number to a caller, who may be gone."""
    with contextlib.suppress(OSError):
        caller.sendall(number.to_bytes(4, "big"))


def end_group(child: int) -> None:
    """Kill a copy and what it has started in its group."""
    with contextlib.suppress(ProcessLookupError):  # it has no group yet
        os.killpg(child, signal.SIGKILL)


def begun(caller: socket.socket, others: list[socket.socket]) -> int:
    """Run one command in a copy; its number, or 0 if the caller is gone."""
    size, files, _, _ = socket.recv_fds(caller, 4, 3)
    text = b""
    while size and len(text) < int.from_bytes(size, "big") and (part := caller.recv(1 << 20)):
        text += part
    child = os.fork() if text else 0
    if text and child == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        become(caller)
        for other in (caller, *others):
            other.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        start(*ast.literal_eval(text.decode()))
    for file in files:
        os.close(file)
    if child:
        tell(caller, child)
    else:
        caller.close()
    return child


def become(caller: socket.socket) -> None:
    """Take the user and the groups of the caller."""
    _, user, group = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.geteuid():
        groups = caller.getsockopt(socket.SOL_SOCKET, PEER_GROUPS, 1 << 10)
        os.setgroups([number for (number,) in struct.iter_unpack("I", groups)])
        os.setgid(group)
        os.setuid(user)


def start(name: str, arguments: list[str], folder: str, variables: dict[str, str], umask: int, safe: bool) -> NoReturn:
    """Become the command, and end as it does; what Python would take apart at its end is left to the system."""
    status: object = 0
    os.umask(umask)
    try:
        run(name, arguments, folder, variables, safe)
    except SystemExit as ended:
        status = ended.code
    except BaseException:  # noqa: BLE001 - the end of Python itself catches all
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # untyped; waits for threads, as the end of Python does
    atexit._run_exitfuncs()
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
    sys.stdout.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


def run(name: str, arguments: list[str], folder: str, variables: dict[str, str], safe: bool) -> None:
    """Run the command as Python would; ``safe`` is its option ``-P``, which imports nothing from the folder."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.dont_write_bytecode = bool(variables.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[1:1] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    real = Path(sys.executable).parent
    if name == WORKER:
        sys.path[0], sys.argv = "", arguments[:1]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(arguments[1], vars(main))
        return
    sys.executable = COPIED
    if name == "python":
        sys.path[:1], sys.argv = [folder] * (not safe), arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        program = real / name
        sys.path[0], sys.argv = str(program.parent), [str(program), *arguments]
        runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
