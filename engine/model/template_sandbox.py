"""Where chat templates run: they come with files from elsewhere, so they reach nothing and use up little.

Jinja's sandbox keeps a template from the program around it. It does not keep it from running or growing without end; that
is done here: every round of a loop, every call and every piece of output is charged to a budget.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.model.template_budget import (
    BINARY,
    FILTERS,
    FUNCTIONS,
    MOST_TEXT,
    OverBudget,
    budget,
    fits,
    join_together,
    measured,
    replaced,
    spend,
    texts_of,
)

MOST_SOURCE = 131_072
"""Characters of a template; the longest that are in use have some 20,000."""

# fmt: off
_SAFE_TEXT_METHODS = frozenset((
    "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdecimal", "isdigit", "islower", "isnumeric",
    "isspace", "istitle", "isupper", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind",
    "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper",
))
# fmt: on


@pass_context
def _said(context: Context, value: Any) -> Any:
    """What an expression puts into the output."""
    return measured(value)


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's words for training, and changes nothing else."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return BINARY[operator](left, right)

    # The names of the first three are those of the class above: keyword arguments of a template may have any other.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        spend()
        if isinstance(owner := getattr(__obj, "__self__", None), str):
            if (name := getattr(__obj, "__name__", "")) == "replace":
                return replaced(owner, *args, **kwargs)
            if name == "join":
                texts = texts_of(*args)
                fits(sum(map(len, texts)) + len(owner) * len(texts))
                return owner.join(texts)
            spend(len(owner))
        made = super().call(__context, __obj, *args, **kwargs)
        return measured(made) if isinstance(made, list | tuple | dict) else made

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and callable(value) and attr not in _SAFE_TEXT_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Formats can ask for any width: nobody's is wrapped, so none is safe."""
        return


class EndlessTemplate(ValueError):
    """A template that uses up all that it may."""


class SandboxedTemplate:
    """A compiled template. ``mark`` is applied to all texts of its own that can become output."""

    def __init__(self, source: str, mark: Callable[[str], str]) -> None:
        """Raises ValueError, in a sentence about "it", for what is no template or too long."""
        if len(source) > MOST_SOURCE:
            raise ValueError(f"it has {len(source)} characters; the most is {MOST_SOURCE}")
        env = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, finalize=_said, extensions=[LoopControlExtension, _Generation]
        )
        env.filters, env.globals = dict(FILTERS), dict(FUNCTIONS)
        env.extend(kvtop_spend=spend, kvtop_join=join_together, kvtop_measured=measured)
        try:
            tree = env.parse(source)
            _guard(tree, mark)
            code = env.compile(tree)
            self._template = env.template_class.from_code(env, code, env.make_globals(None))
        except TemplateSyntaxError as error:
            raise ValueError(f"line {error.lineno} of it: {error.message}") from None
        except (RecursionError, MemoryError):
            raise ValueError("it is nested too deeply") from None
        except Exception as error:  # compiling runs what a template computes of constants
            raise ValueError(str(error) or type(error).__name__) from None

    def render(self, values: Mapping[str, Any]) -> str:
        """Raises ValueError with what went wrong, as the template or Jinja says it; `EndlessTemplate` is one."""
        with budget():
            try:
                return self._rendered(values)
            except OverBudget as error:
                raise EndlessTemplate(str(error)) from None
            except (RecursionError, MemoryError):
                raise ValueError("it is nested too deeply") from None
            except Exception as error:  # whatever a template can do wrong: it is not ours
                raise ValueError(str(error) or type(error).__name__) from None

    def _rendered(self, values: Mapping[str, Any]) -> str:
        pieces, size = [], 0
        for piece in self._template.generate(values):
            pieces.append(piece)
            size += len(piece)
            spend(len(piece))
            if size > MOST_TEXT:
                raise SecurityError(f"it says more than {MOST_TEXT} characters")
        return "".join(pieces)


def _guard(node: nodes.Node, mark: Callable[[str], str], is_output: bool = True) -> None:
    """Changes a parsed template in place: what it may say is marked, and what it does is charged.

    ``is_output``: whether texts here can become output. What is compared with a message or searched for in it cannot,
    and must be spelled as in the message.
    """
    if isinstance(node, nodes.TemplateData | nodes.Const):
        own = node.data if isinstance(node, nodes.TemplateData) else node.value
        if is_output and isinstance(own, str):
            setattr(node, "data" if isinstance(node, nodes.TemplateData) else "value", mark(own))
        return
    for name, value in node.iter_fields():
        goes_on = is_output and not _only_looks(node, name)
        if isinstance(value, nodes.Node):
            _guard(value, mark, goes_on)
            # What a filter block filters stands inside it, so its filter is no expression of its own.
            setattr(node, name, value if isinstance(node, nodes.FilterBlock) else _charged(value))
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, nodes.Node):
                    _guard(each, mark, goes_on)
            setattr(node, name, [_charged(each) for each in value])
    if isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock):
        said = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        node.body.insert(0, nodes.ExprStmt(_call("kvtop_spend", [nodes.Const(said)], node), lineno=node.lineno))


def _only_looks(node: nodes.Node, name: str) -> bool:
    """Whether what stands in field ``name`` of ``node`` is looked at and not said."""
    if isinstance(node, nodes.Compare | nodes.Operand):
        return True
    if isinstance(node, nodes.Call):
        return name != "node" and isinstance(node.node, nodes.Getattr)
    if isinstance(node, nodes.Filter):
        return name != "node" and node.name not in ("join", "default", "d")
    return (isinstance(node, nodes.Test) and name != "node") or (isinstance(node, nodes.Getitem) and name == "arg")


def _charged(node: Any) -> Any:
    """Everything whose cost grows with what it is given."""
    if isinstance(node, nodes.Concat):
        return _call("kvtop_join", node.nodes, node)
    grows = isinstance(node, nodes.List | nodes.Dict | nodes.Compare | nodes.Filter | nodes.Test)
    is_slice = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    if grows or is_slice or (isinstance(node, nodes.Tuple) and node.ctx == "load"):
        return _call("kvtop_measured", [node], node)
    return node


def _call(name: str, arguments: list[Any], at: nodes.Node) -> nodes.Call:
    function = nodes.EnvironmentAttribute(name, lineno=at.lineno)
    call = nodes.Call(function, arguments, [], None, None, lineno=at.lineno)
    if at.environment is not None:
        call.set_environment(at.environment)
    return call
