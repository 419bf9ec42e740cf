"""Metrics of the publisher proxy, with the names that dashboards of Kyma Eventing query.

Every event is counted, so counters are plain integers that become Prometheus metrics when they are scraped.
Label values that publishers choose (types, sources) are bounded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

REQUESTS: Final = "eventing_epp_requests"
DURATION: Final = "eventing_epp_requests_duration_seconds"
BACKEND_DURATION: Final = "eventing_epp_backend_duration_milliseconds"
PUBLISHED: Final = "eventing_epp_event_type_published"
HEALTH: Final = "eventing_epp_health"
IN_FLIGHT: Final = "eventing_epp_events_in_flight"

MAX_TYPES: Final = 1000
"""Pairs of type and source with their own label values; further pairs are counted as `other`."""
_OTHER: Final = ("other", "other")
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MILLISECONDS = tuple(1000 * bound for bound in _SECONDS)


class _Durations:
    """A histogram: counts per bucket, and the sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        found, so_far = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            found.append((bound, float(so_far)))
        return found


class PublisherMetrics(Collector):
    """The metrics of one publisher proxy."""

    def __init__(self, destination: str) -> None:
        self._destination = destination
        self._requests: dict[tuple[int, str, str], _Durations] = {}
        self._backend: dict[int, _Durations] = {}
        self._published: dict[tuple[str, str], dict[int, int]] = {}
        self.healthy = False
        self.in_flight = 0

    def count_request(self, status: int, method: str, path: str, seconds: float) -> None:
        """Count a request."""
        key = (status, method, path)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = _Durations(_SECONDS)
        found.add(seconds)

    def count_event(self, status: int, event_type: str, source: str, seconds: float) -> None:
        """Count an event by the status of its response."""
        durations = self._backend.get(status)
        if durations is None:
            durations = self._backend[status] = _Durations(_MILLISECONDS)
        durations.add(1000 * seconds)
        key = (event_type, source)
        counts = self._published.get(key)
        if counts is None:
            if len(self._published) >= MAX_TYPES:
                key = _OTHER
            counts = self._published.setdefault(key, {})
        counts[status] = counts.get(status, 0) + 1

    def collect(self) -> Iterable[Metric]:
        """Return all metrics for Prometheus."""
        yield from self._request_metrics()
        yield from self._event_metrics()
        health = GaugeMetricFamily(HEALTH, "1 while events can be published")
        health.add_metric([], float(self.healthy))
        yield health
        in_flight = GaugeMetricFamily(IN_FLIGHT, "Events waiting for the backend")
        in_flight.add_metric([], float(self.in_flight))
        yield in_flight

    def _request_metrics(self) -> Iterator[Metric]:
        labels = ["code", "method", "path"]
        requests = CounterMetricFamily(REQUESTS, "Requests by response code", labels=labels)
        seconds = HistogramMetricFamily(DURATION, "Time to a response, including the backend", labels=labels)
        for (status, method, path), durations in self._requests.items():
            values = [str(status), method, path]
            requests.add_metric(values, float(sum(durations.counts)))
            seconds.add_metric(values, durations.buckets(), durations.total)
        yield requests
        yield seconds

    def _event_metrics(self) -> Iterator[Metric]:
        labels = ["code", "destination_service"]
        backend = HistogramMetricFamily(BACKEND_DURATION, "Response time of the backend", labels=labels)
        for status, durations in self._backend.items():
            backend.add_metric([str(status), self._destination], durations.buckets(), durations.total)
        yield backend
        labels = ["event_type", "event_source", "code"]
        published = CounterMetricFamily(PUBLISHED, "Events sent to the backend", labels=labels)
        for (event_type, source), counts in self._published.items():
            for status, count in counts.items():
                published.add_metric([event_type, source, str(status)], float(count))
        yield published
