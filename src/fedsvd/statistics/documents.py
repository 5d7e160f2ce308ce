"""A table as LaTeX and as a Word document, without a package that writes them.

A Word document is a zip archive with three XML files; of its many elements a table needs a handful.
"""

import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape

_LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_TYPES = (
    f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_OFFICE}" '
    'Target="word/document.xml"/></Relationships>'
)
_THE_EPOCH = (1980, 1, 1, 0, 0, 0)  # of zip archives: the same table is the same file


def latex(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """A ``table`` with the rules of booktabs; numbers to the right."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_as_latex, cells)) + r" \\"

    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_as_latex(title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            line(header),
            r"\midrule",
            *map(line, rows),
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\footnotesize {_as_latex(note)}." for note in notes),
            r"\end{table}",
        ]
    )


def _as_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def written(content: bytes, path: str | Path | None) -> bytes:
    """A document, which is also written where a path is given."""
    if path is not None:
        Path(path).write_bytes(content)
    return content


def docx(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> bytes:
    """A Word document with a caption, the table and notes below it."""
    rules = "".join(f'<w:{side} w:val="single" w:sz="8"/>' for side in ("top", "bottom"))
    table = (
        f"<w:tbl><w:tblPr><w:tblBorders>{rules}</w:tblBorders></w:tblPr><w:tblGrid>"
        f"{'<w:gridCol/>' * len(header)}</w:tblGrid>{_row(header, bold=True)}{''.join(map(_row, rows))}</w:tbl>"
    )
    body = _paragraph(title, bold=True) + table + "".join(_paragraph(f"{note}.") for note in notes) + _paragraph("")
    document = f'{_HEAD}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    parts = {"[Content_Types].xml": _TYPES, "_rels/.rels": _RELATIONS, "word/document.xml": document}
    written = BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _THE_EPOCH), text.encode(), zipfile.ZIP_DEFLATED)
    return written.getvalue()


def _row(cells: Sequence[str], bold: bool = False) -> str:
    sides = ["left", *["right"] * (len(cells) - 1)]
    made = (f"<w:tc>{_paragraph(cell, bold, side)}</w:tc>" for cell, side in zip(cells, sides, strict=True))
    return f"<w:tr>{''.join(made)}</w:tr>"


def _paragraph(text: str, bold: bool = False, side: str = "left") -> str:
    weight = "<w:rPr><w:b/></w:rPr>" if bold else ""
    run = f'<w:r>{weight}<w:t xml:space="preserve">{escape(text)}</w:t></w:r>' if text else ""
    return f'<w:p><w:pPr><w:jc w:val="{side}"/></w:pPr>{run}</w:p>'
