"""One partition of a stream: records in, records out, no I/O."""
