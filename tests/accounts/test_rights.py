"""Who may do what, where; and that every refusal stands in the ledger."""

import json
from io import StringIO

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.management import CommandError, call_command
from django.db import transaction

from apps.accounts.errors import Denied, LastAdmin, NotVisible, UnusableName
from apps.accounts.models import Role, RoleGrant, User
from apps.accounts.queries import actions_on, clusters_visible_to, may
from apps.accounts.rights import RIGHTS, Action
from apps.accounts.services import authorize, create_person, denials_recorded, grant_role, revoke_role
from apps.audit.models import AuditEntry
from apps.clusters.models import Cluster

EXPECTED = {
    "viewer": {"see"},
    "planner": {"see", "plan"},
    "approver": {"see", "approve"},
    "operator": {"see", "operate"},
    "admin": {"see", "administer"},
    "auditor": {"see", "audit"},
}


def person(name="ada", *roles, cluster=None):
    user = create_person(username=name, password="a long enough one")
    for role in roles:
        grant_role(user=user, role=role, cluster=cluster)
    return user


@pytest.fixture
def east(db):
    return Cluster.objects.create(name="east", server="https://127.0.0.1:1")


@pytest.fixture
def west(db):
    return Cluster.objects.create(name="west", server="https://127.0.0.1:2")


def test_the_table_is_the_one_that_was_agreed():
    assert {str(role): {str(one) for one in actions} for role, actions in RIGHTS.items()} == EXPECTED


@pytest.mark.parametrize("role", Role.values)
def test_a_role_holds_on_its_cluster_alone(east, west, role):
    user = person("ada", role, cluster=east)
    for action in Action:
        assert may(user, action, east) == (action in EXPECTED[role])
        assert not may(user, action, west)
        assert not may(user, action, None)
    assert actions_on(user, east) == EXPECTED[role]
    assert clusters_visible_to(user) == {east.pk}


def test_a_grant_without_a_cluster_holds_on_every_one(east, west):
    user = person("ada", Role.ADMIN)
    assert may(user, Action.ADMINISTER, None)
    assert may(user, Action.ADMINISTER, west)
    assert clusters_visible_to(user) == {east.pk, west.pk}
    assert clusters_visible_to(user, Action.AUDIT) == frozenset()


def test_a_superuser_gets_no_shortcut(east):
    root = User.objects.create_superuser("root", password="x")
    assert not any(may(root, action, place) for action in Action for place in (east, None))
    with pytest.raises(NotVisible):
        authorize(root, Action.APPROVE, east)


def test_an_inactive_person_and_a_stranger_may_nothing(east):
    user = person("ada", Role.PLANNER)
    user.is_active = False
    assert not may(user, Action.SEE, east)
    assert not may(AnonymousUser(), Action.SEE, east)
    assert clusters_visible_to(AnonymousUser()) == frozenset()


def test_a_word_that_is_no_action_is_a_mistake(east):
    with pytest.raises(ValueError, match="aprove"):
        may(person("ada", Role.APPROVER), "aprove", east)


@pytest.mark.django_db(transaction=True)
def test_a_refusal_is_recorded_once_and_tells_unseen_from_forbidden(east, west):
    user = person("ada", Role.VIEWER, cluster=east)
    with pytest.raises(Denied, match="you may not approve on cluster east") as refusal:
        authorize(user, Action.APPROVE, east)
    assert not isinstance(refusal.value, NotVisible)
    with pytest.raises(NotVisible, match="no cluster 'west'"):
        authorize(user, Action.PLAN, west)
    found = AuditEntry.objects.filter(action="denied").values_list("actor", "cluster", "detail__wanted")
    assert list(found) == [(user.pk, "east", "approve"), (user.pk, "west", "plan")]


@pytest.mark.django_db(transaction=True)
def test_a_refusal_inside_a_transaction_outlives_its_rollback(east):
    user = person("ada", Role.VIEWER, cluster=east)

    @denials_recorded()
    @transaction.atomic(durable=True)
    def change():
        Cluster.objects.update(version="changed")
        authorize(user, Action.ADMINISTER, east)

    with pytest.raises(Denied):
        change()
    assert Cluster.objects.get().version == ""
    assert AuditEntry.objects.filter(action="denied", actor=user).count() == 1


@pytest.mark.django_db(transaction=True)
def test_only_an_admin_of_everything_adds_people_and_only_an_admin_of_the_cluster_grants_on_it(east, west):
    root = person("root", Role.ADMIN)
    local = person("local", Role.ADMIN, cluster=east)
    with pytest.raises(Denied):
        create_person(username="eve", password="a long enough one", actor=local)
    assert not User.objects.filter(username="eve").exists()

    bob = create_person(username="bob", password="a long enough one", actor=root)
    grant_role(user=bob, role=Role.APPROVER, cluster=east, actor=local)
    with pytest.raises(Denied):
        grant_role(user=bob, role=Role.APPROVER, actor=local)
    with pytest.raises(NotVisible):
        grant_role(user=bob, role=Role.APPROVER, cluster=west, actor=local)
    assert RoleGrant.objects.filter(user=bob).count() == 1


def test_granting_and_revoking_leave_one_entry_each(east):
    user = person("ada", Role.PLANNER, cluster=east)
    grant_role(user=user, role=Role.PLANNER, cluster=east)
    revoke_role(user=user, role=Role.PLANNER, cluster=east)
    revoke_role(user=user, role=Role.PLANNER, cluster=east)
    assert not may(user, Action.PLAN, east)
    told = AuditEntry.objects.filter(action__startswith="role.").values_list("action", "cluster")
    assert list(told) == [("role.granted", "east"), ("role.revoked", "east")]


def test_the_last_admin_stays(db):
    user = person("ada", Role.ADMIN)
    with pytest.raises(LastAdmin, match="last admin"):
        revoke_role(user=user, role=Role.ADMIN)
    person("bob", Role.ADMIN)
    revoke_role(user=user, role=Role.ADMIN)
    assert not may(user, Action.ADMINISTER, None)


def test_a_name_is_taken_once(db):
    person("ada")
    with pytest.raises(UnusableName, match="already exists"):
        person("ada")
    with pytest.raises(UnusableName, match="valid username"):
        person("a b")


def test_the_command_prints_a_password_that_works(east):
    out = StringIO()
    call_command("create_person", "ada", "--role", "planner", "--role", "operator", "--json", stdout=out)
    answer = json.loads(out.getvalue())
    user = User.objects.get(username="ada")
    assert user.check_password(answer["password"])
    assert len(answer["password"]) >= 20
    assert set(user.grants.values_list("role", "cluster")) == {("planner", None), ("operator", None)}

    call_command("create_person", "bob", "--role", "viewer", "--cluster", "east", stdout=out)
    assert clusters_visible_to(User.objects.get(username="bob")) == {east.pk}


@pytest.mark.parametrize(
    ("arguments", "sentence"), [(["ada"], "already exists"), (["bob", "--cluster", "nowhere"], "no cluster")]
)
def test_the_command_refuses_in_one_line(db, arguments, sentence):
    person("ada")
    with pytest.raises(CommandError, match=sentence) as failure:
        call_command("create_person", *arguments)
    assert failure.value.returncode == 2
    assert "\n" not in str(failure.value)
