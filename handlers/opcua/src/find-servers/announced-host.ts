// Decides whether a host in an answer means the same machine here as at the respondent. Pure.
import { AllowedNetworks, readNetworks } from '@akrijs/sdk/network'
import { HOST_UNKNOWN } from '../left-out-reason.js'

const LOOPBACK = new AllowedNetworks(readNetworks(['127.0.0.0/8', '::1']))
const UNSPECIFIED = new AllowedNetworks(readNetworks(['0.0.0.0/8', '::']))
const LOCAL_ONLY = 'address is valid on its own machine only'

interface Host {
  readonly addresses: readonly string[]
  /** The addresses of the server that gave the answer. */
  readonly respondent: readonly string[]
  /** Whether the respondent reports itself, and no other server. */
  readonly isOwn: boolean
}

/** Why nothing can be called at this host; undefined for a host that can be called. */
export function hostProblem({ addresses, respondent, isOwn }: Host): string | undefined {
  if (addresses.length === 0) return HOST_UNKNOWN
  const isMeant = (address: string) => {
    if (UNSPECIFIED.allows(address)) return false
    if (!LOOPBACK.allows(address)) return true
    // A loopback address of the respondent's machine is one here if both are the same machine.
    return isOwn ? respondent.includes(address) : respondent.some((own) => LOOPBACK.allows(own))
  }
  return addresses.some(isMeant) ? undefined : LOCAL_ONLY
}
