"""Every page in a real Chromium: clean under the CSP, usable by everybody, no sideways scroll."""

import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone

from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.queries import current_version
from tests.dashboard.conftest import make_cluster, make_person, make_picture
from tests.dashboard.executions import make_execution
from tests.dashboard.pictures_mig import mig_board

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
GRID = "/clusters/gpu-east-1/"


@pytest.fixture
def console(console_server):
    """A cluster with a picture, a proposed and an approved plan, and an execution in mid-run."""
    cluster = make_cluster()
    make_picture(cluster)
    make_picture(make_cluster("gpu-mig-1"), mig_board(time.time()).snapshot())
    planner = make_person("m.okafor", "planner", "viewer")
    everybody = make_person("b.lindqvist", "approver", "operator", "auditor", "admin")
    plans = []
    for _ in range(2):
        plan = services.request_plan(
            actor=planner, cluster=cluster, goal="unlock", workload="default/llama-70b"
        )
        compute_draft(plan.pk)
        services.propose_plan(plan_id=plan.pk, actor=planner)
        plans.append(plan)
    digest = current_version(plans[1]).digest
    services.approve_plan(plan_id=plans[1].pk, digest=digest, approver=everybody, logged_in_at=timezone.now())
    execution = make_execution(plans[1], everybody)
    window = {"first_day": "2031-12-23", "last_day": "2032-01-02", "start": "18:00", "end": "08:00"}
    wishes = {"freeze_windows": [{**window, "time_zone": "Europe/Berlin", "reason": "holidays"}]}
    services.change_policy(actor=everybody, cluster=cluster, wishes=wishes)
    paths = {
        "login": "/login/",
        "grid": GRID,
        "grid-heat": f"{GRID}?mode=heat",
        "grid-link": f"{GRID}?mode=link",
        "node": f"{GRID}nodes/a100-16/",
        "queue": f"{GRID}queue/?simulate=default/llama-70b",
        "waits": f"{GRID}queue/waits/",
        "what-if": f"{GRID}what-if/?gpus=2&link=nvlink",
        "what-if-changed": f"{GRID}what-if/?gpus=2&change=add:3:a100-01",
        "mig": "/clusters/gpu-mig-1/mig/",
        "mig-node": "/clusters/gpu-mig-1/nodes/mig-01/",
        "plans": f"{GRID}plans/",
        "plan": f"{GRID}plans/{plans[0].pk}/",
        "executions": f"{GRID}executions/",
        "execution": f"{GRID}executions/{execution.pk}/",
        "policies": f"{GRID}policies/",
        "alerts": "/alerts/",
        "audit": "/audit/",
        "clusters": "/clusters/",
        "people": "/people/",
        "tokens": "/tokens/",
        "reference": "/reference/",
    }
    return {"planner": planner, "everybody": everybody, "paths": paths, "cluster": cluster, "plan": plans[0]}


def barriers_of(page) -> list[str]:
    """What keeps people out, by axe. The markup is the same at every width, so it is asked at one of them."""
    found = [
        violation
        for violation in Axe().run(page).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    return [f"{one['id']} {[node['target'] for node in one['nodes'][:3]]}" for one in found]


@pytest.mark.parametrize(("dark", "width"), [(False, 1440), (True, 1440), (False, 390)])
def test_every_page_is_clean_and_accessible(console, open_page, dark, width):
    faults = []
    for name, path in console["paths"].items():
        person = None if name == "login" else console["everybody"]
        page = open_page(person, path, dark=dark, width=width)
        page.wait_for_load_state("load")
        faults += [f"{name}: {complaint}" for complaint in page.complaints]
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 0:
            faults.append(f"{name}: {wide} px to scroll sideways")
        faults += [f"{name}: {violation}" for violation in (barriers_of(page) if width > 1000 else [])]
        page.context.close()
    assert faults == []
