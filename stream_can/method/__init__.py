"""The mathematics: the compiled loop, and what it is told."""
