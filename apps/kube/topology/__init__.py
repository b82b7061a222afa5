"""Reads how the GPUs of one machine are linked, out of what tools print and programs write.

Pure functions over text and JSON values; the annotation on a Node, a file and an upload are read by the same
ones. What the links mean is the planner's (`planner.topology`).
"""

from apps.kube.topology.reading import Reading  # noqa: F401
