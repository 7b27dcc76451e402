"""What Prometheus reads at /metrics, of a real engine on random weights."""

import asyncio
import gzip
import http.client
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from starlette.types import Message, Receive, Scope, Send

from engine.http.listener import HttpServer
from engine.http.metrics.answers import Answers
from engine.http.metrics.definitions import Moment
from engine.http.metrics.exposition import exposition
from engine.http.metrics.own import OWN
from engine.http.metrics.vllm import VLLM
from engine.http.settings import HttpConfig
from kvtop.protocol import SetPolicy
from tests.engine.http.kit import Serving
from tests.engine.serving.recount import Asked

VLLM_HAS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "vllm_metrics.json").read_text())
"""By name as vLLM 0.32 writes them: kind, labels, and upper bounds of buckets."""

WANTED = {
    "kv_capacity_bytes", "kv_bytes_used", "kv_blocks_total", "kv_blocks_free", "live_cached_tokens", "active_sequences",
    "waiting_sequences", "admissions_total", "preemptions_total", "evictions_total", "prefix_cache_hits_total",
    "prefix_cache_queries_total", "host_offload_bytes_total", "host_promotions_total", "disk_promotions_total",
    "batch_size_by_iteration", "time_to_first_token_seconds", "time_per_output_token_seconds", "request_queue_seconds",
    "request_prefill_seconds", "request_decode_seconds", "request_end_to_end_seconds", "policy_info", "model_info",
    "engine_info", "http_responses_total", "http_aborts_total",
}  # fmt: skip


