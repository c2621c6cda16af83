/** A place in a text, from 1. The column counts characters as editors do (UTF-16). */
export interface Place {
  readonly line: number
  readonly column: number
}

/** The lines of a text. */
export class TextPlaces {
  readonly #starts: readonly number[]

  constructor(text: string) {
    this.#starts = [0, ...[...text.matchAll(/\r\n|\n|\r/g)].map((end) => end.index + end[0].length)]
  }

  placeOf(offset: number): Place {
    let [low, high] = [0, this.#starts.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((this.#starts[middle] ?? 0) <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - (this.#starts[low] ?? 0) + 1 }
  }
}
