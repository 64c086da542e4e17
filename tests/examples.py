"""How many examples hypothesis draws: few in each run, more before a release."""

import os


def examples(few: int) -> int:
    """So many; with STREAM_CAN_EXAMPLES=10 ten times as many, which is the long run."""
    return few * int(os.environ.get("STREAM_CAN_EXAMPLES", "1"))
