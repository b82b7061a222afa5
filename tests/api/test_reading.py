"""Clusters, snapshots, nodes and the ledger over REST: what is seen, and what looks absent."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.accounts import conditions
from apps.accounts.models import RoleGrant
from apps.accounts.services import grant_role
from apps.fragmentation.tasks import measure_snapshots
from apps.pending import starts
from apps.pending.models import Stay
from apps.planner.expected_start import ExpectedStart
from apps.planner.inventory import DeviceGroup, Gpu, Holding, MigInstance, Source
from console.api_router import router
from tests.plans.situations import node, picture, pod, see, topology

RFC_3339_UTC = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def test_without_a_login_there_is_a_problem_and_no_data(client, db, problem):
    for path in ("clusters", "nodes", "gpus", "snapshots", "plans", "executions", "audit", "tokens"):
        answer = client.get(f"/api/v1/{path}/")
        problem(answer, 401, "login-needed")
        assert answer["WWW-Authenticate"].startswith("Bearer ")


def test_an_unknown_address_is_a_problem_too(client, db, problem):
    assert "/api/v1/schema/" in problem(client.get("/api/v1/nothing/"), 404, "not-found")
    problem(client.get("/api/v1/plans/seven/"), 404, "not-found")


def test_the_root_names_every_resource(caller, east):
    told = caller("ada", "viewer").get("").json()
    assert list(told) == [prefix for prefix, _, _ in router.registry]
    assert told["fragmentation"].endswith("/api/v1/fragmentation/latest/")


def test_a_caller_sees_his_clusters_and_no_credential(caller, east, west, problem):
    east.credential = "sealed-secret"
    east.save()
    ada = caller("ada", "viewer")
    page = ada.get("clusters/").json()
    assert (page["count"], page["results"][0]["name"]) == (1, "east")
    assert RFC_3339_UTC.match(page["results"][0]["watched_at"])
    assert "sealed-secret" not in ada.get("clusters/east/").content.decode()
    assert ada.get("clusters/east/").json()["server"] == "https://127.0.0.1:1"
    problem(ada.get("clusters/west/"), 404, "not-found")
    problem(ada.get("clusters/nowhere/"), 404, "not-found")


@pytest.mark.parametrize("path", ["nodes/", "nodes/node-a/"])
def test_what_belongs_to_a_cluster_needs_its_name(caller, west, path, problem):
    ada = caller("ada", "viewer")
    answer = ada.get(path)
    assert "?cluster=NAME" in problem(answer, 422, "invalid")
    assert answer.json()["errors"][0]["field"] == "cluster"
    problem(ada.get(path, cluster="west"), 404, "not-found")
    assert "watched" in problem(ada.get(path, cluster="east"), 404, "not-found")


def test_nodes_come_from_the_newest_snapshot_in_pages(caller, east):
    see(east)
    nodes = [node("node-a"), node("node-b", model="H100-SXM5-80GB"), node("plain", gpus=(), gpu_resource="")]
    see(east, picture(nodes=nodes, pods=[pod("lora", "node-a", 3)]))
    ada = caller("ada", "viewer")
    page = ada.get("nodes/", cluster="east", page_size=2).json()
    assert (page["count"], [one["name"] for one in page["results"]]) == (3, ["node-a", "node-b"])
    first = page["results"][0]
    assert (first["gpus_physical"], first["gpus_schedulable"], first["gpus_allocated"]) == (8, 8, 3)
    assert first["memory_bytes"] == 512 * 1024**3
    assert [
        one["name"] for one in ada.get("nodes/", cluster="east", page=2, page_size=2).json()["results"]
    ] == ["plain"]
    assert ada.get("nodes/", cluster="east", has_gpus="true").json()["count"] == 2
    assert ada.get("nodes/", cluster="east", model="H100-SXM5-80GB").json()["count"] == 1


def test_a_node_tells_its_links_its_holders_and_why_a_pod_stays(caller, east, problem):
    gpus = node("node-a").gpus
    gpus = (replace(gpus[0], instances=(MigInstance("3g.40gb", 0, "MIG-1"),), memory_mib=81920), *gpus[1:])
    told = node(
        "node-a",
        gpus=gpus,
        topology=topology(),
        holdings=(Holding("uid-lora", "GPU-node-a-1"), Holding("gone", "MIG-1", milli=429)),
        holdings_observed_at=1_700_000_000.0,
    )
    bare = pod("bare", "node-a", 1, workload="", owner_kind="")
    see(east, picture(nodes=[told, node("node-b")], pods=[pod("lora", "node-a", 1), bare]))
    ada = caller("ada", "viewer")
    facts = ada.get("nodes/node-a/", cluster="east").json()
    assert facts["cluster"] == "east"
    assert RFC_3339_UTC.match(facts["as_of"])
    assert facts["holders_observed_at"] == "2023-11-14T22:13:20Z"
    assert facts["gpus"][1]["holders"] == [
        {
            "pod": "ml/lora",
            "pod_uid": "uid-lora",
            "container": "",
            "device": "GPU-node-a-1",
            "milli": 1000,
            "memory_mib": None,
            "source": "agent",
            "observed_at": None,
        }
    ]
    cut = facts["gpus"][0]
    assert (cut["holders"], cut["flags"]) == ([], ["held by a pod that is not here"])
    assert [(one["profile"], one["start_slice"], one["use"]) for one in cut["mig_instances"]] == [
        ("3g.40gb", 0, "free")
    ]
    # The bare pod holds one of the others, nobody tells which.
    assert (facts["gpus"][2]["holders"], facts["gpus"][2]["holders_note"]) == (None, "unknown on this node")
    assert [(one["pod"], one["gpus"]) for one in facts["unlocated"]] == [("ml/bare", 1.0)]
    assert facts["topology"]["links"][0][:2] == ["X", "NV12"]
    pods = {one["name"]: one for one in facts["pods"]}
    assert pods["lora"]["is_movable"] is True
    assert (pods["bare"]["is_movable"], bool(pods["bare"]["reasons"])) == (False, True)

    unknown = ada.get("nodes/node-b/", cluster="east").json()
    assert unknown["topology"] is None
    assert {one["holders"] for one in unknown["gpus"]} == {None}
    problem(ada.get("nodes/node-z/", cluster="east"), 404, "not-found")


def test_snapshots_are_listed_newest_first_and_filtered(caller, east, west):
    first = see(east)
    second = see(east, picture(pods=[]))
    see(west)
    ada = caller("ada", "viewer")
    page = ada.get("snapshots/").json()
    assert [one["id"] for one in page["results"]] == [second.pk, first.pk]
    assert page["results"][0]["summary"]["gpus"]["physical"] == 24
    assert "body" not in page["results"][0]
    assert ada.get("snapshots/", cluster="west").json()["count"] == 0
    assert ada.get("snapshots/", ordering="id").json()["results"][0]["id"] == first.pk
    assert ada.get("snapshots/", since="2999-01-01T00:00:00Z").json()["count"] == 0


def test_a_filter_that_cannot_be_read_is_a_problem(caller, problem):
    ada = caller("ada", "viewer")
    answer = ada.get("snapshots/", since="yesterday")
    assert problem(answer, 422, "invalid").startswith("since: ")


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("gpus/?cluster=east&stat=free", "stat"),
        ("what-if/?cluster=east&gpu=8", "gpu"),
        ("nodes/node-a/?cluster=east&pool=a", "pool"),
        ("snapshots/?clustre=east", "clustre"),
        ("clusters/?watched=1", "watched"),
        ("clusters/east/?page=1", "page"),
        ("schema/?version=2", "version"),
        ("?x=1", "x"),
    ],
)
def test_a_parameter_that_an_operation_does_not_have_is_refused(caller, east, problem, path, wrong):
    see(east)
    answer = caller("ada", "viewer").get(path)
    assert problem(answer, 422, "invalid").startswith(f"{wrong}: there is no such parameter; ")
    assert [one["field"] for one in answer.json()["errors"]] == [wrong]


def test_parameters_of_every_list_are_known_and_those_of_a_change_too(caller, east, problem):
    see(east)
    ada = caller("ada", "planner")
    assert ada.get("snapshots/?cluster=east&page=1&page_size=5&ordering=id&format=json").status_code == 200
    refused = ada.post("plans/?cluster=east", cluster="east", goal="free-nodes")
    assert "this operation has none" in problem(refused, 422, "invalid")


def test_a_page_holds_at_most_500(caller, east):
    see(east, picture(nodes=[node(f"n-{number:03}", gpus=()) for number in range(510)], pods=[]))
    assert len(caller("ada", "viewer").get("nodes/", cluster="east", page_size=9999).json()["results"]) == 500


def test_the_ledger_is_for_auditors_of_that_cluster(caller, east, west, problem):
    other = caller("other", "viewer")
    grant_role(user=other.user, role="planner", cluster=east)
    grant_role(user=other.user, role="planner", cluster=west)
    assert other.get("audit/").json()["count"] == 0

    ada = caller("ada", "auditor")
    page = ada.get("audit/").json()
    assert [one["cluster"] for one in page["results"]] == ["east"]
    entry = page["results"][0]
    assert (entry["action"], entry["actor"], len(entry["hash"])) == ("role.granted", None, 64)
    assert datetime.fromisoformat(entry["at"]).utcoffset().total_seconds() == 0
    problem(ada.get(f"audit/{entry['id'] + 1}/"), 404, "not-found")

    RoleGrant.objects.create(user=ada.user, role="auditor")
    assert ada.get("audit/").json()["count"] == 2
    assert ada.get("audit/", action="role.granted", cluster="west").json()["count"] == 1


def test_the_ledger_cannot_be_written_over_rest(caller, problem):
    ada = caller("ada", "auditor")
    problem(ada.post("audit/", action="forged"), 405, "method-not-allowed")


def test_fragmentation_has_a_newest_report_and_a_trend(caller, east, west, problem):
    ada = caller("ada", "viewer")
    problem(ada.get("fragmentation/latest/", cluster="east"), 404, "not-found")
    problem(ada.get("fragmentation/latest/", cluster="west"), 404, "not-found")
    see(east)
    measure_snapshots()
    see(east, picture(pods=[pod("lora", "node-a", 5)]))
    measure_snapshots()
    report = ada.get("fragmentation/latest/", cluster="east").json()
    assert (report["cluster"], report["idle_milli"], report["total_milli"]) == ("east", 19000, 24000)
    assert report["ratio"] == pytest.approx(report["fragmentation_milli"] / 19000)
    assert report["report"]["free_nodes"] == {"8": 2}
    trend = ada.get("fragmentation/series/", cluster="east").json()
    assert [one["idle_milli"] for one in trend["results"]] == [8000, 19000]
    assert "report" not in trend["results"][0]
    later = ada.get("fragmentation/series/", cluster="east", since="2999-01-01T00:00:00Z")
    assert later.json()["count"] == 0
    for since in ("yesterday", "2026-01-31T12:00:00", "2026-13-41T12:00:00Z"):
        detail = problem(ada.get("fragmentation/series/", cluster="east", since=since), 422, "invalid")
        assert "2026-01-31T12:00:00Z" in detail


def test_the_trend_can_be_thinned_and_narrowed_to_a_pool_or_a_model(caller, east, problem):
    ada = caller("ada", "viewer")
    see(east, picture(nodes=[node("node-a"), node("node-b", pool="train", model="H100")], pods=[]))
    measure_snapshots()
    whole = ada.get("fragmentation/series/", cluster="east", range="1h").json()["results"]
    assert [point["total_milli"] for point in whole] == [16000]
    assert whole[0]["free_blocks"] == {"8": 2, "4": 0, "2": 0, "1": 0}
    assert whole[0]["after_gap"] is False
    for wanted in ({"pool": "train"}, {"model": "H100"}, {"pool": "train", "model": "H100"}):
        for form in ({"range": "6h"}, {}):
            (point,) = ada.get("fragmentation/series/", cluster="east", **wanted, **form).json()["results"]
            assert (point["total_milli"], point["largest_gang"]["pods"]) == (8000, 1)
            assert point["link_groups"]["node"] == {"2": 4, "4": 2, "8": 1}
            assert (point["mig"], point["startable"], point["wanted"]) == (None, [], None)
    assert (whole[0]["link_groups"]["node"]["8"], whole[0]["wanted"]["basis"]) == (2, "running")
    assert whole[0]["gpu_memory"]["unknown_gpus"] == 16
    nowhere = ada.get("fragmentation/series/", cluster="east", pool="x", range="1h").json()
    assert (nowhere["count"], nowhere["results"]) == (0, [])
    for wrong in ({"range": "2h"}, {"range": "1h", "since": "2026-01-31T12:00:00Z"}):
        problem(ada.get("fragmentation/series/", cluster="east", **wrong), 422, "invalid")


def test_what_waits_comes_with_its_reason(caller, east, problem):
    ada = caller("ada", "viewer")
    problem(ada.get("pending/", cluster="west"), 404, "not-found")
    waits = pod("llama", "", 8, phase="Pending", ready=False, created_at=1_700_000_000.0)
    see(east, picture(pods=[*picture().pods.values(), waits]))
    (found,) = ada.get("pending/", cluster="east").json()["results"]
    assert (found["key"], found["pod_uids"], found["gpus"]) == ("ml/llama", ["uid-llama"], 8)
    assert found["waiting_since"] == "2023-11-14T22:13:20Z"
    assert (found["free_gpus"], found["best_node_free_gpus"]) == (8, 7)
    assert found["sentence"]
    assert (found["position"], found["scheduler"]["position"], found["can_never_run"]) == (1, 1, False)
    assert found["tenant"] == "namespace ml"
    assert found["position_words"].startswith("dev offline (not labelled), namespace ml has")
    assert found["scheduler"]["difference"] == "kube-scheduler has said nothing about it yet."
    assert found["expected_start"]["placed_at"] is None
    assert found["links"]["what_if"] == "/clusters/east/what-if/?workload=ml%2Fllama"
    assert ada.client.get(found["links"]["verdicts"]).json()["count"] == 0
    assert found["expected_start"]["words"].startswith("not known, because the end of ")


def test_another_expected_start_makes_another_tag(caller, east, monkeypatch):
    """The same snapshot: what is known of earlier runs, and so the start, came to be known since."""
    ada = caller("ada", "viewer")
    waits = pod("llama", "", 8, phase="Pending", ready=False, created_at=1_700_000_000.0)
    see(east, picture(pods=[*picture().pods.values(), waits]))
    where = "/api/v1/pending/?cluster=east"
    tag = {"If-None-Match": ada.client.get(where)["ETag"]}
    assert ada.client.get(where, headers=tag).status_code == 304
    known = starts.Starts({"ml/llama": ExpectedStart(placed_at=1.8e9, ready_at=1.8e9)}, "another")
    monkeypatch.setattr(starts, "_known", {east.pk: (None, float("inf"), known)})
    again = ada.client.get(where, headers=tag)
    assert again.status_code == 200
    assert again.json()["results"][0]["expected_start"]["placed_at"] == "2027-01-15T08:00:00Z"


def test_waits_are_told_as_trends(caller, east, problem):
    ada = caller("ada", "viewer")
    problem(ada.get("pending/waits/", cluster="west"), 404, "not-found")
    problem(ada.get("pending/waits/", cluster="east", range="2h"), 422, "invalid")
    now = datetime.now(UTC)
    of = {"cluster": east, "queue": "namespace ml", "shape": "8 GPUs"}
    Stay.objects.create(
        **of, pod_uid="u", asked_at=now - timedelta(hours=3), placed_at=now - timedelta(hours=2)
    )
    (found,) = ada.get("pending/waits/", cluster="east", range="6h").json()["results"]
    assert (found["queue"], found["started"], found["p50_seconds"]) == ("namespace ml", 1, 3600.0)
    assert sum(point["started"] for point in found["points"]) == 1
    assert ada.get("pending/waits/", cluster="east", shape="1 GPU").json()["count"] == 0


def test_what_would_unblock_is_asked_on_request_and_told_from_then_on(caller, east, problem, settings):
    ada = caller("ada", "viewer")
    waits = pod("llama", "", 8, phase="Pending", ready=False, created_at=1_700_000_000.0)
    see(east, picture(pods=[*picture().pods.values(), waits]))
    before = ada.get("pending/", cluster="east")
    assert before.json()["results"][0]["unblocking"] == ""
    asked = ada.get("pending/", cluster="east", unblocking="true").json()["results"][0]["unblocking"]
    assert "makes room on" in asked
    after = ada.client.get("/api/v1/pending/", {"cluster": "east"}, headers={"if-none-match": before["ETag"]})
    assert after.json()["results"][0]["unblocking"] == asked
    settings.API_RATES = {**settings.API_RATES, "planning": (0, 60)}
    problem(ada.get("pending/", cluster="east", unblocking="true"), 429, "too-many-requests")
    problem(ada.get("pending/", cluster="east", unblocking="perhaps"), 422, "invalid")


def test_every_gpu_is_a_row_with_its_state_and_holders(caller, east, problem):
    cut = replace(node("x").gpus[0], index=0, uuid="GPU-cut", instances=(MigInstance("3g.40gb", 0, "MIG-1"),))
    sick = replace(node("x").gpus[1], uuid="GPU-sick", healthy=False)
    told = node(
        "node-a",
        gpus=(cut, sick, *node("node-a").gpus[2:]),
        holdings=(Holding("uid-lora", "MIG-1", milli=429), Holding("uid-lora", "GPU-node-a-2")),
        holdings_observed_at=1_700_000_000.0,
    )
    nodes = [told, node("node-b"), node("node-c"), node("node-d")]
    pods = [pod("lora", "node-a", 1), pod("train", "node-b", 7), pod("serve", "node-c", 8)]
    see(east, picture(nodes=nodes, pods=pods))
    ada = caller("ada", "viewer")
    rows = ada.get("gpus/", cluster="east").json()
    assert rows["count"] == 32
    states = [(one["node"], one["state"]) for one in rows["results"]]
    assert [state for where, state in states if where == "node-a"] == ["held", "unhealthy", "held"] + [
        "free"
    ] * 5
    assert {state for where, state in states if where == "node-b"} == {"unknown"}
    assert {state for where, state in states if where == "node-c"} == {"held"}
    assert {state for where, state in states if where == "node-d"} == {"free"}
    first = rows["results"][0]
    assert first["holders"][0]["pod"] == "ml/lora"
    assert (first["holders_source"], first["mig_instances"][0]["profile"]) == ("agent", "3g.40gb")
    assert ada.get("gpus/", cluster="east", state="free", node="node-a").json()["count"] == 5
    assert ada.get("gpus/", cluster="east", uuid="GPU-sick").json()["results"][0]["index"] == 1
    last = ada.get("gpus/", cluster="east", ordering="-node,index", page_size=1).json()["results"][0]
    assert (last["node"], last["index"]) == ("node-d", 0)
    for wrong in ({"state": "lost"}, {"ordering": "mood"}, {"index": "x"}, {"is_healthy": "perhaps"}):
        problem(ada.get("gpus/", cluster="east", **wrong), 422, "invalid")


@pytest.mark.parametrize(
    "path",
    [
        *("nodes/", "nodes/node-a/", "gpus/", "pending/", "what-if/", "snapshots/{}/"),
        "fragmentation/latest/",
    ],
)
def test_what_has_not_changed_is_not_sent_again(caller, east, path):
    row = see(east)
    measure_snapshots()
    ada = caller("ada", "viewer")
    path = path.format(row.pk)

    def ask(etag=""):
        query = {} if path.startswith("snapshots") else {"cluster": "east"}
        return ada.client.get(f"/api/v1/{path}", query, headers={"if-none-match": etag})

    first = ask()
    same = ask(first["ETag"])
    assert (same.status_code, same.content, same["ETag"]) == (304, b"", first["ETag"])
    assert ask('"other"').status_code == 200
    if not path.startswith("snapshots"):
        see(east, picture(pods=[]))
        measure_snapshots()
        assert ask(first["ETag"]).status_code == 200


def test_after_an_upgrade_everything_is_sent_again(caller, east, monkeypatch):
    see(east)
    ada = caller("ada", "viewer")
    before = ada.get("gpus/", cluster="east")["ETag"]
    monkeypatch.setattr(conditions, "program_digest", lambda: "of the next release")
    known = {"if-none-match": before}
    answer = ada.client.get("/api/v1/gpus/", {"cluster": "east"}, headers=known)
    assert (answer.status_code, answer["ETag"] == before) == (200, False)


@pytest.mark.parametrize(
    "path", ["clusters/", "nodes/", "gpus/", "pending/", "plans/", "what-if/", "tokens/"]
)
def test_paging_is_refused_alike_where_it_makes_no_sense(caller, east, path, problem):
    see(east)
    ada = caller("ada", "viewer")
    where = {} if path in ("clusters/", "tokens/") else {"cluster": "east"}
    for wrong in ({"page": "0"}, {"page": "last"}, {"page_size": "-1"}, {"page_size": "x"}):
        refused = problem(ada.get(path, **where, **wrong), 422, "invalid")
        assert "no such parameter" not in refused
    problem(ada.get(path, **where, page="99"), 404, "not-found")


def test_what_if_ranks_nodes_with_every_rules_verdict(caller, east, problem):
    see(east)
    ada = caller("ada", "viewer")
    answer = ada.get("what-if/", cluster="east", gpus=7, gpu_memory_mib=0).json()
    assert (answer["count"], answer["nodes_that_fit"], answer["pods_that_fit"]) == (3, 1, 1)
    best, worst = answer["results"][0], answer["results"][-1]
    assert (best["node"], best["fits"], best["pods"]) == ("node-a", True, 1)
    broken = [rule["words"] for rule in worst["rules"] if not rule["is_met"]]
    assert (worst["node"], bool(broken)) == ("node-c", True)
    assert ada.get("what-if/", cluster="east", gpus=7, fits="false").json()["count"] == 2
    for wrong in ({"gpus": 65}, {"gpus": 2, "gpu_milli": 500}, {"link": "wet"}, {"mig_profile": "big"}):
        problem(ada.get("what-if/", cluster="east", **wrong), 422, "invalid")


def test_what_if_tries_changes_and_weighs_them_when_asked(caller, east, problem):
    see(east)
    ada = caller("ada", "viewer")
    changes = ["add:2:node-a", "cordon:node-b"]
    answer = ada.get("what-if/", cluster="east", gpus=7, change=changes, effect="true").json()
    assert (answer["count"], answer["nodes_that_fit"]) == (5, 3)
    assert answer["changes"][0] == {"text": "add:2:node-a", "words": "2 nodes like node-a added"}
    effect = answer["effect"]
    assert (effect["before"]["nodes"], effect["after"]["nodes"]) == (3, 5)
    assert effect["after"]["gang_pods"] > effect["before"]["gang_pods"]
    assert ada.get("what-if/", cluster="east", gpus=7, change=changes).json()["effect"] is None
    for wrong in ("grow", "add:0:node-a", "remove:nobody"):
        problem(ada.get("what-if/", cluster="east", change=wrong), 422, "invalid")


def test_a_cluster_is_edited_by_whoever_looked_at_it(caller, east, problem):
    root, ada = caller("root", "admin"), caller("ada", "viewer")
    etag = root.get("clusters/east/")["ETag"]
    problem(root.send("patch", "clusters/east/", is_active=False), 428, "precondition-needed")
    problem(ada.send("patch", "clusters/east/", if_match=etag, is_active=False), 403, "denied")
    for wrong in ({"is_active": 0}, {"name": "north"}):
        problem(root.send("patch", "clusters/east/", if_match=etag, **wrong), 422, "invalid")
    assert root.send("patch", "clusters/east/", if_match=etag, is_active=False).json()["is_active"] is False
    problem(root.send("patch", "clusters/east/", if_match=etag, is_active=True), 412, "precondition-failed")
    etag = root.get("clusters/east/")["ETag"]
    answer = root.send("put", "clusters/east/credential/", if_match=etag, kubeconfig="a: [")
    problem(answer, 422, "bad-kubeconfig")
    problem(root.post("clusters/", name="north", kubeconfig="{}"), 403, "denied")


def test_shares_turns_and_other_vendors_devices_are_told_apart(caller, east):
    base = node("node-a").gpus[0]
    shared = node(
        "node-a",
        gpus=(replace(base, memory_mib=40_000, units=10),),
        allocatable={"cpu": 64_000, "memory": 2**38, "nvidia.com/gpu": 10, "acme.example/npu": 2},
        sharing="hami",
        shares_per_gpu=10,
        holdings=(Holding("uid-lora", base.uuid, 0, 9_000, source=Source.SCHEDULER),),
        others=(DeviceGroup("acme", "acme.example/npu", gpus=(Gpu(0), Gpu(1))),),
    )
    see(east, picture(nodes=[shared], pods=[pod("lora", "node-a", 1, gpu_milli=0, gpu_memory_mib=9_000)]))
    ada = caller("ada", "viewer")
    facts = ada.get("nodes/node-a/", cluster="east").json()
    assert (facts["gpus_physical"], facts["units_offered"], facts["units_allocated"]) == (1, 10, 1)
    assert facts["other_devices"][0]["physical"] == 2
    assert [(one["resource"], one["state"]) for one in facts["others"]] == [("acme.example/npu", "free")] * 2
    card = facts["gpus"][0]
    assert (card["memory_mib"], card["memory_allocated_mib"], card["memory_left_mib"]) == (
        40_000,
        9_000,
        31_000,
    )
    holder = card["holders"][0]
    assert (holder["milli"], holder["memory_mib"], holder["source"]) == (None, 9_000, "scheduler")
    rows = ada.get("gpus/", cluster="east").json()["results"]
    assert [(one["vendor"], one["resource"]) for one in rows] == [
        ("nvidia", "nvidia.com/gpu"),
        *[("acme", "acme.example/npu")] * 2,
    ]
