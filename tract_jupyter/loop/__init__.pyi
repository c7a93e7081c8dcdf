from .acting import AnswerStore as AnswerStore
from .journal import CallJournal as CallJournal
from .loop import ToolLoop as ToolLoop
from .loop import TurnRequest as TurnRequest
from .threads import awaited as awaited
from .turn import Offer as Offer
from .turn import StoppedEarlyError as StoppedEarlyError
from .turn import TurnStore as TurnStore
