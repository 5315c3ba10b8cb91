"""Prints the configuration of an EAS service, as PAI's own Python SDK (alipai) makes it."""

import json

from pai.model import OssStorageConfig, SharedMemoryConfig, container_serving_spec

# The gateway's addresses have the prefix /api/predict/NAME. The server answers below it and below /v2.
COMMAND = ("tritonserver --model-repository=/models --model-control-mode=poll --http-base-path=/api/predict/nereid"
           " --allow-ui=false --history=false")

spec = container_serving_spec(
    command=COMMAND, image_uri="REGISTRY/nereid:dev", port=8000,
    storage_configs=[OssStorageConfig("/models", "oss://BUCKET/models/"), SharedMemoryConfig(1)],
    session=object())  # nothing is sent
spec.add_option("metadata.name", "nereid")
spec.add_option("metadata.instance", 1)
spec.add_option("metadata.workspace_id", "WORKSPACE")
spec.add_option("cloud.computing.instances", [{"type": "ecs.c7a.large"}])
print(json.dumps(spec.to_dict(), indent=2, sort_keys=True))
