"""The verb why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import completion, output

if TYPE_CHECKING:
    from quintet.apis.casconfig.matching import Match
    from quintet.apis.meta import ObjectKey
    from quintet.kube.config import ClusterConfig


@click.command(epilog="Exit codes: 0 it is a target, 1 it is not or failure, 2 usage error.")
@click.argument("config", metavar="CASCONFIG")
@click.argument("target", metavar="KIND NAME", nargs=-1, required=True)
@click.option(
    "-n",
    "--namespace",
    help="The namespace of the CASConfig; default: that of the context.",
    shell_complete=completion.complete_namespace,
)
@click.option("--target-namespace", help="The namespace of the object; default: that of the CASConfig.")
@click.option(
    "--operator-namespace",
    default="quintet-system",
    show_default=True,
    help="The namespace of Quintet, which is never a target.",
)
@click.option("--kubeconfig", help="Path to the kubeconfig file.")
@click.option("--context", help="The context of the kubeconfig to use.")
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def why(
    config: str,
    target: tuple[str, ...],
    namespace: str | None,
    target_namespace: str | None,
    operator_namespace: str,
    kubeconfig: str | None,
    context: str | None,
    form: str,
) -> None:
    """Explain why an object is a target of a CASConfig, or which criterion excludes it.

    KIND is a name that kubectl accepts, or group/version/Kind; KIND/NAME works too:
    `quintet why logging deployment/books`.
    """
    import asyncio

    from quintet.apis.meta import ObjectKey
    from quintet.kube import config as configuration

    config = config.removeprefix("casconfig/")
    kind, _, name = "/".join(target).rpartition("/")
    if not kind or not name:
        raise click.UsageError(
            f"'{' '.join(target)}' names no object: write KIND NAME or KIND/NAME, such as deployment/books"
        )
    found = configuration.load(kubeconfig, context)
    key = ObjectKey(namespace or found.namespace, config)
    where = ObjectKey(target_namespace or key.namespace, name)
    answer, held = asyncio.run(_read_match(found, key, kind, where, operator_namespace))
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
    found: ClusterConfig, key: ObjectKey, kind: str, where: ObjectKey, operator: str
) -> tuple[Match, bool]:
    from quintet.apis.casconfig import CASCONFIGS, CASConfig, layers
    from quintet.apis.casconfig.kinds import resolve_kind
    from quintet.apis.casconfig.ledger import LedgerError, has_ledger
    from quintet.apis.casconfig.matching import Candidate, match
    from quintet.apis.casconfig.template import pod_place
    from quintet.apis.meta import JsonObject, ObjectKey
    from quintet.kube.client import Client
    from quintet.kube.discovery import list_types, read_openapi
    from quintet.kube.transport import Transport

    async with Transport(found) as transport:
        client = Client(transport)
        config = await client.get(CASCONFIGS, key, CASConfig)
        types = await list_types(client)
        meant = resolve_kind(kind, [each.resource for each in types])
        # kubectl prefers the first group that has the name, too.
        resource = meant.resource or next(
            (each.resource for each in types if kind.lower() in each.names), None
        )
        if resource is None:
            raise click.UsageError(meant.problem)
        obj = await client.get(
            resource, where if resource.namespaced else ObjectKey("", where.name), JsonObject
        )
        pod = pod_place(await read_openapi(client, resource), resource)
    try:
        candidate = Candidate(resource, layers.original(obj), pod)
    except LedgerError as error:
        raise click.ClickException(str(error)) from error
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
