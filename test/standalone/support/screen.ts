import stringWidth from 'string-width'

const SEGMENTS = new Intl.Segmenter()
/** A sequence of ECMA-48, any other control character by itself, or text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is these that a terminal obeys
const TOKEN = /\u001b\[(\??)([\d;]*)([A-Za-z])|\p{Cc}|\P{Cc}+/gu
/** An incomplete sequence at the end of a chunk. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const UNFINISHED = /\u001b(\[\??[\d;]*)?$/u

interface Page {
  cells: string[][]
  row: number
  column: number
}

/** Line wrap, the cursor, the alternate screen, synchronized output. */
const MODES = ['7', '25', '1049', '2026']

/** The screen of a terminal: it obeys only the sequences that the live view and a shell use. */
export class Screen {
  columns: number
  rows: number
  /** The numbers of set modes. At the start: 7 (line wrap) and 25 (the cursor). */
  readonly modes = new Set([7, 25])
  /** All unknown sequences, as text. */
  readonly strange: string[] = []
  /** The number of characters that did not fit into their lines. */
  overflow = 0
  /** Whether the next text would have a colour or another attribute. */
  styled = false
  readonly #main: Page = { cells: [], row: 0, column: 0 }
  #page = this.#main
  #rest = ''
  /** During synchronized output: what the screen shows until the output is complete. */
  #complete: string[] | undefined

  constructor(columns: number, rows: number) {
    this.columns = columns
    this.rows = rows
  }

  /** The screen as text, without blanks at the ends. */
  get lines(): string[] {
    if (this.#complete !== undefined) return this.#complete
    const lines = Array.from({ length: this.rows }, (_, row) =>
      (this.#page.cells[row] ?? []).join('').trimEnd(),
    )
    return lines.slice(0, lines.findLastIndex((line) => line !== '') + 1)
  }

  get cursor(): { readonly column: number; readonly row: number } {
    return { column: this.#page.column, row: this.#page.row }
  }

  /** Text below the last line is lost; the screen does not scroll. */
  resize(columns: number, rows: number): void {
    this.columns = columns
    this.rows = rows
    for (const page of [this.#main, this.#page]) {
      for (const line of page.cells) line.length = Math.min(line.length, columns)
      page.cells.length = Math.min(page.cells.length, rows)
      page.row = Math.min(page.row, rows - 1)
    }
  }

  write(text: string): void {
    const all = this.#rest + text
    this.#rest = UNFINISHED.exec(all)?.[0] ?? ''
    for (const [token, isPrivate = '', numbers = '', final] of all
      .slice(0, all.length - this.#rest.length)
      .matchAll(TOKEN)) {
      if (/^\P{Cc}/u.test(token))
        for (const { segment } of SEGMENTS.segment(token)) this.#put(segment)
      else if (!this.#obey(final === undefined ? token : isPrivate + final, numbers))
        this.strange.push(token)
    }
  }

  #put(segment: string): void {
    const page = this.#page
    const width = stringWidth(segment)
    if (page.column + width > this.columns) {
      this.overflow++
      if (this.modes.has(7)) this.#lineFeed()
      page.column = this.modes.has(7) ? 0 : Math.max(0, this.columns - width)
    }
    const line = this.#line()
    line[page.column] = segment
    // The second half of a wide character.
    for (let more = 1; more < width; more++) line[page.column + more] = ''
    page.column += width
  }

  /** The line of the cursor, up to the cursor at least. */
  #line(): string[] {
    const { cells, row, column } = this.#page
    while (cells.length <= row) cells.push([])
    const line = cells[row] ?? []
    while (line.length < column) line.push(' ')
    return line
  }

  #lineFeed(): void {
    const page = this.#page
    if (page.row < this.rows - 1) page.row++
    else page.cells.shift()
  }

  /** @returns whether the sequence is known */
  #obey(command: string, numbers: string): boolean {
    const page = this.#page
    switch (command) {
      case '\r':
        page.column = 0
        return true
      case '\n':
        this.#lineFeed()
        return true
      case 'H':
        ;[page.row, page.column] = [0, 0]
        return numbers === ''
      case 'J':
        this.#line().length = page.column
        page.cells.length = Math.min(page.cells.length, page.row + 1)
        return numbers === ''
      case 'K':
        this.#line().length = page.column
        return numbers === ''
      case 'm':
        this.styled = !/^(22|39|0)?$/.test(numbers)
        return true
      case '?h':
        if (numbers === '1049') this.#page = { cells: [], row: 0, column: 0 }
        if (numbers === '2026') this.#complete = this.lines
        this.modes.add(Number(numbers))
        return MODES.includes(numbers)
      case '?l':
        if (numbers === '1049') this.#page = this.#main
        if (numbers === '2026') this.#complete = undefined
        this.modes.delete(Number(numbers))
        return MODES.includes(numbers)
      default:
        return false
    }
  }
}
