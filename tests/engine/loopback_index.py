"""A package index on the loopback interface that serves one small wheel, and misbehaves as told."""

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PACKAGE = "llm_tiny"
VERSION = "0.1.2"
WHEEL = f"{PACKAGE}-{VERSION}-py3-none-any.whl"


def wheel(member: str, content: bytes) -> bytes:
    """A wheel that holds one file beside its metadata."""
    info = f"{PACKAGE}-{VERSION}.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


class Index:
    """Serves ``data`` as the one wheel. The first ``breaks`` downloads stop half-way; ``hang`` sends half and waits."""

    def __init__(self, data: bytes, *, breaks: int = 0, hang: bool = False) -> None:
        self.data, self.breaks, self.hang = data, breaks, hang
        self.downloads = 0
        self._released = threading.Event()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".whl"):
                    index.send_wheel(self)
                else:
                    index.send_page(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/simple/"

    def __enter__(self) -> "Index":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def send_page(self, handler: BaseHTTPRequestHandler) -> None:
        digest = hashlib.sha256(self.data).hexdigest()
        body = f'<!DOCTYPE html><html><body><a href="/{WHEEL}#sha256={digest}">{WHEEL}</a></body></html>'.encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def send_wheel(self, handler: BaseHTTPRequestHandler) -> None:
        self.downloads += 1
        whole = self.downloads > self.breaks and not self.hang
        start = 0
        wanted = handler.headers.get("Range", "")
        if wanted.startswith("bytes=") and wanted[6:-1].isdigit():
            start = int(wanted[6:-1])
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        handler.send_header("Content-Type", "application/octet-stream")
        handler.send_header("Content-Length", str(len(self.data) - start))
        handler.end_headers()
        handler.wfile.write(self.data[start:] if whole else self.data[start : len(self.data) // 2])
        handler.wfile.flush()
        if self.hang:
            self._released.wait(60)
        handler.close_connection = True
