"""Comparing encoders: which of two agrees better with human scores, and is that more than chance?"""
