import stringWidth from 'string-width'

/** Columns as kubectl prints them. Whatever comes from a device is made harmless first. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows.map((row) => row.map(printable))]
  const widths = header.map((_, column) => Math.max(...lines.map((line) => stringWidth(line[column] ?? ''))))
  return lines
    .map((line) =>
      line
        .map((cell, column) =>
          column === line.length - 1 ? cell : cell + ' '.repeat((widths[column] ?? 0) - stringWidth(cell) + 3),
        )
        .join('')
        .trimEnd(),
    )
    .join('\n')
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
