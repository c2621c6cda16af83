import { isIPv4 } from 'node:net'
import { filterWarnings } from '../../details-fields.js'
import type { OnvifDetails } from './details.js'
import { cameraText } from './xml/camera-text.js'

/** A field of the details that does not have the effect that its author expects. */
export interface DetailsWarning {
  /** The path of the field, such as `uuids.items[0]`. */
  readonly path: string
  readonly message: string
}

/** Bounds of `discoveryTimeoutSeconds`. */
const TIMEOUT = { min: 1, max: 60 }
/** The limit of warnings about the items of one filter. */
const MAX_ITEMS = 10

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
      path: 'discoveryTimeoutSeconds',
      message: `${discoveryTimeoutSeconds} is limited to ${limited}`,
    })
  for (const field of FILTERS) {
    const filter = details[field]
    if (filter === undefined) continue
    const { test, expected } = POSSIBLE[field]
    const impossible = filter.items.flatMap((item, index) =>
      test(item)
        ? []
        : [{ path: `${field}.items[${index}]`, message: `${shown(item)} is not ${expected}` }],
    )
    for (const { path, message } of impossible.slice(0, MAX_ITEMS))
      warnings.push({ path, message: `${message}: it matches nothing` })
    const more = impossible.length - MAX_ITEMS
    if (more > 0) warnings.push({ path: field, message: `${more} more items match nothing` })
    warnings.push(...filterWarnings(field, filter))
  }
  return warnings
}

const FILTERS = ['ipAddresses', 'macAddresses', 'scopes', 'uuids'] as const

function shown(item: string): string {
  return JSON.stringify(cameraText(item, 64))
}

function matches(pattern: RegExp): (text: string) => boolean {
  return (text) => pattern.test(text)
}
