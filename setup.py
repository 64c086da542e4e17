"""The compiled modules: every .pyx of the package, and one with what Cython adds to all of them."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SHARED = "stream_can.cython_shared"
"""Has what memoryviews need, which would take half of the time if each module had it."""
CORES = os.cpu_count() or 1
FLAGS = [
    "-O3",
    "-g0",
    # Neither -ffast-math nor -march=native: equal bits on every machine of a kind, and the checks
    # for NaN stay. A fused multiply-add here and none there would make the bits depend on the
    # compiler's mood.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wno-unused-function",  # of headers that several modules include
]
C = [*FLAGS, "-Wno-discarded-qualifiers"]  # Cython's temporaries are never const
CPP = [*FLAGS, "-std=c++17"]


def extension(source: Path) -> Extension:
    """The module of a .pyx file, which says so where it is C++."""
    name = ".".join(source.with_suffix("").parts)
    cpp = "# distutils: language = c++" in source.read_text(encoding="utf-8")
    return Extension(
        name,
        [str(source)],
        include_dirs=["stream_can/method"],
        extra_compile_args=CPP if cpp else C,
    )


modules = [extension(source) for source in sorted(Path("stream_can").rglob("*.pyx"))]
modules.append(Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"], extra_compile_args=C))
setup(
    ext_modules=cythonize(
        modules,
        shared_utility_qualified_name=SHARED,
        compiler_directives={"show_performance_hints": False},
        nthreads=CORES,
        quiet=True,
    ),
    options={"build_ext": {"parallel": CORES}},
)
