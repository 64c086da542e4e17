"""Descriptors as .proto source, in all that source can say of messages."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2

from stream_can.messages.codecs.proto_source import source

pytestmark = pytest.mark.fast

F = descriptor_pb2.FieldDescriptorProto
File = descriptor_pb2.FileDescriptorProto
ONE, REQUIRED, REPEATED = F.LABEL_OPTIONAL, F.LABEL_REQUIRED, F.LABEL_REPEATED


def test_a_file_of_proto2():
    file = File(package="shop.x", dependency=["b.proto", "c.proto"], public_dependency=[1])
    file.options.java_package, file.options.java_multiple_files = "com.shop", True
    file.options.optimize_for = descriptor_pb2.FileOptions.CODE_SIZE
    kind = file.enum_type.add(name="Kind")
    kind.options.allow_alias = True
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=-1).options.deprecated = True
    kind.reserved_range.add(start=5, end=5)
    kind.reserved_range.add(start=7, end=2**31 - 1)
    kind.reserved_name.append("Z")
    message = file.message_type.add(name="M")
    message.options.deprecated = True
    message.field.add(name="id", number=1, type=F.TYPE_STRING, label=REQUIRED, json_name="ID")
    for number, (name, type_, default) in enumerate(
        [
            ("n", F.TYPE_INT32, "-7"),
            ("s", F.TYPE_STRING, 'a"b\\c\nä'),
            ("y", F.TYPE_BYTES, '\\000\\377\\"x'),
            ("d", F.TYPE_DOUBLE, "inf"),
            ("t", F.TYPE_BOOL, "true"),
        ],
        2,
    ):
        message.field.add(name=name, number=number, type=type_, label=ONE, default_value=default)
    message.field[-1].json_name = "t"
    enum = {"type": F.TYPE_ENUM, "type_name": ".shop.x.Kind", "label": ONE}
    message.field.add(name="k", number=7, default_value="B", **enum)
    packed = message.field.add(name="probs", number=8, type=F.TYPE_DOUBLE, label=REPEATED)
    packed.options.packed = True
    message.nested_type.add(name="First")
    entry = message.nested_type.add(name="MapEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_INT32, label=ONE)
    entry.field.add(name="value", number=2, type=F.TYPE_MESSAGE, type_name=".other.O", label=ONE)
    last = message.nested_type.add(name="Last")
    last.extension_range.add(start=100, end=201)
    group = message.nested_type.add(name="Grp")
    group.field.add(name="q", number=1, type=F.TYPE_INT32, label=ONE)
    message.field.add(
        name="map", number=9, type=F.TYPE_MESSAGE, type_name=".shop.x.M.MapEntry", label=REPEATED
    )
    message.oneof_decl.add(name="u")
    message.field.add(name="a", number=10, type=F.TYPE_STRING, label=ONE, oneof_index=0)
    message.field.add(name="more", number=12, type=F.TYPE_SINT64, label=REPEATED)
    message.field.add(
        name="grp", number=11, type=F.TYPE_GROUP, type_name=".shop.x.M.Grp", label=ONE,
        oneof_index=0,
    )  # fmt: skip
    message.extension_range.add(start=1000, end=2**29)
    message.reserved_range.add(start=20, end=21)
    message.reserved_range.add(start=30, end=41)
    message.reserved_name.append("old")
    message.extension.add(
        name="ext", number=100, type=F.TYPE_STRING, label=ONE, extendee=".shop.x.M.Last"
    )
    file.extension.add(
        name="far", number=1000, type=F.TYPE_FLOAT, label=REPEATED, extendee=".shop.x.M"
    )
    file.service.add(name="S")
    assert (
        source(file)
        == r"""syntax = "proto2";
package shop.x;
import "b.proto";
import public "c.proto";
option java_package = "com.shop";
option optimize_for = CODE_SIZE;
option java_multiple_files = true;
enum Kind {
  option allow_alias = true;
  A = 0;
  B = -1 [deprecated = true];
  reserved 5;
  reserved 7 to max;
  reserved "Z";
}
message M {
  option deprecated = true;
  required string id = 1 [json_name = "ID"];
  optional int32 n = 2 [default = -7];
  optional string s = 3 [default = "a\"b\\c\nä"];
  optional bytes y = 4 [default = "\000\377\"x"];
  optional double d = 5 [default = inf];
  optional bool t = 6 [default = true];
  optional .shop.x.Kind k = 7 [default = B];
  repeated double probs = 8 [packed = true];
  message First {
  }
  map<int32, .other.O> map = 9;
  message Last {
    extensions 100 to 200;
  }
  oneof u {
    string a = 10;
    group Grp = 11 {
      optional int32 q = 1;
    }
  }
  repeated sint64 more = 12;
  extensions 1000 to max;
  reserved 20;
  reserved 30 to 40;
  reserved "old";
  extend .shop.x.M.Last {
    optional string ext = 100;
  }
}
extend .shop.x.M {
  repeated float far = 1000;
}
"""
    )


def test_a_file_of_proto3_and_one_of_an_edition():
    file = File(syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(name="a", number=1, type=F.TYPE_DOUBLE, label=ONE)
    message.oneof_decl.add(name="_b")
    message.field.add(
        name="b", number=2, type=F.TYPE_BYTES, label=ONE, oneof_index=0, proto3_optional=True
    )
    body = "message M {\n  double a = 1;\n  optional bytes b = 2;\n}\n"
    assert source(file) == 'syntax = "proto3";\n' + body
    file = File(syntax="editions", edition=descriptor_pb2.EDITION_2023)
    features = descriptor_pb2.FeatureSet
    file.options.features.field_presence = features.IMPLICIT
    message = file.message_type.add(name="M", reserved_name=["foo"])
    field = message.field.add(name="a", number=1, type=F.TYPE_DOUBLE, label=ONE)
    field.options.features.field_presence = features.EXPLICIT
    assert source(file) == (
        'edition = "2023";\noption features.field_presence = IMPLICIT;\nmessage M {\n'
        "  double a = 1 [features.field_presence = EXPLICIT];\n  reserved foo;\n}\n"
    )
