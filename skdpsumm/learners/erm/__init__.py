"""Regularised losses over a kernel's space, minimised to a certified distance."""
