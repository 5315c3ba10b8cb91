"""Checks manifests against the types of KServe's and Kubernetes' own Python packages: strict.py <MANIFESTS.json.

The input is a list of objects. An unknown field, a value of another type and a missing field are errors. The output is
a list of the kinds that were checked. It runs in the environment kserve of make setup-fleet.
"""

import json
import re
import sys

import kserve.models
import kubernetes.client.models

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}
QUANTITIES = {"ResourceQuantity", "V1beta1MetricQuantity"}


class Fault(Exception):
    pass


def type_named(name):
    """The class of a name. The packages name some types of Kubernetes with their Go package in front."""
    short = re.sub(r"^K8sIoApi[A-Z][a-z]+(V\d)", r"\1", name)
    for module in (kserve.models, kubernetes.client.models):
        for n in (name, short):
            if hasattr(module, n):
                return getattr(module, n)
    raise Fault("no type %s" % name)


def plain(value, kind, where):
    if kind in QUANTITIES:
        good = isinstance(value, (str, int, float))
    else:
        good = isinstance(value, PLAIN[kind]) and not (kind in ("int", "float") and isinstance(value, bool))
    if not good:
        raise Fault("%s: %r is not of the type %s" % (where, value, kind))
    return value


def decoded(value, kind, where):
    """Returns the value as an object of a type. kind is a type as the packages write it."""
    if found := re.fullmatch(r"[lL]ist\[(.*)\]", kind):
        if not isinstance(value, list):
            raise Fault("%s: a list is needed" % where)
        return [decoded(v, found[1], "%s[%d]" % (where, i)) for i, v in enumerate(value)]
    if not isinstance(value, dict) or kind == "object":
        if kind not in PLAIN and kind not in QUANTITIES:
            raise Fault("%s: a %s is needed" % (where, kind))
        return plain(value, kind, where)
    if found := re.fullmatch(r"(?:dict\(|Dict\[)str, (.*)[)\]]", kind):
        return {k: decoded(v, found[1], where + "." + k) for k, v in value.items()}
    if kind in PLAIN or kind in QUANTITIES:
        raise Fault("%s: a %s is needed" % (where, kind))
    made = type_named(kind)
    attributes = {json_name: attribute for attribute, json_name in made.attribute_map.items()}
    if unknown := sorted(set(value) - set(attributes)):
        raise Fault("%s: unknown field %s of %s" % (where, unknown[0], kind))
    fields = {attributes[k]: decoded(v, made.openapi_types[attributes[k]], where + "." + k) for k, v in value.items()}
    try:
        return made(**fields)  # its setters refuse missing fields
    except ValueError as e:
        raise Fault("%s: %s" % (where, e)) from e


def main():
    kinds = []
    for manifest in json.load(sys.stdin):
        kind = manifest["apiVersion"].rpartition("/")[2].capitalize() + manifest["kind"]
        decoded(manifest, kind, manifest["kind"])
        kinds.append(kind)
    print(json.dumps(kinds))


if __name__ == "__main__":
    try:
        main()
    except Fault as e:
        sys.exit(str(e))
