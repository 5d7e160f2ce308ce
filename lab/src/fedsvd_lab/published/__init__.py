"""The scheme of the paper as it was published, leaks included: to be reproduced, and attacked (ADR 0074).

    setting.py   what all roles know: shapes, blocks, mini-batches, and which optimisations are on
    roles.py     the TA, the users and the CSP as scripts of messages (Algorithms 1 to 3, eq. 2 to 6)
    provider.py  what the CSP does with the sum: SVD, or least squares
    blind.py     eq. 6: V_i through the CSP
    play.py      all roles in one process, bytes and rounds counted
    wired.py     the same roles over TCP, the CSP behind a slow line
    cost.py      seconds and bytes at sizes that are not run

The product has no option for any of this: its schemes are in ``fedsvd``.
"""
