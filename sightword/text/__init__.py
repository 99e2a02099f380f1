"""Ordered text: sentences in their order, as word ids on the disk, with passages and a held-out part."""
