"""The simulated scheduler asks HTTP extenders as the stock one does; what it cannot follow it refuses."""

import asyncio
import textwrap
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from apps.simulator.client import NODES, KubernetesClient
from apps.simulator.controllers.scheduler.configuration import (
    parse_scheduler_settings,
    read_scheduler_settings,
)
from apps.simulator.runner import SimulatedCluster
from tests.simulator.cluster import Driver, make_nodes
from tests.simulator.controllers.test_scheduler import add_class

TIME_SCALE = 30
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Spoken:
    """An extender of a few lines that keeps what it was asked, and answers what a test puts in `says`."""

    def __init__(self):
        self.asked, self.says, self.status = [], {}, 200

    async def answer(self, request):
        verb = request.match_info["verb"]
        body = await request.json()
        self.asked.append((verb, body))
        say = self.says.get(verb)
        said = say(body) if callable(say) else say
        return web.json_response(await said if asyncio.iscoroutine(said) else said, status=self.status)

    def bodies(self, verb):
        return [body for asked, body in self.asked if asked == verb]


@asynccontextmanager
async def asked_by_a_cluster(spoken, nodes=2, **entry):
    app = web.Application()
    app.router.add_post("/x/{verb}", spoken.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    usual = {
        "urlPrefix": f"http://127.0.0.1:{port}/x",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "nvidia.com/gpu"}],
    }
    settings = parse_scheduler_settings({**HEAD, "extenders": [usual | entry]})
    try:
        async with SimulatedCluster(
            make_nodes(nodes).build(), time_scale=TIME_SCALE, scheduler=settings
        ) as cluster:
            server = cluster.server
            async with KubernetesClient(
                server=server.url, ca_pem=server.ca_pem, token=server.token
            ) as client:
                yield Driver(client, cluster)
    finally:
        await runner.cleanup()


def keep(*names):
    return lambda body: {"NodeNames": [name for name in body["NodeNames"] if name in names]}


@pytest.mark.asyncio
async def test_filter_score_and_bind_are_asked_in_the_wire_format_and_decide():
    spoken = Spoken()
    # The stock scores prefer the emptier node by far less than 10 points x weight 100 x 10.
    spoken.says = {
        "filter": lambda body: {"NodeNames": body["NodeNames"], "FailedNodes": None, "Error": ""},
        "prioritize": lambda body: [
            {"Host": n, "Score": 10 if n == "gpu-2" else 0} for n in body["NodeNames"]
        ],
    }
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100}
    async with asked_by_a_cluster(spoken, **verbs) as driver:
        await driver.create_pod("plain")
        for name in ("first", "second"):
            await driver.create_pod(name, gpus=1)
            assert (await driver.until_bound(name))["spec"]["nodeName"] == "gpu-2"
        await driver.until_bound("plain")
    asked = spoken.bodies("filter")
    assert [body["Pod"]["metadata"]["name"] for body in asked] == ["first", "second"]
    assert (sorted(asked[0]["NodeNames"]), asked[0]["Nodes"]) == (["gpu-1", "gpu-2"], None)
    assert "kind" not in asked[0]["Pod"]


@pytest.mark.asyncio
async def test_its_refusals_stand_word_for_word_in_the_pod_and_a_change_of_a_node_brings_another_try():
    spoken = Spoken()
    spoken.says = {
        "filter": {
            "NodeNames": [],
            "FailedNodes": {"gpu-1": "no such link"},
            "FailedAndUnresolvableNodes": {"gpu-2": "no metadata"},
        }
    }
    async with asked_by_a_cluster(spoken, filterVerb="filter") as driver:
        await driver.create_pod("waits", gpus=1)
        said = await driver.until_refused("waits")
        assert said.startswith("0/2 nodes are available: 1 no metadata, 1 no such link. preemption: ")
        assert "1 No preemption victims found" in said
        assert "1 Preemption is not helpful" in said
        spoken.says = {"filter": keep("gpu-1")}
        await driver.client.patch(NODES, "", "gpu-1", {"metadata": {"labels": {"changed": "yes"}}})
        assert (await driver.until_bound("waits"))["spec"]["nodeName"] == "gpu-1"


