import { stripVTControlCharacters } from 'node:util'

export const COLOR_CHOICES = ['auto', 'always', 'never'] as const

interface Output {
  readonly isTTY: boolean
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Whether a terminal obeys control sequences. */
export function isCapable({ isTTY, environment }: Output): boolean {
  return isTTY && environment.TERM !== 'dumb'
}

/**
 * Whether an output has colours. An option counts before FORCE_COLOR, and FORCE_COLOR before
 * NO_COLOR, as in Node.js; an empty variable is unset.
 */
export function hasColors(choice: (typeof COLOR_CHOICES)[number], output: Output): boolean {
  if (choice !== 'auto') return choice === 'always'
  const { NO_COLOR = '', FORCE_COLOR = '' } = output.environment
  if (FORCE_COLOR !== '') return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false'
  return NO_COLOR === '' && isCapable(output)
}

/** A line of the log for people with a coloured level. */
export function withColoredLevel(line: string): string {
  return line.replace(/^(\S+ )(warn|error)\b/, (_, time, level) => {
    const code = level === 'error' ? 31 : 33
    return `${time}\u001b[${code}m${level}\u001b[39m`
  })
}

export function withoutColors(lines: readonly string[]): string[] {
  return lines.map(stripVTControlCharacters)
}
