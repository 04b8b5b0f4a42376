#!/usr/bin/env python3
"""One task, whoever answers it: JSON by a schema, and a long history in a small window.

Usage: keel_fidelity.py --base http://127.0.0.1:18070/v1 --native ROLE --prompted ROLE --long ROLE
                        [--questions 50] [--turns 200] [--json FILE]

The openai SDK through the gateway, its own retries off.

schema   Asks each of the two roles for JSON by the same schema. Behind both stands the same model:
         `native` enforces the schema while decoding, `prompted` is told it in words and nothing
         else. What the gateway passes on must obey the schema (checked here again); what it
         refuses is counted. Grammar-enforced JSON that the token limit cuts is invalid too, although
         the server says 200.
long     A conversation of 200 turns with tool calls, far too long for the one model that is left.
         It must be answered, and the answer must say how many messages were cut.

The last line is the summary: JSON. Exit status 1 where something passed on was wrong.
"""
import argparse
import json
import sys
import time

import openai

SCHEMA = {"type": "object",
          "properties": {"city": {"type": "string", "maxLength": 24},
                         "sky": {"type": "string", "enum": ["clear", "cloudy", "rain"]},
                         "wind": {"type": "integer", "minimum": 0, "maximum": 12}},
          "required": ["city", "sky"], "additionalProperties": False}
CITIES = ("Bergen Oslo Turku Riga Gdansk Kiel Aarhus Malmo Visby Tallinn Bremen Ghent Lille Brest Nantes Bilbao Porto "
          "Lagos Cadiz Palma Genoa Pisa Bari Split Corfu Varna Sochi Batumi Haifa Tunis Oran Rabat Dakar Accra Lome "
          "Durban Maputo Mombasa Muscat Karachi Mumbai Madras Penang Hue Manila Busan Kobe Perth Hobart Auckland").split()


def obeys(text):
    """Whether `text` is JSON that obeys SCHEMA."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if not isinstance(value, dict) or not set(value) <= {"city", "sky", "wind"} or not {"city", "sky"} <= set(value):
        return False
    wind = value.get("wind", 0)
    return (isinstance(value["city"], str) and len(value["city"]) <= 24 and value["sky"] in ("clear", "cloudy", "rain")
            and isinstance(wind, int) and not isinstance(wind, bool) and 0 <= wind <= 12)


def schema(client, role, questions, max_tokens):
    """Counts of what came back: valid, refused (by code), wrong."""
    counts = {"asked": 0, "valid": 0, "refused": {}, "wrong": 0, "repaired": 0}
    began = time.monotonic()
    for n in range(questions):
        city = CITIES[n % len(CITIES)]
        counts["asked"] += 1
        try:
            answer = client.chat.completions.create(
                model=role, temperature=0, max_tokens=max_tokens,
                messages=[{"role": "user", "content": f"Make up a weather report of {city} ({n}): city, sky and wind."}],
                response_format={"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}})
        except openai.APIStatusError as e:
            code = (e.body or {}).get("code") if isinstance(e.body, dict) else None
            counts["refused"][code or str(e.status_code)] = counts["refused"].get(code or str(e.status_code), 0) + 1
            continue
        good = obeys(answer.choices[0].message.content)
        counts["valid" if good else "wrong"] += 1
        adapted = (answer.model_extra or {}).get("evenkeel", {}).get("adapted", [])
        counts["repaired"] += any("schema" not in line for line in adapted)
        if not good:
            print(f"  WRONG {role}: {answer.choices[0].message.content!r}", flush=True)
    counts["share"] = round(counts["valid"] / counts["asked"], 3)
    counts["s"] = round(time.monotonic() - began, 1)
    return counts


def long_history(turns):
    """A conversation of `turns` turns; every fourth calls a tool."""
    messages = [{"role": "system", "content": "You are a harbour master. Answer in one short sentence."}]
    for n in range(turns):
        city = CITIES[n % len(CITIES)]
        messages.append({"role": "user", "content": f"Turn {n}: what is the tide in {city} today, and may a ship with a "
                                                    f"draught of {3 + n % 7} metres come in? " + "Think of the wind too. " * 12})
        if n % 4 == 0:
            call = {"id": f"call_{n}", "type": "function",
                    "function": {"name": "tide_of", "arguments": json.dumps({"city": city})}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"high": "06:12", "low": "12:31", "metres": 4.2})})
        messages.append({"role": "assistant", "content": f"In {city} it is high at six; the ship may come in with the flood. " * 4})
    messages.append({"role": "user", "content": "And which is the last city that we spoke of?"})
    return messages


def long(client, role, turns):
    tool = {"type": "function", "function": {"name": "tide_of", "description": "The tide of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}
    messages = long_history(turns)
    began = time.monotonic()
    answer = client.chat.completions.create(model=role, messages=messages, tools=[tool], tool_choice="none", max_tokens=24, temperature=0)
    meta = (answer.model_extra or {}).get("evenkeel", {})
    cut = [line for line in meta.get("adapted", []) if line.startswith("messages: ")]
    said = answer.choices[0].message.content
    return {"messages": len(messages), "model": answer.model, "input_tokens": answer.usage.prompt_tokens, "cut": cut,
            "said": said, "s": round(time.monotonic() - began, 1), "right": bool(cut) and bool(said)}


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--base", required=True)
    ap.add_argument("--native", required=True)
    ap.add_argument("--prompted", required=True)
    ap.add_argument("--long", required=True)
    ap.add_argument("--questions", type=int, default=50)
    ap.add_argument("--turns", type=int, default=200)
    ap.add_argument("--json")
    a = ap.parse_args()
    client = openai.OpenAI(base_url=a.base, api_key="local-test", max_retries=0, timeout=300)
    summary = {}
    for kind, role, limit in (("native", a.native, 96), ("prompted", a.prompted, 96), ("native_cut", a.native, 10)):
        summary[kind] = schema(client, role, a.questions, limit)
        print(f"schema {kind}: {summary[kind]}", flush=True)
    summary["long"] = long(client, a.long, a.turns)
    print(f"long: {summary['long']}", flush=True)
    wrong = sum(summary[kind]["wrong"] for kind in ("native", "prompted", "native_cut"))
    print(json.dumps(summary))
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(summary, f)
    return 1 if wrong or not summary["long"]["right"] or summary["native"]["valid"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
