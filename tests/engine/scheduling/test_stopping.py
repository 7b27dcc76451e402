"""Stop tokens and stop strings belong to a request: whatever else happens to it, its output ends where its text says."""

from typing import Any

import pytest

from engine.requests.output_text import OutputText, StopString
from engine.requests.request import FinishReason, Request
from engine.requests.stopping import StopRules
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from tests.engine.driving import FAKE_VOCAB, Drive, make_request


def spell(token: int) -> bytes:
    """Two letters a token, so that stop strings lie across tokens; some tokens are half a character."""
    return b"" if token >= FAKE_VOCAB else (bytes([97 + token % 5, 97 + token % 3]) if token % 10 else "é".encode()[:1])


def asked(num: int, rules: StopRules, *, eos: frozenset[int] = frozenset(), **more: Any) -> Request:
    text = OutputText(spell, [StopString(string) for string in rules.strings])
    return make_request(num, [3, num, 5, 7, 9], stop=rules, stop_ids=rules.stop_ids(eos), text=text, **more)


def said(request: Request) -> str:
    assert request.text is not None
    return request.text.text


def free_output(num: int, tokens: int = 24) -> list[int]:
    drive = Drive()
    request = make_request(num, [3, num, 5, 7, 9], max_tokens=tokens)
    drive.scheduler.add(request, drive.now)
    drive.run_out()
    return request.token_ids[5:]


def cut(tokens: list[int], string: str) -> tuple[int, str]:
    """By definition: how many tokens it takes until ``string`` is in the text, and the text before it."""
    for count in range(1, len(tokens) + 1):
        text = b"".join(map(spell, tokens[:count]))
        if string.encode() in text:
            return count, text[: text.index(string.encode())].decode(errors="replace")
    raise AssertionError("it is not in the text")


@pytest.mark.parametrize("ignore", [False, True])
def test_the_models_end_of_sequence_ends_a_request_that_does_not_ignore_it(ignore: bool) -> None:
    output = free_output(1)
    eos = output[6]
    drive = Drive()
    request = asked(1, StopRules(ignore_eos=ignore), eos=frozenset({eos}), max_tokens=24)
    drive.scheduler.add(request, drive.now)
    drive.run_out()
    if ignore:
        assert (request.finish_reason, request.output_tokens) == (FinishReason.LENGTH, 24)
    else:
        assert (request.finish_reason, request.finish_detail) == (FinishReason.STOP, f"end-of-sequence token {eos}")
        assert request.token_ids[5:] == output[: output.index(eos) + 1]
        assert said(request) == b"".join(map(spell, output[: output.index(eos)])).decode(errors="replace")


def test_a_stop_token_of_its_own_ends_a_request_even_if_it_ignores_the_models() -> None:
    output = free_output(1)
    rules = StopRules(frozenset({output[4]}), ignore_eos=True)
    drive = Drive()
    request = asked(1, rules, eos=frozenset({output[0]}), max_tokens=24)
    drive.scheduler.add(request, drive.now)
    drive.run_out()
    assert request.finish_detail == f"stop token {output[4]}"
    assert request.token_ids[-1] == output[4]


STRINGS = [(4, 7), (9, 12), (15, 18), (3, 4), (20, 26)]
"""Places in the text of what is used as a stop string."""


@pytest.mark.parametrize("preempted", [False, True])
@pytest.mark.parametrize("place", STRINGS)
def test_a_stop_string_ends_it_where_the_text_has_it_and_a_preemption_changes_nothing(
    place: tuple[int, int], preempted: bool
) -> None:
    output = free_output(1)
    string = b"".join(map(spell, output)).decode(errors="ignore")[slice(*place)]
    tokens, text = cut(output, string)
    drive = Drive(prefix_cache=False)
    request = asked(1, StopRules(strings=(string, "zzz")), max_tokens=24)
    drive.scheduler.add(request, drive.now)
    while drive.scheduler.requests:
        drive.step()
        if preempted and drive.running and request.output_tokens % 3 == 1:
            drive.scheduler.preempt(request, drive.now, "test")
    assert (request.finish_reason, request.finish_detail) == (FinishReason.STOP, f"stop string {string!r}")
    assert request.token_ids[5:] == output[:tokens]
    assert said(request) == text
    assert not preempted or request.preemptions > 0


def test_each_sample_is_stopped_by_its_own_text() -> None:
    def run(rules: StopRules) -> list[Request]:
        drive = Drive()
        first = asked(1, rules, max_tokens=20)
        add_samples(first, [2, 3])
        samples = [first, *first.samples]
        drive.scheduler.add(first, drive.now)
        drive.run_out()
        return samples

    free = [request.token_ids[5:] for request in run(StopRules())]
    string = b"".join(map(spell, free[1])).decode(errors="ignore")[5:9]
    for request, output in zip(run(StopRules(strings=(string,))), free, strict=True):
        if string.encode() in b"".join(map(spell, output)):
            tokens, text = cut(output, string)
            assert (request.finish_reason, request.output_tokens, said(request)) == (FinishReason.STOP, tokens, text)
        else:
            assert (request.finish_reason, request.token_ids[5:]) == (FinishReason.LENGTH, output)


def search(drive: Drive, prompt: list[int], width: int, most: int, string: str) -> list[tuple[list[int], float]]:
    """A beam search by the definition, that tells by the whole text whether a hypothesis is stopped."""
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[tuple[list[int], float]] = []
    for _ in range(most):
        offers = drive.runner.follow([[*prompt, *output] for output, _ in beams], 2 * width)
        grown = [
            ([*output, token], total + gain)
            for (output, total), offered in zip(beams, offers, strict=True)
            for token, gain in offered
        ]
        grown.sort(key=lambda pair: -pair[1])
        stops = [string.encode() in b"".join(map(spell, output)) for output, _ in grown]
        ended += [pair for pair, stopped in zip(grown, stops, strict=True) if stopped]
        beams = [pair for pair, stopped in zip(grown, stops, strict=True) if not stopped][:width]
        if not beams:
            break
    return sorted([*ended, *beams], key=lambda pair: -(pair[1] / len(pair[0])))[:width]


@pytest.mark.parametrize("string", ["aab", "ba", "éc", "dbe", "zzz"])
@pytest.mark.parametrize("num", range(1, 13))
@pytest.mark.parametrize("preempted", [False, True])
def test_a_stop_string_ends_a_hypothesis_of_a_beam_search(string: str, num: int, preempted: bool) -> None:
    drive = Drive()
    request = asked(num, StopRules(strings=(string,)), max_tokens=9)
    prompt = list(request.token_ids)
    add_beams(request, [num + 1, num + 2])
    drive.scheduler.add(request, drive.now)
    beam, steps = request.beam, 0
    assert beam is not None
    while drive.scheduler.requests:
        drive.step()
        steps += 1
        if preempted and steps == 4 and drive.running:
            drive.scheduler.preempt(request, drive.now, "test")
    expected = search(drive, prompt, 3, 9, string)
    assert [member.token_ids[5:] for member in beam.members] == [output for output, _ in expected]
    for member, (output, _) in zip(beam.members, expected, strict=True):
        whole = b"".join(map(spell, output))
        if string.encode() in whole:
            assert (member.finish_reason, member.finish_detail) == (FinishReason.STOP, f"stop string {string!r}")
            assert said(member) == whole[: whole.index(string.encode())].decode(errors="replace")
        else:
            assert member.finish_reason is FinishReason.LENGTH
            assert said(member) == whole.decode(errors="replace")
