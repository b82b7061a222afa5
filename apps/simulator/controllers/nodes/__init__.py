"""The controllers of nodes and of what stays behind: life cycle, taints, pod collection, namespaces."""
