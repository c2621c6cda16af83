import { isIPv4 } from 'node:net'
import type { OnvifDetails } from './details.js'

/** A field of the details that does not have the effect that its author expects. */
export interface DetailsWarning {
  readonly field: keyof OnvifDetails
  readonly problem: string
  /** The first wrong values. */
  readonly values: readonly unknown[]
}

/** Bounds of `discoveryTimeoutSeconds`. */
const TIMEOUT = { min: 1, max: 60 }
const MAX_VALUES = 10

/** The values that a camera can have, as the details spell them. */
const POSSIBLE = {
  ipAddresses: { test: isIPv4, expected: 'an IPv4 address' },
  macAddresses: { test: matches(/^[\da-f]{12}$/), expected: 'a hardware address of 12 digits' },
  scopes: { test: matches(/^\S+$/), expected: 'a scope, which has no spaces' },
  uuids: { test: matches(/^[\x21-\x7e]+$/), expected: 'a UUID, which has no spaces' },
} as const

export function limitedTimeoutSeconds({ discoveryTimeoutSeconds }: OnvifDetails): number {
  return Math.min(TIMEOUT.max, Math.max(TIMEOUT.min, discoveryTimeoutSeconds))
}

export function detailsWarnings(details: OnvifDetails): DetailsWarning[] {
  const { discoveryTimeoutSeconds } = details
  const warnings: DetailsWarning[] = []
  const limited = limitedTimeoutSeconds(details)
  if (limited !== discoveryTimeoutSeconds)
    warnings.push({
      field: 'discoveryTimeoutSeconds',
      problem: `limited to ${limited}`,
      values: [discoveryTimeoutSeconds],
    })
  for (const field of FILTERS) {
    const filter = details[field]
    if (filter === undefined) continue
    const { test, expected } = POSSIBLE[field]
    const impossible = filter.items.filter((item) => !test(item))
    if (impossible.length > 0) {
      const problem = `${impossible.length} of ${filter.items.length} items match nothing`
      const values = impossible.slice(0, MAX_VALUES)
      warnings.push({ field, problem: `${problem}: each is not ${expected}`, values })
    }
    if (filter.items.length === 0 && filter.action !== 'Exclude')
      warnings.push({ field, problem: 'Include without items matches nothing', values: [] })
  }
  return warnings
}

const FILTERS = ['ipAddresses', 'macAddresses', 'scopes', 'uuids'] as const

function matches(pattern: RegExp): (text: string) => boolean {
  return (text) => pattern.test(text)
}
