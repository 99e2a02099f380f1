"""Runs the blocks of a page one after another, as a reader types them: shell in bash, Python in one session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Argument: a JSON file with ``[place, language, text]`` of each block."""
    names: dict[str, object] = {"__name__": "__main__"}
    for place, language, text in json.loads(Path(sys.argv[1]).read_text()):
        sys.stdout.write(f"--- {place}\n")
        sys.stdout.flush()
        if language == "python":
            exec(compile(text, place, "exec"), names)
        else:
            end = Path(sys.argv[1]).with_suffix(".pwd").absolute()
            subprocess.run(["bash", "-eo", "pipefail", "-c", f"{text}\npwd > {end}"], check=True)
            os.chdir(end.read_text().strip())  # as in a reader's shell


if __name__ == "__main__":
    main()
