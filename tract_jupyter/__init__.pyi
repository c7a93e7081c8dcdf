from .analysis import CodeAnalyzer as CodeAnalyzer
from .exceptions import RejectedError as RejectedError
from .exceptions import RunFailedError as RunFailedError
from .exceptions import ToolDeniedError as ToolDeniedError
from .exceptions import ToolExecutionError as ToolExecutionError
from .exceptions import TractError as TractError
from .exceptions import UndecidedError as UndecidedError
from .hooks import ModelReviewer as ModelReviewer
from .hooks import Pending as Pending
from .llm import AnthropicClient as AnthropicClient
from .llm import OpenAIClient as OpenAIClient
from .llm import ResponsesClient as ResponsesClient
from .models import CommitInfo as CommitInfo
from .models import CompiledContext as CompiledContext
from .models import PendingStatus as PendingStatus
from .models import Priority as Priority
from .notebook import Refusal as Refusal
from .notebook import verify as verify
from .notebook import verify_store as verify_store
from .operations import ActionDef as ActionDef
from .operations import OperationSpec as OperationSpec
from .runs import RunOptions as RunOptions
from .runs import run_function as run_function
from .runs.profile import Block as Block
from .runs.profile import OperationProfile as OperationProfile
from .runs.profile import run_operation as run_operation
from .session import Session as Session
from .toolkit import mcp_server as mcp_server
from .tract import Tract as Tract

__version__: str

def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...
