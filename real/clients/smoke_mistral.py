#!/usr/bin/env python3
"""mistralai (Python) against a base_url that speaks Mistral's chat format: chat, stream, tools, json_schema, errors."""
import json

import smoke
from mistralai.client import Mistral, errors
from smoke import check

a = smoke.args(__doc__)
c = Mistral(api_key=a.key, server_url=a.base.removesuffix("/v1"), timeout_ms=60_000)
U = [{"role": "user", "content": "Say hello in one short sentence."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": smoke.TOOL_PARAMS}}]
T = [{"role": "user", "content": "What is the weather in Oslo? Use the tool."}]


def parts(**asked):
    """The deltas of a stream, its finish reason and its usage."""
    deltas, fin, usage = [], None, None
    for ev in c.chat.stream(**asked):
        usage = ev.data.usage or usage
        for ch in ev.data.choices:
            deltas.append(ch.delta)
            fin = ch.finish_reason or fin
    return deltas, fin, usage


def chat():
    r = c.chat.complete(model=a.model, messages=U, max_tokens=16)
    assert r.choices[0].message.content and r.usage.completion_tokens > 0
    return f"{r.usage.total_tokens} tokens, model={r.model}"


def stream():
    deltas, fin, usage = parts(model=a.model, messages=U, max_tokens=16)
    n = sum(bool(d.content) for d in deltas)
    assert n > 1 and fin in ("stop", "length") and usage.completion_tokens > 0, (n, fin, usage)
    return f"{n} deltas, finish={fin}"


def tools():
    r = c.chat.complete(model=a.model, messages=T, tools=TOOLS, tool_choice="any", max_tokens=80)
    call = r.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and "city" in json.loads(call.function.arguments), call
    assert len(call.id) == 9 and call.id.isalnum() and r.choices[0].finish_reason == "tool_calls", call
    return call.function.arguments


def tools_stream():
    deltas, fin, _ = parts(model=a.model, messages=T, tools=TOOLS, tool_choice="any", max_tokens=80)
    calls = [t for d in deltas for t in d.tool_calls or []]
    assert len(calls) == 1 and "city" in json.loads(calls[0].function.arguments) and fin == "tool_calls", (calls, fin)
    return calls[0].function.arguments


def tool_roundtrip():
    m = c.chat.complete(model=a.model, messages=T, tools=TOOLS, tool_choice="any", max_tokens=80).choices[0].message
    back = {"role": "tool", "tool_call_id": m.tool_calls[0].id, "name": "get_weather", "content": "4 C, rain"}
    assert c.chat.complete(model=a.model, messages=T + [m, back], tools=TOOLS, max_tokens=16).choices[0].message.content


def json_schema():
    asked = {"type": "json_schema", "json_schema": {"name": "w", "strict": True, "schema": smoke.WEATHER}}
    r = c.chat.complete(model=a.model, messages=U, max_tokens=80, response_format=asked)
    d = json.loads(r.choices[0].message.content)
    assert set(d) == {"city", "sky"}, d
    return d


def parse():
    import pydantic

    class W(pydantic.BaseModel):
        city: str
        sky: str
    r = c.chat.parse(W, model=a.model, messages=U, max_tokens=120)
    assert isinstance(r.choices[0].message.parsed, W), r


def bad_request():
    try:
        c.chat.complete(model=a.model, messages=[])
    except errors.HTTPValidationError as e:
        return f"HTTPValidationError {e.status_code}: {e.data.detail[0].msg}"
    raise AssertionError("no HTTPValidationError")


def classes():
    smoke.chaos(a)
    out = []
    for status, cls in ((400, errors.SDKError), (401, errors.SDKError), (402, errors.SDKError), (404, errors.SDKError), (422, errors.HTTPValidationError),
                        (429, errors.SDKError), (500, errors.SDKError), (503, errors.SDKError)):
        try:
            c.chat.complete(model=f"status-{status}", messages=U, max_tokens=2)
            raise AssertionError(f"{status}: no error")
        except errors.MistralError as e:
            body = json.loads(e.body)
            assert type(e) is cls and e.status_code == status, (status, type(e), e.status_code)
            assert "detail" in body or (body["object"], "type" in body) == ("error", True), body
            out.append(f"{status}={type(e).__name__}")
    return " ".join(out)


def waits():
    smoke.chaos(a)
    for model, status, mark in (("wait", 429, "rate_limited"), ("quota", 402, "quota"), ("context-window", 400, "too large for model")):
        try:
            c.chat.complete(model=model, messages=U)
            raise AssertionError("no error")
        except errors.SDKError as e:
            assert e.status_code == status and mark in e.body, (e.status_code, e.body)
            assert e.headers.get("retry-after") == ("7" if model == "wait" else None), e.headers
    return "429 with the wait, 402, 400 with the wording"


def stop():
    smoke.chaos(a)
    r = c.chat.complete(model=a.model, messages=U, stop=[" t3"])
    assert r.choices[0].finish_reason == "stop" and r.choices[0].message.content.endswith("t2"), r
    r = c.chat.complete(model=a.model, messages=U, max_tokens=4)
    assert r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 4, r


def parallel():
    smoke.chaos(a)
    r = c.chat.complete(model="parallel", messages=T, tools=TOOLS)
    deltas, _, _ = parts(model="parallel", messages=T, tools=TOOLS)
    for calls in (r.choices[0].message.tool_calls, [t for d in deltas for t in d.tool_calls or []]):
        assert len({t.id for t in calls}) == 2 and all(json.loads(t.function.arguments) == {"city": "text"} for t in calls), calls


def thinking():
    smoke.chaos(a)
    content = c.chat.complete(model="thinking", messages=U).choices[0].message.content
    kinds = [chunk.type for chunk in content]
    assert kinds == ["thinking", "text"] and content[0].thinking[0].text and content[1].text, content
    deltas, fin, _ = parts(model="thinking", messages=U)
    thought = [chunk for d in deltas if isinstance(d.content, list) for chunk in d.content if chunk.type == "thinking"]
    assert "".join(x.text for chunk in thought for x in chunk.thinking) == content[0].thinking[0].text and fin == "stop", thought


def error_in_stream():
    smoke.chaos(a)
    n = 0
    try:
        for ev in c.chat.stream(model="error-in-stream", messages=U):
            n += bool(ev.data.choices and ev.data.choices[0].delta.content)
    except errors.MistralError as e:
        assert n == 3, n
        return f"{type(e).__name__} after {n} deltas"
    raise AssertionError("no MistralError")


def stream_cut():
    smoke.chaos(a)
    n = 0
    try:
        for _ in c.chat.stream(model="cut", messages=U):
            n += 1
    except Exception as e:
        return f"{type(e).__module__}.{type(e).__name__} after {n} events"
    raise AssertionError(f"cut stream ended silently after {n} events")


def models():
    assert a.model in [m.id for m in c.models.list().data]


for f in (models, chat, stream, tools, tools_stream, tool_roundtrip, json_schema, parse, bad_request, classes, waits, stop, parallel, thinking, error_in_stream, stream_cut):
    check(f.__name__, f, a.only)
smoke.done()
