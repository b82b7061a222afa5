"""Values of the simulated GPUs, PromQL over them, and Prometheus' HTTP API."""

import json
import time
from urllib.parse import urlencode

import aiohttp
import pytest
import time_machine

from apps.simulator.client import NODES
from apps.simulator.controllers.informers import Store
from apps.simulator.hardware import HOLDERS_ANNOTATION
from apps.simulator.metrics.history import PAST_SECONDS, History, last_scrape
from apps.simulator.metrics.http_api import PrometheusApi
from apps.simulator.metrics.service import MetricsService
from apps.simulator.mig.layout import LAYOUT_ANNOTATION
from apps.simulator.scenes.owners import Owner, make_template
from tests.simulator.cluster import make_nodes

USED = "DCGM_FI_DEV_FB_USED"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


class Cluster:
    """Two nodes of eight A100s; `train` holds four GPUs of gpu-1."""

    def __init__(self):
        scene = make_nodes(2)
        owner = scene.add_owner(Owner("Job", "work", "train", make_template("train", gpus=4)))
        self.pod = scene.put(owner, "gpu-1", (0, 1, 2, 3))
        self.store = Store(NODES)
        for thing in scene.build():
            if thing["kind"] == "Node":
                self.store.apply("ADDED", thing)
        self.history = History(self.store)
        self.api = PrometheusApi(self.history, lambda node: f"http://there/{node}")

    def change(self, name, **annotations):
        node = json.loads(json.dumps(self.store.objects[name]))
        node["metadata"]["annotations"] |= annotations
        self.store.apply("MODIFIED", node)

    def ask(self, path, **parameters):
        return self.api.answer(path, {name: [str(value)] for name, value in parameters.items()})

    def query(self, text, **more):
        code, body = self.ask("query", query=text, **more)
        assert code == 200, body
        return body["data"]["result"]

    def values(self, text, label, **more):
        return {each["metric"].get(label): float(each["value"][1]) for each in self.query(text, **more)}


@pytest.fixture
def clock():
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        yield clock


@pytest.fixture
def cluster(clock):
    return Cluster()


def test_a_holders_pod_is_named_and_the_framebuffer_adds_up(cluster):
    held = cluster.query(f'{USED}{{hostname="gpu-1",gpu="0"}}')[0]["metric"]
    assert held["exported_pod"] == cluster.pod["metadata"]["name"]
    assert (held["exported_namespace"], held["namespace"]) == ("work", "gpu-operator")
    assert held["UUID"].startswith("GPU-")
    free = cluster.query(f'{USED}{{hostname="gpu-1",gpu="7"}}')[0]
    assert "exported_pod" not in free["metric"]
    assert "GPU_I_ID" not in free["metric"]
    total = "DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE + DCGM_FI_DEV_FB_RESERVED"
    assert set(cluster.values(total, "UUID").values()) == {81920.0}
    busy = cluster.values(f"count({ENGINE} > 0) by (hostname)", "hostname")
    assert busy == {"gpu-1": 4}


def test_the_same_moment_has_the_same_values_and_time_moves_them(cluster):
    moment = time.time() - 3600
    text = f'{ENGINE}{{exported_pod!=""}}'
    first, again = (cluster.values(text, "gpu", time=moment) for _ in range(2))
    assert first == again
    assert cluster.values(text, "gpu", time=moment + 120) != first
    assert cluster.query(USED, time=time.time() - PAST_SECONDS - 3600) == []


