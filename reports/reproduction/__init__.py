"""The papers' printed values and claims beside our runs: what they say (`ledger`), as a report (`report`), and scores
of fields whose records have the printed values (`reported`).
"""
