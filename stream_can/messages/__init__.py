"""Messages: bytes to rows, ids, labels and columns, and back."""
