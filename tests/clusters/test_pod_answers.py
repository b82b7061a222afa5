"""What `read_dump` says of pods, claims, slices and groups."""

import io
import json

import pytest
from django.core.management import call_command

from tests.kube.objects import namespace, node, owned, pod
from tests.kube.test_claims import ON_ONE, claim, gpu, mig, request, slice_of, template, user


@pytest.fixture
def answer(tmp_path):
    def read(*objects, as_json=True):
        path = tmp_path / "dump.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        printed = io.StringIO()
        call_command("read_dump", str(path), json=as_json, stdout=printed)
        return json.loads(printed.getvalue()) if as_json else printed.getvalue()

    return read


def limits(**amounts):
    named = {name.replace("_", "/", 1): amount for name, amount in amounts.items()}
    return {"name": "c", "resources": {"limits": named}}


def asks(*containers, **changes):
    return pod("p", spec={"containers": list(containers), **changes.pop("spec", {})}, **changes)


def only(found):
    (one,) = found["pods"]
    return one


def test_effective_counts_and_what_is_left_after_the_init_container(answer):
    init = {"name": "i", "resources": {"limits": {"nvidia.com/gpu": 5}}}
    one = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000}}}
    found = only(answer(pod("p", on="n", spec={"initContainers": [init], "containers": [one]})))
    assert found["effective"] == {"nvidia.com/gpu": 5}
    assert found["after_init"] == {"nvidia.com/gpu": 2}
    assert (found["phase"], found["holds_gpu"], found["gpu_memory_mib"]) == ("Running", 5, 1000)


def test_pieces_of_gpus_in_gpu_equivalents(answer):
    amounts = {"nvidia.com/mig-2g.20gb": 2, "nvidia.com/mig-1g.10gb": 1}
    found = only(answer(asks({"name": "c", "resources": {"limits": amounts}})))
    assert (found["effective"], found["slices"], found["whole_gpus"]) == (amounts, 5, 0)
    assert found["gpu_equivalent"] == pytest.approx(5 / 7, abs=1e-5)


def test_what_a_webhook_would_add_stands_beside_what_is_stored(answer):
    counted = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}}}
    bare = {"name": "b", "resources": {"limits": {"nvidia.com/gpumem": 2500}}}
    found = only(answer(asks(counted, bare)))
    assert found["effective"] == {"nvidia.com/gpu": 1}
    assert found["effective_after_webhook"] == {"nvidia.com/gpu": 2}
    assert [(one["core_percent"], one["memory_mib"]) for one in found["containers"]] == [
        (30, None),
        (None, 2500),
    ]


@pytest.mark.parametrize(
    "amounts",
    [
        {"aliyun.com/gpu-mem": 6},
        {"koordinator.sh/gpu-core": 30, "koordinator.sh/gpu-memory-ratio": 30},
        {"aws.amazon.com/neuroncore": 4},
    ],
)
def test_parts_of_devices_are_all_that_some_schedulers_are_asked_for(answer, amounts):
    found = only(answer(asks({"name": "c", "resources": {"limits": {**amounts, "cpu": 1}}})))
    assert found["effective"] == amounts
    assert "after_init" not in found


def test_a_fraction_is_no_resource(answer):
    notes = {"gpu-fraction": "0.25", "gpu-fraction-container-name": "init"}
    found = only(answer(pod("p", gpus=0, on="n", annotations=notes)))
    assert (found["effective"], found["fraction"], found["holds_gpu"]) == ({}, 0.25, 0.25)
    assert found["fraction_container"] == "init"


def test_a_placeholder_says_that_it_is_one(answer):
    keeper = pod("k", namespace="kai-resource-reservation", on="n", labels={"runai-gpu-group": "g"})
    share = pod("s", gpus=0, on="n", labels={"runai-gpu-group": "g"}, annotations={"gpu-fraction": "0.5"})
    found = {one["name"]: one for one in answer(keeper, share)["pods"]}
    assert found["k"]["is_reservation"]
    assert found["k"]["effective"] == {"nvidia.com/gpu": 1}
    assert (found["k"]["holds_gpu"], found["s"]["holds_gpu"]) == (0, 0.5)


