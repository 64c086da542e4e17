"""What is built where the compiler's library lacks something; it needs the tools of a build."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream_can.messages import numbers

pytestmark = pytest.mark.fast

SOURCE = Path(numbers.__file__).parent
SETUP = """
from setuptools import Extension, setup
setup(ext_modules=[Extension("numbers", ["numbers.pyx"], language="c++",
    extra_compile_args=["-std=c++17", "-O0"], define_macros=[("WITHOUT_FROM_CHARS", None)])])
"""


@pytest.fixture(scope="module")
def fallback(tmp_path_factory):
    """The module as it is where the compiler's library cannot read and write numbers."""
    folder = tmp_path_factory.mktemp("fallback")
    for name in ("numbers.pyx", "numbers.h"):
        shutil.copy(SOURCE / name, folder)
    (folder / "setup.py").write_text(SETUP)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "CFLAGS"},
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("numbers*.so")
    spec = importlib.util.spec_from_file_location("numbers", built)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.release
def test_without_the_library_msgspec_reads_and_writes(fallback):
    assert not fallback.COMPILED
    assert fallback.read_array(b"[0.25,0.75]", 2) is None
    row = np.array([0.1, -0.0, 1e16, 5e-324, np.nan])
    assert list(fallback.array_texts(row[None])) == [msgspec.json.encode(row.tolist())]
