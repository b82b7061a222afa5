"""What clusters refuses. Each says what, where, and what to do.

ClusterError
├── BadKubeconfig      the text cannot be used
├── NameTaken          a cluster of that name is registered
├── AlreadyRegistered  the same cluster is registered under another name
├── BadName            no name for a cluster
├── ConnectionFailed   the cluster does not answer, or not as it should
├── BadDump            a file is no dump of a cluster
└── InUse              it cannot be removed
"""

from __future__ import annotations


class ClusterError(Exception): ...


class BadKubeconfig(ClusterError): ...


class NameTaken(ClusterError): ...


class AlreadyRegistered(ClusterError): ...


class BadName(ClusterError): ...


class ConnectionFailed(ClusterError): ...


class BadDump(ClusterError): ...


class InUse(ClusterError): ...
