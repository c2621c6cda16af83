import { AkriError } from '@akrijs/sdk'

/** Where in the text of a rule; both count from 1, columns in characters. */
export interface RulePosition {
  readonly line: number
  readonly column: number
}

/** A udev rule that cannot be understood, or that asks for what a discovery handler does not do. */
export class UdevRuleError extends AkriError {
  readonly position: RulePosition
  /** What is wrong, without the place. */
  readonly reason: string
  /** The line of the rule, and a line below it with `^` at the place. */
  readonly excerpt: string

  constructor(reason: string, text: string, offset: number) {
    const position = positionOf(text, offset)
    const excerpt = excerptOf(text, position)
    super(
      'AKRI_ERR_UDEV_RULE',
      'terminal',
      `line ${position.line}, column ${position.column}: ${reason}\n${excerpt}`,
    )
    this.name = 'UdevRuleError'
    this.position = position
    this.reason = reason
    this.excerpt = excerpt
  }
}

/** Of a long line only this many characters on each side of the place are shown. */
const AROUND = 40

function positionOf(text: string, offset: number): RulePosition {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return { line, column: [...before.slice(before.lastIndexOf('\n') + 1)].length + 1 }
}

function excerptOf(text: string, { line, column }: RulePosition): string {
  // What cannot be printed would move the caret or upset a terminal.
  const shown = [...(text.split('\n')[line - 1] ?? '')].map((character) =>
    /[\p{C}\p{Z}]/u.test(character) ? ' ' : character,
  )
  const from = Math.max(0, column - 1 - AROUND)
  const to = column - 1 + AROUND
  const [before, after] = [from > 0 ? '…' : '', to < shown.length ? '…' : '']
  return `  ${before}${shown.slice(from, to).join('')}${after}\n  ${' '.repeat(before.length + column - 1 - from)}^`
}