class Scrape:
    """One answer, read as Prometheus reads it."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Family] = {family.name: family for family in read_text(text)}
        self.samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def get(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, frozenset(labels.items())))

    def sum(self, name: str) -> float:
        """Over all labels."""
        return sum(value for (each, _), value in self.samples.items() if each == name)

    def counters(self) -> dict[Any, float]:
        kinds = {name: family.type for name, family in self.families.items()}
        return {
            key: value
            for key, value in self.samples.items()
            if kinds.get(key[0].removesuffix("_total")) == "counter" or key[0].endswith(("_bucket", "_count", "_sum"))
        }


def scrape(serving: Serving, **headers: str) -> Scrape:
    status, body, told = serving.ask_raw("/metrics", method="GET", headers=headers)
    assert status == 200, body
    assert told["content-type"].startswith("text/plain; version=")
    return Scrape(body.decode())


def complete(serving: Serving, prompt: str | list[int], tokens: int, **more: Any) -> Any:
    body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, **more}
    status, told, _ = serving.ask("/v1/completions", body)
    assert status == 200, told
    return told


def test_all_that_was_promised_is_there(serving: Serving) -> None:
    scrape(serving)
    families = scrape(serving).families
    found = {f"{name}_total" if family.type == "counter" else name for name, family in families.items()}
    absent = {metric.name for metric in OWN if metric.name not in found}
    assert {name for name in absent if not name.startswith("kvtop_tier_")} == set(), (
        "without tiers nothing is known of any"
    )
    assert {f"kvtop_{name}" for name in WANTED} <= found
    for metric in OWN:
        if metric.name in found:
            family = families[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
            assert (family.type, family.documentation) == (metric.kind, metric.help)


def test_every_name_is_as_prometheus_wants_it() -> None:
    for metric in OWN:
        assert metric.name.startswith("kvtop_")
        assert metric.name.endswith("_total") == (metric.kind == "counter") or metric.name == "kvtop_kv_blocks_total"
        assert not any(unit in metric.name for unit in ("_ms", "_millis", "_kb", "_mb"))
        assert metric.help.strip() == metric.help != ""
    assert len({metric.name for metric in OWN}) == len(OWN)


def test_numbers_are_those_of_a_run_that_is_known(own: Serving) -> None:
    prompt = list(range(40))
    for _ in range(3):
        complete(own, prompt, 8)
    complete(own, list(range(100, 110)), 5, n=2)
    assert own.ask("/v1/completions", {"prompt": 1.5})[0] == 400
    own.until(lambda: own.idle)
    own.until(lambda: scrape(own).get("kvtop_active_sequences") == 0)
    now = scrape(own)
    assert now.sum("kvtop_admissions_total") == 4  # of a prompt with two samples the second forks off
    assert now.sum("kvtop_preemptions_total") == now.sum("kvtop_evictions_total") == 0
    assert now.get("kvtop_requests_finished_total", reason="length") == 5
    assert now.get("kvtop_requests_finished_total", reason="error") == 0
    assert now.get("kvtop_prompt_tokens_total") == now.get("kvtop_prefix_cache_queries_total") == 3 * 40 + 10
    assert now.get("kvtop_prefix_cache_hits_total") == 2 * 32  # whole blocks of 16
    assert now.get("kvtop_prefill_tokens_total") == 40 + 2 * 8 + 10
    assert now.get("kvtop_decode_tokens_total") == 3 * 8 + 2 * 5
    for name in ("time_to_first_token", "request_queue", "request_prefill", "request_decode", "request_end_to_end"):
        assert now.get(f"kvtop_{name}_seconds_count", capacity="max_utilization", order="fcfs") == 5
    between = now.get("kvtop_time_between_tokens_seconds_count", capacity="max_utilization", order="fcfs")
    assert between == 3 * 7 + 2 * 4
    assert now.get("kvtop_request_output_tokens_sum") == 3 * 8 + 2 * 5
    assert now.get("kvtop_batch_size_by_iteration_count") == now.get("kvtop_iterations_total")
    # In an iteration each that draws has one token; the prompts took one each.
    assert now.get("kvtop_batch_size_by_iteration_sum") == 3 * 8 + 1 + 2 * 4
    geometry = own.server.publisher.hello.geometry
    assert now.get("kvtop_kv_capacity_bytes") == 256 * 16 * (geometry.bytes_per_token or 0)
    assert now.get("kvtop_kv_bytes_used") == 0
    assert now.get("kvtop_http_responses_total", route="/v1/completions", method="POST", status="200") == 4
    assert now.get("kvtop_http_responses_total", route="/v1/completions", method="POST", status="400") == 1


def test_no_scrape_sees_two_iterations_at_once(own: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is slow wherever a reading is made; requests come and go, and policies change meanwhile."""
    meter = own.server.meter
    assert meter is not None
    for place in ("totals", "levels"):
        told = getattr(own.server.telemetry, place)

        def late(told: Any = told) -> Any:
            found = told()
            time.sleep(0.001)
            return found

        monkeypatch.setattr(own.server.telemetry, place, late)
    threads = [
        threading.Thread(target=complete, args=(own, list(range(start, start + 30)), 30), kwargs={"n": 2})
        for start in range(0, 200, 10)
    ]
    for thread in threads:
        thread.start()
    before: dict[Any, float] = {}
    scrapes = 0
    bytes_per_block = 16 * (own.server.publisher.hello.geometry.bytes_per_token or 0)
    while any(thread.is_alive() for thread in threads) or scrapes < 5:
        now = scrape(own)
        scrapes += 1
        parts = ("free", "cached", "active", "shared", "pinned", "transfer")
        assert sum(now.get(f"kvtop_kv_blocks_{part}") or 0 for part in parts) == 256
        held = (now.get("kvtop_kv_blocks_active") or 0) + (now.get("kvtop_kv_blocks_shared") or 0)
        assert now.get("kvtop_kv_bytes_used") == held * bytes_per_block
        batches = now.get("kvtop_iteration_tokens_sum")
        assert batches == (now.get("kvtop_prefill_tokens_total") or 0) + (now.get("kvtop_decode_tokens_total") or 0)
        ended = now.get("kvtop_requests_finished_total", reason="length")
        assert (
            now.sum("kvtop_request_end_to_end_seconds_count") == ended == now.get("kvtop_request_output_tokens_count")
        )
        counters = now.counters()
        assert [key for key, value in before.items() if counters.get(key, -1) < value] == []
        before = counters
    for thread in threads:
        thread.join()
    assert own.faults == []


