"""Outgoing webhooks: who is told of what, deliveries, and their fate.

The audit entry of a change is written in the change's own transaction, so it is the outbox: a timer turns
entries into deliveries and sends them. Not here: the request itself (wire), Kubernetes Events (executions).
"""
