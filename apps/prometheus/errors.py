"""What can go wrong with metrics. Each says what, where, and what to do.

MetricsError
├── BadMetrics     a text holds no metrics, or is none
├── BadAddress     no address that a Prometheus can be asked at
├── Unreachable    it does not answer
└── Refused        it answers that it will not
"""

from __future__ import annotations


class MetricsError(Exception): ...


class BadMetrics(MetricsError): ...


class BadAddress(MetricsError): ...


class Unreachable(MetricsError): ...


class Refused(MetricsError): ...
