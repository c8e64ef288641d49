"""What Prometheus reads while workers come and go."""

from __future__ import annotations

from prometheus_client import values

from hanlattice.server.metrics import Metrics


def test_a_file_that_a_worker_has_not_written_to_yet_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)  # which Metrics sets
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics(tmp_path)
    metrics.request("/v1/tag", 200, 0.1)
    for name in ("counter_1.db", "histogram_1.db", "gauge_livesum_1.db"):
        (tmp_path / name).touch()
    assert b'hanlattice_requests_total{path="/v1/tag",status="200"} 1.0' in metrics.page()[0]
