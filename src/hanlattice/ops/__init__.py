"""Pure functions on arrays and tensors: no parameters, no config. Each fast one has a twin that reads like its equations."""
