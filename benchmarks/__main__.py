"""The command line: `python -m benchmarks all`, or one part.

Every part starts a new control plane, stops everything it started, and writes its figures to
build/bench.json.
"""

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable

from benchmarks import ROOT, contenders, report, rounds
from benchmarks.contenders import CR_CREATE, KOPF, QUINTET
from benchmarks.control_plane import fresh_control_plane
from benchmarks.measure import load_average, percentiles
from benchmarks.parts import webhook
from benchmarks.parts.latency import idle
from benchmarks.parts.traffic import count_requests
from benchmarks.report import say
from benchmarks.workloads import Workload

TURNS = 4

Part = Callable[[argparse.Namespace], Awaitable[None]]


async def drain(options: argparse.Namespace) -> None:
    """Measure time, CPU and memory of every contender."""
    found = await rounds.run(Workload(options.count), options.rounds, options.only, say)
    report.keep_details("drain", report.series_details(found))
    say(f"\nDraining {options.count} JsonServers, {options.rounds} rounds, load {' | '.join(found.loads)}")
    say(report.series_table(found))
    if QUINTET in found.runs:
        report.keep(found.figures())


async def traffic(options: argparse.Namespace) -> None:
    """Count the requests of every operator."""
    operators = contenders.operators(say)
    found = []
    async with fresh_control_plane(say) as plane:
        for number, name in enumerate((QUINTET, CR_CREATE, KOPF)):
            work = Workload(options.traffic_count)
            found.append(
                await count_requests(plane, operators[name], work, f"traffic-{number}", options.steady)
            )
    own = found[0]
    report.keep(
        {
            "writes_per_create": own.writes_per_create,
            "gets_per_create": own.gets_per_create,
            "steady_requests": own.steady_requests,
            "restart_writes": own.restart_writes,
        }
    )
    report.keep_details("traffic", {each.contender: each.writes for each in found})
    say(f"\nRequests for {options.traffic_count} JsonServers, through a recording proxy")
    say(report.traffic_table(found))


async def latency(options: argparse.Namespace) -> None:
    """Measure the latency of single changes; contenders take turns, a quarter of the samples each."""
    operators = contenders.operators(say)
    times: dict[str, list[float]] = {}
    empty: dict[str, float] = {}
    load = load_average()
    async with fresh_control_plane(say) as plane:
        for turn in range(TURNS):
            for number, name in enumerate((QUINTET, CR_CREATE, KOPF)):
                found = await idle(
                    plane, operators[name], options.samples // TURNS, f"latency-{turn}-{number}"
                )
                times.setdefault(name, []).extend(found.milliseconds)
                empty[name] = round(found.empty_mb, 1)
    shown = {name: percentiles(values) for name, values in times.items()}
    report.keep({"latency_ms": shown[QUINTET], "rss_empty_mb": empty[QUINTET]})
    report.keep_details("latency", {name: {**each, "empty_mb": empty[name]} for name, each in shown.items()})
    say(f"\nFrom create to children and status, idle, {options.samples} samples, load {load}")
    rows = [
        [name, f"{each['p50']:.1f}", f"{each['p99']:.1f}", f"{empty[name]:.0f}"]
        for name, each in shown.items()
    ]
    say(report.table(["contender", "p50 ms", "p99 ms", "empty MB"], rows))


async def webhooks(options: argparse.Namespace) -> None:
    """Measure webhook latency at a fixed rate."""
    load = load_average()
    async with fresh_control_plane(say) as plane:
        found = percentiles(await webhook.measure_latencies(plane, say, seconds=options.webhook_seconds))
    report.keep({"webhook_ms": found})
    say(f"\nWebhooks at {webhook.RATE:g} reviews/s for {options.webhook_seconds:g} s, load {load}")
    say(report.table(["", "p50 ms", "p99 ms"], [["reviews", f"{found['p50']:.2f}", f"{found['p99']:.2f}"]]))


async def micro(options: argparse.Namespace) -> None:
    """Measure hot code paths against a reference in the same process."""
    from benchmarks.parts import micro as parts

    found = await asyncio.to_thread(parts.measure_paths)
    report.keep_details("micro", {each.name: each.ratio for each in found})
    say("\nMicrobenchmarks: time ÷ json.loads of the same bytes")
    say(report.table(parts.HEADINGS, parts.rows(found)))
    if options.save_baseline:
        parts.save(found)