def test_what_a_policy_decides_is_told_apart_by_its_value(own: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(own, list(range(20)), 2)
    asked = Asked(SetPolicy(id="s", changes={"order": "shortest_prompt", "watermark": 0.25}))
    pending = [asked]
    monkeypatch.setattr(own.server.publisher, "commands", lambda: [pending.pop()] if pending else [])
    own.until(lambda: asked.ok)
    for start in (100, 200):
        complete(own, list(range(start, start + 20)), 2)
    own.until(lambda: scrape(own).sum("kvtop_requests_finished_total") == 3)
    now = scrape(own)
    assert now.get("kvtop_policy_info", axis="order", value="shortest_prompt") == 1
    assert now.get("kvtop_policy_info", axis="order", value="fcfs") is None
    assert now.get("kvtop_policy_info", axis="watermark", value="0.25") == 1
    for order, count in (("fcfs", 1), ("shortest_prompt", 2)):
        assert now.get("kvtop_admissions_total", order=order) == count
        labels = {"capacity": "max_utilization", "order": order}
        assert now.get("kvtop_request_queue_seconds_count", **labels) == count


def test_vllms_names_have_its_labels_and_buckets(tmp_path: Path) -> None:
    own = Serving(tmp_path, metrics_names="vllm")
    try:
        complete(own, list(range(40)), 8)
        own.until(lambda: scrape(own).get("vllm:num_requests_running", engine="0", model_name="random") == 0)
        now = scrape(own)
    finally:
        own.close()
    found = {f"{n}_total" if f.type == "counter" else n: f for n, f in now.families.items() if ":" in n or "http_" in n}
    assert set(found) == set(VLLM_HAS) == {metric.name for metric in VLLM}
    for name, family in found.items():
        told = VLLM_HAS[name]
        assert family.type == told["type"], name
        assert {label for sample in family.samples for label in sample.labels} - {"le"} == set(told["labels"]), name
        bounds = [float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels]
        # Some go up to the longest request that there can be.
        assert [bound for bound in bounds if bound <= max(told.get("le", [0]))] == told.get("le", []), name
    engine = {"engine": "0", "model_name": "random"}
    assert now.get("vllm:prompt_tokens_total", **engine) == 40
    assert now.get("vllm:generation_tokens_total", **engine) == 8
    assert now.get("vllm:request_success_total", finished_reason="length", **engine) == 1
    assert now.get("vllm:time_to_first_token_seconds_count", **engine) == 1
    assert now.get("vllm:inter_token_latency_seconds_count", **engine) == 7
    assert now.get("vllm:kv_cache_usage_perc", **engine) == 0
    assert now.get("http_requests_total", handler="/v1/completions", method="POST", status="2xx") == 1


PROMETHEUS_ACCEPTS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
)
"""As its versions 2 and 3 ask."""


@pytest.mark.parametrize("accept", ["", "text/plain", *PROMETHEUS_ACCEPTS])
@pytest.mark.parametrize("metrics", [OWN, VLLM], ids=["kvtop", "vllm"])
def test_names_are_as_listed_whoever_asks(serving: Serving, accept: str, metrics: Any) -> None:
    assert serving.server.meter is not None
    reading = serving.server.meter.reading
    body, _ = exposition(
        metrics, Moment("serving", ("m",), reading, {("/a", "GET", 200): 1}, {"/a": 1}, 0, 0, 1), accept
    )
    found = set(re.findall(rb"^(?:vllm|kvtop|http_req)[\w:]*", body, re.MULTILINE))
    told = {metric.series.encode() for metric in metrics if not metric.name.startswith("kvtop_tier_")}
    assert told <= found
    assert {name for name in found if not name.endswith((b"_bucket", b"_count", b"_sum"))} <= told


