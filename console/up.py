"""`./dev up`: the whole product on embedded defaults, as child processes of this one.

PostgreSQL, Valkey, a simulated cluster, the steering webhook, web, Celery worker, beat and watcher.
Every child dies with this process, however it dies. Progress goes to stderr; stdout carries the
address and the logins (one JSON line with --json).
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from console.embedded import EmbeddedServerFailed, die_with_parent, free_port, start_postgres, start_valkey
from console.place import DEFAULT_FOLDER, ROOT, Place, PlaceIsTaken

CLUSTER = "demo"
PEOPLE = {
    "planner": ["viewer", "planner", "operator", "admin", "auditor"],
    "approver": ["viewer", "approver"],
}
SECONDS_TO_START = 90
RESTARTS_ALLOWED = 5


class StartFailed(Exception):
    """What did not start, why, and where to look."""


@dataclass
class Child:
    """One supervised process: `command` is started again when it ends by itself."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    restarts: list[float] = field(default_factory=list)

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def stop(self, seconds: float = 20) -> None:
        if self.process is None or self.ended():
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def end_of_log(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])


class Console:
    """Starts everything in order, keeps it running, and ends it in the opposite order."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.place = Place(Path(options.data))
        self.servers: list = []
        self.children: list[Child] = []
        self.stopping = False
        self.environment: dict[str, str] = {}
        self.answer: dict[str, str] = {}

    def start(self) -> None:
        say("Starting PostgreSQL and Valkey ...")
        self._start_servers()
        say("Preparing the database ...")
        self._manage("migrate", "--verbosity", "0", "--no-input")
        self._manage("collectstatic", "--verbosity", "0", "--no-input")
        logins = self._people()
        say(f"Starting the simulated cluster ({self._cluster_words()}) ...")
        kubeconfig, api = self._start_cluster()
        self._start_steering()
        self._manage("register_cluster", CLUSTER, "--kubeconfig", str(kubeconfig))
        say("Starting web, worker, beat and watcher ...")
        url = self._start_console()
        self._wait_for_picture()
        self.answer = {"url": url, **logins, "simulated_api": api, "kubeconfig": str(kubeconfig)}

    def stop(self) -> None:
        self.stopping = True
        for child in reversed(self.children):
            child.stop()
        for server in reversed(self.servers):
            server.stop()
        self.place.note.unlink(missing_ok=True)

    def watch_over(self) -> None:
        """Until a signal comes: start again what ended by itself; give up on what keeps ending."""
        while True:
            for child in self.children:
                if child.ended():
                    self._start_again(child)
            for server in self.servers:
                if server.process.poll() is not None:
                    raise StartFailed(f"{server.name} ended by itself; see {self.place.folder}.")
            time.sleep(0.5)

    def _start_again(self, child: Child) -> None:
        assert child.process is not None
        now = time.monotonic()
        child.restarts = [at for at in child.restarts if now - at < 120] + [now]
        if len(child.restarts) > RESTARTS_ALLOWED:
            raise StartFailed(f"{child.name} keeps ending. The end of {child.log}:\n{child.end_of_log()}")
        say(f"{child.name} ended with {child.process.returncode}; starting it again (log: {child.log}).")
        child.start()

    def _start_servers(self) -> None:
        urls = {}
        for name, start in (("DATABASE_URL", start_postgres), ("REDIS_URL", start_valkey)):
            if name in os.environ:
                urls[name] = os.environ[name]
                continue
            server = start(self.place.folder / ("postgres" if name == "DATABASE_URL" else "valkey"))
            self.servers.append(server)
            urls[name] = server.url
        settings = self.place.environment(database_url=urls["DATABASE_URL"], redis_url=urls["REDIS_URL"])
        steering_port = free_port()
        certificates = self.place.folder / "steering"
        settings |= {
            "STEERING_URL": f"https://127.0.0.1:{steering_port}",
            "STEERING_CA_FILE": str(certificates / "ca.crt"),
        }
        self.environment = {**os.environ, **settings}
        self.place.write_secret_json("running.json", {"environment": settings, "pid": os.getpid()})

    def _start_cluster(self) -> tuple[Path, str]:
        kubeconfig = self.place.folder / "demo.kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        port = self.options.cluster_port or free_port()
        what = ["--scene", self.options.scene]
        if self.options.nodes:
            what = [
                "--nodes",
                self.options.nodes,
                "--pods",
                self.options.pods,
                "--load",
                str(self.options.load),
            ]
        child = self._child(
            "simulated cluster",
            "simulate_cluster",
            *("--port", str(port), "--kubeconfig", str(kubeconfig)),
            *("--token", self.place.kept_secret("SIMULATED_TOKEN")),
            *("--time-scale", str(self.options.time_scale), *what),
        )
        child.start()
        self._wait(child, kubeconfig.exists)
        return kubeconfig, f"https://127.0.0.1:{port}"

    def _start_steering(self) -> None:
        folder = self.place.folder / "steering"
        self._manage("make_steering_certificate", "--folder", str(folder), "--host", "127.0.0.1")
        port = self.environment["STEERING_URL"].rpartition(":")[2]
        child = self._child(
            "steering webhook",
            "serve_steering",
            *("--port", port, "--cert", str(folder / "tls.crt"), "--key", str(folder / "tls.key")),
        )
        child.start()

    def _start_console(self) -> str:
        port = self.options.port or free_port()
        python = sys.executable
        web = self._add(
            "web",
            [python, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
            + ["--log-level", "warning", "--timeout-graceful-shutdown", "3", "--lifespan", "off"],
        )
        celery = [python, "-m", "celery", "-A", "console"]
        self._add("worker", [*celery, "worker", "--concurrency", "2", "--loglevel", "WARNING"])
        self._add("beat", [*celery, "beat", "--loglevel", "WARNING", "--pidfile", ""])
        self._child("watcher", "watch_cluster")
        for child in self.children[-4:]:
            child.start()
        url = f"http://127.0.0.1:{port}"
        self._wait(web, lambda: _answers(url + "/healthz"))
        return url + "/"

    def _wait_for_picture(self) -> None:
        watcher = self.children[-1]
        self._wait(watcher, lambda: _has_snapshot(self.environment["DATABASE_URL"]))

    def _people(self) -> dict[str, str]:
        """Two people with random passwords, the same at every start (kept beside the data)."""
        kept = self.place.read_secret_json("logins.json")
        for name, roles in PEOPLE.items():
            if name in kept:
                continue
            kept[name] = secrets.token_urlsafe(12)
            flags = [part for role in roles for part in ("--role", role)]
            self._manage("create_person", name, *flags, "--password-stdin", given=kept[name])
            self.place.write_secret_json("logins.json", kept)
        return {
            "username": "planner",
            "password": kept["planner"],
            "approver_username": "approver",
            "approver_password": kept["approver"],
        }

    def _cluster_words(self) -> str:
        return self.options.nodes or f"scene {self.options.scene}"

    def _child(self, name: str, *command: str) -> Child:
        return self._add(name, [sys.executable, "manage.py", *command])

    def _add(self, name: str, command: list[str]) -> Child:
        log = self.place.logs / f"{name.replace(' ', '-')}.log"
        child = Child(name, command, self.environment, log)
        self.children.append(child)
        return child

    def _manage(self, *command: str, given: str = "") -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=self.environment,
            input=given,
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise StartFailed(
                f"manage.py {command[0]} failed:\n{(done.stderr or done.stdout).strip()[-2000:]}"
            )

    def _wait(self, child: Child, is_ready) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            if child.ended():
                raise StartFailed(
                    f"{child.name} did not start. The end of {child.log}:\n{child.end_of_log()}"
                )
            if is_ready():
                return
            time.sleep(0.1)
        raise StartFailed(f"{child.name} was not ready within {SECONDS_TO_START} s; see {child.log}.")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _has_snapshot(database_url: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(database_url, connect_timeout=3) as connection:
            found = connection.execute(
                "SELECT EXISTS (SELECT 1 FROM clusters_snapshot s JOIN clusters_cluster c"
                " ON c.id = s.cluster_id WHERE c.name = %s AND c.watched_at > now() - interval '30 seconds')",
                [CLUSTER],
            ).fetchone()
            return bool(found and found[0])
    except psycopg.Error:
        return False


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev up", description="Run the whole product on embedded defaults."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line when all is ready")
    parser.add_argument("--port", type=int, default=0, help="port of the pages (default: a free one)")
    parser.add_argument("--cluster-port", type=int, default=0, help="port of the simulated API server")
    parser.add_argument("--data", default=os.environ.get("CONSOLE_DATA", str(DEFAULT_FOLDER)))
    parser.add_argument("--scene", default="fragmented", help="scene of the simulated cluster")
    parser.add_argument("--nodes", default="", help="node list CSV instead of a scene")
    parser.add_argument("--pods", default="", help="pod list CSV, with --nodes")
    parser.add_argument("--load", type=float, default=0.85, help="share of the GPUs to fill, with --nodes")
    parser.add_argument(
        "--time-scale", type=float, default=1.0, help="how much faster the simulated cluster lives"
    )
    options = parser.parse_args(arguments)
    if bool(options.nodes) != bool(options.pods):
        parser.error("--nodes and --pods go together")
    return options


@contextmanager
def stop_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM both end the program in order."""

    def end(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, end)
    yield
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)


def main(arguments: list[str]) -> int:
    options = read_options(arguments)
    console = Console(options)
    console.place.prepare()
    try:
        console.place.take()
    except PlaceIsTaken as error:
        print(error, file=sys.stderr)
        return 2
    try:
        with stop_signals():
            console.start()
            tell(console.answer, as_json=options.json)
            console.watch_over()
    except KeyboardInterrupt:
        say("Stopping ...")
        return 0
    except (StartFailed, EmbeddedServerFailed) as error:
        say(str(error))
        return 1
    finally:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        console.stop()
    return 0


def tell(answer: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer), flush=True)
        return
    print(
        f"\nGPU Defrag Console is ready: {answer['url']}\n"
        f"  plans, starts, administers:  {answer['username']} / {answer['password']}\n"
        f"  approves:                    {answer['approver_username']} / {answer['approver_password']}\n"
        f"  simulated Kubernetes API:    {answer['simulated_api']}  (KUBECONFIG={answer['kubeconfig']})\n"
        f"Ctrl-C ends everything; the data stay.",
        flush=True,
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
