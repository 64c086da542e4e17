"""Bytes to rows, ids, labels and columns, and back."""
