"""What the pods of a proof look like, and what is read from what their scheduler wrote."""

import pytest
from django.utils import timezone

from apps.executions.models import SchedulerProof
from apps.executions.proving import working
from apps.executions.proving.probes import (
    Part,
    Seen,
    Sighting,
    look_at_probe,
    probe_pod,
    refusing_words,
    silent_words,
)
from apps.executions.proving.working import ShowsNothing, _judge
from apps.executions.states import Obedience
from apps.plans.models import ClusterPolicy
from apps.scheduling.extender.proofs import UNKNOWN, NoAnswer, ProofBook
from tests.plans.situations import make_cluster, person, picture, see

TOKEN, GPU = "c0ffee", "nvidia.com/gpu"


def probe(part=Part.ASKS, *, words="", node=""):
    body = probe_pod(
        "p", part, GPU, token=TOKEN, owned="proof-1", namespace="gpu-defrag", deadline="2026-01-01T00:00:00Z"
    )
    body["spec"]["nodeName"] = node
    condition = {"type": "PodScheduled", "status": "False", "message": words}
    return {**body, "status": {"conditions": [condition]}}


def test_a_probe_names_the_resource_asks_for_none_of_it_and_never_preempts_nor_runs():
    spec = probe()["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {"requests": {GPU: "0"}, "limits": {GPU: "0"}}
    assert (container["imagePullPolicy"], spec["priorityClassName"]) == ("Never", "gpu-defrag-hold-0")
    assert spec["activeDeadlineSeconds"] > 0


@pytest.mark.parametrize(
    ("part", "facts", "seen"),
    [
        (Part.ASKS, {"words": f"0/3 nodes are available: 3 {refusing_words(TOKEN)}."}, Seen.TOLD),
        (Part.WAITS, {"words": silent_words(TOKEN)}, Seen.TOLD),
        (Part.WAITS, {"words": refusing_words(TOKEN)}, Seen.QUIET),
        (Part.ASKS, {"words": refusing_words("other")}, Seen.QUIET),
        (Part.ASKS, {"words": "0/3 nodes are available: 3 Too many pods."}, Seen.QUIET),
        (Part.WAITS, {"words": silent_words(TOKEN), "node": "n1"}, Seen.BOUND),
    ],
)
def test_only_words_that_carry_the_token_show_that_the_extender_was_heard(part, facts, seen):
    assert look_at_probe(probe(part, **facts), part, TOKEN).seen == seen


def test_one_resource_about_which_it_goes_on_alone_is_enough_against_it():
    told, bound = Sighting(Seen.TOLD), Sighting(Seen.BOUND, node="n1")
    assert _judge(Part.WAITS, {GPU: told}) is None
    assert _judge(Part.WAITS, {GPU: told, "x.y/z": bound})[0] == Obedience.IGNORES
    assert _judge(Part.ASKS, {GPU: told, "x.y/z": bound})[0] == Obedience.NEVER_ASKS
    with pytest.raises(ShowsNothing, match=r"x\.y/z.*Too many pods"):
        _judge(Part.ASKS, {GPU: told, "x.y/z": Sighting(Seen.QUIET, "Too many pods")})


def test_the_extender_answers_pods_of_this_proof_alone_as_the_proof_wants_it():
    book = ProofBook()
    asks, waits = probe(), probe(Part.WAITS)
    assert book.refusal_of(asks) == book.refusal_of(waits) == UNKNOWN
    book.replace(TOKEN)
    assert book.refusal_of(asks) == refusing_words(TOKEN)
    with pytest.raises(NoAnswer, match=silent_words(TOKEN)):
        book.refusal_of(waits)
    book.replace("another")
    assert book.refusal_of(waits) == UNKNOWN
    assert book.refusal_of({"metadata": {"uid": "u", "name": "n", "annotations": None}}) == ""


@pytest.mark.django_db(transaction=True)
def test_admins_order_it_over_rest_and_on_the_page_once_at_a_time(client):
    cluster = make_cluster()
    address = f"/api/v1/scheduler-proofs/{cluster.name}/"
    client.force_login(person("eve", "viewer", cluster=cluster))
    assert client.get(address).json()["sentence"].startswith("Nobody has tried")
    assert client.post(f"{address}prove/").status_code == 403
    admin = person("root", "admin", cluster=cluster)
    client.force_login(admin)
    assert client.post(f"{address}prove/").status_code == 409, "no accelerator is known yet"
    see(cluster, picture())
    told = client.post(f"{address}prove/")
    assert (told.status_code, told.json()["is_open"]) == (202, True)
    assert client.post(f"{address}prove/").status_code == 409
    page = f"/clusters/{cluster.name}/placement/"
    said = client.post(f"{page}prove/", follow=True).content.decode()
    assert "orker is at a proof" in said
    assert "Prove that the scheduler obeys" in said
    row = SchedulerProof.objects.get()
    assert working.work_on_proof(row.pk), "the cluster cannot be reached: it ends, and shows nothing"
    assert not working.work_on_proof(row.pk)
    found = client.get(address).json()
    assert (found["result"], found["is_open"], found["is_proved"]) == ("unproven", False, False)
    ClusterPolicy.objects.update_or_create(
        cluster=cluster, defaults={"stopped_at": timezone.now(), "stop_reason": "x"}
    )
    assert client.post(f"{address}prove/").status_code == 409
