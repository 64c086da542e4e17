"""What saved bytes later versions read."""
