"""What Prometheus scrapes: counted from the database's rows at each scrape, so all web processes agree.

No cluster is asked, nothing is remembered in a process, and no label holds a name that a cluster's users
choose (pods, namespaces, nodes). Not here: reading a Prometheus (telemetry).
"""
