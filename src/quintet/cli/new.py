"""The command new: a manifest to begin with, as annotated YAML.

Called by `main`; the YAML is made by `annotated`. What a field means is said by the definition of the
kind, and the values are those of `config/samples`, which tests apply: there is no third copy. What
is printed has been judged by the functions of `validate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from quintet.cli import completion, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource

NAMESPACE = "default"
# What a sample brings for itself, and an object that goes where its user likes does not need.
_NOT_NEEDED = ("Namespace",)


class Sample(NamedTuple):
    """One object of a kind, and what has to be there beside it."""

    object: JsonObject
    beside: tuple[JsonObject, ...] = ()
    old: tuple[str, ...] = ()
    """Fields of its spec that have new names."""


@click.command(
    epilog="Exit codes: 0 it was printed, 1 no object can have that name, 2 it was called wrongly."
)
@click.argument("word", metavar="KIND", shell_complete=completion.kinds)
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="Every field; those that may be left out as comments.")
@click.option(
    "-n",
    "--namespace",
    default="",
    help="Written into it; default: none, so that it goes where you apply it.",
)
def new(word: str, name: str | None, full: bool, namespace: str) -> None:
    """Print a manifest of a kind to begin with, with what each field means.

    It works as it is: `quintet new jsonserver app-books | kubectl apply -f -`.
    """
    from quintet.cli.kinds import kind_of

    kind = kind_of(word)
    sample = renamed(_sample(kind, full=full), name or "", namespace)
    _judge(kind, sample.object, namespace or NAMESPACE)
    output.result("\n".join(manifest(kind, sample, full=full)))


def manifest(kind: CustomResource, sample: Sample, *, full: bool) -> Iterator[str]:
    """The lines to print."""
    from quintet.cli.annotated import annotated, dumped, left_out, remark
    from quintet.manifests.crd import object_schema

    for body in sample.beside:
        yield from dumped(body)
        yield "---"
    schema, obj = object_schema(kind)["properties"]["spec"], sample.object
    yield f"# {kind.resource.kind}: {_summary(kind)}"
    yield from dumped({key: obj[key] for key in ("apiVersion", "kind", "metadata")})
    spec = annotated(obj["spec"], schema, full=full, remarks=_remarks(kind, obj))
    if any(not line.startswith("#") for line in spec):
        yield "spec:"
        yield from (f"  {line}" for line in spec)
    else:
        yield "spec: {}"
        yield from (f"  {line}" for line in spec)
    others = [] if full else [name for name in left_out(obj["spec"], schema) if name not in sample.old]
    if others:
        word = kind.resource.kind.lower()
        text = f"Left out: {', '.join(others)}; see `quintet new {word} --full`."
        yield from (f"  {line}" for line in remark(text))


def renamed(sample: Sample, name: str, namespace: str) -> Sample:
    """The same under another name, wherever the sample says its own, and in another namespace."""
    metadata = sample.object["metadata"]
    old, place = metadata["name"], metadata.get("namespace", "")

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [changed(each) for each in value]
        if isinstance(value, str) and place:
            value = value.replace(f".{place}.svc", f".{namespace or NAMESPACE}.svc")
        return name if name and value == old else value

    def placed(body: JsonObject) -> JsonObject:
        found = changed(body)
        found["metadata"].pop("namespace", None)
        if namespace:
            metadata = {"name": found["metadata"]["name"], "namespace": namespace}
            found["metadata"] = metadata | found["metadata"]
        return dict(found)

    return sample._replace(object=placed(sample.object), beside=tuple(map(placed, sample.beside)))


def _sample(kind: CustomResource, *, full: bool) -> Sample:
    """The values to show: those of the short sample, or of the one with every field."""
    brief, every = _read(kind, every=False), _read(kind, every=True)
    if every is None:
        bare = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        return Sample({**bare, "metadata": {"name": "quintet"}, "spec": {}})
    if full:
        return Sample(_rewritten(every.object), every.beside)
    spec = _rewritten((brief or every).object)["spec"]
    if brief is None:
        from quintet.manifests.crd import object_schema

        required = object_schema(kind)["properties"]["spec"].get("required", ())
        spec = {key: value for key, value in spec.items() if key in required}
    else:
        # Where the short one says something in an old way, the other one has the new.
        written, known = brief.object["spec"], every.object["spec"]
        spec = {key: value if key in written else known.get(key, value) for key, value in spec.items()}
    chosen = brief or every
    old = tuple(key for key in chosen.object["spec"] if key not in spec) if brief else ()
    return Sample({**chosen.object, "spec": spec}, chosen.beside, old)


def _rewritten(obj: JsonObject) -> JsonObject:
    """As a webhook would store its spec: old names of fields become new ones."""
    import copy

    from quintet.admission.review import Operation
    from quintet.cli.validate import KINDS, parts

    kind = obj["apiVersion"], obj["kind"]
    admission = parts(*kind)[1] if kind in KINDS else None
    if admission is None or admission.default is None:
        return obj
    placed = {**copy.deepcopy(obj), "metadata": {"namespace": NAMESPACE, **obj["metadata"]}}
    stored = admission.default(placed, Operation.CREATE)
    kept = {key: value for key, value in obj["spec"].items() if key in stored["spec"]}
    new = {key: value for key, value in stored["spec"].items() if key not in kept}
    return {**obj, "spec": {**kept, **new}}


def _read(kind: CustomResource, *, every: bool) -> Sample | None:
    from quintet.cli.documents import documents
    from quintet.local.paths import find_resource

    word = kind.resource.kind.lower()
    names = (f"{word}-every-field.yaml", f"{word}-every-key.yaml") if every else (f"{word}.yaml",)
    found = [path for name in names if (path := find_resource("config") / "samples" / name).exists()]
    if not found:
        return None
    bodies = [each.value for each in documents(str(found[0]))]
    ours = [each for each in bodies if each["kind"] == kind.resource.kind]
    beside = [each for each in bodies if each["kind"] not in (kind.resource.kind, *_NOT_NEEDED)]
    return Sample(ours[0], tuple(beside))


def _judge(kind: CustomResource, obj: JsonObject, namespace: str) -> None:
    from quintet.apis.structural import mistakes
    from quintet.apis.suite import NAME, QUINTET
    from quintet.cli.documents import Document
    from quintet.cli.rules import RULES
    from quintet.cli.validate import judged
    from quintet.local.errors import LocalError
    from quintet.manifests.crd import object_schema

    found = judged(Document("", 1, obj), namespace)
    errors = found.errors if found.known else tuple(mistakes(object_schema(kind), obj, RULES))
    if kind is QUINTET and obj["metadata"]["name"] != NAME:
        errors = (f"there is one in a cluster, and it is called {NAME}",)
    if errors:
        raise LocalError(
            f"{kind.resource.kind} {obj['metadata']['name']}: {'; '.join(map(str, errors))}",
            "choose another name",
        )


def _summary(kind: CustomResource) -> str:
    from quintet.manifests.crd import object_schema

    text: str = object_schema(kind).get("description", "")
    return text.splitlines()[0] if text else "see its definition"


def _remarks(kind: CustomResource, obj: JsonObject) -> Any:
    """Keys of a configuration are in no schema, but in the catalog."""
    from quintet.apis.eventingbackend.catalog import CATALOG

    backend = CATALOG.get(str(obj["spec"].get("type", ""))) if "evb" in kind.short_names else None

    def remark(name: str) -> str:
        key = backend.key(name) if backend is not None else None
        return key.description if key is not None else ""

    return remark
