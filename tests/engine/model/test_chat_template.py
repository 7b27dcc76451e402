"""Conversations become prompts as their template says; nobody forges a turn, and no template harms the engine."""

import contextlib
import string
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.model.chat_template import ChatTemplate
from engine.model.chat_text import ChatText
from engine.model.template_sandbox import MOST_SOURCE, SandboxedTemplate

SPECIALS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<s>")
CHATML = (
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' ~ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PIECED = "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
PIECED_SPECIALS = ("<|user|>", "<|assistant|>", "<|system|>", "<|end|>")
THINKING = (
    "{% for m in messages %}{% set said = m.content %}{% if m.role == 'assistant' and '</think>' in said %}"
    "{% set said = said.split('</think>')[-1].lstrip('\n') %}{% endif %}<|im_start|>{{ m.role }}\n{{ said }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)


def _user(content: Any = "hello") -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def _specials(text: ChatText) -> list[str]:
    return [piece for piece, is_special in text.parts if is_special]


def test_a_prompt_reads_as_its_template_says() -> None:
    text = ChatTemplate(CHATML, "<s>", "<|im_end|>", SPECIALS).render(_user(" hello "))
    assert text == "<s><|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert _specials(text) == ["<s>", "<|im_start|>", "<|im_end|>", "<|im_start|>"]


def test_without_a_generation_prompt_it_ends_with_the_last_message() -> None:
    text = ChatTemplate(CHATML, specials=SPECIALS).render(_user(), add_generation_prompt=False)
    assert text.endswith("hello<|im_end|>\n")


def test_tokens_of_the_parts_are_those_of_the_special_ones_and_of_plain_text_between() -> None:
    text = ChatText([("<s>", True), ("ab", False), ("<odd>", True), ("c", False)])
    assert text.ids({"<s>": 900}, lambda plain: [ord(char) for char in plain]) == [900, *map(ord, "ab<odd>c")]


CONTENTS = st.lists(
    st.sampled_from(
        [
            *SPECIALS,
            *PIECED_SPECIALS,
            "<|",
            "|>",
            "<",
            ">",
            "im_end",
            "user",
            "\n",
            " ",
            "a",
            "\ufdd0",
            "0",
            "\ufdd1",
            "\ufdd2",
        ]
    ),
    max_size=8,
).map("".join)


@pytest.mark.parametrize(
    ("source", "specials"),
    [(CHATML, SPECIALS), (THINKING, SPECIALS), (PIECED, PIECED_SPECIALS)],
    ids=["chatml", "thinking", "pieced"],
)
@given(contents=st.lists(CONTENTS, min_size=1, max_size=3))
@example(contents=["\ufdd01\ufdd1", "<|im_end|>", "\ufdd2|end|>"])
def test_no_message_adds_a_special_token(source: str, specials: tuple[str, ...], contents: list[str]) -> None:
    template = ChatTemplate(source, "", "", specials)
    roles = ["user", "assistant", "user"]
    honest = [{"role": role, "content": "a"} for role, _ in zip(roles, contents, strict=False)]
    forged = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    said = template.render(forged)
    assert _specials(said) == _specials(template.render(honest))
    if source is PIECED:
        expected = "".join(f"<|{m['role']}|>\n{m['content']}<|end|>\n" for m in forged)
        assert said == "".join("\ufffd" if "\ufdd0" <= char <= "\ufdef" else char for char in expected)


def test_a_template_that_makes_special_tokens_of_pieces_has_them() -> None:
    text = ChatTemplate(PIECED, specials=PIECED_SPECIALS).render(_user("1 < 2 <|end|>"))
    assert text.parts == (("<|user|>", True), ("\n1 < 2 <|end|>", False), ("<|end|>", True), ("\n", False))


def test_a_template_that_looks_for_a_token_in_a_message_finds_it_there() -> None:
    turns = [*_user(), {"role": "assistant", "content": "<think>hm</think>\n\nyes"}, *_user("why?")]
    text = ChatTemplate(THINKING, specials=SPECIALS).render(turns, enable_thinking=False)
    assert "hm" not in text
    assert _specials(text)[-2:] == ["<think>", "</think>"]


def test_contents_in_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert "one\ntwo<|im_end|>" in ChatTemplate(CHATML).render(_user(parts))


def test_what_templates_use_is_there() -> None:
    source = (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}"
        "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }} {{ tools | map(attribute='name') | join(', ') }} "
        "{{ {'q': 'é<'} | tojson }} {{ messages[1:] | length }} {{ 'a%sb' % 'x' }} {{ 'a-b'.replace('-', '+') }}"
        "{% generation %}!{% endgeneration %}"
    )
    turns = [*_user(), {"role": "tool", "content": None, "tool_calls": []}, *_user()]
    text = ChatTemplate(source).render(turns, tools=[{"name": "f"}, {"name": "g"}])
    assert text == '2 f, g {"q": "é<"} 2 axb a+b!'


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "messages: "),
        ("hello", "messages: 'hello' is not a list"),
        ([3], r"messages\[0\]: 3 is not a message"),
        ([*_user(), {"role": "wizard", "content": "x"}], r"messages\[1\]\.role: 'wizard' is not one of system, user"),
        ([{"content": "x"}], r"messages\[0\]\.role: None"),
        (_user(None), r"messages\[0\]\.content: None is neither a text"),
        (_user([{"type": "image_url"}]), r"messages\[0\]\.content\[0\]\.type: 'image_url' is not text"),
        (_user([{"type": "text"}]), r"messages\[0\]\.content\[0\]\.text: None is not a text"),
        ([{"role": "user", "content": "x", "name": {1, 2}}], r"messages\[0\]\.name: a set is nothing"),
    ],
)
def test_a_bad_message_is_refused_by_its_place(messages: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        ChatTemplate(CHATML).render(messages)


def test_what_the_template_refuses_names_the_message_it_was_at() -> None:
    source = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no\nsystem here') }}{% endif %}{% endfor %}"
    with pytest.raises(ValueError, match=r"^messages\[1\]: the chat template refuses it: no system here$"):
        ChatTemplate(source).render([*_user(), {"role": "system", "content": "x"}])


def test_variables_of_the_asker_cannot_replace_the_templates() -> None:
    with pytest.raises(ValueError, match=r"^bos_token: "):
        ChatTemplate(CHATML).render(_user(), bos_token="<|im_start|>")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% if %}", "line 1 of it"),
        ("{{ 'a' | center(9) }}", "No filter named"),
        ("{{" * 4000, "nested too deeply"),
        ("x" * (MOST_SOURCE + 1), "the most is"),
    ],
)
def test_a_template_that_is_none_is_told_when_it_is_used(source: str, says: str) -> None:
    template = ChatTemplate(source)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"^the chat template of this model cannot be used: .*{says}"):
            template.render(_user())


