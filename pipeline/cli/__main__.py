"""``python -m pipeline.cli``."""

import sys

from pipeline.cli import main

sys.exit(main())