@pytest.mark.asyncio
async def test_an_empty_answer_refuses_all_without_a_word():
    spoken = Spoken()
    spoken.says = {"filter": {}}
    async with asked_by_a_cluster(spoken, filterVerb="filter") as driver:
        await driver.create_pod("waits", gpus=1)
        assert (await driver.until_refused("waits")).startswith("0/2 nodes are available: preemption: ")


@pytest.mark.asyncio
@pytest.mark.parametrize("is_ignorable", [False, True])
async def test_an_error_stops_the_pod_unless_the_extender_is_ignorable(is_ignorable):
    spoken = Spoken()
    spoken.status = 500
    async with asked_by_a_cluster(spoken, filterVerb="filter", ignorable=is_ignorable) as driver:
        await driver.create_pod("pod", gpus=1)
        if is_ignorable:
            assert await driver.until_bound("pod")
            return

        async def told():
            conditions = (await driver.pod("pod"))["status"].get("conditions") or []
            return [each for each in conditions if each.get("reason") == "SchedulerError"]

        (condition,) = await driver.until(told, "the error is told")
        assert "failed filter with extender at URL http://127.0.0.1:" in condition["message"]
        assert condition["message"].endswith("/x/filter, code 500")
        spoken.status, spoken.says = 200, {"filter": keep("gpu-1")}
        assert (await driver.until_bound("pod"))["spec"]["nodeName"] == "gpu-1"


@pytest.mark.asyncio
async def test_one_that_fails_is_asked_again_after_each_back_off_and_not_without_a_pause():
    spoken = Spoken()
    spoken.status = 500
    async with asked_by_a_cluster(spoken, filterVerb="filter") as driver:
        began = asyncio.get_running_loop().time()
        await driver.create_pod("pod", gpus=1)

        async def asked_eight_times():
            return len(spoken.asked) >= 8

        await driver.until(asked_eight_times, "it is asked again")
        pauses = 1 + 2 + 4 + 8 + 10 + 10 + 10
        assert asyncio.get_running_loop().time() - began >= pauses / TIME_SCALE


@pytest.mark.asyncio
async def test_words_of_an_earlier_attempt_that_arrive_late_do_not_stand():
    spoken = Spoken()
    spoken.says = {"filter": {"NodeNames": [], "FailedNodes": {"gpu-1": "no link", "gpu-2": "no link"}}}
    spoken.status = 500
    async with asked_by_a_cluster(spoken, filterVerb="filter") as driver:
        slow = {"action": "delay", "seconds": 1, "times": 1}
        slow["match"] = {"method": "PATCH", "path_regex": "/pods/pod/status$"}
        driver.cluster.server.faults.add(slow)
        await driver.create_pod("pod", gpus=1)

        async def fails():
            return spoken.asked

        await driver.until(fails, "the first attempt has failed")
        spoken.status = 200

        async def written():
            found = [one for one in driver.cluster.server.requests if one.path.endswith("/pods/pod/status")]
            return len(found) >= 2 and all(one.status == 200 for one in found)

        await driver.until(written, "both attempts' words are written")
        (condition,) = (await driver.pod("pod"))["status"]["conditions"]
        assert "2 no link" in condition["message"]


@pytest.mark.asyncio
async def test_it_binds_in_the_schedulers_place():
    spoken = Spoken()
    async with asked_by_a_cluster(spoken, bindVerb="bind") as driver:

        async def bind(body):
            meta = {"namespace": body["PodNamespace"], "name": body["PodName"], "uid": body["PodUID"]}
            await driver.client.bind({"metadata": meta}, body["Node"])
            return {"Error": ""}

        spoken.says = {"bind": bind}
        pod = await driver.create_pod("pod", gpus=1)
        node = (await driver.until_bound("pod"))["spec"]["nodeName"]
        (body,) = spoken.bodies("bind")
        uid = pod["metadata"]["uid"]
        assert body == {"PodName": "pod", "PodNamespace": "work", "PodUID": uid, "Node": node}


