"""The words of a placement policy: how nodes are scored, what is answered on an old picture."""

from django.db import models


class Scoring(models.TextChoices):
    """How the nodes that take a pod are compared."""

    PACKING = "packing", "bin-packing with links, MIG and the host's balance"
    FGD = "fgd", "least fragmentation gained (FGD), over what the cluster's pods usually ask"
    DEMAND_FIT = "demand-fit", "best fit weighed by what the cluster's pods usually ask"


class WhenStale(models.TextChoices):
    """What the extender answers while its picture of the cluster is too old to judge by."""

    REFUSE = "refuse", "the call fails: the pod waits, or with ignorable the scheduler goes on alone"
    ABSTAIN = "abstain", "every offered node passes and none is preferred"


class Verb(models.TextChoices):
    FILTER = "filter"
    PRIORITIZE = "prioritize"
    BIND = "bind"
    PREEMPT = "preempt"
