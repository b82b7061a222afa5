"""The ledger: it only grows, and whoever gets past the database's refusal is found out."""

import json
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.audit.services import record


def write(count=3, **facts):
    entries = []
    for number in range(count):
        with transaction.atomic():
            entries.append(record(actor=None, action="tested", subject=f"thing {number}", **facts))
    return entries


def change_behind_the_triggers(sql, *values):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_auditentry DISABLE TRIGGER USER")
        cursor.execute(sql, values)
        cursor.execute("ALTER TABLE audit_auditentry ENABLE TRIGGER USER")


@pytest.mark.django_db(transaction=True)
def test_an_entry_outside_a_transaction_is_refused():
    with pytest.raises(RuntimeError, match="share the transaction"):
        record(actor=None, action="tested", subject="x")
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "sql",
    ["UPDATE audit_auditentry SET action = 'x'", "DELETE FROM audit_auditentry", "TRUNCATE audit_auditentry"],
)
def test_the_database_refuses_to_change_the_ledger(sql):
    write(1)
    with (
        pytest.raises(DatabaseError, match="only grows"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
    assert AuditEntry.objects.get().action == "tested"


@pytest.mark.django_db
def test_an_untouched_ledger_verifies_whatever_json_stood_in_it():
    detail = {
        "float": 1.0,
        "huge": 1.5e300,
        "tiny": 1e-7,
        "text": "NUL \x00, lone surrogate \ud800, bidi \u202e, é",
        "deep": [{"z": 1, "a": (1, 2)}, None, True],
        3: timezone.now(),
    }
    write(3, detail=detail, cluster="east")
    verdict = verify_chain()
    assert verdict.is_intact
    assert verdict.entries == 3
    assert AuditEntry.objects.first().detail["text"].startswith("NUL \ufffd, lone surrogate \ufffd")


@pytest.mark.django_db
def test_what_json_has_no_word_for_is_refused():
    with pytest.raises(TypeError, match="nan"):
        write(1, detail={"x": float("nan")})
    with pytest.raises(TypeError, match="object"):
        write(1, detail={"x": object()})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "assignment",
    ["action = 'forged'", "detail = '{\"x\": 1}'", "cluster = 'west'", "subject = 'x'", "at = now()"],
)
def test_a_changed_row_is_named(assignment):
    _, second, _ = write()
    change_behind_the_triggers(f"UPDATE audit_auditentry SET {assignment} WHERE id = %s", second.pk)
    verdict = verify_chain()
    assert (verdict.is_intact, verdict.broken_id) == (False, second.pk)
    assert "content" in verdict.reason


@pytest.mark.django_db(transaction=True)
def test_a_removed_row_shows_in_the_next_one():
    _, second, third = write()
    change_behind_the_triggers("DELETE FROM audit_auditentry WHERE id = %s", second.pk)
    assert verify_chain().broken_id == third.pk


@pytest.mark.django_db(transaction=True)
def test_rows_cut_off_the_end_show_only_against_a_head_kept_outside():
    write()
    head = verify_chain().head
    change_behind_the_triggers("DELETE FROM audit_auditentry WHERE hash = %s", head)
    assert verify_chain().is_intact
    verdict = verify_chain(known_head=head)
    assert not verdict.is_intact
    assert head in verdict.reason


@pytest.mark.django_db(transaction=True)
def test_many_writers_make_one_chain():
    def one(number):
        try:
            write(5)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(one, range(6)))
    verdict = verify_chain()
    assert (verdict.is_intact, verdict.entries) == (True, 30)


@pytest.mark.django_db(transaction=True)
def test_the_command_names_the_first_broken_row():
    write()
    out = StringIO()
    call_command("audit_verify", "--json", stdout=out)
    assert json.loads(out.getvalue())["is_intact"] is True

    broken = AuditEntry.objects.all()[1]
    change_behind_the_triggers("UPDATE audit_auditentry SET action = 'x' WHERE id >= %s", broken.pk)
    out = StringIO()
    with pytest.raises(CommandError, match=f"entry {broken.pk}") as failure:
        call_command("audit_verify", "--json", stdout=out)
    assert failure.value.returncode == 1
    assert json.loads(out.getvalue())["broken_id"] == broken.pk
