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
      const set = character === '[' ? compileSet(characters, at) : undefined
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

/**
 * A bracket expression; undefined if it is unclosed. `]` as the first member is an ordinary
 * character.
 */
function compileSet(
  characters: readonly string[],
  start: number,
): { readonly step: Step; readonly end: number } | undefined {
  let at = start + 1
  const negated = characters[at] === '!' || characters[at] === '^'
  if (negated) at++
  const holds: ((character: string) => boolean)[] = []
  let isInvalid = false
  for (let first = true; ; first = false) {
    const character = characters[at]
    if (character === undefined) return undefined
    if (character === ']' && !first) {
      const step: Step = (candidate) => holds.some((test) => test(candidate)) !== negated
      return { step: isInvalid ? never : step, end: at + 1 }
    }
    const named =
      character === '[' && characters[at + 1] === ':'
        ? /^\[:([a-z]+):\]/.exec(characters.slice(at, at + 40).join(''))
        : null
    if (named) {
      const members = CLASSES[named[1] ?? '']
      if (members === undefined) isInvalid = true
      else holds.push((candidate) => members.test(candidate))
      at += named[0].length
      continue
    }
    const low = member(characters, at)
    if (low === undefined) return undefined
    at = low.end
    // A hyphen before the closing bracket is an ordinary character.
    if (characters[at] === '-' && characters[at + 1] !== ']' && characters[at + 1] !== undefined) {
      const high = member(characters, at + 1)
      if (high === undefined) return undefined
      at = high.end
      holds.push((candidate) => low.character <= candidate && candidate <= high.character)
    } else holds.push((candidate) => candidate === low.character)
  }
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
