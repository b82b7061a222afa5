"""A registered cluster with a picture, and people with roles, for the page tests."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from django.test import Client

from apps.accounts.models import Role, RoleGrant, User
from apps.clusters.models import Cluster
from apps.clusters.services import record_snapshot
from apps.fragmentation.services import measure_snapshot
from tests.dashboard.pictures import forty_nodes

PASSWORD = "only-for-these-tests-1"
EVERY_ROLE = tuple(Role)


def make_person(name: str, *roles: str, cluster: Cluster | None = None) -> User:
    person = User.objects.create_user(username=name, password=PASSWORD)
    RoleGrant.objects.bulk_create(RoleGrant(user=person, role=role, cluster=cluster) for role in roles)
    return person


def make_cluster(name: str = "gpu-east-1") -> Cluster:
    return Cluster.objects.create(
        name=name, server="https://10.0.0.1:6443", version="v1.33.4", watched_at=datetime.now(UTC)
    )


def make_picture(cluster: Cluster, snapshot=None):
    """Store a snapshot (the forty nodes by default) with its report."""
    snapshot = snapshot or forty_nodes(time.time()).snapshot()
    row = record_snapshot(cluster_id=cluster.pk, snapshot=snapshot)
    measure_snapshot(snapshot_id=row.pk)
    return row


def log_in(person: User) -> Client:
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def cluster(db) -> Cluster:
    return make_cluster()


@pytest.fixture
def picture(cluster):
    return make_picture(cluster)


@pytest.fixture
def viewer(db) -> User:
    return make_person("v.ida", Role.VIEWER)


@pytest.fixture
def planner(db) -> User:
    return make_person("m.okafor", Role.PLANNER, Role.VIEWER)


@pytest.fixture
def approver(db) -> User:
    return make_person("b.lindqvist", Role.APPROVER)


@pytest.fixture
def operator(db) -> User:
    return make_person("r.tanaka", Role.OPERATOR)


@pytest.fixture
def admin(db) -> User:
    return make_person("root.sara", Role.ADMIN, Role.AUDITOR)
