"""The verb why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output

if TYPE_CHECKING:
    from quintet.apis.casconfig.matching import Match
    from quintet.apis.meta import ObjectKey
    from quintet.inspect.session import Session, Target


@click.command(epilog="Exit codes: 0 it is a target, 1 it is not or failure, 2 usage error.")
@click.argument("config", metavar="CASCONFIG")
@click.argument("typed", metavar="KIND NAME", nargs=-1, required=True)
@options.target_options
@click.option("--target-namespace", help="The namespace of the object; default: that of the CASConfig.")
@click.option(
    "--operator-namespace",
    default="quintet-system",
    show_default=True,
    help="The namespace of Quintet, which is never a target.",
)
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def why(
    config: str,
    typed: tuple[str, ...],
    target: Target,
    target_namespace: str | None,
    operator_namespace: str,
    form: str,
) -> None:
    """Explain why an object is a target of a CASConfig, or which criterion excludes it.

    KIND is a name that kubectl accepts, or group/version/Kind; KIND/NAME works too:
    `quintet why logging deployment/books`.
    """
    config = config.removeprefix("casconfig/")
    kind, _, name = "/".join(typed).rpartition("/")
    if not kind or not name:
        raise click.UsageError(
            f"'{' '.join(typed)}' names no object: write KIND NAME or KIND/NAME, such as deployment/books"
        )
    options.run(_show_match(target, config, (kind, target_namespace, name), operator_namespace, form))


async def _show_match(
    target: Target, config: str, named: tuple[str, str | None, str], operator: str, form: str
) -> None:
    from quintet.apis.meta import ObjectKey
    from quintet.inspect.session import connect

    kind, namespace, name = named
    async with connect(target) as session:
        key = ObjectKey(session.namespace, config)
        where = ObjectKey(namespace or key.namespace, name)
        answer, held = await _read_match(session, key, kind, where, operator)
    if form == "json":
        output.result_json(
            {
                "policies": [policy.name for policy in answer.policies],
                "misses": [each._asdict() for each in answer.misses],
                "changed": held,
            }
        )
    else:
        output.result("\n".join(_lines(key, kind, where, answer, held)))
    if not answer.policies:
        raise SystemExit(1)


async def _read_match(
    session: Session, key: ObjectKey, kind: str, where: ObjectKey, operator: str
) -> tuple[Match, bool]:
    from quintet.apis.casconfig import CASCONFIGS, CASConfig, layers
    from quintet.apis.casconfig.kinds import resolve_kind
    from quintet.apis.casconfig.ledger import has_ledger
    from quintet.apis.casconfig.matching import Candidate, match
    from quintet.apis.casconfig.template import pod_place
    from quintet.apis.meta import JsonObject, ObjectKey
    from quintet.kube.discovery import list_types, read_openapi

    client = session.client
    config = await client.get(CASCONFIGS, key, CASConfig)
    types = await list_types(client)
    meant = resolve_kind(kind, [each.resource for each in types])
    # kubectl prefers the first group that has the name, too.
    resource = meant.resource or next((each.resource for each in types if kind.lower() in each.names), None)
    if resource is None:
        raise click.UsageError(meant.problem)
    obj = await client.get(resource, where if resource.namespaced else ObjectKey("", where.name), JsonObject)
    pod = pod_place(await read_openapi(client, resource), resource)
    candidate = Candidate(resource, layers.original(obj), pod)
    return match(config.spec, key, candidate, operator), has_ledger(obj, key)


def _lines(key: ObjectKey, kind: str, where: ObjectKey, answer: Match, held: bool) -> list[str]:
    what = f"{kind} {where}"
    if answer.policies:
        lines = [f"{what} is a target of CASConfig {key}"]
    else:
        lines = [f"{what} is not a target of CASConfig {key}"]
    lines += [f"  policy {policy.name}: matches" for policy in answer.policies]
    lines += [f"  {each}" for each in answer.misses]
    if held:
        lines.append("  it has changes of this CASConfig: see its annotation casconfig.openebs.io/…")
    return lines
