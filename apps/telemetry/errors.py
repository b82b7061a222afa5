"""What telemetry refuses. Each says what, where, and what to do.

TelemetryError
├── UnusableAddress   no address of a Prometheus that may be asked
└── NotAnswering      nobody answers there as a Prometheus does
"""

from __future__ import annotations


class TelemetryError(Exception): ...


class UnusableAddress(TelemetryError): ...


class NotAnswering(TelemetryError): ...
