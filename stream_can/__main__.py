"""``python -m stream_can`` is ``stream-can``."""

import sys

from .cli import main

sys.exit(main())
