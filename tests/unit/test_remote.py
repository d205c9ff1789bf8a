"""Races on servers: what their streams prove, what they leave open, and what goes wrong, over real sockets."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.events import UNKNOWN_TOKEN, Finished, Round
from specdemo.metrics import summarize
from specdemo.remote.engine import RemoteEngine
from specdemo.remote.pieces import Piece, Rounds
from specdemo.remote.servers import find_server
from specdemo.reports import race_document
from specdemo.traces import Trace, answer_text, compare, dumps, loads
from tests.engine_servers import (
    ONE_BY_ONE,
    PASS_SECONDS,
    PASSES,
    TEXT,
    Pass,
    asked,
    llama_cpp,
    of,
    raced,
    serving,
    sglang,
    tokens,
    vllm,
)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12), st.integers(0, 3))
def test_the_counts_between_tokens_give_back_the_rounds(shapes: list[tuple[int, int]], num_cut: int) -> None:
    """Property: whatever rounds a server ran, its two counts on every token are enough to find them again."""
    rounds = [(drafted, min(accepted, drafted)) for drafted, accepted in shapes]
    pieces, drafted, accepted = [], 0, 0
    for num_drafted, num_accepted in rounds:
        drafted, accepted = drafted + num_drafted, accepted + num_accepted
        pieces += [Piece((len(pieces) + i,), f"{i}", drafted, accepted) for i in range(num_accepted + 1)]
    # A stop cuts the last round inside its accepted drafts.
    num_cut = min(num_cut, rounds[-1][1])
    pieces = pieces[: len(pieces) - num_cut]
    reader, found = Rounds(0.0), []
    for clock, piece in enumerate(pieces, start=1):
        found += reader.add(piece, float(clock))
    found += reader.finish(float(len(pieces)))
    assert [(len(made.draft_token_ids), made.num_accepted) for made, _ in found][: len(rounds) - 1] == rounds[:-1]
    assert [i for made, _ in found for i in made.emitted_token_ids] == [i for piece in pieces for i in piece.token_ids]
    assert sum(len(made.draft_token_ids) for made, _ in found) == drafted
    assert sum(made.seconds for made, _ in found) == pytest.approx(len(pieces))
    last = found[-1][0]
    assert last.num_unused == (rounds[-1][0] - last.num_accepted if num_cut else 0)
    for made, spans in found:
        named = (*made.draft_token_ids, *(() if made.next_token_id is None else (made.next_token_id,)))
        assert [span.token_id for span in spans] == list(named)


def test_llama_cpp_serves_both_lanes_and_its_counts_prove_every_round() -> None:
    script = llama_cpp(PASSES)
    with serving(script) as url:
        engine = RemoteEngine(find_server(url))
        updates = raced(engine)
    document = race_document(updates)
    plain, speculative = document["plain"], document["speculative"]
    assert (plain["text"], speculative["text"], document["identical"]) == (TEXT, TEXT, True)
    assert plain["metrics"]["num_plain"] == plain["metrics"]["num_tokens"] == 11
    shapes = [(len(r["draft_token_ids"]), r["num_accepted"], r["next_token_kind"]) for r in speculative["rounds"]]
    assert shapes == [(0, 0, "plain"), (4, 2, "corrected"), (3, 3, "bonus"), (0, 0, "plain"), (2, 1, "corrected")]
    assert speculative["rounds"][1]["draft_token_ids"] == [200, 201, UNKNOWN_TOKEN, UNKNOWN_TOKEN]
    metrics = speculative["metrics"]
    assert (metrics["num_drafted"], metrics["num_accepted"], metrics["target_passes"]) == (9, 6, 5)
    assert (metrics["acceptance_rate"], metrics["alpha"]) == (6 / 9, 6 / 8)
    assert metrics["reported"]["num_drafted"] == 9
    assert plain["finish_reason"] == "eos"
    assert plain["prompt_token_ids"] == [1, 2, 3, 4, 5]
    bodies = [body for path, body in script.asked if path == "/completion"]
    assert [body.get("speculative.n_max") for body in bodies] == [0, None]
    assert all(body["cache_prompt"] is False and body["temperature"] == 0.0 for body in bodies)
    assert "num_draft_tokens" not in speculative["settings"], "its K is the server's, and not known"
    server = speculative["provenance"]["server"]
    assert server["kind"] == "llama.cpp"
    assert server["version"] == "b10434-abc"
    assert "network" in server["clock"]


def test_the_first_token_is_the_prefill_s_and_in_no_decode_speed() -> None:
    with serving(llama_cpp(ONE_BY_ONE)) as url:
        summary = summarize(of("plain", raced(RemoteEngine(find_server(url)))))
    assert summary.tokens_per_second == pytest.approx((summary.num_tokens - 1) / summary.decode_seconds)
    assert summary.time_to_first_token_seconds == summary.prefill_seconds > 0


def test_who_looks_late_does_not_move_the_clock() -> None:
    """The plain lane takes as long as its passes, though nothing is read between the first token and the last."""
    with serving(llama_cpp(ONE_BY_ONE)) as url:
        lane = RemoteEngine(find_server(url)).lane("plain", asked())
        start = time.perf_counter()
        updates = [next(lane), next(lane)]
        time.sleep(40 * PASS_SECONDS)
        updates += list(lane)
        waited = time.perf_counter() - start
    rounds = [update.event for update in updates if isinstance(update.event, Round)]
    seconds = sum(made.seconds for made in rounds)
    assert len(rounds) * PASS_SECONDS * 0.5 < seconds < waited
    assert sum(made.seconds > 0.5 * PASS_SECONDS for made in rounds) >= len(rounds) // 2, "not one round took it all"


def test_a_race_on_servers_is_a_trace_like_any_other() -> None:
    with serving(llama_cpp(PASSES)) as url:
        engine = RemoteEngine(find_server(url))
        updates = tuple(raced(engine))
        trace = Trace("t", "own", {"prompt": "hi"}, engine.provenance("server"), updates)
    again = loads(dumps(trace))
    assert again == trace
    assert compare(again.updates) == compare(updates)


def test_lanes_are_given_out_by_their_clocks_and_never_run_at_once() -> None:
    """The plain lane is over before the other one is asked for; the page gets both as they would have raced."""
    script = llama_cpp(PASSES)
    with serving(script) as url:
        seen = []
        for update in RemoteEngine(find_server(url)).race(asked()):
            seen.append((update.lane, len([path for path, _ in script.asked if path == "/completion"])))
    assert {lane for lane, num_asked in seen if num_asked == 1} <= {"plain"}
    lanes = [lane for lane, _ in seen]
    assert lanes != sorted(lanes), "merged, not one behind the other"


def test_a_server_that_drafts_all_the_same_is_not_called_plain() -> None:
    with serving(llama_cpp(PASSES, is_old=False)) as url:
        updates = raced(RemoteEngine(find_server(url)))
        assert "--plain-engine" in of("plain", updates)[-1].message
        assert answer_text([u for u in updates if u.lane == "speculative"]) == TEXT, "the other lane is not lost"
        with serving(llama_cpp(ONE_BY_ONE, is_old=False)) as plain_url:
            both = raced(RemoteEngine(find_server(url), find_server(plain_url)))
    assert race_document(both)["identical"]


def test_tokens_that_llama_cpp_counts_and_does_not_send_are_not_lost() -> None:
    held: list[Pass] = [(0, tokens("A")), (2, ((7, None), (8, "é"), (9, "!"))), (0, ((10, None),))]  # type: ignore[arg-type]
    with serving(llama_cpp(held, stop_type="limit")) as url:
        updates = raced(RemoteEngine(find_server(url)))
    document = race_document(updates)
    assert document["speculative"]["token_ids"] == [100, UNKNOWN_TOKEN, 8, 9, UNKNOWN_TOKEN]
    assert document["speculative"]["text"] == "Aé!"
    assert document["identical"]
    assert document["speculative"]["metrics"]["num_accepted"] == 2


@pytest.mark.parametrize("reports", ["request", "metrics"])
def test_vllm_tells_totals_and_no_round(reports: str) -> None:
    with serving(vllm(PASSES, reports=reports)) as url, serving(vllm(ONE_BY_ONE)) as plain_url:
        updates = raced(RemoteEngine(find_server(url), find_server(plain_url)))
    document = race_document(updates)
    assert document["speculative"]["text"] == document["plain"]["text"]
    assert document["identical"]
    metrics = document["speculative"]["metrics"]
    assert {"plain"} == {r["next_token_kind"] for r in document["speculative"]["rounds"]}, "nothing is coloured"
    assert (metrics["num_tokens"], metrics["acceptance_rate"]) == (11, 6 / 9)
    assert [metrics[name] for name in ("alpha", "tokens_per_round", "target_passes")] == [None, None, None]
    source = "metrics.speculative_decoding" if reports == "request" else "/metrics, before and after"
    assert metrics["reported"] == {"source": source, "num_drafted": 9, "num_accepted": 6, "num_rounds": 3}


def test_counters_that_other_clients_moved_are_not_taken_for_ours() -> None:
    with serving(vllm(PASSES, reports="metrics", others=1)) as url:
        updates = list(RemoteEngine(find_server(url)).generate(asked()))
    last = updates[-1].event
    assert isinstance(last, Finished)
    assert last.reported is None
    assert "--per-request-spec-decode-metrics" in last.message
    assert summarize([update.event for update in updates]).acceptance_rate is None


@pytest.mark.parametrize("is_cumulative", [True, False])
@pytest.mark.parametrize("is_old", [True, False])
def test_sglang_names_its_counts_at_the_end(is_cumulative: bool, is_old: bool) -> None:
    options = {"is_cumulative": is_cumulative, "is_old": is_old}
    with serving(sglang(PASSES, **options)) as url, serving(sglang(ONE_BY_ONE, **options)) as plain_url:
        updates = raced(RemoteEngine(find_server(url), find_server(plain_url)), raw=True)
    document = race_document(updates)
    assert document["identical"]
    assert document["speculative"]["finish_reason"] == "eos"
    assert document["speculative"]["metrics"]["reported"] == {
        "source": "meta_info", "num_drafted": 9, "num_accepted": 6, "num_rounds": 3,
    }  # fmt: skip
    ids = document["speculative"]["token_ids"]
    assert ids == ([UNKNOWN_TOKEN] * 11 if is_old else [i for _, made in PASSES for i, _ in made])


def test_a_plain_server_that_drafts_is_found_out() -> None:
    with serving(vllm(PASSES)) as url:
        updates = raced(RemoteEngine(find_server(url), find_server(url)))
    assert "drafted 9 tokens in the plain lane" in of("plain", updates)[-1].message


def test_texts_that_part_are_found_where_ids_are_missing() -> None:
    other: list[Pass] = [(0, tokens("The")), (0, tokens(" sea", start=200)), (0, tokens(".", start=300))]
    options = {"is_old": True}
    with serving(sglang(PASSES, **options)) as url, serving(sglang(other, **options)) as plain_url:
        document = race_document(raced(RemoteEngine(find_server(url), find_server(plain_url)), raw=True))
    assert (document["identical"], document["first_divergence"]) == (False, 1)
