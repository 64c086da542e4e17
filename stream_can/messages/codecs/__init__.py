"""The formats in which messages come.

What a format knows is where in a message something stands, what numbers are there, and how they are
replaced. What it means (a row of the classes, a label, an id, the name of a model) is the same in
all formats, and stands in :mod:`stream_can.messages.messages`.

- ``codec``: what each of them can do
- ``json``: JSON objects
- ``avro``: Avro records, of which only the bytes of the probabilities change
- ``walk``: where in an Avro record something stands, compiled
- ``single_object``: Avro's own encoding without a registry
- ``json_schema``: JSON objects behind the number of a schema
- ``protobuf``: Protobuf messages, ``proto_shapes`` of their probabilities, ``proto_types`` of their
  answers and ``proto_source``, these as text
- ``framing``: what stands before a message, and tells its schema
"""
