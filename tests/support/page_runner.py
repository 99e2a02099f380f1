"""Runs the blocks of a page one after another, as a reader types them: shell in bash, Python in one session."""

from __future__ import annotations

import json
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
            subprocess.run(["bash", "-eo", "pipefail", "-c", text], check=True)


if __name__ == "__main__":
    main()
