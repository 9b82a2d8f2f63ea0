"""`python -m dualembed` is the command `dualembed`."""

from __future__ import annotations

import sys

from dualembed.cli import main

sys.exit(main())