_DOUBLING = "{{% set ns = namespace(x={start}) %}}{{% for i in range(64) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x }}}}"

_BIG = "{% set b = 'ab' * 4000000 %}"

HOSTILE = {
    "range": "{% for i in range(10**9) %}{% endfor %}",
    "rounds": "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "recursive loop": "{% for i in range(9999) recursive %}{{ loop(range(9999)) }}{% endfor %}",
    "recursive macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "said": "{% for i in range(9999) %}" + "x" * 100_000 + "{% endfor %}",
    "said aside": "{% set x %}{% for i in range(9999) %}" + "x" * 100_000 + "{% endfor %}{% endset %}",
    "repeated": "{{ 'x' * 10**9 }}",
    "repeated list": "{{ [1] * 10**9 }}",
    "padded": "{{ 'x'.ljust(10**9) }}",
    "format": "{{ '{:999999999}'.format(1) }}",
    "percent": "{{ '%999999999d' % 1 }}",
    "percent of a name": "{{ '%(a)999999999d' % {'a': 1} }}",
    "replaced": "{{ messages[0].content.replace('a', messages[0].content) }}",
    "replaced by a filter": "{{ messages[0].content | replace('a', messages[0].content) }}",
    "joined": "{{ messages[0].content.join(range(9000)) }}{{ messages[0].content.join(range(9000)) }}",
    "power": "{{ (2**99)**99 }}",
    "product": _DOUBLING.format(start="3", step="ns.x * ns.x"),
    "sum": _DOUBLING.format(start="'ab'", step="ns.x + ns.x"),
    "tilde": _DOUBLING.format(start="'ab'", step="ns.x ~ ns.x"),
    "list in list": _DOUBLING.format(start="[1]", step="[ns.x, ns.x]"),
    "dict in dict": _DOUBLING.format(start="{}", step="dict(a=ns.x, b=ns.x)"),
    "macro": "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}" + _DOUBLING.format(start="'ab'", step="f(ns.x)"),
    "compared without a loop": _BIG + "{% if 'aab' in b %}{% endif %}" * 400,
    "filtered without a loop": _BIG + "{% set a = b | upper %}" * 400,
    "cut without a loop": _BIG + "{% set a = b[1:] %}" * 400,
    "searched without a loop": _BIG + "{% set a = b.count('z') %}" * 400,
    "namespace in itself": "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
    "file": "{% include '/etc/passwd' %}",
    "class": "{{ ''.__class__.__mro__ }}",
    "change": "{{ messages.append(1) }}",
    "globals": "{{ raise_exception.__globals__.keys() }}",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_template_is_refused_before_it_takes_time_or_memory(kind: str) -> None:
    with pytest.raises(ValueError, match="the chat template"):
        ChatTemplate(HOSTILE[kind]).render(_user("a" * 4000))


@given(
    words=st.lists(
        st.sampled_from(["{{", "}}", "{%", "%}", "for m in messages", "endfor", "if", "endif", "m", "messages", "|", "join", "'a'", "+", "[0]", ".x", "(", ")", "set a =", "macro f()", "endmacro", "\ufdd0"]),
        max_size=14,
    )
)  # fmt: skip
def test_any_template_renders_or_is_refused(words: list[str]) -> None:
    with contextlib.suppress(ValueError):
        ChatTemplate(" ".join(words), specials=SPECIALS).render(_user())


def test_many_threads_render_at_once() -> None:
    template = ChatTemplate(CHATML, "<s>", "", SPECIALS)
    said: dict[str, str] = {}

    def chat(letter: str) -> None:
        said[letter] = template.render(_user(letter * 100))

    threads = [threading.Thread(target=chat, args=(letter,)) for letter in string.ascii_lowercase]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {letter: template.render(_user(letter * 100)) for letter in string.ascii_lowercase}


def test_a_rendering_leaves_nothing_of_its_budget_behind() -> None:
    template = SandboxedTemplate("{% for i in range(9000) %}{{ i }}{% endfor %}", str)
    assert len({template.render({}) for _ in range(8)}) == 1
