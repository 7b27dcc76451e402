"""What is asked about the engine itself: how it is, what it serves, which version it is."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.http.admission import check_model
from engine.http.gate import Gate, Served
from kvtop import __version__


class Facts:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def health(self, _request: Request) -> Response:
        """200 while it serves, 503 before, after, and while it stands still; which of these, in JSON."""
        status, why = self._gate.status()
        told = {"status": status} | ({} if why is None else {"detail": why})
        if status == "serving":
            return JSONResponse(told)
        return JSONResponse(told, 503, {"Retry-After": "2"})

    async def version(self, _request: Request) -> Response:
        return JSONResponse({"version": __version__})

    async def models(self, _request: Request) -> Response:
        served = self._gate.enter()
        return JSONResponse({"object": "list", "data": [_model(served, name) for name in served.names]})

    async def model(self, request: Request) -> Response:
        served, name = self._gate.enter(), request.path_params["name"]
        if not name:  # of a client that ends all its paths with a slash
            return await self.models(request)
        check_model(name, served)
        return JSONResponse(_model(served, name))


def _model(served: Served, name: str) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": served.since,
        "owned_by": "kvtop",
        "root": served.names[-1],
        "max_model_len": served.context,
    }
