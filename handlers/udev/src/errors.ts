import { defineError } from '@akrijs/sdk'

/** A position in the text of a rule. Line and column count from 1; a column is one character. */
interface RulePosition {
  readonly line: number
  readonly column: number
}

/** A udev rule is invalid, or uses a part of udev that a discovery handler does not support. */
export class UdevRuleError extends defineError('AKRI_ERR_UDEV_RULE', 'terminal') {
  readonly position: RulePosition
  /** The problem without its position. */
  readonly reason: string
  /** The line of the rule, and below it `^` at the position. */
  readonly excerpt: string

  constructor(reason: string, text: string, offset: number) {
    const position = positionOf(text, offset)
    const excerpt = excerptOf(text, position)
    super(`line ${position.line}, column ${position.column}: ${reason}\n${excerpt}`)
    this.position = position
    this.reason = reason
    this.excerpt = excerpt
  }
}

/** The number of characters shown on each side of the position. */
const CONTEXT = 40

function positionOf(text: string, offset: number): RulePosition {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return { line, column: [...before.slice(before.lastIndexOf('\n') + 1)].length + 1 }
}

function excerptOf(text: string, { line, column }: RulePosition): string {
  // Unprintable characters would move the caret or corrupt a terminal.
  const shown = [...(text.split('\n')[line - 1] ?? '')].map((character) =>
    /[\p{C}\p{Z}]/u.test(character) ? ' ' : character,
  )
  const from = Math.max(0, column - 1 - CONTEXT)
  const to = column - 1 + CONTEXT
  const [before, after] = [from > 0 ? '…' : '', to < shown.length ? '…' : '']
  return (
    `  ${before}${shown.slice(from, to).join('')}${after}\n  ` +
    `${' '.repeat(before.length + column - 1 - from)}^`
  )
}
