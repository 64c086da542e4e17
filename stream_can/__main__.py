"""``python -m stream_can`` is ``stream-can``."""

import sys

from stream_can_command import main

sys.exit(main())
