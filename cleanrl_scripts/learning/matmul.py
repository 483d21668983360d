"""choose_matmul: the fastest products of the wanted precision on this CPU."""

import torch


def choose_matmul(precision: str) -> str:
    """Picks the fastest products of the wanted precision on this CPU and says which.

    torch's bf16 switch sends float32 products to oneDNN, twice as fast as MKL on some processors. Without bf16 matrix units
    the products stay in float32 there, with such units they do not. This measures which is the case.
    """
    if not hasattr(torch.backends.mkldnn, "matmul"):  # before torch 2.9
        return "float32 products"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # pyright: ignore[reportAttributeAccessIssue]
    a, b = torch.randn(2, 256, 256, generator=torch.Generator().manual_seed(0))
    error = ((a @ b).double() - a.double() @ b.double()).abs().max().item()
    rounded = error > 1e-3  # float32 is off by 5e-5 at most here, bfloat16 by 0.3
    if rounded and precision == "float32":
        torch.backends.mkldnn.matmul.fp32_precision = "none"  # pyright: ignore[reportAttributeAccessIssue]
        return "float32 products"
    return "products rounded to bfloat16" if rounded else "float32 products in oneDNN"
