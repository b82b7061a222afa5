"""Accepting how a node is: what the page showed, of the node of that name, and nothing else."""

import re
import time
from dataclasses import replace

import pytest

from apps.audit.models import AuditEntry
from apps.clusters.models import NodeExpectation
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.pictures import Board

pytestmark = pytest.mark.django_db
PAGE = "/clusters/gpu-east-1/nodes/n-1/"
LOST, LINKS = "8 healthy GPUs were seen here, now there are 7", "4 pairs were joined by <NVLink> here"


def drifted(cluster, *sentences):
    board = Board(now=time.time())
    board.node("n-1", "CA4")
    board.node("n-2", "CA4")
    snapshot = board.snapshot()
    nodes = {**snapshot.nodes, "n-1": replace(snapshot.nodes["n-1"], uid="uid-1", drift=sentences)}
    nodes["n-2"] = replace(nodes["n-2"], uid="uid-2", drift=sentences)
    make_picture(cluster, replace(snapshot, nodes=nodes))


def form_on(client):
    """What the page's own form would send."""
    part = client.get(PAGE).content.decode().partition("/accept/")[2].partition("</form>")[0]
    unescaped = part.replace("&lt;", "<").replace("&gt;", ">")
    return {name: re.findall(rf'name="{name}" value="(.*?)"(?:>|$)', unescaped) for name in ("uid", "drift")}


def test_what_the_page_showed_is_accepted(operator, cluster):
    drifted(cluster, LOST, LINKS)
    client = log_in(operator)
    sent = form_on(client)
    assert sent == {"uid": ["uid-1"], "drift": [LOST, LINKS]}
    NodeExpectation.objects.create(cluster=cluster, node_uid="uid-1", facts={"gpus": 8})
    answer = client.post(f"{PAGE}accept/", sent, follow=True)
    assert "From now on n-1 is expected to be as it is now." in answer.content.decode()
    assert not NodeExpectation.objects.exists()
    entry = AuditEntry.objects.get(action="node.drift-accepted")
    assert entry.detail == {"node": "n-1", "node_uid": "uid-1", "expected": {"gpus": 8}}


@pytest.mark.parametrize(
    "change", [{"uid": "uid-2"}, {"drift": [LOST]}, {"drift": [LOST, LINKS, "and more"]}, {"drift": []}]
)
def test_what_it_did_not_show_is_not(operator, cluster, change):
    drifted(cluster, LOST, LINKS)
    client = log_in(operator)
    answer = client.post(f"{PAGE}accept/", {**form_on(client), **change}, follow=True)
    assert "n-1 shows something else by now" in answer.content.decode()
    assert not AuditEntry.objects.filter(action="node.drift-accepted").exists()
    assert client.post("/clusters/gpu-east-1/nodes/nowhere/accept/", form_on(client)).status_code == 404
