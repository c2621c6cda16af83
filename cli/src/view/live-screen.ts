import { maskUrls, messageOf, printable } from '@akrijs/runtime'
import { bold, dim, drawAgent, listRows, type PictureInput, row } from './agent-picture.js'
import { afterKey, type ListedObject, OVERVIEW, type ScreenState } from './screen.js'
import { wrap } from './table.js'
import type { PressedKey } from './terminal-keys.js'

export interface Size {
  readonly columns: number
  readonly rows: number
}

interface LiveScreenOptions {
  readonly picture: Omit<PictureInput, 'columns' | 'rows' | 'hasKeys'>
  /** Everything about an object, as lines. */
  describe(object: ListedObject): Promise<readonly string[]>
  redraw(): void
  end(): void
}

/** The rows of head and keys, around a list, details or the log. */
const FRAME_ROWS = 2

/** What the terminal shows, and what keys do to it. */
export class LiveScreen {
  readonly #options: LiveScreenOptions
  #state = OVERVIEW
  /** Those of the opened object, as they were read last. */
  #details: readonly string[] = []
  #isReading = false
  #isOutdated = false
  #size: Size = { columns: 80, rows: 24 }

  constructor(options: LiveScreenOptions) {
    this.#options = options
  }

  press(key: PressedKey): void {
    const { picture, end, redraw } = this.#options
    const objects = listRows(picture, this.#state.filter)
    const lines = this.#lines().length
    const next = afterKey(this.#state, key, { objects, lines, page: this.#page })
    if (next === undefined) {
      end()
      return
    }
    if (next.opened !== this.#state.opened) this.#details = []
    this.#state = next
    redraw()
  }

  draw(size: Size, hasKeys: boolean): string[] {
    this.#size = size
    if (this.#state.screen === 'overview')
      return drawAgent({ ...this.#options.picture, ...size, hasKeys })
    if (this.#state.opened !== undefined) void this.#readDetails()
    const body = this.#state.screen === 'list' ? this.#list() : this.#pager()
    const blank = Array.from({ length: Math.max(0, this.#page - body.length) }, () => '')
    const { columns, rows } = size
    const text = row(columns, dim(this.#state.isTyping ? TYPING_KEYS : KEYS[this.#state.screen]))
    return [this.#head(), ...body, ...blank, text].slice(0, rows)
  }

  get #page(): number {
    return Math.max(1, this.#size.rows - FRAME_ROWS)
  }

  #head(): string {
    const { screen, filter, isTyping, opened } = this.#state
    const { columns } = this.#size
    if (opened !== undefined) return row(columns, bold(`${opened.kind} ${opened.name}`))
    if (screen === 'log') return row(columns, bold('log'))
    return row(columns, bold('devices'), dim(isTyping || filter !== '' ? `/${filter}` : ''))
  }

  #list(): string[] {
    const rows = listRows(this.#options.picture, this.#state.filter)
    if (rows.length === 0) return [row(this.#size.columns, dim('nothing has these words'))]
    const selected = Math.min(this.#state.at, rows.length - 1)
    const first = Math.max(0, selected - this.#page + 1)
    return rows.slice(first, first + this.#page).map(({ draw }, index) => {
      const mark = first + index === selected ? '▸ ' : '  '
      return mark + draw(Math.max(1, this.#size.columns - 2))
    })
  }

  #pager(): string[] {
    const lines = this.#lines()
    const first = Math.max(0, Math.min(this.#state.at, lines.length - this.#page))
    return lines.slice(first, first + this.#page)
  }

  /** All rows of details or of the log. */
  #lines(): string[] {
    const { screen } = this.#state
    const lines = screen === 'details' ? this.#details : this.#options.picture.lines
    const width = Math.max(1, this.#size.columns - 1)
    return lines.flatMap((line) => wrap(printable(maskUrls(line)), width))
  }

  /** Reads again after each drawing: the object may have changed. */
  async #readDetails(): Promise<void> {
    this.#isOutdated = true
    if (this.#isReading) return
    this.#isReading = true
    for (let { opened } = this.#state; opened && this.#isOutdated; { opened } = this.#state) {
      this.#isOutdated = false
      const lines = await this.#options
        .describe(opened)
        .catch((error: unknown) => [messageOf(error)])
      const isNew = lines.join('\n') !== this.#details.join('\n')
      if (opened !== this.#state.opened || !isNew) continue
      this.#details = lines
      this.#options.redraw()
    }
    this.#isReading = false
  }
}

const KEYS: Readonly<Record<ScreenState['screen'], string>> = {
  overview: '',
  list: '↑↓ select, Enter open, / filter, Esc back, l log, q end',
  details: '↑↓ scroll, Esc back, l log',
  log: '↑↓ scroll, Esc back, q end',
}
const TYPING_KEYS = 'type words, Enter keeps them, Esc removes them'
