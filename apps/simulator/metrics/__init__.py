"""What a Prometheus would know of the simulated GPUs: an exporter's text per node, and the query API.

Nothing is stored but who held what and when: a value is a function of the device, its holder and the time.
"""
