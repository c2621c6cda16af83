import { SCALAR_STYLE } from 'js-yaml'
import type { YamlScalar } from './yaml-tree.js'

/**
 * The offset in a file of a character of a text that the file holds, such as `discoveryDetails`.
 * Undefined if YAML has folded the lines of the text.
 * @param source the text of the file
 * @param at the offset in the text that the scalar stands for
 */
export function sourceOffset(source: string, scalar: YamlScalar, at: number): number | undefined {
  const { valueStart, valueEnd, style } = scalar
  const raw = source.slice(valueStart, valueEnd)
  if (style === SCALAR_STYLE.LITERAL_BLOCK) return valueStart + inBlock(raw, scalar.indent, at)
  if (style === SCALAR_STYLE.FOLDED_BLOCK || /[\r\n]/.test(raw)) return undefined
  return valueStart + inLine(raw, style, at)
}

/** Each line of a block lost its indentation, and its end became a newline. */
function inBlock(raw: string, indent: number, at: number): number {
  let start = 0
  let left = at
  for (const { index, 0: end } of raw.matchAll(/\r\n|\n|\r/g)) {
    const length = Math.max(0, index - start - indent)
    if (left <= length) break
    left -= length + 1
    start = index + end.length
  }
  return Math.min(start + indent + left, raw.length)
}

const ESCAPE_LENGTHS: Readonly<Record<string, number>> = { x: 4, u: 6, U: 10 }

/** Each escape of a quoted text stands for a character; \U for two if it is above U+FFFF. */
function inLine(raw: string, style: number, at: number): number {
  let offset = 0
  for (let decoded = 0; decoded < at && offset < raw.length; decoded++) {
    if (style === SCALAR_STYLE.SINGLE_QUOTED && raw[offset] === "'") offset += 2
    else if (style === SCALAR_STYLE.DOUBLE_QUOTED && raw[offset] === '\\') {
      const kind = raw[offset + 1] ?? ''
      if (kind === 'U' && Number.parseInt(raw.slice(offset + 2, offset + 10), 16) > 0xffff)
        decoded++
      offset += ESCAPE_LENGTHS[kind] ?? 2
    } else offset++
  }
  return offset
}
