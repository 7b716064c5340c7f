"""Chat templates in the shapes that public models use, written for these tests, and what transformers renders from them."""

import datetime
import itertools
import time

import jinja2
from transformers.utils import chat_template_utils

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You answer briefly.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

LLAMA3 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system message, if there is one, comes first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Knowledge ends: December 2023\\n" }}
{{- "Today is " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("There is no user message to put the tools into.") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' }}
    {{- 'These functions can be called:\\n\\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("Only one tool call at a time.") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the system message, roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call ids have 9 characters.") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Unknown role: " ~ message.role) }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}"""

QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

# What Python prints where Jinja alone would print something else.
PYTHON = """{%- macro show(x) -%}<{{ x }}>{%- endmacro -%}
{{ none }} {{ true }} {{ false }} {{ missing }} {{ 1 }} {{ 1.0 }} {{ 1e16 }} {{ 0.00001 }} {{ 3 / 2 }} {{ 7 // 2 }}
{{ [1, 'a', "it's", none, true, 1.5, [], {}] }} {{ {'b': 1, 'a': {'c': [2]}} }}
{{ data }} {{ data | tojson }} {{ data | tojson(sort_keys=true) }}
{{ data | tojson(indent=2) }} {{ data | tojson(ensure_ascii=true) }} {{ data | tojson(separators=(',', ':')) }}
{{ show(none) }} {{ show('text') }} {{ none | string }} {{ [1, none] | string | length }}
{{ 'a-b-c'.split('-') }} {{ ' x '.strip() }}| {{ 'Abc'.upper() }} {{ 'abc'.title() }} {{ 'aXbX'.replace('X', '-') }} {{ 'abc'[::-1] }}
{{ data.keys() | list }} {{ data.items() | list | length }} {{ data.get('nothing', 'else') }} {{ 'é' in data.text }}
{% for i in range(6) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{{ ',' if not loop.last }}{% endfor %}

{% for message in messages %}{% generation %}{{ message.content }}{% endgeneration %}{%- generation -%} {{ message.role }} {%- endgeneration -%}{% endfor %}
{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ "%s is %d" | format('x', 3) }} {{ [3, 1, 2] | sort | first }} {{ 'word ' * 3 }} {{ 'a' ~ 1 ~ 'b' }} {{ '<&>"' }}
{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.content | length %}{% endfor %}{{ ns.n }}
{{- '\\n' if ns.n > 3 else '!' }}{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j') }}
{% if messages[0] is mapping and messages[0].content is string and data.list is sequence and none is none %}yes{% endif %}
"""

BLOCKS = """{%- for message in messages -%}
<|{{ message.role }}|>
{%- if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% elif part['type'] == 'image' %}<image>{% endif %}{% endfor %}
{%- endif %}{{ '\\n' }}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}
"""

SPECIALS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TOOLS = [{
    "type": "function",
    "function": {"name": "tide", "description": "The tide at a place: \"high\" & <low>", "parameters": {
        "type": "object", "properties": {"place": {"type": "string"}, "depth": {"type": "number", "minimum": 0.5}},
        "required": ["place"]}},
}]
CHATS = {
    "one": [{"role": "user", "content": "When is the tide high?"}],
    "system": [{"role": "system", "content": "  You know the sea.  "}, {"role": "user", "content": " Tides? \n"}],
    "turns": [{"role": "user", "content": "Ünïcödé 潮 😀?"}, {"role": "assistant", "content": " At noon.\n"},
              {"role": "user", "content": "<|im_end|>'\"& why?"}],
    "thoughts": [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "<think>\nOne, two.\n</think>\n\nThree."},
                 {"role": "user", "content": "More."}, {"role": "assistant", "content": "Four.", "reasoning": "After three."}],
    "tool": [{"role": "user", "content": "Tide in Oban?"},
             {"role": "assistant", "content": "", "tool_calls": [{"id": "call12345", "type": "function", "function": {
                 "name": "tide", "arguments": {"place": "Oban", "depth": 2.0, "exact": True, "note": None}}}]},
             {"role": "tool", "tool_call_id": "call12345", "content": "{\"high\": \"12:10\"}"}],
    "wrong order": [{"role": "assistant", "content": "I begin."}, {"role": "assistant", "content": "And go on."}],
    "parts": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}],
}
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "zephyr": ZEPHYR, "mistral": MISTRAL, "gemma": GEMMA, "qwen3": QWEN3, "blocks": BLOCKS}
NOW = 1732960984  # 2024-11-30 10:03:04


def render(template, case):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(case["local_seconds"], datetime.timezone.utc).replace(tzinfo=None)

    chat_template_utils.datetime = Clock
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [case["messages"]], tools=case["tools"], chat_template=template, add_generation_prompt=case["add_generation_prompt"],
            **case["specials"], **case["variables"])
        return {"expected": texts[0]}
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error)}
    except TypeError as error:
        return {"error": type(error).__name__}


def template_cases():
    rows = []

    def add(name, template, messages, tools=None, variables=None, prompt=True):
        case = {"name": name, "template": template, "specials": SPECIALS, "messages": messages, "tools": tools,
                "variables": variables or {}, "add_generation_prompt": prompt, "local_seconds": NOW}
        rows.append(case | render(template, case))

    for (name, template), (chat, messages) in itertools.product(TEMPLATES.items(), CHATS.items()):
        if name != "blocks" and chat == "parts":
            continue
        add(f"{name}/{chat}", template, messages, prompt=chat != "turns")
    for name in ("llama3", "mistral", "qwen3"):
        add(f"{name}/tools", TEMPLATES[name], CHATS["system"], tools=TOOLS)
        add(f"{name}/tools and answer", TEMPLATES[name], CHATS["tool"], tools=TOOLS)
    add("llama3/date", LLAMA3, CHATS["one"], variables={"date_string": "1 Jan 2030"})
    add("qwen3/no thinking", QWEN3, CHATS["one"], variables={"enable_thinking": False})
    data = {"text": "é'\"<\n", "list": [1, 2.5, -3e-7, 10**15], "none": None, "yes": True, "a": {}, "b": []}
    add("python", PYTHON, CHATS["turns"], variables={"data": data})
    return rows


if __name__ == "__main__":
    time.tzset()
    for row in template_cases():
        print(row["name"], "->", row.get("expected", row.get("error")))
