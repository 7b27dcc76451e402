"""A list of metrics at one moment, in Prometheus' text or OpenMetrics, whichever is asked for."""

import math
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from engine.http.metrics.definitions import Metric, Moment
from engine.serving.histogram import Counted

# Asked by each scrape; it would register itself with a registry that all of the process share.
_PROCESS = ProcessCollector(registry=None)


def exposition(metrics: Sequence[Metric], moment: Moment, accept: str) -> tuple[bytes, str]:
    """The text, and its content type. ``accept``: what the client says it takes; names of others, which have colons, are told
    as text alone. The process's own numbers follow."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Moment(metrics, moment))
    registry.register(_PROCESS)
    if any(":" in metric.name for metric in metrics):
        accept = (
            ""  # In OpenMetrics the library writes samples of such names with another sign, so that nobody finds them.
        )
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Moment(Collector):
    def __init__(self, metrics: Sequence[Metric], moment: Moment) -> None:
        self._metrics, self._moment = metrics, moment

    def describe(self) -> Iterable[Family]:
        return ()

    def collect(self) -> Iterator[Family]:
        for metric in self._metrics:
            if (family := _family(metric, self._moment)) is not None:
                yield family


def _family(metric: Metric, moment: Moment) -> Family | None:
    samples = list(metric.read(moment))
    if not samples:
        return None
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for values, counted in samples:
            assert isinstance(counted, Counted)
            histogram.add_metric(_texts(values), buckets=_buckets(counted), sum_value=counted.sum)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for values, value in samples:
        assert not isinstance(value, Counted)
        family.add_metric(_texts(values), value)
    return family


def _texts(values: Iterable[str]) -> list[str]:
    """As they can be sent: a path may hold bytes that are no text."""
    return [value.encode("utf-8", "replace").decode() for value in values]


def _buckets(counted: Counted) -> list[tuple[str, float]]:
    """Upper bounds, as text, and how many were at most so large."""
    buckets, below = [], 0
    for bound, count in zip((*counted.bounds, math.inf), counted.counts, strict=True):
        below += count
        buckets.append(("+Inf" if bound == math.inf else repr(bound), float(below)))
    return buckets
