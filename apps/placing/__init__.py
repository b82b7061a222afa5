"""What the cluster's own scheduler is told by us: the policy of each cluster's extender, whether it is
alive, what it answered about each pod, and the configuration that makes a kube-scheduler ask it.

Not here: deciding (apps.scheduling.extender), which only writes to and reads from these rows.
"""
