"""How many examples hypothesis draws: few in each run, more before a release."""

import os


def examples(few: int) -> int:
    """So many; with TESTS_EXAMPLES=10 ten times as many, which is the long run."""
    return few * int(os.environ.get("TESTS_EXAMPLES", "1"))
