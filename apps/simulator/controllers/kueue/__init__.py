"""A small Kueue: quota of ClusterQueues for Jobs that name a LocalQueue.

What it does is Kueue's: a Job is suspended until its Workload is admitted, conditions say why not. What it
leaves out: preemption, fair sharing, limits of lending, admission checks, topology.
"""
