"""What `kubectl describe` printed: nodes are read, anything else is not taken for one."""

from apps.kube.describe_text import is_description, read_description

NODE = "Name:  n-4\nLabels:  nvidia.com/gpu.count=2\nTaints:  <none>\nCapacity:\n  nvidia.com/gpu:  2\n"
POD = "Name:  web-0\nNamespace:  shop\nNode:  n-4/10.0.0.4\nLabels:  a=b\nAnnotations:  <none>\nConditions:\n"


def test_a_described_pod_is_no_node():
    assert is_description(NODE)
    assert read_description(NODE)[0]["status"]["capacity"] == {"nvidia.com/gpu": "2"}
    assert not is_description(POD)


def test_amounts_cut_out_of_a_description_are_of_a_node():
    cut = "Capacity:\n  cpu:  8\n  nvidia.com/gpu:  6\nAllocatable:\n  cpu:  8\n  nvidia.com/gpu:  5\n"
    assert is_description(cut)
    (one,) = read_description(cut)
    assert (one["metadata"]["name"], one["status"]["allocatable"]["nvidia.com/gpu"]) == ("unnamed", "5")
