"""``python -m stream_can`` is ``stream-can``."""

import sys

from stream_can.cli.main import main

sys.exit(main())
