"""Posteriors of regression models on small data sets, with their moments from long reference runs."""
