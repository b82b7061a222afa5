"""The Lease of one console at a time on a real API server, by the account as it is shipped."""

import os
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from apps.executions import permission
from apps.executions.console_lease import Word, look
from apps.executions.console_standing import is_held, own_identity
from apps.executions.errors import HeldByPolicy
from apps.executions.lease_body import EPOCH, lease_body, read_lease
from apps.executions.models import ClusterSafety
from apps.kube.errors import Conflict, KubeError
from apps.kube.gateway import LEASES
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.plans.policies import policy_of
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401 (a fixture)
from tests.executions.real_cluster import CONSOLE_LEASE, apply_manifests, exists
from tests.executions.test_console_lease import another_console, go_back
from tests.plans.situations import make_cluster

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
]
ACCOUNT = "/api/v1/namespaces/gpu-defrag/serviceaccounts/gpu-defrag-console/token"


@pytest.fixture
def real(control_plane):  # noqa: F811
    """gateway: as the console's own account, with the rights of deploy/rbac alone."""
    apply_manifests(control_plane, "rbac/reader.yaml", "rbac/executor.yaml")
    if exists(control_plane, CONSOLE_LEASE):
        control_plane.ask("DELETE", CONSOLE_LEASE)
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = control_plane.ask("POST", ACCOUNT, wish)["status"]["token"]
    login = control_plane.credentials
    yield SimpleNamespace(
        gateway=KubernetesGateway(server=login.server, ca=login.ca, token=token),
        change=lambda body: control_plane.ask("PATCH", CONSOLE_LEASE, body),
        remove=lambda: control_plane.ask("DELETE", CONSOLE_LEASE),
        read=lambda: control_plane.ask("GET", CONSOLE_LEASE),
    )
    if exists(control_plane, CONSOLE_LEASE):
        control_plane.ask("DELETE", CONSOLE_LEASE)


def test_it_is_taken_renewed_under_a_guard_and_made_anew_where_somebody_deleted_it(real):
    place = make_cluster()
    assert look(place, real.gateway).word == Word.HELD
    first = real.read()
    assert (first["spec"]["holderIdentity"], first["spec"]["leaseDurationSeconds"]) == (own_identity(), 60)
    assert first["metadata"]["annotations"][f"{EPOCH}{own_identity()}"] == "1"
    assert look(place, real.gateway).word == Word.HELD
    assert real.read()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    go_back(place, 11)
    assert look(place, real.gateway).word == Word.HELD
    second = real.read()
    assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
    assert read_lease(second, own_identity()).epoch == ClusterSafety.objects.get().epoch == 2

    stale = read_lease(first, own_identity())
    facts = {"identity": own_identity(), "host": "b", "epoch": 9, "now": datetime.now(UTC), "seconds": 60}
    with pytest.raises(Conflict):
        real.gateway.patch_object(LEASES, "console", lease_body(stale, **facts), namespace="gpu-defrag")
    assert real.read() == second

    real.remove()
    go_back(place, 11)
    assert look(place, real.gateway).word == Word.HELD
    assert read_lease(real.read(), own_identity()).epoch == ClusterSafety.objects.get().epoch
    of_old = lease_body(read_lease(real.read(), own_identity()), **facts)
    of_old["metadata"]["uid"] = second["metadata"]["uid"]
    with pytest.raises(Conflict):
        real.gateway.patch_object(LEASES, "console", of_old, namespace="gpu-defrag")


def test_a_second_console_writes_nothing_until_the_first_has_gone(real):
    place = make_cluster()
    look(place, real.gateway)
    mine, before = own_identity(), real.read()
    with another_console(place):
        assert look(place, real.gateway).word == Word.OTHER
        assert not is_held(place, 0)
        with pytest.raises(HeldByPolicy, match=f"Another console has east: {mine}"):
            permission.require_no_ban(policy_of(place))
        assert real.read() == before
        for seconds in (40, 15):
            go_back(place, seconds)
            assert look(place, real.gateway).word == Word.OTHER
        go_back(place, 10)
        assert look(place, real.gateway).word == Word.HELD
        taken = real.read()
        assert (taken["spec"]["holderIdentity"], taken["spec"]["leaseTransitions"]) == ("b0b", 1)
        assert read_lease(taken, mine).epoch == read_lease(before, mine).epoch
    assert look(place, real.gateway).word == Word.OTHER
    assert real.read() == taken


def test_what_people_write_into_it_and_what_the_role_does_not_allow(real):
    place = make_cluster()
    look(place, real.gateway)
    noted = {f"{EPOCH}{own_identity()}": "9" * 40, f"{EPOCH}b0b": "x"}
    real.change({"metadata": {"annotations": noted}, "spec": {"holderIdentity": "by hand"}})
    real.change({"spec": {"leaseDurationSeconds": None}})
    assert look(place, real.gateway).word == Word.OTHER
    assert not is_held(place, 0)
    real.change({"spec": {"holderIdentity": None}})
    assert look(place, real.gateway).word == Word.HELD
    assert is_held(place, 39)
    with pytest.raises(KubeError) as refused:
        real.gateway.get_object(LEASES, "another", namespace="gpu-defrag")
    assert refused.value.status == 403
