"""What the extender counts, in Prometheus' text format. Its own registry: a program may serve several."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from apps.scheduling.extender.deciding import Extender

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Counters:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "extender_calls", "Calls of schedulers.", ("verb", "outcome"), registry=self._registry
        )
        self._seconds = Histogram(
            "extender_call_seconds",
            "From the call's arrival to its answer.",
            ("verb",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._age = Gauge("extender_picture_age_seconds", "Age of the picture.", registry=self._registry)
        self._assumed = Gauge(
            "extender_assumed_pods",
            "Pods that count before the watch tells of them.",
            registry=self._registry,
        )

    def note(self, verb: str, outcome: str, seconds: float) -> None:
        self._calls.labels(verb, outcome).inc()
        self._seconds.labels(verb).observe(seconds)

    def text(self, extender: Extender) -> bytes:
        self._age.set(extender.age())
        self._assumed.set(len(extender.picture.assumed))
        return generate_latest(self._registry)
