"""Starts `python -m`, `dvc` and `sightword` in copies of one process that has loaded the large packages already.

A stage on a few pictures takes half a second, and Python takes three to load torch and pandas before. The process here
loads no module of this project. A command forks a copy, which has the caller's arguments, variables, working folder
and open files, and ends when the caller does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

PACKAGES = (
    *("dvc.cli", "dvc.repo", "dvc.commands.repro", "dvc.stage.cache", "dvc.output", "h5py", "jinja2", "matplotlib"),
    *("matplotlib.backends.backend_svg", "numpy", "pandas", "PIL.Image", "pyarrow.parquet", "pydantic", "safetensors"),
    *("safetensors.torch", "scipy.stats", "simplejpeg", "sklearn.linear_model", "torch._dynamo"),
    "tqdm",
)
FIXED = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED")
"""Variables that packages or Python read as they start: a command with other values gets a Python of its own."""

CLIENT = """#!{python} -SE
import json, os, signal, socket, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
own = [{python!r}, *arguments] if name == "python" else [os.path.join({programs!r}, name), *arguments]
server = socket.socket(socket.AF_UNIX)
try:
    if (name == "python" and arguments[:1] != ["-m"]) or any(os.environ.get(key) != value for key, value in {fixed!r}):
        raise OSError("needs a Python of its own")
    server.connect({place!r})
except OSError:
    os.execv(own[0], own)
umask = os.umask(0)
os.umask(umask)
job = json.dumps([name, arguments, os.getcwd(), dict(os.environ), umask]).encode()
socket.send_fds(server, [len(job).to_bytes(4, "big")], [0, 1, 2])
server.sendall(job)
child = int.from_bytes(server.recv(4), "big")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
status = int.from_bytes(server.recv(4), "big")
if os.WIFSIGNALED(status):
    signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
sys.exit(os.WEXITSTATUS(status))
"""

_started: dict[tuple[str, ...], tuple[Path, subprocess.Popen[bytes]]] = {}


def programs(user: tuple[str, ...] = (), variables: Mapping[str, str] = os.environ) -> Path:
    """Return a folder of programs to put first on PATH; the first call for a user starts the process.

    Args:
        user: a command that runs its arguments as another user; none for this one.
        variables: that the process starts with.
    """
    if user not in _started:
        temporary = tempfile.TemporaryDirectory(prefix="fork-server-")
        top = Path(temporary.name)
        folder, place = top / "bin", str(top / "open/socket")
        for each, mode in ((top, 0o755), (folder, 0o755), (top / "open", 0o777)):  # for other users
            each.mkdir(exist_ok=True)
            each.chmod(mode)
        real = Path(sys.executable).parent
        text = CLIENT.format(
            python=sys.executable,
            programs=str(real),
            place=place,
            fixed=[(name, variables.get(name)) for name in FIXED],
        )
        for name in ("python", "dvc", "sightword"):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        code = shutil.copy(__file__, top / "server.py")
        Path(code).chmod(0o644)
        server = subprocess.Popen([*user, sys.executable, code, place], cwd=top, env=dict(variables))
        while not Path(place).exists() and server.poll() is None:
            time.sleep(0.01)
        atexit.register(temporary.cleanup)
        atexit.register(end, server)
        _started[user] = folder, server
    return _started[user][0]


def stop(name: str) -> None:
    """End the processes of a user."""
    for user in [user for user in _started if name in user]:
        end(_started.pop(user)[1])


def end(server: subprocess.Popen[bytes]) -> None:
    """End one of the processes."""
    server.kill()
    server.wait()


def python() -> str:
    """Return a Python to start with ``-m``, for a test in which it is not the start that counts."""
    return str(programs() / "python")


def main() -> None:
    """Load the packages, then fork a copy for each command, until killed."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(sys.argv[1])
    listening.listen(16)  # commands that come early wait
    for name in PACKAGES:
        importlib.import_module(name)
    gc.freeze()  # a copy's collections leave the shared memory alone
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies
    while os.getppid() != 1:
        if not select.select([listening], [], [], 1)[0]:
            continue
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(connection)
            return
        connection.close()


def serve(connection: socket.socket) -> None:
    """Run one command in a copy; the caller gets its number, then how it ended."""
    size, files, _, _ = socket.recv_fds(connection, 4, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += connection.recv(1 << 20)
    child = os.fork()
    if child == 0:
        os.setsid()
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        start(*json.loads(text))
    for file in files:
        os.close(file)
    connection.sendall(child.to_bytes(4, "big"))
    ended = os.pidfd_open(child)
    while ended not in select.select([connection.fileno(), ended], [], [])[0]:
        os.killpg(child, signal.SIGKILL)  # the caller is gone
    connection.sendall(os.waitpid(child, 0)[1].to_bytes(4, "big"))
    os._exit(0)


def start(name: str, arguments: list[str], folder: str, variables: dict[str, str], umask: int) -> NoReturn:
    """Become the command, and end as it does; what Python would take apart at its end is left to the system."""
    status: object = 0
    os.umask(umask)
    try:
        run(name, arguments, folder, variables)
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


def run(name: str, arguments: list[str], folder: str, variables: dict[str, str]) -> None:
    """Run the command as Python would."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[1:1] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    if name == "python":
        sys.path[0], sys.argv = folder, arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        program = Path(sys.executable).parent / name
        sys.path[0], sys.argv = str(program.parent), [str(program), *arguments]
        runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
