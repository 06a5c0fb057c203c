"""Micro-benchmarks in the guest: measured, and compared with closed forms and with published measurements."""
