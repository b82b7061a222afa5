"""What waits is explained once per snapshot."""

from apps.pending.queries import waiting_workloads
from tests.plans.situations import picture, pod


def test_what_waits_comes_with_its_reason():
    waits = pod("llama", "", 8, phase="Pending", ready=False)
    snapshot = picture(pods=[*picture().pods.values(), waits])
    (found,) = waiting_workloads(snapshot)
    assert (found.key, found.gpus) == ("ml/llama", 8)
    assert found.sentence.endswith(".")
    assert waiting_workloads(snapshot)[0] is found
    assert waiting_workloads(picture()) == ()
