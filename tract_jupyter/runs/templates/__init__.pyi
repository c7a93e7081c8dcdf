from .engine import Template as Template
from .engine import parse as parse
from .engine import render as render
from .engine import variables_of as variables_of
from .values import TemplateLimits as TemplateLimits
