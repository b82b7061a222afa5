"""Turns API objects, live or from a dump, into the planner's snapshot.

Everything in an object may have been written by anybody in the cluster: a value that cannot be read
gives a warning on its node or pod and the rest stands. Nothing here asks a cluster for anything.
"""

from apps.kube.translate.picture import Translator, build_snapshot

__all__ = ["Translator", "build_snapshot"]
