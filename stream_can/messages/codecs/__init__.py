"""Message formats.

A format finds values in a message, reads numbers and replaces them. What they mean (rows, labels,
ids, models) is independent of the format: see :mod:`stream_can.messages.messages`.

- ``codec``: the interface
- ``json``: JSON objects
- ``avro``: Avro records, in which only the bytes of the probabilities change; ``avro_types``: types
  of their values; ``avro_values``: these in bytes; ``avro_program``: schemas compiled for the walk;
  ``avro_answers``: schemas of answers
- ``walk``: finds values in Avro records; compiled
- ``single_object``: Avro's own encoding without a registry
- ``json_schema``: JSON objects preceded by a schema number
- ``protobuf``: Protobuf messages; ``proto_shapes``: their probabilities; ``proto_values``: values
  in fields; ``proto_files``: a descriptor set; ``proto_types``: types of answers, with
  ``added_fields``; ``proto_source``: these as text; ``proto_indexes``: the prefix that names a type
- ``framing``: the prefix of a message that names its schema
"""
