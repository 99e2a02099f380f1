"""Comparing encoders: which of two agrees better with people's scores, and is that more than chance?"""
