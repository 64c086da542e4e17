"""Correct predictions over HTTP, with all state in one file.

::

    import os
    from stream_can.serve import load, serve

    serve(load("app.toml", {}, os.environ))
"""

from stream_can.serve.process import EXIT_CODES, serve
from stream_can.serve.settings import ServeSettings, load, options

__all__ = ["EXIT_CODES", "ServeSettings", "load", "options", "serve"]
