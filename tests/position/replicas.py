"""What `torch.nn.DataParallel` makes on each GPU, without one."""


def replica(module):
    """As `torch.nn.DataParallel` makes them: weights are plain attributes, and `parameters()` is empty."""
    twin = module._replicate_for_data_parallel()
    for name, child in module._modules.items():
        twin._modules[name] = child if child is None else replica(child)
    for name, parameter in module._parameters.items():
        setattr(twin, name, parameter if parameter is None else parameter.clone())
    return twin
