"""What lets people act on a row: which classes it can be."""
