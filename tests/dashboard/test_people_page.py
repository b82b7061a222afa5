"""Users: adding people, their roles, switching them off; for admins who logged in lately."""

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role, RoleGrant, User
from apps.audit.models import AuditEntry
from tests.dashboard.conftest import log_in, make_person
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)


def lately(person) -> Client:
    client = log_in(person)
    session = client.session
    session["logged_in_at"] = timezone.now().isoformat()
    session.save()
    return client


def test_an_admin_adds_a_person_whose_password_is_shown_once(admin, cluster):
    client = lately(admin)
    page = client.post("/people/", {"username": "newcomer"})
    password = page.context["password"]
    assert password in page.content.decode()
    assert User.objects.get(username="newcomer").check_password(password)
    assert password not in client.get("/people/").content.decode()
    again = client.post("/people/", {"username": "newcomer"})
    assert "cannot be added" in text_of(again)
    assert 'value="newcomer"' in again.content.decode()


def test_roles_are_granted_and_revoked_and_the_last_admin_stays(admin, viewer, cluster):
    client, address = lately(admin), f"/people/{viewer.pk}/"
    wish = {"role": "operator", "cluster": cluster.name}
    assert "is operator on gpu-east-1." in text_of(client.post(f"{address}grant/", wish, follow=True))
    assert "operator on gpu-east-1" in text_of(client.get("/people/"))
    client.post(f"{address}revoke/", wish)
    assert not RoleGrant.objects.filter(user=viewer, role=Role.OPERATOR).exists()
    own = f"/people/{admin.pk}/"
    for verb in ("revoke", "switch-off"):
        assert "is the last admin" in text_of(client.post(own + verb + "/", {"role": "admin"}, follow=True))
    assert client.post(f"{address}grant/", {"role": "king"}).status_code == 404


def test_whoever_is_switched_off_is_out_at_once(admin, viewer, cluster):
    theirs, client = log_in(viewer), lately(admin)
    assert theirs.get("/clusters/").status_code == 200
    client.post(f"/people/{viewer.pk}/switch-off/")
    assert theirs.get("/clusters/").status_code == 302
    client.post(f"/people/{viewer.pk}/switch-on/")
    assert User.objects.get(pk=viewer.pk).is_active
    told = AuditEntry.objects.filter(action__startswith="person.switched").values_list("action", flat=True)
    assert sorted(told) == ["person.switched-off", "person.switched-on"]


def test_an_admin_who_is_switched_off_is_no_admin_that_is_left(admin, cluster):
    other = make_person("second", Role.ADMIN)
    client = lately(admin)
    client.post(f"/people/{other.pk}/switch-off/")
    page = client.post(f"/people/{admin.pk}/revoke/", {"role": "admin"}, follow=True)
    assert "is the last admin" in text_of(page)


def test_others_and_old_logins_are_refused(admin, viewer, cluster):
    assert lately(viewer).post(f"/people/{viewer.pk}/grant/", {"role": "admin"}).status_code == 403
    assert lately(viewer).post("/people/", {"username": "x"}).status_code == 403
    old = log_in(admin)
    session = old.session
    session["logged_in_at"] = "2020-01-01T00:00:00+00:00"
    session.save()
    assert "Your login is too long ago" in text_of(old.post("/people/", {"username": "x"}))
    page = old.post(f"/people/{viewer.pk}/grant/", {"role": "admin"}, follow=True)
    assert "Your login is too long ago" in text_of(page)
    assert not User.objects.filter(username="x").exists()
    assert not RoleGrant.objects.filter(user=viewer, role=Role.ADMIN).exists()
