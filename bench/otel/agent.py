#!/usr/bin/env python3
"""An agent that traces itself: each of its steps asks the gateway, with its own traceparent.

Usage: agent.py --base http://127.0.0.1:4000 --role planner --collector http://127.0.0.1:16006 --project NAME
                [--calls 12]

Prints the id of its trace. Needs the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, which
Phoenix brings.
"""
import argparse
import json
import sys
import urllib.request

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def ask(base, role, text):
    """One question; who answered, and the trace that the gateway says it belongs to."""
    headers = {"content-type": "application/json"}
    inject(headers)
    body = json.dumps({"model": role, "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(f"{base}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        json.load(answer)
        return answer.headers["x-evenkeel-route"], answer.headers["traceparent"]


def main():
    ap = argparse.ArgumentParser()
    for name in ("base", "role", "collector", "project"):
        ap.add_argument(f"--{name}", required=True)
    ap.add_argument("--calls", type=int, default=12)
    a = ap.parse_args()
    resource = Resource.create({"service.name": "agent", "openinference.project.name": a.project})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{a.collector}/v1/traces")))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("agent.run") as run:
        own = trace.format_trace_id(run.get_span_context().trace_id)
        routes = []
        for n in range(a.calls):
            with tracer.start_as_current_span("agent.step"):
                route, parent = ask(a.base, a.role, f"step {n}")
                routes.append(route)
                if parent.split("-")[1] != own:
                    print(f"FAIL the gateway answers in another trace: {parent}", file=sys.stderr)
                    return 1
    provider.shutdown()
    print(own)
    print(f"routes: {' '.join(routes)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
