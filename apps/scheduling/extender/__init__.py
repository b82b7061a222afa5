"""The scheduler extender: kube-scheduler asks it which nodes a pod may run on, and which is best.

A web program without rows of its own, over a picture of the cluster in memory that follows the watch.
"""
