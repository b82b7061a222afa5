"""The controllers that own pods: Deployment, ReplicaSet, StatefulSet, Job, DaemonSet, and the
garbage collection of what lost its owner."""