def test_it_is_packed_and_spoken_as_the_client_likes(serving: Serving) -> None:
    plain = serving.ask_raw("/metrics", method="GET")[1]
    status, packed, told = serving.ask_raw("/metrics", method="GET", headers={"Accept-Encoding": "gzip"})
    assert (status, told["content-encoding"]) == (200, "gzip")
    assert Scrape(gzip.decompress(packed).decode()).families.keys() == Scrape(plain.decode()).families.keys()
    refused = serving.ask_raw("/metrics", method="GET", headers={"Accept-Encoding": "gzip;q=0, identity"})[2]
    assert "content-encoding" not in refused
    status, nothing, told = serving.ask_raw("/metrics", method="HEAD")
    assert (status, nothing) == (200, b"")
    assert int(told["content-length"]) > 1000
    open_metrics = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    _, text, told = serving.ask_raw("/metrics", method="GET", headers={"Accept": open_metrics})
    assert told["content-type"].startswith("application/openmetrics-text")
    assert {family.name for family in read_openmetrics(text.decode())} >= {"kvtop_admissions", "kvtop_kv_blocks_total"}
    assert serving.ask_raw("/metrics", b"{}")[0] == 405


def test_places_that_are_made_up_make_no_series(serving: Serving) -> None:
    before = len(scrape(serving).families["kvtop_http_responses"].samples)
    for number in range(20):
        serving.ask_raw(f"/nowhere/{number}", method="GET")
        serving.ask_raw("/health", method=f"M{number}")
        serving.ask_raw(f"/v1/models/{number}", method="GET")
    families = scrape(serving).families["kvtop_http_responses"].samples
    assert len(families) <= before + 4
    assert {sample.labels["route"] for sample in families} >= {"other", "/v1/models/{name}"}


def test_a_client_that_goes_away_is_counted(own: Serving) -> None:
    body = {"prompt": list(range(30)), "max_tokens": 3000, "ignore_eos": True, "stream": True}
    raw = own.open("/v1/completions", body)
    raw.recv(100)
    raw.close()
    own.until(lambda: scrape(own).get("kvtop_http_aborts_total", route="/v1/completions") == 1)
    own.until(lambda: scrape(own).get("kvtop_requests_finished_total", reason="abort") == 1)
    own.until(lambda: scrape(own).get("kvtop_http_requests_active") == 0)
    complete(own, [1, 2, 3], 2)
    assert scrape(own).get("kvtop_http_aborts_total", route="/v1/completions") == 1
    assert scrape(own).sum("kvtop_request_end_to_end_seconds_count") == 1  # how long an abort took says nothing


