import type { Match } from './rule.js'

/** The condition as in a rule. */
export function conditionText(match: Match): string {
  const { operator, value, ignoreCase } = match
  return `${keyText(match)}${operator}${ignoreCase ? 'i' : ''}"${value}"`
}

/** The key of a condition, such as `ATTR{size}`. */
export function keyText(match: Match): string {
  return 'attribute' in match ? `${match.key}{${match.attribute}}` : match.key
}
