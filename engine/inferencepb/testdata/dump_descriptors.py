"""Writes the descriptors of the installed tritonclient wheel to standard output, as a FileDescriptorSet."""

import sys

from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

found = descriptor_pb2.FileDescriptorSet()
for module in (model_config_pb2, service_pb2):
    module.DESCRIPTOR.CopyToProto(found.file.add())
sys.stdout.buffer.write(found.SerializeToString())
