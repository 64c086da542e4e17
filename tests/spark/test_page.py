"""The page about Spark runs as it stands, in its order."""

import contextlib
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"


def test_the_page_runs(spark, tmp_path):
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(code) == 4
    namespace = {}
    with contextlib.chdir(tmp_path):
        for text in code:
            exec(compile(text, "docs/spark.md", "exec"), namespace)