@pytest.mark.asyncio
async def test_it_strikes_nodes_from_those_where_pods_would_be_preempted():
    spoken = Spoken()
    spoken.says = {
        "preempt": lambda body: {
            "NodeNameToMetaVictims": {
                name: told for name, told in body["NodeNameToMetaVictims"].items() if name == "gpu-2"
            }
        }
    }
    async with asked_by_a_cluster(spoken, preemptVerb="preempt") as driver:
        await add_class(driver, "urgent", 1000)
        for name in ("a", "b"):
            await driver.create_pod(name, gpus=8)
            await driver.until_phase(name, "Running")
        places = {name: (await driver.pod(name))["spec"]["nodeName"] for name in ("a", "b")}
        await driver.create_pod("urgent", gpus=8, priorityClassName="urgent")
        assert (await driver.until_bound("urgent"))["spec"]["nodeName"] == "gpu-2"
        (told,) = spoken.bodies("preempt")[:1]
        assert set(told["NodeNameToMetaVictims"]) == {"gpu-1", "gpu-2"}
        assert told["NodeNameToVictims"] is None
        stays = next(name for name, node in places.items() if node == "gpu-1")
        assert (await driver.pod(stays))["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"plugins": {}}, "plugins is not a field that is simulated: use apiVersion, kind, extenders, "),
        ({"kind": "Pod"}, "it is kubescheduler.config.k8s.io/v1 Pod: give a KubeSchedulerConfiguration of "),
        ({"extenders": {}}, "extenders is no list"),
        (
            {"extenders": [{"urlPrefix": "http://a", "filterverb": "f"}]},
            "extenders[0].filterverb is not a field",
        ),
        ({"extenders": [{"urlPrefix": "a"}]}, "extenders[0].urlPrefix is 'a': give http:// or https://"),
        (
            {"extenders": [{"urlPrefix": "http://a", "prioritizeVerb": "p"}]},
            "extenders[0].weight is 0 beside",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "httpTimeout": 5}]},
            "extenders[0].httpTimeout is 5: write a",
        ),
        ({"extenders": [{"urlPrefix": "http://a", "bindVerb": "b"}] * 2}, "extenders: two have a bindVerb"),
        (
            {"extenders": [{"urlPrefix": "http://a", "managedResources": [{"name": "gpu"}]}]},
            "extenders[0].managedResources[0].name is 'gpu', no extended resource",
        ),
        (
            {"percentageOfNodesToScore": 101},
            "percentageOfNodesToScore is 101: write a whole number from 0 to",
        ),
        ({"profiles": [{"schedulerName": "other"}]}, "profiles: only one named default-scheduler"),
    ],
)
def test_what_it_cannot_follow_is_refused_by_name(extra, told):
    with pytest.raises(ValueError, match=".") as refused:
        parse_scheduler_settings(HEAD | extra)
    assert str(refused.value).startswith(told)
    assert "\n" not in str(refused.value)


def test_a_file_is_read_with_the_stock_defaults_and_durations(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        textwrap.dedent("""
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            leaderElection: {leaderElect: false}
            percentageOfNodesToScore: 100
            extenders:
            - {urlPrefix: http://a/x/, filterVerb: filter}
            - {urlPrefix: https://b, filterVerb: filter, httpTimeout: 1m1.5s, ignorable: true}
        """)
    )
    settings = read_scheduler_settings(str(file))
    first, second = settings.extenders
    assert (first.url_prefix, first.timeout_seconds, first.is_ignorable) == ("http://a/x", 5.0, False)
    assert (second.timeout_seconds, second.is_ignorable, settings.percentage) == (61.5, True, 100)
    file.write_text("a: [")
    with pytest.raises(ValueError, match=r"config.yaml is no YAML \(.*\): give a KubeSchedulerConfiguration"):
        read_scheduler_settings(str(file))
