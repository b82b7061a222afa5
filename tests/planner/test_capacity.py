"""What arrives on a node together: the sets that the program for free nodes may choose from."""

from apps.planner.capacity import Capacity, Shape, list_packings
from apps.planner.resources import Demand
from tests.drawing import GPU


def test_pods_with_parts_of_several_gpus_are_packed_in_every_way():
    two_parts = Shape("m", Demand(gpu_resource=GPU, gpus=2, milli=600), None)
    whole = Shape("a", Demand(gpu_resource=GPU, gpus=1, milli=1000), None)
    many = Shape("n", Demand(gpu_resource=GPU, gpus=8, milli=600), None)

    assert list_packings(Capacity((600, 700, 1000), (), (1, 1)), [two_parts, whole]) == [(1, 1)]
    assert list_packings(Capacity((600,) * 64, (), (1,)), [many]) is None
