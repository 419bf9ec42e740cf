"""Creates starter manifests as annotated YAML.

Descriptions come from the schema of the kind, values from `config/samples`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from quintet import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource

NAMESPACE = "default"
# Samples bring these for themselves; a starter manifest does not need them.
_NOT_NEEDED = ("Namespace",)


class Sample(NamedTuple):
    """An object of a kind, and the objects that it needs."""

    object: JsonObject
    beside: tuple[JsonObject, ...] = ()
    old: tuple[str, ...] = ()
    """Deprecated fields of its spec."""


def manifest_lines(kind: CustomResource, sample: Sample, *, full: bool) -> Iterator[str]:
    """Yield the lines of the manifest, with the description of each field as a comment."""
    from quintet.authoring.annotated_yaml import annotate, comment_lines, dump_yaml, missing_fields
    from quintet.manifests.crd import object_schema

    for body in sample.beside:
        yield from dump_yaml(body)
        yield "---"
    schema, obj = object_schema(kind)["properties"]["spec"], sample.object
    yield f"# {kind.resource.kind}: {_summary(kind)}"
    yield from dump_yaml({key: obj[key] for key in ("apiVersion", "kind", "metadata")})
    spec = annotate(obj["spec"], schema, full=full, remarks=_key_descriptions(kind, obj))
    if any(not line.startswith("#") for line in spec):
        yield "spec:"
        yield from (f"  {line}" for line in spec)
    else:
        yield "spec: {}"
        yield from (f"  {line}" for line in spec)
    others = [] if full else [name for name in missing_fields(obj["spec"], schema) if name not in sample.old]
    if others:
        word = kind.resource.kind.lower()
        text = f"Omitted: {', '.join(others)}; see `quintet new {word} --full`."
        yield from (f"  {line}" for line in comment_lines(text))


def rename(sample: Sample, name: str, namespace: str) -> Sample:
    """Return the sample with another name, wherever its own name occurs, and in another namespace."""
    metadata = sample.object["metadata"]
    old, place = metadata["name"], metadata.get("namespace", "")

    def replace_names(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replace_names(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replace_names(each) for each in value]
        if isinstance(value, str) and place:
            value = value.replace(f".{place}.svc", f".{namespace or NAMESPACE}.svc")
        return name if name and value == old else value

    def set_namespace(body: JsonObject) -> JsonObject:
        found = replace_names(body)
        found["metadata"].pop("namespace", None)
        if namespace:
            metadata = {"name": found["metadata"]["name"], "namespace": namespace}
            found["metadata"] = metadata | found["metadata"]
        return dict(found)

    return sample._replace(
        object=set_namespace(sample.object), beside=tuple(map(set_namespace, sample.beside))
    )


def read_sample(kind: CustomResource, *, full: bool) -> Sample:
    """Return the short sample of a kind, or the one with every field."""
    brief, every = _read(kind, every=False), _read(kind, every=True)
    if every is None:
        bare = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        return Sample({**bare, "metadata": {"name": "quintet"}, "spec": {}})
    if full:
        return Sample(_use_new_names(every.object), every.beside)
    spec = _use_new_names((brief or every).object)["spec"]
    if brief is None:
        from quintet.manifests.crd import object_schema

        required = object_schema(kind)["properties"]["spec"].get("required", ())
        spec = {key: value for key, value in spec.items() if key in required}
    else:
        # Where the short sample uses a deprecated field, take the new field from the full sample.
        written, known = brief.object["spec"], every.object["spec"]
        spec = {key: value if key in written else known.get(key, value) for key, value in spec.items()}
    chosen = brief or every
    old = tuple(key for key in chosen.object["spec"] if key not in spec) if brief else ()
    return Sample({**chosen.object, "spec": spec}, chosen.beside, old)


def _use_new_names(obj: JsonObject) -> JsonObject:
    """Return the object with deprecated field names replaced, as the webhook stores it."""
    import copy

    from quintet.admission.review import Operation
    from quintet.authoring.validation import has_validation, load_kind

    kind = obj["apiVersion"], obj["kind"]
    admission = load_kind(*kind)[1] if has_validation(*kind) else None
    if admission is None or admission.default is None:
        return obj
    placed = {**copy.deepcopy(obj), "metadata": {"namespace": NAMESPACE, **obj["metadata"]}}
    stored = admission.default(placed, Operation.CREATE)
    kept = {key: value for key, value in obj["spec"].items() if key in stored["spec"]}
    new = {key: value for key, value in stored["spec"].items() if key not in kept}
    return {**obj, "spec": {**kept, **new}}


def _read(kind: CustomResource, *, every: bool) -> Sample | None:
    from quintet.authoring.documents import read_documents
    from quintet.local.paths import find_resource

    registered = kinds.find(kind.resource.api_version, kind.resource.kind)
    name = "" if registered is None else registered.full_sample if every else registered.sample
    if not name:
        return None
    bodies = [each.value for each in read_documents(str(find_resource("config") / "samples" / name))]
    ours = [each for each in bodies if each["kind"] == kind.resource.kind]
    beside = [each for each in bodies if each["kind"] not in (kind.resource.kind, *_NOT_NEEDED)]
    return Sample(ours[0], tuple(beside))


def check_manifest(kind: CustomResource, obj: JsonObject, namespace: str) -> None:
    """Raise an error if the manifest is invalid; its name is the only part that a user chose."""
    from quintet.apis.structural import schema_errors
    from quintet.apis.suite import NAME, QUINTET
    from quintet.authoring.cel_rules import RULES
    from quintet.authoring.documents import Document
    from quintet.authoring.validation import validate_document
    from quintet.local.errors import LocalError
    from quintet.manifests.crd import object_schema

    found = validate_document(Document("", 1, obj), namespace)
    errors = found.errors if found is not None else tuple(schema_errors(object_schema(kind), obj, RULES))
    if kind is QUINTET and obj["metadata"]["name"] != NAME:
        errors = (f"the only object of this kind is named {NAME}",)
    if errors:
        raise LocalError(
            f"{kind.resource.kind} {obj['metadata']['name']}: {'; '.join(map(str, errors))}",
            "choose another name",
        )


def _summary(kind: CustomResource) -> str:
    from quintet.manifests.crd import object_schema

    text: str = object_schema(kind).get("description", "")
    return text.splitlines()[0] if text else "see its CRD"


def _key_descriptions(kind: CustomResource, obj: JsonObject) -> Any:
    """Return a function that describes the keys of spec.config, which only the catalog knows."""
    from quintet.apis.eventingbackend.catalog import CATALOG

    backend = CATALOG.get(str(obj["spec"].get("type", ""))) if "evb" in kind.short_names else None

    def describe(name: str) -> str:
        key = backend.key(name) if backend is not None else None
        return key.description if key is not None else ""

    return describe