def test_a_cut_gpu_has_a_series_per_instance_and_no_utilization(cluster, clock):
    layout = {"0": [{"profile": "3g.40gb", "start": 0}, {"profile": "1g.10gb", "start": 4}]}
    cluster.change("gpu-2", **{LAYOUT_ANNOTATION: json.dumps(layout)})
    clock.shift(30)
    assert cluster.query(f'{USED}{{hostname="gpu-2"}}') == []  # no data since, not zero
    clock.shift(60)
    found = cluster.query(f'{USED}{{hostname="gpu-2",gpu="0"}}')
    assert len({each["metric"]["UUID"] for each in found}) == 1
    told = sorted((each["metric"]["GPU_I_PROFILE"], each["metric"]["GPU_I_ID"]) for each in found)
    assert told == [("1g.10gb", "7"), ("3g.40gb", "1")]
    assert len(cluster.query('DCGM_FI_DEV_GPU_UTIL{hostname="gpu-2"}')) == 7
    power = cluster.query('DCGM_FI_DEV_POWER_USAGE{hostname="gpu-2",gpu="0"}')
    assert len({each["value"][1] for each in power}) == 1


def test_a_sick_gpu_shows_its_xid_and_a_blank_and_a_silent_node_nothing(cluster, clock):
    cluster.change("gpu-1", **{"sim.gpu.internal/unhealthy": "3"})
    clock.shift(15)
    assert cluster.values("DCGM_FI_DEV_XID_ERRORS != 0", "gpu") == {"3": 79}
    assert cluster.values("DCGM_FI_DEV_GPU_TEMP > 1000", "gpu") == {"3": 2147483632}
    cluster.change("gpu-2", **{"sim.gpu.internal/kubelet": "stopped"})
    clock.shift(15)
    assert cluster.values("count(DCGM_FI_DEV_GPU_TEMP) by (hostname)", "hostname") == {"gpu-1": 8}
    assert sorted(each["value"][1] for each in cluster.query("up")) == ["0", "1"]


def test_who_held_what_before_is_remembered(cluster, clock):
    clock.shift(600)
    cluster.change("gpu-1", **{HOLDERS_ANNOTATION: '{"version":1,"devices":{}}'})
    clock.shift(30)
    assert cluster.query(f'{ENGINE}{{exported_pod!=""}}') == []
    before = cluster.query(f'{ENGINE}{{exported_pod!=""}}', time=time.time() - 60)
    assert len(before) == 4
    names = cluster.ask("label/exported_pod/values")[1]["data"]
    assert names == [cluster.pod["metadata"]["name"]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2 * 3 ^ 2", 19),
        ("-2 ^ 2", -4),
        ("(1 + 2) * 3 % 4", 1),
        ("1 > bool 2", 0),
        ("scalar(count(up))", 2),
        ("1 / 0", float("inf")),
        ("0x10 - 1e1", 6),
    ],
)
def test_scalars(cluster, text, wanted):
    code, body = cluster.ask("query", query=text)
    assert (code, body["data"]["resultType"]) == (200, "scalar")
    assert float(body["data"]["result"][1]) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sum(count_over_time(up[5m]))", 40),
        ("count(DCGM_FI_DEV_FB_USED) without (gpu, UUID, pci_bus_id, device)", None),
        ('count({__name__=~"DCGM_.*TEMP",gpu!~"[0-5]"})', 4),
        ("count(max_over_time(DCGM_FI_DEV_GPU_UTIL[10m] offset 1h) >= 0)", 16),
        ("sum by (job) (up) == 2", 2),
        ("count(DCGM_FI_DEV_GPU_UTIL unless DCGM_FI_DEV_GPU_UTIL > 0)", 12),
        ("count(up or vector(1))", 3),
        ("absent(nothing)", 1),
        ("round(avg(up) * 1.6)", 2),
    ],
)
def test_vectors(cluster, text, wanted):
    result = cluster.query(text)
    if wanted is None:
        assert {"gpu", "UUID"}.isdisjoint(result[0]["metric"])
        assert "hostname" in result[0]["metric"]
    else:
        assert [float(each["value"][1]) for each in result] == [wanted]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1:1: parse error: unexpected end of input"),
        ("up{", "unexpected end of input in label matching"),
        ("rate(up[5m])", 'unknown function with name "rate"'),
        ("sum(up[5m])", "expected type instant vector in aggregation"),
        ("avg_over_time(up)", "expected type range vector in call to function"),
        ("up[5m] + 1", "binary expression must contain only scalar and instant vector types"),
        ("1 == 2", "comparisons between scalars must use BOOL modifier"),
        ('{gpu=""}', "must contain at least one non-empty matcher"),
        ('up{a=~"("}', "error parsing regexp"),
        ("up * on(job) up", "vector matching"),
        ("up\n  ]", '2:3: parse error: unexpected "]"'),
        ("up[5m:1m]", "subqueries"),
        ("(" * 80 + "1" + ")" * 80, "inside one another"),
        ("-" * 5000 + "1", "inside one another"),
        ("1" + " + 1" * 5000, "operations"),
    ],
)
def test_what_cannot_be_read_is_bad_data_with_its_place(cluster, text, words):
    code, body = cluster.ask("query", query=text)
    assert (code, body["status"], body["errorType"]) == (400, "error", "bad_data")
    assert body["error"].startswith('invalid parameter "query": ')
    assert words in body["error"]


