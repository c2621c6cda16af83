import { firstLine, linesOf, printable } from '@akrijs/runtime'
import stringWidth from 'string-width'

/** Columns as kubectl prints them, without control characters of devices. */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [header, ...rows.map((row) => row.map(printable))]
  // Not as arguments of one call: a list can have more devices than a call can have arguments.
  const widths = header.map((_, column) =>
    lines.reduce((width, line) => Math.max(width, stringWidth(line[column] ?? '')), 0),
  )
  return lines
    .map((line) =>
      line
        .map((cell, column) =>
          column === line.length - 1
            ? cell
            : cell + ' '.repeat((widths[column] ?? 0) - stringWidth(cell) + 3),
        )
        .join('')
        .trimEnd(),
    )
    .join('\n')
}

/** As {@link formatTable}; further lines of the last column stand below their row. */
export function formatMessages(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): string[] {
  const below = rows.map((row) => linesBelow(row.at(-1) ?? ''))
  const table = formatTable(
    header,
    rows.map((row) => row.map(firstLine)),
  )
  return table.split('\n').flatMap((line, index) => [line, ...(below[index - 1] ?? [])])
}

/** All lines but the first. They have one indent, so that a caret stays below its text. */
export function linesBelow(text: string): string[] {
  return linesOf(text)
    .slice(1)
    .map((line) => `    ${printable(line)}`.trimEnd())
}

const GRAPHEMES = new Intl.Segmenter()
/** The most code units in a column: combining marks and parts of emoji have no width. */
const UNITS_PER_COLUMN = 8

/** Cuts a text to a width in columns; also bounds text without width. */
export function shorten(text: string, width: number): string {
  const bounded = text.slice(0, Math.max(0, width) * UNITS_PER_COLUMN)
  if (bounded.length === text.length && stringWidth(text) <= width) return text
  let short = ''
  let left = width - 1
  for (const { segment } of GRAPHEMES.segment(bounded)) {
    left -= stringWidth(segment)
    if (left < 0) break
    short += segment
  }
  return `${short}…`
}

/** The rows of a text in a width in columns. A row ends within a word. */
export function wrap(text: string, width: number): string[] {
  const rows: string[] = []
  let row = ''
  let left = width
  for (const { segment } of GRAPHEMES.segment(text)) {
    const columns = stringWidth(segment)
    if (columns > left && row !== '') {
      rows.push(row)
      row = ''
      left = width
    }
    row += segment
    left -= columns
  }
  return [...rows, row]
}