def test_devices_of_containers_and_cards(answer):
    notes = {"hami.io/vgpu-devices-allocated": "GPU-z,NVIDIA,1500,10:;GPU-z,NVIDIA,2500,0:;"}
    two = {"containers": [limits(**{"nvidia.com_gpu": 1}), {**limits(**{"nvidia.com_gpu": 1}), "name": "d"}]}
    found = only(answer(pod("p", on="n", annotations=notes, spec=two)))
    assert (found["physical_gpus_used"], found["mem_mib"]) == (1, {"GPU-z": 4000})
    assert [one["devices"] for one in found["containers"]] == [["GPU-z"], ["GPU-z"]]


@pytest.mark.parametrize(
    ("phase", "on", "holds"), [("Failed", "n", 0), ("Unknown", "n", 2), ("Pending", "", 0)]
)
def test_who_holds(answer, phase, on, holds):
    found = only(answer(pod("p", gpus=2, on=on, status={"phase": phase, "reason": "Evicted"})))
    assert (found["holds_gpu"], found["phase"], found["reason"]) == (holds, phase, "Evicted")


def test_a_resource_behind_a_device_class(answer):
    device_class = owned(
        "DeviceClass",
        "small",
        api="resource.k8s.io/v1",
        spec={"extendedResourceName": "nvidia.com/mig-2g.35gb"},
    )
    found = only(answer(device_class, asks(limits(**{"nvidia.com_mig-2g.35gb": 1}))))
    assert found["via"] == "DRA extended resource"
    assert found["device_classes"] == {"nvidia.com/mig-2g.35gb": "small"}


def test_what_a_deployment_asks_for_by_claims(answer):
    wanted = template(
        "t",
        {"name": "a", "exactly": request(profile="2g.35gb")},
        {"name": "b", "exactly": request(profile="3g.71gb")},
        constraints=[ON_ONE],
    )
    spec = {
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        "containers": [
            {"name": name, "resources": {"claims": [{"name": "c", "request": name}]}} for name in ("a", "b")
        ],
    }
    deployment = owned("Deployment", "web", spec={"replicas": 3, "template": {"spec": spec}})
    (found,) = answer(wanted, deployment, namespace("team-a"))["workloads"]
    assert (found["devices_per_pod"], found["profiles"], found["slices_per_pod"]) == (
        2,
        ["2g.35gb", "3g.71gb"],
        5,
    )
    assert (found["replicas"], found["physical_gpus_needed"]) == (3, 3)
    assert (found["constraint"], found["containers_sharing"]) == ("same parentUUID", 2)


def test_pools_claims_and_their_users(answer):
    taken = claim("c", "gpu-0", users=["a", "b"])
    found = answer(node(gpus=0), slice_of(gpu(0), mig(0, "1g.18gb", 0), gpu(1)), taken, user("a", "c"))
    (pool,) = found["pools"]
    assert (pool["physical_gpus"], pool["memory_mib"], pool["complete"]) == (2, 2 * 144384, True)
    assert [option["profile"] for option in pool["cards"][0]["options"]] == ["1g.18gb"]
    (told,) = found["claims"]
    assert (told["holds_devices"], told["reserved_for"]) == (1, ["uid-a", "uid-b"])
    assert only(found)["holds_gpu"] == 1
    assert only(found)["devices"][0]["source"] == "dra"


