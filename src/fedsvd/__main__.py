"""``python -m fedsvd`` is the ``fedsvd`` command."""

from fedsvd.cli.main import app

app()
