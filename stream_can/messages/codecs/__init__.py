"""Message formats.

A format finds values in a message, reads numbers and replaces them. What they mean (rows, labels,
ids, models) is independent of the format: see :mod:`stream_can.messages.messages`.

- ``codec``: the interface
- ``json``: JSON objects
- ``avro``: Avro records, in which only the bytes of the probabilities change
- ``walk``: finds values in Avro records; compiled
- ``single_object``: Avro's own encoding without a registry
- ``json_schema``: JSON objects preceded by a schema number
- ``protobuf``: Protobuf messages; ``proto_shapes``: their probabilities; ``proto_types``: types of
  answers; ``proto_source``: these as text
- ``framing``: the prefix of a message that names its schema
"""