async def http(options: argparse.Namespace) -> None:
    """Measure the CPU time of a request, beside aiohttp."""
    from benchmarks.parts import http_clients as clients

    found = await asyncio.to_thread(clients.measure)
    report.keep_details("http", found)
    say("\nCPU of a PATCH over TLS, best of three runs")
    say(report.table(clients.HEADINGS, clients.rows(found)))


async def scale(options: argparse.Namespace) -> None:
    """Measure start time and memory with growing numbers of objects."""
    from benchmarks.parts import scale as growth

    await growth.run(options.sizes, say)


async def statefulcluster(options: argparse.Namespace) -> None:
    """Compare many small StatefulClusters with StatefulSets."""
    from benchmarks.parts import statefulcluster as sets

    found = await sets.run(options.sets, options.set_replicas, options.set_rounds, say)
    size = f"{options.sets} sets of {options.set_replicas} pods with a claim each"
    say(f"\n{size}, on a simulated node")
    say(report.table(sets.HEADINGS, sets.rows(found)))
    say(sets.request_counts(found))


async def publisher(options: argparse.Namespace) -> None:
    """Compare the publisher proxy with a plain Go proxy."""
    from benchmarks.parts import publisher as proxies

    found = await proxies.run(options.events, options.event_rounds, say)
    say(f"\n{options.events} events of {proxies.SIZE} bytes a turn, {options.event_rounds} rounds")
    say(report.table(proxies.HEADINGS, proxies.rows(found)))


async def dispatcher(options: argparse.Namespace) -> None:
    """Measure one dispatcher with many Subscriptions, and its delivery of events."""
    from benchmarks.parts import dispatcher as delivery

    held, fed = await delivery.run(options.subscriptions, options.events, say)
    say("\nOne dispatcher: idle cost and cost per event")
    say(report.table(delivery.HEADINGS, delivery.rows(held)))
    say(report.table(delivery.EVENT_HEADINGS, delivery.event_rows(fed)))


PARTS: dict[str, Part] = {
    "drain": drain,
    "traffic": traffic,
    "latency": latency,
    "webhook": webhooks,
    "micro": micro,
    "http": http,
    "scale": scale,
    "statefulcluster": statefulcluster,
    "publisher": publisher,
    "dispatcher": dispatcher,
}
LONG = {"http", "statefulcluster", "publisher", "dispatcher"}
"""Parts that `all` does not include; run them by name."""


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", choices=["all", *PARTS], nargs="+")
    parser.add_argument("--count", type=int, default=500, help="JsonServers to drain")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=[], help="contenders by name; default: all")
    parser.add_argument("--traffic-count", type=int, default=60, help="JsonServers behind the proxy")
    parser.add_argument("--steady", type=float, default=10.0, help="idle seconds to count requests in")
    parser.add_argument("--samples", type=int, default=100, help="creates to take the latency of")
    parser.add_argument("--webhook-seconds", type=float, default=webhook.SECONDS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000], help="for scale: JsonServers")
    parser.add_argument("--sets", type=int, default=200, help="for statefulcluster: how many of each kind")
    parser.add_argument("--set-replicas", type=int, default=5, help="for statefulcluster: pods of each")
    parser.add_argument("--set-rounds", type=int, default=1, help="for statefulcluster: rounds of both kinds")
    parser.add_argument("--events", type=int, default=20_000, help="for publisher, dispatcher: in a turn")
    parser.add_argument("--subscriptions", type=int, default=500, help="for dispatcher: how many it holds")
    parser.add_argument("--event-rounds", type=int, default=5, help="for publisher: turns of each contender")
    parser.add_argument("--save-baseline", action="store_true", help="for micro: write baseline.json")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> None:
    """Run the chosen parts in order."""
    everything = PARTS.keys() - LONG if "all" in options.part else set()
    chosen = [name for name in PARTS if name in {*options.part, *everything}]
    say(f"load {load_average()}: {', '.join(chosen)}")
    for name in chosen:
        await PARTS[name](options)
    say(f"\nfigures: {report.FIGURES.relative_to(ROOT)}, details beside it; load {load_average()}")


if __name__ == "__main__":
    # Handle SIGTERM like Ctrl-C, so that everything that was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    asyncio.run(run(parse_arguments()))
