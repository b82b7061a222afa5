"""A door to PostgreSQL that loses the answer to one COMMIT: it went through, and nobody hears of it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class CuttingDoor:
    """Listens on `address` and passes everything on. Once armed, the next COMMIT after an INSERT of a step's
    event is passed on, its answer is swallowed, and the connection ends. `cuts`: how often that was."""

    def __init__(self, address: str) -> None:
        target = urlsplit(address)
        self._target = (target.hostname or "127.0.0.1", target.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.address = address.replace(f"{target.hostname}:{target.port}", f"127.0.0.1:{port}")
        self.armed, self.cuts = 0, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                cut = threading.Event()
                for pair in ((client, server, cut, True), (server, client, cut, False)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(
        self, source: socket.socket, target: socket.socket, cut: threading.Event, from_client: bool
    ) -> None:
        wrote = False
        with suppress(OSError):
            while data := source.recv(65536):
                wrote = wrote or b'INSERT INTO "executions_stepevent"' in data
                is_last = from_client and wrote and self.armed and b"COMMIT" in data
                if is_last:
                    self.armed -= 1
                    self.cuts += 1
                    cut.set()
                if not from_client and cut.is_set():
                    break
                target.sendall(data)
                wrote = wrote and b"COMMIT" not in data
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
