"""``GET /metrics``: the engine's numbers as Prometheus reads them, under this engine's names or vLLM's.

`definitions` says what a metric is, `own` and `vllm` list them, `exposition` writes them, `page` is the route. The page of
the documentation and the Grafana dashboard are made of the same lists (`document`).
"""
