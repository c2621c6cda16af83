import { keyText } from './condition-text.js'
import type { Match, Rule } from './rule.js'
import { globOf, isPlural } from './rule-matcher.js'

/**
 * What a rule means here and not in the existing system (docs/handlers/udev-rules-from-akri.md).
 * The existing system passes conditions to libudev, and compares others as regular expressions.
 */
export function akriDifferences(rule: Rule): string[] {
  return [...new Set([...rule.flatMap(conditionDifferences), ...ruleDifferences(rule)])]
}

function conditionDifferences(match: Match): string[] {
  const { key, operator, value } = match
  const differences: string[] = []
  const shown = keyText(match)
  if (operator === '!=' && isPlural(match))
    differences.push(
      `${shown}!= holds if the device or any ancestor differs, as in udev; in Akri, if none of ` +
        'them matches',
    )
  if (operator === '!=' && (key === 'ATTR' || key === 'ATTRS'))
    differences.push(
      `${shown}!= needs the attribute, as in udev; in Akri it also holds for devices without the ` +
        'attribute',
    )
  const absent = ABSENT[key]
  if (absent !== undefined && globOf(match).matches(''))
    differences.push(
      operator === '=='
        ? `${shown}=="${value}" also holds if the ${absent} is absent, as in udev; in Akri it ` +
            'does not; "?*" is any text that is not empty'
        : `${shown}!="${value}" needs the ${absent}, as in udev; in Akri it also holds if the ` +
            `${absent} is absent`,
    )
  if (key === 'ENV' && operator === '==' && /[*?[]/.test(match.attribute))
    differences.push(`${shown} is one property here; in Akri, the name is a glob too`)
  if (key === 'DEVPATH' && operator === '==')
    differences.push('DEVPATH== selects devices here; in Akri it selects all')
  return [...differences, ...valueDifferences(match)]
}

function valueDifferences(match: Match): string[] {
  const { key, value } = match
  if (isRegularExpressionInAkri(match)) {
    const syntax = REGULAR_EXPRESSION.exec(value)?.[0] ?? /[^*][*?+]/.exec(value)?.[0].slice(1)
    if (syntax === undefined) return []
    return [
      `"${value}" contains ${syntax}, as a regular expression; values are globs here: * is any ` +
        'text, ? is any character',
    ]
  }
  if (key === 'DEVPATH') return []
  const differences: string[] = []
  const syntax = NO_GLOB.exec(value)?.[0]
  if (syntax !== undefined)
    differences.push(
      `"${value}" contains ${syntax}, as a regular expression; it is a glob, in Akri too: * is ` +
        'any text, ? is any character',
    )
  if (value.includes('|'))
    differences.push(`"${value}" has alternatives here; in Akri, | is an ordinary character`)
  return differences
}

function ruleDifferences(rule: Rule): string[] {
  const differences: string[] = []
  const counts = new Map<string, number>()
  for (const match of rule) {
    const { key, operator } = match
    const isAlternative = ['KERNEL', 'SUBSYSTEM', 'ENV', 'ATTR'].includes(key)
    if (operator !== '==' || !isAlternative) continue
    // libudev: values of one attribute are alternatives, and those of all properties.
    const what = key === 'ATTR' ? keyText(match) : key
    counts.set(what, (counts.get(what) ?? 0) + 1)
  }
  for (const [what, count] of counts)
    if (count > 1)
      differences.push(
        `all ${count} conditions on ${what} must hold here; in Akri, any of them is enough`,
      )
  if (rule.some(({ withoutComma }) => withoutComma))
    differences.push(
      'all conditions must hold here; in Akri, those after a missing comma do not count',
    )
  if (rule.filter(isPlural).length > 1)
    differences.push(
      'the conditions on ancestors must hold for one and the same of them, as in udev; in Akri, ' +
        'each can hold for another',
    )
  return differences
}

/** The conditions that libudev does not evaluate (discovery_impl.rs, find_devices). */
function isRegularExpressionInAkri(match: Match): boolean {
  const { key, operator } = match
  if (isPlural(match) || key === 'DRIVER') return true
  return operator === '!=' && key !== 'ATTR' && key !== 'SUBSYSTEM'
}

/** What devices and their ancestors may lack: an empty text here, no match in Akri. */
const ABSENT: Readonly<Partial<Record<Match['key'], string>>> = {
  ENV: 'property',
  DRIVER: 'driver',
  DRIVERS: 'driver',
  SUBSYSTEMS: 'subsystem',
}

/** Syntax that means something else in a glob. A glob may contain it: `1-1.*` is a USB port. */
const REGULAR_EXPRESSION = /\.[*+?]|\\[dDwWsSbB.]|\([^()]*\)|\[[^[\]]+\]\+|\{\d+(?:,\d*)?\}|^\^|\$$/
/** Syntax that no author of a glob writes. */
const NO_GLOB = /\\[dDwWsSbB]|\[[^[\]]+\]\+|^\^/
