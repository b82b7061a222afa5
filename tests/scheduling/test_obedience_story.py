"""Whether a scheduler obeys the extender is proved with pods of ours, over HTTP: one that waits, and one that
goes on alone."""

import json

import pytest
import yaml

from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.clusters.services import record_snapshot
from apps.executions.models import SchedulerProof
from apps.executions.pictures import take_picture
from apps.executions.proving import working
from apps.executions.proving.asking import order_proof, proof_standing
from apps.executions.states import Obedience
from tests.cluster_fixtures import simulated_cluster  # noqa: F401
from tests.plans.situations import person
from tests.scheduling.extender_site import Site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@pytest.fixture
def open_site(transactional_db, simulated_cluster, settings, tmp_path):  # noqa: F811
    sites = []

    def open_one(**facts):
        site = Site(tmp_path, settings)
        if facts:
            told = yaml.safe_load(site.configuration.read_text())
            told["extenders"][0] |= facts
            site.configuration.write_text(yaml.safe_dump(told))
        site.open(simulated_cluster(scene="small", time_scale=20, scheduler_config=site.configuration))
        sites.append(site)
        see(site)
        return site

    yield open_one
    for site in sites:
        site.close()


def see(site):
    picture = take_picture(
        lambda kind: site.plane.gateway().list_objects(kind).objects, cluster="site", taken_at=1.0
    )
    record_snapshot(cluster_id=site.cluster.pk, snapshot=picture)


def prove(site):
    row = order_proof(actor=person("root", "admin", cluster=site.cluster), cluster=site.cluster)
    assert working.work_on_proof(row.pk)
    row.refresh_from_db()
    return row


def probes_of(site):
    found = site.plane.ask("GET", "/_sim/requests")["requests"]
    return [
        one
        for one in found
        if "/namespaces/gpu-defrag/pods" in one["path"] and one["method"] in ("POST", "DELETE")
    ]


def test_a_scheduler_that_waits_is_proved_to_and_nothing_is_left(open_site):
    site = open_site()
    row = prove(site)
    assert row.result == Obedience.OBEYS, row.words
    assert row.holder == site.get(LEASE)["spec"]["holderIdentity"]
    assert proof_standing(site.cluster).is_proved
    made = [json.loads(one["body"]) for one in probes_of(site) if one["method"] == "POST"]
    assert len(made) == 2 * len(row.resources)
    assert site.plane.ask("GET", "/api/v1/namespaces/gpu-defrag/pods")["items"] == []
    told = list(
        AuditEntry.objects.filter(action__startswith="scheduler.proof").values_list("action", flat=True)
    )
    assert {"scheduler.proof_asked", "scheduler.proof_probes", "scheduler.proof_ended"} == set(told)
    assert verify_chain().is_intact


def test_one_that_goes_on_alone_is_told_and_its_pod_is_deleted_at_once(open_site):
    site = open_site(ignorable=True)
    row = prove(site)
    assert row.result == Obedience.IGNORES, row.words
    assert "holds stay on paper" in row.words
    assert not proof_standing(site.cluster).is_proved
    site.until(
        lambda: not site.plane.ask("GET", "/api/v1/namespaces/gpu-defrag/pods")["items"], "no pod is left"
    )
    assert SchedulerProof.objects.get().ended_at
