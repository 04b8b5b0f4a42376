#!/usr/bin/env python3
"""The openai SDK through the gateway while its primary is slowed, stopped and killed.

Usage: keel_openai.py --base http://127.0.0.1:18070/v1 --role chat --primary NAME --fallback NAME
                      --primary-pid PID [--phase-seconds 15] [--json FILE]

One thread asks for whole answers, one for streams, all the time. The SDK's own retries are off,
so that nothing but the gateway can save a call. The phases, in this order:

    healthy    the primary answers
    slowed     SIGSTOP for 4 s and SIGCONT for 1 s, again and again
    recovered  SIGCONT; ends when the primary answers again
    stopped    SIGSTOP, also under the calls in flight
    resumed    SIGCONT; ends when the primary answers again
    killed     SIGKILL, also under the calls in flight

Every call must succeed with text, and `model` must name one of the two. In `healthy` the primary
must have answered most calls; in `stopped` and `killed` no call that began after the first five
seconds may name the primary; `recovered` and `resumed` must see the primary come back. Nothing is
asserted about seconds beyond that. The summary is the last line: JSON.
"""
import argparse
import json
import os
import signal
import statistics
import sys
import threading
import time

import openai

SETTLE_S = 5.0      # calls that began this long after a stop or kill may not name the primary
RETURN_S = 60.0     # how long the way back may take
QUESTIONS = ["Name three colours of the sea.", "Why do boats have a keel?", "Say hello in one short sentence.",
             "What does a sailor do at dawn?", "Describe rain in one sentence."]


class Load:
    """Two callers, one call at a time each, until told to stop."""

    def __init__(self, a):
        self.client = openai.OpenAI(base_url=a.base, api_key="local-test", max_retries=0, timeout=90)
        self.role, self.phase, self.calls = a.role, "warm-up", []
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.phase_began = time.monotonic()
        self.threads = [threading.Thread(target=self.loop, args=(kind,)) for kind in (self.whole, self.streamed)]
        for t in self.threads:
            t.start()

    def enter(self, phase):
        with self.lock:
            self.phase, self.phase_began = phase, time.monotonic()
        print(f"{phase} ...", flush=True)

    def loop(self, kind):
        n = 0
        while not self.ending.is_set():
            n += 1
            with self.lock:
                call = {"phase": self.phase, "kind": kind.__name__, "at_s": time.monotonic() - self.phase_began}
            began = time.monotonic()
            try:
                call |= kind(f"{QUESTIONS[n % len(QUESTIONS)]} ({n})", began)
            except Exception as e:  # whatever the SDK raises is a call that failed
                call |= {"error": f"{type(e).__name__}: {str(e)[:200]}"}
                print(f"  {call['phase']} {call['kind']}: {call['error']}", flush=True)
            call["total_s"] = time.monotonic() - began
            with self.lock:
                self.calls.append(call)
            self.ending.wait(0.1)

    def ask(self, question, **more):
        return self.client.chat.completions.create(
            model=self.role, messages=[{"role": "user", "content": question}], max_tokens=24, temperature=0, **more)

    def whole(self, question, began):
        r = self.ask(question)
        return self.checked(r.model, r.choices[0].message.content, r.choices[0].finish_reason)

    def streamed(self, question, began):
        model, text, finish, first = None, "", None, None
        for chunk in self.ask(question, stream=True):
            model = model or chunk.model
            for choice in chunk.choices:
                if choice.delta.content:
                    first = first or time.monotonic() - began
                    text += choice.delta.content
                finish = choice.finish_reason or finish
        return self.checked(model, text, finish) | {"first_s": first}

    @staticmethod
    def checked(model, text, finish):
        if not text or finish not in ("stop", "length"):
            return {"model": model, "error": f"answer without an end: {len(text or '')} characters, finish_reason {finish}"}
        return {"model": model}

    def of(self, phase):
        with self.lock:
            return [c for c in self.calls if c["phase"] == phase]

    def end(self):
        self.ending.set()
        for t in self.threads:
            t.join()


def wait_for_return(load, phase, primary):
    """Until both callers have an answer of the primary that began in this phase."""
    end = time.monotonic() + RETURN_S
    while time.monotonic() < end:
        back = {c["kind"] for c in load.of(phase) if named(c, primary)}
        if len(back) == 2:
            return
        time.sleep(0.2)


def pulse(pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(4.0)
        os.kill(pid, signal.SIGCONT)
        time.sleep(1.0)


def named(call, model):
    return str(call.get("model") or "").rsplit("/", 1)[-1] == model


def drive(load, a):
    pid = a.primary_pid
    load.enter("healthy")
    time.sleep(a.phase_seconds)
    load.enter("slowed")
    pulse(pid, a.phase_seconds)
    load.enter("recovered")
    wait_for_return(load, "recovered", a.primary)
    load.enter("stopped")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(a.phase_seconds)
    load.enter("resumed")
    os.kill(pid, signal.SIGCONT)
    wait_for_return(load, "resumed", a.primary)
    load.enter("killed")
    os.kill(pid, signal.SIGKILL)
    time.sleep(a.phase_seconds)


def phase_summary(calls, a):
    took = sorted(c["total_s"] for c in calls)
    return {"calls": len(calls), "failed": sum("error" in c for c in calls),
            "primary": sum(named(c, a.primary) for c in calls), "fallback": sum(named(c, a.fallback) for c in calls),
            "median_s": round(statistics.median(took), 2) if took else None,
            "slowest_s": round(took[-1], 2) if took else None}


def judge(load, a):
    """What should have been so and was not."""
    bad = [f"{c['phase']} {c['kind']}: {c['error']}" for c in load.calls if "error" in c]
    bad += [f"{c['phase']} {c['kind']}: model is {c['model']!r}" for c in load.calls
            if "error" not in c and not named(c, a.primary) and not named(c, a.fallback)]
    healthy = load.of("healthy")
    if sum(named(c, a.primary) for c in healthy) * 2 <= len(healthy):
        bad.append("healthy: the primary did not answer most calls")
    for phase in ("stopped", "killed"):
        late = [c for c in load.of(phase) if c["at_s"] > SETTLE_S]
        if not late:
            bad.append(f"{phase}: no call began after {SETTLE_S:g} s")
        if n := sum(named(c, a.primary) for c in late):
            bad.append(f"{phase}: {n} calls name a primary that cannot have answered")
    for phase in ("recovered", "resumed"):
        if not any(named(c, a.primary) for c in load.of(phase)):
            bad.append(f"{phase}: the primary did not come back within {RETURN_S:g} s")
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--base", required=True, help="the gateway, ends in /v1")
    ap.add_argument("--role", required=True)
    ap.add_argument("--primary", required=True, help="name of the primary, without its provider")
    ap.add_argument("--fallback", required=True)
    ap.add_argument("--primary-pid", type=int, required=True, help="process of the primary's server")
    ap.add_argument("--phase-seconds", type=float, default=15.0)
    ap.add_argument("--json", help="also write the summary here")
    a = ap.parse_args()
    load = Load(a)
    try:
        drive(load, a)
    finally:
        load.end()
    bad = judge(load, a)
    for line in bad[:20]:
        print(f"FAIL {line}")
    phases = ("healthy", "slowed", "recovered", "stopped", "resumed", "killed")
    whole = phase_summary(load.calls, a)
    summary = {"calls": whole["calls"], "failed": whole["failed"], "faults": len(bad),
               "primary": whole["primary"], "fallback": whole["fallback"],
               "phases": {p: phase_summary(load.of(p), a) for p in phases}, "openai": openai.__version__}
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            f.write(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
