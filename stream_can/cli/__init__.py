"""The command ``stream-can``."""
