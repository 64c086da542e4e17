"""What a running worker shows of itself."""
