from .endpoint import KernelAddress as KernelAddress
from .endpoint import KernelEndpoint as KernelEndpoint