def test_groups_and_ray_clusters(answer):
    labels = {"ray.io/cluster": "rc"}
    pods = [
        pod("head", gpus=0, on="n", labels={**labels, "ray.io/node-type": "head"}),
        pod("w1", gpus=2, on="n", labels=labels),
        pod("w2", gpus=3, labels=labels),
    ]
    volcano = owned(
        "PodGroup", "g", api="scheduling.volcano.sh/v1beta1", spec={"minMember": 4}, status={"running": 1}
    )
    found = answer(*pods, volcano)
    (company,) = found["companies"]
    assert (company["gpus_running"], company["gpus_pending"], company["head"]) == (2, 3, "head")
    (group,) = found["groups"]
    assert (group["min"], group["running"], group["api_version"]) == (4, 1, "scheduling.volcano.sh/v1beta1")


def test_people_get_a_table(answer):
    notes = {"hami.io/vgpu-devices-allocated": "GPU-z,NVIDIA,1500,10:;"}
    told = answer(pod("p", gpus=1, on="n", annotations=notes), pod("q", gpus=0), as_json=False)
    assert "team-a/p" in told
    assert "GPU-z" in told
    assert "1 pod asks for no devices" in told


def test_a_share_of_memory_alone_is_no_known_part_of_a_card(answer):
    bare = {"name": "c", "resources": {}}
    found = only(answer(pod("p", on="n", annotations={"gpu-memory": "3000"}, spec={"containers": [bare]})))
    assert (found["gpu_memory_mib"], found["holds_gpu"]) == (3000, None)
    shares = {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "3"}
    found = only(answer(pod("p", on="n", annotations=shares, spec={"containers": [bare]})))
    assert (found["fraction"], found["holds_gpu"]) == (0.25, 0.75)


def test_a_card_named_alone_tells_nothing_of_its_cores(answer):
    asked = {"name": "c", "resources": {"limits": {"volcano.sh/gpu-memory": 512}}}
    found = only(answer(asks(asked, annotations={"volcano.sh/gpu-index": "2"})))
    assert (found["cards"], found["core_percent"]) == (["#2"], {"#2": None})


def test_koordinators_first_names_are_asked_for_and_given(answer):
    given = {"gpu": [{"minor": 3, "resources": {"kubernetes.io/gpu-core": "40"}}]}
    noted = {"scheduling.koordinator.sh/device-allocated": json.dumps(given)}
    asked = {"name": "c", "resources": {"limits": {"kubernetes.io/gpu": 40}}}
    found = only(answer(asks(asked, annotations=noted)))
    assert (found["effective"], found["card_share"]) == ({"kubernetes.io/gpu": 40}, 0.4)
    assert found["core_percent"] == {"#3": 40.0}


def test_pieces_of_one_card_are_one_card_although_no_slice_describes_it(answer):
    pieces = [f"gpu-1-mig-1g.20gb-15-{start}" for start in (0, 2)]
    results = [
        {"request": "r/small", "driver": "gpu.nvidia.com", "pool": "n", "device": piece} for piece in pieces
    ]
    held = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", "uid": "c-1"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-9"}],
        },
    }
    user = pod("p", on="n", spec={"containers": [{"name": "c", "resources": {}}]})
    user["metadata"] |= {"uid": "uid-9", "namespace": "default"}
    found = only(answer(held, user))
    assert (found["physical_gpus_used"], found["cards"]) == (1, ["n/gpu-1"])
    assert [(one["profile"], one["start_slice"]) for one in found["devices"]] == [
        ("1g.20gb", 0),
        ("1g.20gb", 2),
    ]


def test_a_prompt_before_a_description_is_no_list(tmp_path):
    path = tmp_path / "node.txt"
    told = "Name:  n-8\nLabels:  <none>\nCapacity:\n  amd.com/gpu:  2\nAllocatable:\n  amd.com/gpu:  2\n"
    path.write_text(f"[root@m1 ~]# kubectl describe node n-8\n{told}[root@m1 ~]#\n")
    printed = io.StringIO()
    call_command("read_dump", str(path), json=True, stdout=printed)
    (found,) = json.loads(printed.getvalue())["nodes"]
    assert (found["name"], found["physical_gpus"]) == ("n-8", 2)
