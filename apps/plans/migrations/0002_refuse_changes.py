"""The database refuses to change or remove a version or a decision. Only a version's snapshot may go."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION plans_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'snapshot_id' = to_jsonb(OLD) - 'snapshot_id' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% on % is refused: a version or decision never changes', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER plans_version_is_final BEFORE UPDATE OR DELETE ON plans_planversion
    FOR EACH ROW EXECUTE FUNCTION plans_refuse_change();
CREATE TRIGGER plans_decision_is_final BEFORE UPDATE OR DELETE ON plans_decision
    FOR EACH ROW EXECUTE FUNCTION plans_refuse_change();
"""
BACKWARD = """
DROP TRIGGER plans_version_is_final ON plans_planversion;
DROP TRIGGER plans_decision_is_final ON plans_decision;
DROP FUNCTION plans_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("plans", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
