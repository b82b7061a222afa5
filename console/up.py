"""`./dev up`: the whole product on embedded defaults, as child processes of this one.

PostgreSQL, Valkey, a simulated cluster, the steering webhook, web, Celery worker, beat and watcher.
Every child dies with this process, however it dies. Progress goes to stderr; stdout carries the
address and the logins (one JSON line with --json).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from console.children import (
    RESTARTS_ALLOWED,
    RESTARTS_COUNTED_SECONDS,
    SECONDS_TO_START,
    Child,
    StartFailed,
)
from console.embedded import (
    EmbeddedServer,
    EmbeddedServerFailed,
    die_with_parent,
    free_port,
    start_postgres,
    start_valkey,
)
from console.place import DEFAULT_FOLDER, ROOT, Place, PlaceIsTaken, PlaceUnusable

SIMULATED, OWN = "demo", "own"
USUAL_PORT = 8000
USUAL_SCENE = "fragmented"
SERVERS = (("postgres", start_postgres), ("valkey", start_valkey))
NODES_READ_IN_A_SECOND = 4
"""At the least, on a slow and busy machine, until a cluster is up, read and stored."""
NODES_THAT_MAY_BE = 1000
"""In a cluster of one's own, which is not counted before."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PortIsTaken(Exception):
    """Somebody else listens where the pages were wanted."""


