"""What we hold in clusters, kept for pages, REST and metrics, and the orders to release all of it.

The reading itself is `executions.holdings`, the taking away `executions.releasing`; here both are asked for
by people, carried out by workers, and their answers kept.
"""
