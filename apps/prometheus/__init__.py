"""The only door to Prometheus and to what exporters and `nvidia-smi` print about devices. No Django.

Text and answers of any vendor become `Reading`s: one per GPU or MIG instance, in MiB, percent, watts and
degrees. What was not measured is None and says why: never zero, never idle. Not here: who asks, how often,
what is kept (`apps.telemetry`).
"""
