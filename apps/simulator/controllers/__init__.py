"""The programs of the simulated cluster: kubelets, scheduler, owners, node and budget controllers.

Each speaks only the Kubernetes API through `apps.simulator.client`, so each also runs against a
real API server. Not here: the API server itself (apps.simulator.api_server).
"""
