"""Reads docker-compose.yml with compose itself, and starts its services as plain processes.

There is no container engine here, so what differs in a container is put in place: addresses of the other
services, ports, and the folders of the volumes. Commands and environment are the file's own.
"""

import importlib.util
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from console.embedded import die_with_parent

ROOT = Path(__file__).parents[2]
SECONDS_TO_READY = 90


def read_composition(folder: Path, profile: str = "", **given: str) -> dict:
    """What compose makes of the file, with `.env` as .env.example says and `given` filled in."""
    lines = [line for line in (ROOT / ".env.example").read_text().splitlines() if "=" in line]
    example = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    unknown = set(given) - set(example)
    assert not unknown, f".env.example does not name {unknown}"
    file = folder / ".env"
    file.write_text("".join(f"{name}={value}\n" for name, value in {**example, **given}.items()))
    program = Path(importlib.util.find_spec("compose").submodule_search_locations[0]) / "docker-compose"
    done = subprocess.run(
        [
            *(str(program), "--file", str(ROOT / "docker-compose.yml"), "--env-file", str(file)),
            *(["--profile", profile] if profile else []),
            *("config", "--format", "json"),
        ],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def environment_of_the_image() -> dict[str, str]:
    """The ENV lines of the last stage of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2].replace("\\\n", " ")
    return dict(
        pair.split("=", 1)
        for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE)
        for pair in line.split()
        if not pair.startswith("PATH=")
    )


@dataclass
class Services:
    """replaced: what stands in the file -> what stands for it on this machine."""

    composition: dict
    folder: Path
    replaced: dict[str, str]
    running: list[subprocess.Popen] = field(default_factory=list)

    def start(self, name: str) -> subprocess.Popen:
        log = (self.folder / f"{name}.log").open("wb")
        process = subprocess.Popen(
            self._command(self.composition["services"][name]["command"]),
            env=self._environment(name),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self.running.append(process)
        return process

    def run(self, name: str, *command: str) -> str:
        """A service that ends by itself, or another command in its environment; what it printed."""
        done = subprocess.run(
            self._command(list(command) or self.composition["services"][name]["command"]),
            env=self._environment(name),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return done.stdout

    def is_healthy(self, name: str) -> bool:
        kind, *command = self.composition["services"][name]["healthcheck"]["test"]
        assert kind == "CMD"
        asked = self._command(command)
        return not subprocess.run(
            asked, env=self._environment(name), cwd=ROOT, capture_output=True
        ).returncode

    def wait_until_healthy(self, name: str) -> None:
        deadline = time.monotonic() + SECONDS_TO_READY
        while not self.is_healthy(name):
            assert time.monotonic() < deadline, f"{name} does not get healthy:\n{self.log_of(name)}"
            time.sleep(0.3)

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait(30)

    def _environment(self, name: str) -> dict[str, str]:
        own = self.composition["services"][name].get("environment", {})
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        environment = {**environment_of_the_image(), **own, "PATH": path, "HOME": str(self.folder)}
        return {name: self._here(value or "") for name, value in environment.items()}

    def _command(self, command: list[str]) -> list[str]:
        return [self._here(word) for word in command]

    def _here(self, text: str) -> str:
        for there, here in self.replaced.items():
            text = text.replace(there, here)
        return text.replace("$$", "$")
