"""The papers' printed values and claims beside our runs, as data (`ledger`) and as a report (`report`), and scores of
fields whose records contain the printed values (`reported`).
"""
