"""Devices by resource claims (DRA): pools of slices, cards behind them, claims, and who holds what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.kube.gateway import CLAIM_TEMPLATES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from apps.kube.translate import Translator, build_snapshot
from apps.kube.translate.claims import phrase_of, pod_claim_names, read_claim_template
from apps.kube.trimming import trim_object
from apps.planner.inventory import Source
from tests.kube.objects import node, owned, pod
from tests.kube.test_translate_hostile import paths, replaced

DRIVER = "gpu.nvidia.com"


def text(value):
    return {"string": value}


def gpu(index, **changes):
    """changes: attributes, taints, uuid."""
    attributes = {
        "type": text("gpu"),
        "uuid": text(changes.get("uuid", f"GPU-c{index}")),
        "index": {"int": index},
        "productName": text("NVIDIA H200"),
        "resource.kubernetes.io/pcieRoot": text(f"pci0000:{index // 4}0"),
        "driverVersion": {"version": "570.1.0"},
        **changes.get("attributes", {}),
    }
    found = {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "141Gi"}}}
    return {**found, "taints": changes["taints"]} if "taints" in changes else found


def mig(parent, profile, start, **changes):
    attributes = {
        "type": text("mig"),
        "parentUUID": text(f"GPU-c{parent}"),
        "profile": text(profile),
        **changes.get("attributes", {}),
    }
    name = f"gpu-{parent}-mig-{profile.replace('.', '')}-19-{start}"
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "16Gi"}}}


def slice_of(*devices, name="s-0", on="node-a", generation=1, count=1, **spec):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"uid-{name}-{generation}", "resourceVersion": str(generation)},
        "spec": {
            "driver": DRIVER,
            "nodeName": on,
            "pool": {"name": on, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **spec,
        },
    }


def claim(name, *devices, users=(), **changes):
    """changes: requests, admin."""
    results = [
        {"driver": DRIVER, "pool": "node-a", "device": device, "request": "r", **changes.get("result", {})}
        for device in devices
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users],
    }
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    spec = {"devices": {"requests": changes.get("requests", requests)}}
    return owned("ResourceClaim", name, api="resource.k8s.io/v1", spec=spec, status=status if devices else {})


def user(name, *claims, **changes):
    spec = {
        "resourceClaims": [{"name": f"c{at}", "resourceClaimName": one} for at, one in enumerate(claims)],
        **changes.pop("spec", {}),
    }
    return pod(name, gpus=0, on=changes.pop("on", "node-a"), spec=spec, **changes)


def bare_node(name="node-a", **changes):
    found = node(name, gpus=0, **changes)
    found["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    del found["status"]["capacity"]["nvidia.com/gpu"], found["status"]["allocatable"]["nvidia.com/gpu"]
    return found


def snapshot(slices=(), claims=(), pods=(), nodes=None, templates=()):
    objects = {
        NODES: [bare_node()] if nodes is None else nodes,
        PODS: list(pods),
        RESOURCE_SLICES: list(slices),
        RESOURCE_CLAIMS: list(claims),
        CLAIM_TEMPLATES: list(templates),
    }
    kept = {kind: [trim_object(kind, raw) for raw in raws] for kind, raws in objects.items()}
    return build_snapshot("lab", kept, 1.0)


def test_a_node_whose_gpus_only_slices_tell_is_a_gpu_node():
    found = snapshot([slice_of(gpu(1), gpu(0))]).nodes["node-a"]
    assert [(one.index, one.uuid, one.memory_mib, one.pcie_switch) for one in found.gpus] == [
        (0, "GPU-c0", 144384, "pci0000:00"),
        (1, "GPU-c1", 144384, "pci0000:00"),
    ]
    assert (found.vendor, found.model, found.gpu_resource) == ("nvidia", "NVIDIA-H200", "nvidia.com/gpu")


def test_where_the_node_tells_of_its_gpus_slices_fill_in_what_it_leaves_open():
    found = snapshot([slice_of(gpu(0), gpu(1))], nodes=[node(gpus=2)]).nodes["node-a"]
    assert [one.uuid for one in found.gpus] == ["GPU-c0", "GPU-c1"]
    assert (found.model, found.allocatable["nvidia.com/gpu"]) == ("A100-SXM4-80GB", 2)
    more = snapshot([slice_of(*map(gpu, range(3)))], nodes=[node(gpus=2)]).nodes["node-a"]
    assert len(more.gpus) == 3
    assert any("3 GPUs, the node itself of 2" in warning for warning in more.warnings)


def test_only_the_newest_generation_counts():
    old = slice_of(gpu(0), gpu(1), gpu(2), name="old", generation=4)
    new = slice_of(gpu(0), gpu(1), name="new", generation=5)
    assert len(snapshot([old, new]).nodes["node-a"].gpus) == 2


def test_an_incomplete_newer_generation_makes_the_pool_unknown():
    old = slice_of(gpu(0), gpu(1), name="old", generation=4)
    half = slice_of(gpu(0), name="half", generation=5, count=2)
    found = snapshot([old, half]).nodes["node-a"]
    assert found.gpus == ()
    assert found.gpu_resource == "nvidia.com/gpu"
    assert any("1 of the 2 slices of its generation 5" in warning for warning in found.warnings)
    whole = snapshot([old, half, slice_of(gpu(1), name="rest", generation=5, count=2)])
    assert len(whole.nodes["node-a"].gpus) == 2


def test_a_pool_of_no_single_node_is_told_among_the_problems():
    half = slice_of(gpu(0), count=3)
    del half["spec"]["nodeName"]
    assert any("1 of the 3 slices" in problem for problem in snapshot([half]).problems)


def counted(device, counter_set="set-0", **amounts):
    counters = {name.replace("_", "-"): {"value": str(amount)} for name, amount in amounts.items()}
    return {**device, "consumesCounters": [{"counterSet": counter_set, "counters": counters}]}


ONE_SET = [
    {
        "name": "set-0",
        "counters": {"part-0": {"value": "1"}, "part-1": {"value": "1"}, "memory": {"value": "141Gi"}},
    }
]


@pytest.mark.parametrize("layout", ["one slice", "counters apart"])
def test_the_ways_to_cut_a_card_are_alternatives_of_one_card(layout):
    devices = [
        counted(gpu(0), part_0=1, part_1=1),
        counted(mig(0, "1g.18gb", 0), part_0=1),
        counted(mig(0, "1g.18gb", 1), part_1=1),
    ]
    if layout == "one slice":
        slices = [slice_of(*devices, sharedCounters=ONE_SET)]
    else:
        slices = [slice_of(name="a", count=2, sharedCounters=ONE_SET), slice_of(*devices, name="b", count=2)]
    (only,) = snapshot(slices).nodes["node-a"].gpus
    assert (only.memory_mib, only.instances) == (144384, ())


def test_a_cut_card_without_a_whole_device_has_its_counters_memory():
    part = counted(mig(0, "1g.18gb", 0), memory=1)
    (only,) = snapshot([slice_of(part, sharedCounters=ONE_SET)]).nodes["node-a"].gpus
    assert (only.uuid, only.memory_mib) == ("GPU-c0", 144384)


def test_pieces_with_a_uuid_of_their_own_stand_on_their_card():
    made = mig(0, "3g.71gb", 4, attributes={"uuid": text("MIG-1")})
    (only,) = snapshot([slice_of(gpu(0), made)]).nodes["node-a"].gpus
    (instance,) = only.instances
    assert (instance.profile, instance.start_slice, instance.uuid) == ("3g.71gb", 4, "MIG-1")


@pytest.mark.parametrize(("effect", "healthy"), [("NoSchedule", False), ("NoExecute", False), ("None", True)])
def test_a_device_taint_makes_a_card_unusable(effect, healthy):
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": effect}
    found = snapshot([slice_of(gpu(0, taints=[taint]), mig(0, "1g.18gb", 0), gpu(1))]).nodes["node-a"]
    assert [one.healthy for one in found.gpus] == [healthy, True]
    assert any("xid=79" in warning for warning in found.warnings) is not healthy


def test_slices_of_other_devices_are_no_gpus():
    nics = {"name": "nic-0", "attributes": {"type": text("nic")}}
    raw = slice_of(nics)
    raw["spec"]["driver"] = "dra.net"
    assert snapshot([raw]).nodes["node-a"].gpus == ()


def test_the_first_beta_is_read_as_well():
    device = gpu(0)
    plain = {"name": device.pop("name"), "basic": {**device, "capacity": {"memory": "141Gi"}}}
    (only,) = snapshot([slice_of(plain)]).nodes["node-a"].gpus
    assert (only.uuid, only.memory_mib) == ("GPU-c0", 144384)


def test_cards_in_pools_of_their_own_are_numbered_through():
    slices = []
    for name, uuid in (("card-a", "GPU-x"), ("card-b", "GPU-y")):
        raw = slice_of(gpu(0, uuid=uuid), name=name)
        raw["spec"]["pool"]["name"] = name
        slices.append(raw)
    gpus = snapshot(slices).nodes["node-a"].gpus
    assert [(one.index, one.uuid) for one in gpus] == [(0, "GPU-x"), (1, "GPU-y")]


def test_a_pod_holds_what_its_claim_was_given():
    found = snapshot([slice_of(gpu(0), gpu(1))], [claim("c", "gpu-1", users=["a"])], [user("a", "c")])
    only = found.pods["uid-a"]
    (held,) = only.devices
    assert (held.source, held.uuid, held.milli, held.claim) == (Source.DRA, "GPU-c1", 1000, "team-a/c")
    assert (only.claims, only.claim_wishes) == (("team-a/c",), ("1 of gpu.nvidia.com",))
    (holding,) = found.nodes["node-a"].holdings
    assert (holding.pod_uid, holding.device, holding.source) == ("uid-a", "GPU-c1", Source.DRA)


def test_a_claim_of_two_pods_is_one_device():
    pods = [user("a", "c"), user("b", "c")]
    found = snapshot([slice_of(gpu(0))], [claim("c", "gpu-0", users=["a", "b"])], pods)
    assert {(one.uuid, one.claim) for uid in ("uid-a", "uid-b") for one in found.pods[uid].devices} == {
        ("GPU-c0", "team-a/c")
    }


def test_admin_access_holds_nothing_and_neither_does_an_allocation_without_users():
    looks = claim("look", "gpu-0", users=["a"], result={"adminAccess": True})
    idle = claim("idle", "gpu-1")
    found = snapshot([slice_of(gpu(0), gpu(1))], [looks, idle], [user("a", "look", "idle")])
    assert found.pods["uid-a"].devices == ()
    assert any("team-a/idle keeps gpu-1" in warning for warning in found.nodes["node-a"].warnings)


def test_a_piece_that_is_held_exists_and_is_named_by_its_card():
    part = mig(0, "2g.35gb", 2)
    found = snapshot([slice_of(gpu(0), part)], [claim("c", part["name"], users=["a"])], [user("a", "c")])
    (held,) = found.pods["uid-a"].devices
    assert (held.uuid, held.profile, held.start_slice, held.memory_mib) == ("GPU-c0", "2g.35gb", 2, 16384)
    (instance,) = found.nodes["node-a"].gpus[0].instances
    assert (instance.profile, instance.start_slice) == ("2g.35gb", 2)


def test_a_part_of_a_cards_memory_is_a_share():
    shared = claim("c", "gpu-0", users=["a"], result={"consumedCapacity": {"memory": "10Gi"}})
    (held,) = snapshot([slice_of(gpu(0))], [shared], [user("a", "c")]).pods["uid-a"].devices
    assert (held.uuid, held.milli, held.memory_mib) == ("GPU-c0", None, 10240)


def test_a_device_that_no_slice_names_is_held_all_the_same():
    found = snapshot([slice_of(gpu(0))], [claim("c", "gpu-9", users=["a"])], [user("a", "c")])
    (held,) = found.pods["uid-a"].devices
    assert (held.uuid, held.part) == ("", "node-a/gpu-9")


def template(name, *requests, constraints=()):
    spec = {"spec": {"devices": {"requests": list(requests), "constraints": list(constraints)}}}
    return owned("ResourceClaimTemplate", name, api="resource.k8s.io/v1", spec=spec)


def request(device_class="mig.nvidia.com", profile="", **changes):
    selector = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    exactly = {"deviceClassName": device_class, **changes}
    return {**exactly, "selectors": [{"cel": {"expression": selector}}]} if profile else exactly


ON_ONE = {"requests": [], "matchAttribute": "gpu.nvidia.com/parentUUID"}


@pytest.mark.parametrize(
    ("requests", "constraints", "phrase"),
    [
        ([{"name": "a", "exactly": request("gpu.nvidia.com", count=4)}], [], "4 of gpu.nvidia.com"),
        (
            [
                {"name": "a", "exactly": request(profile="1g.18gb")},
                {"name": "b", "exactly": request(profile="3g.71gb")},
            ],
            [ON_ONE],
            "2 of mig.nvidia.com (1g.18gb, 3g.71gb) on one GPU",
        ),
        (
            [
                {
                    "name": "a",
                    "firstAvailable": [
                        {"name": "x", **request("big")},
                        {"name": "y", **request("small", count=2)},
                    ],
                }
            ],
            [],
            "1 of big or else 2 of small",
        ),
        (
            [{"name": "a", "exactly": request("gpu.nvidia.com", allocationMode="All")}],
            [],
            "all of gpu.nvidia.com",
        ),
        ([{"name": "a", **request("gpu.nvidia.com", count=2)}], [], "2 of gpu.nvidia.com"),
    ],
)
def test_a_waiting_pod_tells_what_its_template_asks_for(requests, constraints, phrase):
    waits = user("a", on="", spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]})
    found = snapshot(pods=[waits], templates=[template("t", *requests, constraints=constraints)])
    assert found.pods["uid-a"].claim_wishes == (phrase,)
    assert found.pods["uid-a"].claims == ()


def test_the_claim_made_of_a_template_is_known_by_the_pods_status_or_its_owner():
    spec = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
    made = claim("a-c-x7", "gpu-0", users=["a"])
    told = user(
        "a", spec=spec, status={"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "a-c-x7"}]}
    )
    assert snapshot([slice_of(gpu(0))], [made], [told]).pods["uid-a"].claims == ("team-a/a-c-x7",)
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "a", "uid": "uid-a", "controller": True}]
    made["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "c"}
    made["status"]["reservedFor"] = []
    assert snapshot([slice_of(gpu(0))], [made], [user("a", spec=spec)]).pods["uid-a"].claims == (
        "team-a/a-c-x7",
    )


def test_a_resource_that_a_device_class_stands_for_comes_by_a_claim_too():
    extended = pod("a", on="node-a", status={"extendedResourceClaimStatus": {"resourceClaimName": "c"}})
    found = snapshot([slice_of(gpu(0))], [claim("c", "gpu-0", users=["a"])], [extended])
    assert [held.uuid for held in found.pods["uid-a"].devices] == ["GPU-c0"]


def test_an_unknown_claim_is_named():
    assert snapshot(pods=[user("a", "gone")]).pods["uid-a"].claim_wishes == (
        "devices of the claim gone, which is not known",
    )


HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["gpu-0", "-1", "1e999"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_nothing_in_a_slice_or_claim_stops_the_picture(data):
    part = counted(mig(0, "1g.18gb", 0), part_0=1)
    raws = [
        slice_of(counted(gpu(0), part_0=1, part_1=1), part, sharedCounters=ONE_SET),
        claim("c", "gpu-0", users=["a"]),
        template("t", {"name": "a", "exactly": request(profile="1g.18gb")}, constraints=[ON_ONE]),
        user("a", "c"),
    ]
    at = data.draw(st.integers(0, len(raws) - 1))
    raws[at] = replaced(raws[at], data.draw(st.sampled_from(list(paths(raws[at])))), data.draw(HOSTILE))
    found = snapshot([raws[0]], [raws[1]], [raws[3], user("b")], templates=[raws[2]])
    assert "node-a" in found.nodes
    assert found.pods["uid-b"].name == "b"


def test_only_what_a_change_touches_is_made_anew():
    reader = Translator()
    objects = {
        NODES: [bare_node(), bare_node("node-b")],
        PODS: [user("a", "c"), user("b")],
        RESOURCE_SLICES: [slice_of(gpu(0)), slice_of(gpu(0, uuid="GPU-b0"), name="s-b", on="node-b")],
        RESOURCE_CLAIMS: [claim("c", "gpu-0", users=["a"])],
    }
    first = reader.build("lab", objects, taken_at=1.0)
    again = reader.build("lab", objects, taken_at=2.0)
    assert all(again.nodes[name] is first.nodes[name] for name in first.nodes)
    assert all(again.pods[uid] is first.pods[uid] for uid in first.pods)
    later = {**objects, RESOURCE_CLAIMS: [claim("c", "gpu-0", users=["a", "b"])]}
    changed = reader.build("lab", later, taken_at=3.0)
    assert changed.pods["uid-a"] is first.pods["uid-a"]
    assert [held.uuid for held in changed.pods["uid-b"].devices] == ["GPU-c0"]
    assert changed.nodes["node-b"] is first.nodes["node-b"]


def test_a_claim_is_named_as_before_1_31():
    source = {"resourceClaimTemplateName": "tpl"}
    assert pod_claim_names({"resourceClaims": [{"name": "g", "source": source}]}, {}) == (("g", "", "tpl"),)


def test_who_only_looks_on_asks_for_all_by_admin_access():
    watching = {"name": "w", "exactly": {**request(), "allocationMode": "All", "adminAccess": True}}
    assert phrase_of(read_claim_template(template("t", watching))).startswith("all of ")
    assert "admin access" in phrase_of(read_claim_template(template("t", watching)))


def test_amds_pieces_of_one_address_are_one_card():
    def piece(card, at, address):
        told = {"type": "amdgpu-partition", "pciAddr": address, "partitionProfile": "dpx_nps1"}
        attributes = {name: text(value) for name, value in told.items()}
        return {
            "name": f"gpu-{card}-{at}",
            "attributes": attributes,
            "capacity": {"memory": {"value": "96Gi"}},
        }

    pieces = [piece(0, 128, "0000:05:00.0"), piece(1, 129, "0000:05:00.0"), piece(2, 130, "0000:15:00.0")]
    found = snapshot([slice_of(*pieces, driver="gpu.amd.com")], [], []).nodes["node-a"]
    assert [gpu.memory_mib for gpu in found.gpus] == [None, None]
