import stringWidth from 'string-width'

/** Columns as kubectl prints them. Whatever comes from a device is made harmless first. */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [header, ...rows.map((row) => row.map(printable))]
  const widths = header.map((_, column) =>
    Math.max(...lines.map((line) => stringWidth(line[column] ?? ''))),
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

/** Columns of which the last may have several lines: the first one stands in its column, the others below it, indented. */
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

/** As much of a message as has room in a column. */
export function firstLine(text: string): string {
  return linesOf(text)[0] ?? ''
}

/** The lines of a message below its first one, indented together: a caret in one stands under what it means in another. */
export function linesBelow(text: string): string[] {
  return linesOf(text)
    .slice(1)
    .map((line) => `    ${printable(line)}`.trimEnd())
}

function linesOf(text: string): string[] {
  return text.trimEnd().split(/\r?\n/)
}

/** The text without anything that a terminal would obey. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach the terminal
  return text.replace(/[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\u{fffd}')
}

const GRAPHEMES = new Intl.Segmenter()
/** How many code units may share one column: marks of a letter and parts of a picture have none of their own. */
const UNITS_PER_COLUMN = 8

/** At most so many columns wide, and bounded also where nothing in it is wide. */
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
