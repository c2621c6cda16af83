/**
 * The value of a match key, compiled as in udev (systemd, udev-rules.c, rule_line_add_token): `|`
 * separates alternatives, and an empty alternative matches the empty text. A value without any of
 * `*?[` contains plain texts, in which a backslash is an ordinary character.
 */
export class Glob {
  readonly #holdsEmpty: boolean
  readonly #fold: (text: string) => string
  readonly #alternative: (text: string) => boolean

  constructor(value: string, { ignoreCase = false }: { readonly ignoreCase?: boolean } = {}) {
    const fold = ignoreCase ? foldCase : (text: string) => text
    const alternatives = value.split('|')
    const texts = alternatives.filter((alternative) => alternative !== '').map(fold)
    this.#fold = fold
    this.#holdsEmpty = texts.length < alternatives.length
    if (/[*?[]/.test(value)) {
      const globs = texts.map(compileGlob)
      this.#alternative = (text) => globs.some((steps) => run(steps, text))
    } else {
      const set = new Set(texts)
      this.#alternative = (text) => set.has(text)
    }
  }

  matches(text: string): boolean {
    return (text === '' && this.#holdsEmpty) || this.#alternative(this.#fold(text))
  }
}

/**
 * Whether `text` matches a glob, as `fnmatch(glob, text, 0)` of the C library: `*` and `?` also
 * match `/` and a leading dot.
 */
export function matchesGlob(glob: string, text: string): boolean {
  return run(compileGlob(glob), text)
}

/** A part of a glob: any text, or a test of a character. */
type Step = 'star' | ((character: string) => boolean)

/** An invalid part, with which fnmatch matches nothing. */
const never: Step = () => false

function equalTo(expected: string): Step {
  return (character) => character === expected
}

/** udevd runs in the C locale, in which only ASCII letters have a case. */
function foldCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** Backtracks only to the last star, which is sufficient: at most text × glob comparisons. */
function run(steps: readonly Step[], text: string): boolean {
  const characters = [...text]
  let [step, at, star, retry] = [0, 0, -1, 0]
  while (at < characters.length) {
    const current = steps[step]
    if (current === 'star') {
      star = step++
      retry = at
    } else if (current?.(characters[at] ?? '')) {
      step++
      at++
    } else if (star >= 0) {
      step = star + 1
      at = ++retry
    } else return false
  }
  while (steps[step] === 'star') step++
  return step === steps.length
}

function compileGlob(glob: string): Step[] {
  const characters = [...glob]
  const brackets = new Brackets(characters)
  const steps: Step[] = []
  for (let at = 0; at < characters.length; ) {
    const character = characters[at] ?? ''
    if (character === '*') {
      if (steps.at(-1) !== 'star') steps.push('star')
      at++
    } else if (character === '?') {
      steps.push(() => true)
      at++
    } else if (character === '\\') {
      const escaped = characters[at + 1]
      steps.push(escaped === undefined ? never : equalTo(escaped))
      at += 2
    } else {
      // An unclosed bracket is an ordinary character.
      const set = character === '[' ? brackets.compile(at) : undefined
      steps.push(set?.step ?? equalTo(character))
      at = set?.end ?? at + 1
    }
  }
  return steps
}

/** The POSIX character classes in the C locale. */
const CLASSES: Readonly<Record<string, RegExp>> = {
  alnum: /^[A-Za-z0-9]$/,
  alpha: /^[A-Za-z]$/,
  blank: /^[ \t]$/,
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what the class holds
  cntrl: /^[\x00-\x1f\x7f]$/,
  digit: /^[0-9]$/,
  graph: /^[!-~]$/,
  lower: /^[a-z]$/,
  print: /^[ -~]$/,
  punct: /^[!-/:-@[-`{-~]$/,
  space: /^[ \t\n\v\f\r]$/,
  upper: /^[A-Z]$/,
  xdigit: /^[0-9A-Fa-f]$/,
}

/** A member of a bracket expression: a character, a range, or a class. */
interface Member {
  readonly end: number
  /** Undefined for a class that does not exist: the expression matches nothing. */
  readonly holds: ((character: string) => boolean) | undefined
}

/** The bracket expressions of a glob. */
class Brackets {
  readonly #characters: readonly string[]
  /**
   * Where an expression ends that has a member at this place; undefined without an end. Without
   * this, a row of unclosed brackets would take quadratic time.
   */
  readonly #ends = new Map<number, number | undefined>()

  constructor(characters: readonly string[]) {
    this.#characters = characters
  }

  /**
   * The expression that begins at `start`; undefined if it is unclosed. `]` as the first member is
   * an ordinary character.
   */
  compile(start: number): { readonly step: Step; readonly end: number } | undefined {
    const negated = ['!', '^'].includes(this.#characters[start + 1] ?? '')
    const first = memberAt(this.#characters, start + (negated ? 2 : 1))
    const end = first && this.#endFrom(first.end)
    if (end === undefined) return undefined
    const members: Member[] = []
    for (let next = first; next !== undefined; ) {
      members.push(next)
      next = next.end < end ? memberAt(this.#characters, next.end) : undefined
    }
    const isInvalid = members.some(({ holds }) => holds === undefined)
    const step: Step = (candidate) => members.some(({ holds }) => holds?.(candidate)) !== negated
    return { step: isInvalid ? never : step, end: end + 1 }
  }

  /** The place of the closing bracket; undefined if there is none. */
  #endFrom(at: number): number | undefined {
    const passed: number[] = []
    let next: number | undefined = at
    while (next !== undefined && this.#characters[next] !== ']' && !this.#ends.has(next)) {
      passed.push(next)
      next = memberAt(this.#characters, next)?.end
    }
    const end = next !== undefined && this.#ends.has(next) ? this.#ends.get(next) : next
    for (const each of passed) this.#ends.set(each, end)
    return end
  }
}

/** Undefined at the end of the glob. */
function memberAt(characters: readonly string[], at: number): Member | undefined {
  const named =
    characters[at] === '[' && characters[at + 1] === ':'
      ? /^\[:([a-z]+):\]/.exec(characters.slice(at, at + 40).join(''))
      : null
  if (named) {
    const members = CLASSES[named[1] ?? '']
    return {
      end: at + named[0].length,
      holds: members && ((candidate) => members.test(candidate)),
    }
  }
  const low = member(characters, at)
  // A hyphen before the closing bracket is an ordinary character.
  const isRange =
    low !== undefined &&
    characters[low.end] === '-' &&
    ![']', undefined].includes(characters[low.end + 1])
  if (!isRange) return low && { end: low.end, holds: (candidate) => candidate === low.character }
  const high = member(characters, low.end + 1)
  return (
    high && {
      end: high.end,
      holds: (candidate) => low.character <= candidate && candidate <= high.character,
    }
  )
}

function member(
  characters: readonly string[],
  at: number,
): { readonly character: string; readonly end: number } | undefined {
  const character = characters[at]
  if (character === '\\') {
    const escaped = characters[at + 1]
    return escaped === undefined ? undefined : { character: escaped, end: at + 2 }
  }
  return character === undefined ? undefined : { character, end: at + 1 }
}
