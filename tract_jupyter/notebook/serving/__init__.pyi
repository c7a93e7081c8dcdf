from .endpoint import KernelEndpoint as KernelEndpoint
from .endpoint import PublishedEndpoint as PublishedEndpoint
