"""The mathematics: the compiled loop, its settings and its state."""
