import { akriDifferences } from './akri-differences.js'
import { conditionText, keyText } from './condition-text.js'
import type { Rule } from './rule.js'

interface Warning {
  readonly path: string
  readonly message: string
}

/** What may be a mistake in valid rules. */
export function ruleWarnings(rules: readonly Rule[]): Warning[] {
  const differences = rules.flatMap((rule, index) =>
    akriDifferences(rule).map((message) => ({ path: `udevRules[${index}]`, message })),
  )
  return [...splitRule(rules), ...differences]
}

/** The most conditions of a message. */
const MAX_SHOWN = 3

/**
 * YAML makes two rules of `[SUBSYSTEM=="net", KERNEL=="eth0"]`: a comma separates the items of its
 * list, and the conditions of a rule. Values of one key can only be alternatives.
 */
function splitRule(rules: readonly Rule[]): Warning[] {
  const conditions = rules.flat()
  const isSingle = rules.length > 1 && rules.every((rule) => rule.length === 1)
  const keys = conditions.map((match) => `${keyText(match)}${match.operator}`)
  const areAlternatives = new Set(keys).size === 1 && keys[0]?.endsWith('==')
  if (!isSingle || areAlternatives) return []
  const shown = conditions.slice(0, MAX_SHOWN).map(conditionText)
  if (conditions.length > MAX_SHOWN) shown.push('…')
  const message =
    `each of these ${rules.length} rules is a single condition, and a device matches if any of ` +
    `them holds; if all must hold, write one rule on a line of its own: - ${shown.join(', ')}`
  return [{ path: 'udevRules', message }]
}
