"""Templates say here what they say in transformers, whose behaviour model makers write them for."""

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from engine.model.chat_template import CHATML, ChatTemplate
from tests.engine.model.test_chat_template import CHATML as WITH_BOS
from tests.engine.model.test_chat_template import PIECED, THINKING

SPECIALS = (
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|end|>",
    "<|call|>",
)

BLOCKS = """\
{%- if messages[0].role == 'system' %}
    {%- set first = messages[0].content | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set first = 'none' %}
    {%- set rest = messages %}
{%- endif %}
{{ bos_token }}[{{ first }}]
    {% if tools is defined and tools %}
{{ tools | tojson }}
        {{ tools[0] | tojson(indent=2) }}
    {% endif %}
{% for message in rest if message.content %}
<|{{ message.role }}|>{{ loop.index }}/{{ loop.length }}
  {{ message.content }}{{ eos_token }}
{% endfor %}
{# nothing #}
"""

MACROS = """\
{%- macro tag(name, attrs=[]) -%}
<|call|>{{ name }}{% for key, value in attrs %} {{ key }}="{{ value | string | replace('"', '&quot;') }}"{% endfor %};
{%- endmacro -%}
{%- set ns = namespace(turns=0, last='') -%}
{%- for message in messages -%}
    {%- if message.role == 'tool' -%}{%- continue -%}{%- endif -%}
    {%- set ns.turns = ns.turns + 1 -%}
    {%- set ns.last = ns.last ~ message.role[0] | upper -%}
    {{- tag(message.role, [('n', ns.turns), ('text', message.content)]) -}}
    {%- if ns.turns > 3 -%}{%- break -%}{%- endif -%}
{%- endfor -%}
{{- ns.last -}}{%- for key, value in (tools or [{}])[0] | dictsort %} {{ key }}={{ value }}{% endfor -%}
{{- '%s of %d' % (ns.last, ns.turns) -}}{{- [1, 2.5, none, true] | join(',') -}}{{- {'a': [1, 'é<&>']} -}}
{%- generation -%}said{%- endgeneration -%}
"""

CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one": [{"role": "user", "content": "Hi <b>&\n 'there' \"you\" é 🙂 "}],
    "system": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "x"}],
    "turns": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb"},
        {"role": "tool", "content": "{}"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "d", "tool_calls": []},
        {"role": "user", "content": "e <|im_end|>"},
    ],
}
TOOLS = [{"type": "function", "name": "weather", "parameters": {"city": "Zürich", "n": 1.5, "<": None}}]


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["", "tools"])
@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize(
    "source",
    [CHATML, WITH_BOS, PIECED, THINKING, BLOCKS, MACROS],
    ids=["chatml", "bos", "pieced", "thinking", "blocks", "macros"],
)
@pytest.mark.parametrize("prompt", [True, False])
def test_the_same_text_as_transformers(source: str, name: str, tools: Any, prompt: bool) -> None:
    messages = CONVERSATIONS[name]
    (expected,), _ = render_jinja_template(
        conversations=[messages],
        tools=tools,
        chat_template=source,
        add_generation_prompt=prompt,
        bos_token="<s>",
        eos_token="</s>",
        enable_thinking=False,
    )
    ours = ChatTemplate(source, "<s>", "</s>", SPECIALS)
    variables = {"tools": tools, "enable_thinking": False}
    assert ours.render(messages, add_generation_prompt=prompt, **variables) == expected
