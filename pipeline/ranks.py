"""Starts a stage in several processes (ranks) on this machine, by torch's elastic launch, and waits for them."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sightword.errors import RanksError, SetupError, SightwordError, TrainingError
from sightword.machine import ROLE, Machine, cores
from sightword.messages import plural

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

SECONDS = 5
"""Seconds for which the other ranks may end by themselves when one has failed."""
LINES = 20
"""Last lines of a rank's errors that are shown after an unexpected end."""
INTERRUPTED = 130
"""Exit code of a rank after Ctrl-C."""


def run(arguments: Sequence[str], here: Machine, *, verbose: bool = False) -> None:
    """Run ``python -m stages`` with these arguments in as many processes as the machine's settings name.

    The first rank has this process's terminal; the others are silent. A rank that fails ends all of them.

    Args:
        arguments: the stage and its options.
        here: the settings of this machine.
        verbose: let torch's launcher log.

    Raises:
        SetupError: this machine has too few cores or GPUs.
        SightwordError: a rank failed; the error's text is the rank's.
        KeyboardInterrupt: after Ctrl-C or SIGTERM.
        SystemExit: after another signal, or an unexpected error whose traceback is on standard error.
    """
    # torch takes three seconds, and only this function needs it.
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    check(here)
    if not verbose:
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("torch.distributed."):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # All processes are on this machine: no name of a host is looked up.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    with tempfile.TemporaryDirectory(prefix="sightword-ranks-") as folder:
        silent = dict.fromkeys(range(1, here.ranks), Std.ALL)
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=here.ranks, max_restarts=0, role=ROLE, run_id=uuid.uuid4().hex,
            rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0", local_addr="127.0.0.1", shutdown_timeout=SECONDS,
            logs_specs=DefaultLogsSpecs(log_dir=folder, redirects=silent),
        )  # fmt: skip
        try:
            elastic_launch(config, sys.executable)("-m", "stages", *arguments)
        except SignalException as error:
            if error.sigval in (signal.SIGINT, signal.SIGTERM):
                raise KeyboardInterrupt from None
            sys.exit(128 + error.sigval)
        except ChildFailedError as error:
            raise explain(error.failures, here.ranks, Path(folder)) from None


def check(here: Machine) -> None:
    """Refuse more ranks than cores, or than GPUs where the ranks work on GPUs.

    Raises:
        SetupError: there are too many ranks.
    """
    import torch

    what = f"SIGHTWORD_RANKS={here.ranks}: this machine has"
    if here.device != "cpu" and torch.cuda.is_available():
        if here.ranks > (count := torch.cuda.device_count()):
            todo = "Each process needs a GPU of its own; SIGHTWORD_DEVICE=cpu works on cores."
            raise SetupError(f"{what} {plural(count, 'GPU')}", expected=f"at most {count}", todo=todo)
    elif here.ranks > cores():
        todo = "More processes than cores wait for each other."
        raise SetupError(f"{what} {cores()} cores for this process", expected=f"at most {cores()}", todo=todo)


def explain(failures: Mapping[int, ProcessFailure], ranks: int, folder: Path) -> BaseException:
    """Return the root cause of the failed ranks as one exception.

    Args:
        failures: the failures, those of the ranks that the launcher ended included.
        ranks: number of ranks.
        folder: the folder with what the ranks after the first one wrote.
    """
    reported = {}
    for rank, failure in failures.items():
        message = failure.error_file_data["message"]
        if isinstance(message, dict):
            kind, _, text = str(message["message"]).partition(": ")
            reported[rank] = kind, text
    causes = [text for kind, text in reported.values() if kind != RanksError.__name__]
    if causes:
        return SightwordError(causes[0])
    if any(failure.exitcode == INTERRUPTED for failure in failures.values()):
        return KeyboardInterrupt()
    for rank, failure in failures.items():
        if rank in reported or failure.exitcode == -signal.SIGTERM:
            continue
        who = f"process {rank + 1} of {ranks}"
        if failure.exitcode < 0:
            why = " (the memory may have run out)" if failure.exitcode == -signal.SIGKILL else ""
            what = f"{who} was ended by {failure.signal_name()}{why}"
            return TrainingError(what, todo="The checkpoint is kept: the same command goes on from there.")
        if rank:
            written = "\n".join(path.read_text(errors="replace") for path in folder.glob(f"*/*/{rank}/stderr.log"))
            print_lines = "\n".join(written.splitlines()[-LINES:])
            sys.stderr.write(f"{who} wrote:\n{print_lines}\n")
        return SystemExit(1)
    return SightwordError(next((text for _, text in reported.values()), "all processes were ended by SIGTERM"))