def test_tasks_of_the_server_come_and_go_with_its_clients(own: Serving) -> None:
    """Those that go in the middle of an answer, of a body and of a header leave none."""
    scrape(own)
    own.until(lambda: scrape(own).get("kvtop_http_connections") == 1)
    before = scrape(own).get("kvtop_http_tasks")
    assert before is not None
    body = {"prompt": list(range(30)), "max_tokens": 3000, "ignore_eos": True, "stream": True}
    raws = [own.open("/v1/completions", body) for _ in range(3)]
    for raw in raws:
        assert raw.recv(100)
    half = [socket.create_connection(("127.0.0.1", own.port), 30) for _ in range(2)]
    half[0].sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{")
    half[1].sendall(b"POST /v1/comp")
    own.until(lambda: scrape(own).get("kvtop_http_connections") == 6)
    own.until(lambda: (scrape(own).get("kvtop_http_tasks") or 0) >= before + 4)
    for raw in (*raws, *half):
        raw.close()
    own.until(lambda: scrape(own).get("kvtop_http_tasks") == before)


def test_pages_are_written_by_one_thread(serving: Serving) -> None:
    """However many ask: those of a pool would come one by one, and look like a leak for hours."""
    threads = [threading.Thread(target=scrape, args=(serving,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    named = [thread.name for thread in threading.enumerate()]
    assert sum(name.startswith("http-metrics") for name in named) == 1
    assert not any(name.startswith("asyncio_") for name in named)


def test_who_may_not_ask_for_tokens_may_not_ask_for_metrics(tmp_path: Path) -> None:
    own = Serving(tmp_path, token="geheim")
    try:
        assert own.ask_raw("/metrics", method="GET")[0] == 401
        now = scrape(own, Authorization="Bearer geheim")
        assert now.get("kvtop_http_responses_total", route="/metrics", method="GET", status="401") == 1
    finally:
        own.close()


def test_what_the_engine_does_is_told_while_it_takes_no_requests(own: Serving) -> None:
    own.http.gate.draining = True
    assert own.ask("/v1/models", method="GET")[0] == 503
    now = scrape(own)
    assert (now.get("kvtop_engine_state", state="draining"), now.get("kvtop_engine_state", state="serving")) == (1, 0)
    assert now.get("kvtop_kv_blocks_total") == 256


def test_preemptions_are_counted_under_what_chose_and_what_was_done(tmp_path: Path) -> None:
    """Eight requests that need 24 blocks each, where there are 64."""
    own = Serving(tmp_path, blocks=64, victim="lowest_priority", max_running=8)
    try:
        threads = [
            threading.Thread(target=complete, args=(own, list(range(start, start + 64)), 320))
            for start in range(0, 80, 10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        own.until(lambda: scrape(own).get("kvtop_active_sequences") == 0)
        now, totals = scrape(own), own.engine.scheduler.totals
        preemptions = now.get("kvtop_preemptions_total", victim="lowest_priority", preempt_action="recompute")
        assert preemptions == totals.preemptions > 0
        assert now.get("kvtop_request_preemptions_sum") == preemptions
        assert now.sum("kvtop_admissions_total") == 8 + preemptions
        assert now.get("kvtop_recomputed_tokens_total") == totals.recomputed_tokens > 0
        assert now.get("kvtop_evictions_total", eviction="lru") == own.engine.scheduler.pool.evictions > 0
        assert now.sum("kvtop_request_end_to_end_seconds_count") == 8
    finally:
        own.close()


@pytest.fixture
def alone() -> Iterator[HttpServer]:
    """A server without an engine yet."""
    server = HttpServer(HttpConfig("127.0.0.1", 0), lambda _: None)
    server.start()
    yield server
    server.stop()


def test_before_there_is_an_engine_nothing_is_said_of_it(alone: HttpServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", alone.port, timeout=30)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    now = Scrape(answer.read().decode())
    connection.close()
    assert answer.status == 200
    assert now.get("kvtop_engine_state", state="starting") == 1
    assert {name for name in now.families if name.startswith("kvtop_")} <= {
        "kvtop_engine_state", "kvtop_http_responses", "kvtop_http_aborts", "kvtop_http_requests_active", "kvtop_http_connections",
        "kvtop_http_tasks",
    }  # fmt: skip


@pytest.mark.parametrize("metrics", [OWN, VLLM], ids=["kvtop", "vllm"])
@pytest.mark.parametrize("accept", ["", "application/openmetrics-text;version=1.0.0"])
@pytest.mark.parametrize("name", ['a "model"\nof \\mine}', "modèle 模型", "b\udcffd", '{x="y"} 1\n# EOF\nevil_total 5'])
def test_no_name_of_a_model_breaks_the_text(serving: Serving, metrics: Any, accept: str, name: str) -> None:
    assert serving.server.meter is not None
    reading = serving.server.meter.reading
    hello = reading.hello.model_copy(update={"model": reading.hello.model.model_copy(update={"name": name})})
    moment = Moment("serving", (name,), reading._replace(hello=hello), {}, {}, 0, 0, 1)
    text = exposition(metrics, moment, accept)[0].decode()
    families = list((read_openmetrics if text.endswith("# EOF\n") else read_text)(text))
    told = {
        value for f in families for s in f.samples for key, value in s.labels.items() if key in ("model", "model_name")
    }
    assert told == {name.encode("utf-8", "replace").decode()}
    assert not any(family.name.startswith("evil") for family in families)


@pytest.mark.parametrize(("whole", "aborts"), [(True, 0), (False, 1)])
def test_who_leaves_after_the_answer_has_aborted_nothing(whole: bool, aborts: int) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": not whole})
        assert (await receive())["type"] == (await receive())["type"] == "http.disconnect"

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None: ...

    responses: Counter[tuple[str, str, int]] = Counter()
    counted: Counter[str] = Counter()
    around = Answers(app, ["/a"], responses, counted)
    asyncio.run(around({"type": "http", "path": "/a", "method": "GET"}, receive, send))  # type: ignore[arg-type]
    assert counted["/a"] == aborts
    assert responses == {("/a", "GET", 200): 1}