def test_ambiguous_matches_are_an_execution_error(cluster):
    code, body = cluster.ask("query", query='up + {__name__=~"DCGM_FI_DEV_FB_.*"}')
    assert (code, body["errorType"]) == (422, "execution")


def test_ranges(cluster):
    end = last_scrape(time.time())
    asked = {"query": f'{USED}{{hostname="gpu-1",gpu="0"}}', "start": end - 300, "end": end, "step": "1m"}
    (row,) = cluster.ask("query_range", **asked)[1]["data"]["result"]
    assert [moment for moment, _ in row["values"]] == [end - 300 + 60 * step for step in range(6)]
    for wrong, words in (
        ({"step": "0"}, "zero or negative"),
        ({"start": "x"}, "cannot parse"),
        ({"end": end - 600}, "end timestamp must not be before start"),
        ({"step": "0.01"}, "11,000 points"),
        ({"query": "up[5m]"}, "range vector"),
    ):
        code, body = cluster.ask("query_range", **{**asked, **wrong})
        assert (code, body["errorType"]) == (400, "bad_data")
        assert words in body["error"]


@pytest.mark.asyncio
async def test_over_http_as_a_scraper_and_as_a_reader():
    cluster = Cluster()
    service = MetricsService(cluster.history)
    await service.start()
    try:
        async with aiohttp.ClientSession() as session:

            async def get(path, **parameters):
                async with session.get(f"{service.url}{path}?{urlencode(parameters)}") as reply:
                    return reply.status, await reply.text()

            code, text = await get("/exporters/gpu-1/metrics")
            assert code == 200
            lines = [line for line in text.splitlines() if line.startswith(f'{USED}{{gpu="0"')]
            name = cluster.pod["metadata"]["name"]
            assert len(lines) == 1
            assert 'hostname="gpu-1"' in lines[0]
            assert f'container="main",namespace="work",pod="{name}"}} ' in lines[0]
            assert f"# TYPE {USED} gauge" in text
            assert (await get("/exporters/nope/metrics"))[0] == 404
            assert (await get("/-/ready"))[0] == 200
            targets = json.loads((await get("/api/v1/targets"))[1])["data"]["activeTargets"]
            assert targets[0]["scrapeUrl"] == f"{service.url}/exporters/gpu-1/metrics"
            assert USED in json.loads((await get("/api/v1/metadata"))[1])["data"]
            series = json.loads((await get("/api/v1/series", **{"match[]": USED}))[1])["data"]
            assert len(series) == 16
            assert (await get("/api/v1/series"))[0] == 400
            assert (await get("/api/v1/rules"))[0] == 404
            form = {"query": "count(up)"}
            async with session.post(f"{service.url}/api/v1/query", data=form) as reply:
                assert (await reply.json())["data"]["result"][0]["value"][1] == "2"
    finally:
        await service.stop()
