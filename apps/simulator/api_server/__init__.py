"""The API server of the simulated cluster: it answers over HTTPS as a real one does.

It stores, admits, watches, binds and evicts. What a cluster does by itself (scheduling, budgets,
kubelets, garbage) is not here: that is done by controllers that speak HTTP to this server.
"""