class Console:
    """Starts everything in order, keeps it running, and ends it in the opposite order."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.place = Place(Path(options.data))
        self.servers: list[EmbeddedServer] = []
        self.children: list[Child] = []
        self.server_restarts: list[float] = []
        self.environment: dict[str, str] = {}
        self.prometheus = ""  # of the simulated cluster
        self.connecting: subprocess.Popen[str] | None = None

    def start(self) -> dict[str, str]:
        """Everything up; the answer that is told to the person or program that asked."""
        web_port = _free_web_port(self.options.port)
        say("Starting PostgreSQL and Valkey ...")
        self._start_servers()
        logins, api, kubeconfig = self._start_cluster_and_prepare()
        self._start_steering()
        if api:
            self._start_watchdog(api, kubeconfig)
        if self.options.extender:
            self._start_extender()
        say("Starting web, worker, beat and watcher ...")
        url = self._start_console(web_port)
        self._finish_connecting()
        cluster = {"simulated_api": api, "kubeconfig": str(kubeconfig), "prometheus": self.prometheus}
        return {"url": url, **logins, **cluster}

    def watch_over(self) -> None:
        """Until a signal comes: start again what ended by itself; give up on what keeps ending."""
        while True:
            for child in self.children:
                if child.exit_status is not None:
                    say(f"{child.name} ended with {child.exit_status}; starting it again (log: {child.log}).")
                    child.start_again()
            for position, server in enumerate(self.servers):
                if server.process.poll() is not None:
                    self.servers[position] = self._start_again(server)
            time.sleep(0.5)

    def _start_again(self, server: EmbeddedServer) -> EmbeddedServer:
        """On its old port, where the children look for it; what it kept is on disk. Raises StartFailed, where
        it keeps ending."""
        now = time.monotonic()
        recent = [at for at in self.server_restarts if now - at < RESTARTS_COUNTED_SECONDS]
        self.server_restarts = [*recent, now]
        if len(self.server_restarts) > RESTARTS_ALLOWED:
            raise StartFailed(f"{server.name} keeps ending; see {self.place.folder / server.name}.")
        say(f"{server.name} ended by itself; starting it again.")
        start = dict(SERVERS)[server.name]
        return start(self.place.folder / server.name, port=server.port)

    def stop(self) -> None:
        for child in reversed(self.children):
            child.ask_to_end()
        for child in reversed(self.children):
            child.end()
        for server in reversed(self.servers):
            server.stop()
        self.place.note.unlink(missing_ok=True)

    def _start_servers(self) -> None:
        urls = {}
        for variable, (name, start) in zip(("DATABASE_URL", "REDIS_URL"), SERVERS, strict=True):
            if variable not in os.environ:
                self.servers.append(start(self.place.folder / name))
            urls[variable] = os.environ.get(variable) or self.servers[-1].url
        settings = self.place.environment(database_url=urls["DATABASE_URL"], redis_url=urls["REDIS_URL"])
        settings["STEERING_URL"] = f"https://127.0.0.1:{free_port()}"
        if self.options.extender:
            settings["EXTENDER_URL"] = f"http://127.0.0.1:{free_port()}"
        settings["SIMULATED_CLUSTER_TOKEN"] = self.place.kept_secret("SIMULATED_TOKEN")
        settings["STEERING_CA_FILE"] = str(self._certificates / "ca.crt")
        self.environment = {**os.environ, **settings}
        self.place.write_secret_json("running.json", {"environment": settings, "pid": os.getpid()})

    @property
    def _certificates(self) -> Path:
        return self.place.folder / "steering"

    def _start_cluster_and_prepare(self) -> tuple[dict[str, str], str, Path]:
        """Both take seconds, so the simulated cluster comes up while the tables are made."""
        if self.options.kubeconfig:
            kubeconfig = Path(self.options.kubeconfig)
            logins = self._prepare()
            self._run("manage.py", "register_cluster", OWN, "--kubeconfig", str(kubeconfig), "--replace")
            return logins, "", kubeconfig
        say(f"Starting the simulated cluster ({self.options.nodes or 'scene ' + self.options.scene}) ...")
        cluster, kubeconfig, api = self._start_cluster()
        logins = self._prepare()
        cluster.wait_until(kubeconfig.exists, seconds_to_start(self.options), say)
        # A simulated cluster is built anew at every start, so its identity is new as well.
        register = ("manage.py", "register_cluster", SIMULATED, "--kubeconfig", str(kubeconfig), "--rebuilt")
        # A large one is busy with its own pods just then.
        self._run(*register, KUBE_READ_SECONDS="60")
        self._connect_prometheus()
        return logins, api, kubeconfig

    def _connect_prometheus(self) -> None:
        """Beside what follows: nothing waits for it but the end of the start."""
        connect = ("manage.py", "connect_prometheus", SIMULATED, self.prometheus, "--no-check")
        self.connecting = subprocess.Popen(
            [sys.executable, *connect],
            cwd=ROOT,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )

    def _finish_connecting(self) -> None:
        if self.connecting is not None:
            told, _ = self.connecting.communicate()
            if self.connecting.returncode:
                raise StartFailed(f"The simulated Prometheus could not be connected:\n{told[-2000:]}")

    def _start_cluster(self) -> tuple[Child, Path, str]:
        kubeconfig = self.place.folder / "demo.kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        port, metrics_port = self.options.cluster_port or free_port(), free_port()
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
        if self.options.extender:
            what += ["--scheduler-config", str(self._write_scheduler_config())]
        child = self._start(
            "simulated-cluster",
            *("manage.py", "simulate_cluster", "--port", str(port), "--kubeconfig", str(kubeconfig)),
            *("--metrics-port", str(metrics_port), "--time-scale", str(self.options.time_scale), *what),
        )
        self.prometheus = f"http://127.0.0.1:{metrics_port}"
        return child, kubeconfig, f"https://127.0.0.1:{port}"

    def _prepare(self) -> dict[str, str]:
        """Tables, static files, certificate, and two people whose passwords stay the same ever after."""
        say("Preparing the database ...")
        added = json.loads(self._run("-m", "console.prepare", str(self._certificates)))
        kept = self.place.read_secret_json("logins.json") | added
        self.place.write_secret_json("logins.json", kept)
        return {
            "username": "planner",
            "password": kept["planner"],
            "approver_username": "approver",
            "approver_password": kept["approver"],
        }

    def _write_scheduler_config(self) -> Path:
        """What the page Placement shows, for a caller on this machine, who needs no secret in the address.
        Until the extender runs the scheduler goes on alone."""
        extender = {
            "urlPrefix": self.environment["EXTENDER_URL"],
            **{f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt")},
            "weight": 10,
            "nodeCacheCapable": True,
            "ignorable": True,
            "httpTimeout": "1s",
            "managedResources": [{"name": "nvidia.com/gpu"}],
        }
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        path = self.place.folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump({**kind, "extenders": [extender]}, sort_keys=False))
        return path

    def _start_extender(self) -> None:
        cluster = OWN if self.options.kubeconfig else SIMULATED
        listen = self.environment["EXTENDER_URL"].partition("//")[2]
        self._start("extender", "manage.py", "serve_extender", "--cluster", cluster, "--listen", listen)

    def _start_steering(self) -> None:
        folder = self._certificates
        self._start(
            "steering-webhook",
            *("manage.py", "serve_steering", "--port", self.environment["STEERING_URL"].rpartition(":")[2]),
            *("--cert", str(folder / "tls.crt"), "--key", str(folder / "tls.key")),
        )

    def _start_watchdog(self, api: str, kubeconfig: Path) -> None:
        """Beside the simulated cluster, as deploy/watchdog runs it in a real one."""
        folder = self.place.folder / "watchdog"
        folder.mkdir(mode=0o700, exist_ok=True)
        access = yaml.safe_load(kubeconfig.read_text())
        authority = access["clusters"][0]["cluster"]["certificate-authority-data"]
        (folder / "ca.crt").write_bytes(base64.b64decode(authority))
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(access["users"][0]["user"]["token"])
        command = ("-m", "apps.gate_watchdog", "--server", api, "--account", str(folder))
        self._start("gate-watchdog", *command)

    def _start_console(self, port: int) -> str:
        watcher = self._start("watcher", "manage.py", "watch_cluster")
        web = self._start(
            "web",
            *("-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(port)),
            *("--log-level", "warning", "--timeout-graceful-shutdown", "3", "--lifespan", "off"),
            # No proxy stands before it, so a caller who names another address as his own is not believed.
            "--no-proxy-headers",
        )
        celery = ("-m", "celery", "-A", "console")
        for name, queue in (("worker", "celery"), ("planner", "planning")):
            worker = ("worker", "--queues", queue, "--hostname", f"{name}@%h", "--concurrency", "2")
            self._start(name, *celery, *worker, "--loglevel", "WARNING")
        # Asked to end, the beat first saves its schedule, and waits long for a database that is gone.
        self._start(
            "beat",
            *(*celery, "beat", "--loglevel", "WARNING", "--pidfile", ""),
            orphaned_by=signal.SIGKILL,
        )
        url = f"http://127.0.0.1:{port}/"
        cluster = OWN if self.options.kubeconfig else SIMULATED
        seconds = seconds_to_start(self.options)
        web.wait_until(lambda: _answers(url + "healthz"), seconds, say)
        watcher.wait_until(lambda: _has_snapshot(self.environment["DATABASE_URL"], cluster), seconds, say)
        return url

    def _start(self, name: str, *arguments: str, orphaned_by: signal.Signals = signal.SIGTERM) -> Child:
        log = self.place.logs / f"{name}.log"
        child = Child(name, [sys.executable, *arguments], self.environment, log, orphaned_by)
        self.children.append(child)
        child.start()
        return child

    def _run(self, *arguments: str, **settings: str) -> str:
        """One command to its end; what it printed. settings: of its environment. Raises StartFailed."""
        environment = {**self.environment, **settings}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, text=True, capture_output=True
        )
        if done.returncode:
            told = (done.stderr or done.stdout).strip()[-2000:]
            raise StartFailed(f"{' '.join(arguments[:2])} failed:\n{told}")
        return done.stdout


def seconds_to_start(options: argparse.Namespace) -> float:
    """How long one part may take: the more nodes there are, the longer."""
    nodes = NODES_THAT_MAY_BE if options.kubeconfig else 0
    if options.nodes:
        with open(options.nodes, "rb") as rows:
            nodes = sum(1 for _ in rows)
    return SECONDS_TO_START + nodes / NODES_READ_IN_A_SECOND


def _free_web_port(wanted: int) -> int:
    """The wanted port, or the usual one, or any. Raises PortIsTaken if the wanted one is: whoever
    listens there would answer in our place."""
    if wanted and not _is_free(wanted):
        raise PortIsTaken(f"Port {wanted} is taken by another program. Choose another --port.")
    if wanted:
        return wanted
    return USUAL_PORT if _is_free(USUAL_PORT) else free_port()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _has_snapshot(database_url: str, cluster: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(database_url, connect_timeout=3) as connection:
            found = connection.execute(
                "SELECT EXISTS (SELECT 1 FROM clusters_snapshot s JOIN clusters_cluster c"
                " ON c.id = s.cluster_id WHERE c.name = %s AND c.watched_at > now() - interval '30 seconds')",
                [cluster],
            ).fetchone()
            return bool(found and found[0])
    except psycopg.Error:
        return False


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev up", usage="./dev up [options]", description="Run the whole product on embedded defaults."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line when all is ready")
    parser.add_argument(
        "--port", type=int, default=0, help=f"port of the pages ({USUAL_PORT}, or a free one if it is taken)"
    )
    parser.add_argument("--cluster-port", type=int, default=0, help="port of the simulated API server")
    parser.add_argument("--data", default=os.environ.get("CONSOLE_DATA", str(DEFAULT_FOLDER)))
    parser.add_argument("--kubeconfig", default="", help="watch this cluster instead of a simulated one")
    parser.add_argument("--scene", default=USUAL_SCENE, help="scene of the simulated cluster")
    parser.add_argument("--nodes", default="", help="node list CSV instead of a scene")
    parser.add_argument("--pods", default="", help="pod list CSV, with --nodes")
    parser.add_argument("--load", type=float, default=0.85, help="share of the GPUs to fill, with --nodes")
    parser.add_argument(
        "--extender",
        action="store_true",
        help="serve the scheduler extender; the simulated scheduler asks it",
    )
    parser.add_argument("--time-scale", type=float, default=1.0, help="how much faster the cluster lives")
    options = parser.parse_args(arguments)
    for name in ("kubeconfig", "nodes", "pods"):
        if given := getattr(options, name):
            # The children run in the console's own folder, not in the caller's.
            setattr(options, name, str(Path(given).resolve()))
            if not Path(given).is_file():
                parser.error(f"--{name} {given}: there is no such file")
    if bool(options.nodes) != bool(options.pods):
        parser.error("--nodes and --pods go together")
    if options.scene != USUAL_SCENE and (why := _why_no_scene(options.scene)):
        parser.error(why)
    for name in ("port", "cluster_port"):
        if not 0 <= getattr(options, name) <= 65535:
            parser.error(f"--{name.replace('_', '-')} must be a number from 0 to 65535")
    return options


def _why_no_scene(name: str) -> str:
    """Asked of the simulated cluster, which is a program of its own; "" for a scene that it has."""
    ask = [sys.executable, "-m", "console.manage_here", "simulate_cluster", "--list-scenes"]
    done = subprocess.run(ask, cwd=ROOT, text=True, capture_output=True)
    known = [line.partition(":")[0] for line in done.stdout.splitlines()]
    if done.returncode or name in known:
        return ""  # one that cannot tell fails with its own words later
    return f"--scene {name}: there is no such scene; choose one of {', '.join(known)}"


def main(arguments: list[str]) -> int:
    options = read_options(arguments)
    console = Console(options)
    try:
        console.place.prepare()
        console.place.take()
    except (PlaceIsTaken, PlaceUnusable) as error:
        say(str(error))
        return 2
    for name in SIGNALS:
        signal.signal(name, _end_in_order)
    try:
        tell(console.start(), as_json=options.json)
        console.watch_over()
    except KeyboardInterrupt:
        say("Stopping ...")
        return 0
    except PortIsTaken as error:
        say(str(error))
        return 2
    except (StartFailed, EmbeddedServerFailed) as error:
        say(str(error))
        return 1
    finally:
        for name in SIGNALS:
            signal.signal(name, signal.SIG_IGN)
        console.stop()
    return 0


def _end_in_order(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def tell(answer: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer), flush=True)
        return
    cluster = answer["simulated_api"] or "the cluster of your kubeconfig"
    print(
        f"\nGPU Defrag Console is ready: {answer['url']}\n"
        f"  plans, starts, administers:  {answer['username']} / {answer['password']}\n"
        f"  approves:                    {answer['approver_username']} / {answer['approver_password']}\n"
        f"  Kubernetes API:              {cluster}  (KUBECONFIG={answer['kubeconfig']})\n"
        f"Ctrl-C ends everything; the data stay.",
        flush=True,
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
