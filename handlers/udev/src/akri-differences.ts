import type { Match, Rule } from './rule.js'
import { isPlural } from './rule-matcher.js'

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
  const shown = 'attribute' in match ? `${key}{${match.attribute}}` : key
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
  const syntax = regularExpression(value, isRegularExpressionInAkri(match))
  if (syntax !== undefined)
    differences.push(
      `"${value}" contains ${syntax}, as a regular expression; values are globs here: * is any ` +
        'text, ? is any character',
    )
  if (key === 'DEVPATH' && operator === '==')
    differences.push('DEVPATH== selects devices here; in Akri it selects all')
  return differences
}

function ruleDifferences(rule: Rule): string[] {
  const differences: string[] = []
  for (const key of ['KERNEL', 'SUBSYSTEM', 'ENV', 'TAG'] as const) {
    const count = rule.filter((match) => match.key === key && match.operator === '==').length
    if (count > 1)
      differences.push(
        `all ${count} conditions on ${key} must hold here; in Akri, any of them is enough`,
      )
  }
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

/**
 * The syntax of regular expressions in a value, if any.
 * @param isCertain whether Akri reads the value as a regular expression, so that `*` and `?` repeat
 */
function regularExpression(value: string, isCertain: boolean): string | undefined {
  const found = /\.[*+?]|\\[dDwWsSbB.]|\([^)]*\)|\[[^\]]+\]\+|\{\d+(?:,\d*)?\}|^\^|\$$/.exec(value)
  if (found !== null) return found[0]
  return isCertain ? /[^*][*?+]/.exec(value)?.[0].slice(1) : undefined
}
