import { readNetwork } from '@akrijs/sdk/network'
import * as z from 'zod'
import { parseEndpointUrl } from './endpoint-url.js'
import { OpcuaUrlError } from './errors.js'

/** Where a discovery server, or a server that knows only itself, listens unless told otherwise. */
const DEFAULT_DISCOVERY_URL = 'opc.tcp://localhost:4840/'

/** What is wrong with a discovery URL, and what would be right; undefined where servers can be asked for there. */
function discoveryUrlProblem(text: string): string | undefined {
  try {
    return parseEndpointUrl(text).hasPort
      ? undefined
      : 'the port is missing; write it out, as in opc.tcp://host:4840/'
  } catch (error) {
    if (error instanceof OpcuaUrlError) return error.message
    throw error
  }
}

/** A URL that cannot be one does not cost the Configuration the servers of the others: it is refused only where no other is left. */
const standard = z
  .strictObject({ discoveryUrls: z.array(z.string()).max(1000).default([DEFAULT_DISCOVERY_URL]) })
  .transform(({ discoveryUrls }, context) => {
    const judged = discoveryUrls.map((url, index) => ({
      url,
      index,
      problem: discoveryUrlProblem(url),
    }))
    const usable = judged.flatMap(({ url, problem }) => (problem === undefined ? url : []))
    const unusable = judged.flatMap(({ url, index, problem }) =>
      problem === undefined ? [] : { url, index, problem },
    )
    if (usable.length === 0) {
      for (const { index, problem } of unusable)
        context.addIssue({ code: 'custom', path: ['discoveryUrls', index], message: problem })
    }
    return { discoveryUrls: usable, unusable }
  })

const network = z.string().transform((text, context) => {
  const read = readNetwork(text)
  if (read !== undefined) return read
  context.addIssue({
    code: 'custom',
    message: 'this is no network; write an address, or one with a length: 192.168.1.0/24',
  })
  return z.NEVER
})

const method = z
  .strictObject({
    /** FindServers at given URLs. */
    standard: standard.optional(),
    /** Multicast DNS on the networks of this machine. */
    mdns: z.strictObject({}).optional(),
  })
  .refine(({ standard, mdns }) => (standard === undefined) !== (mdns === undefined), {
    message: 'name one method: standard or mdns',
  })

/** `discoveryDetails` of the OPC UA handler. */
export const opcuaDetails = z.strictObject({
  opcuaDiscoveryMethod: method,
  /** By application name. @default all */
  applicationNames: z
    .strictObject({
      items: z.array(z.string()).max(10_000),
      action: z.enum(['Include', 'Exclude']).default('Include'),
    })
    .optional(),
  /** Where servers may be. @default anywhere; called are those in networks of this machine, or where the discovery server is */
  allowedNetworks: z.array(network).max(1000).optional(),
  /** Whether a session with each server tells more of it. @default false */
  serverDetails: z.boolean().default(false),
  /** Whether a server is sent a password that everybody on the way can read, if it takes none encrypted. @default false */
  allowUnencryptedPasswords: z.boolean().default(false),
  /** Whether a server is given its credential whatever its certificate. @default false */
  trustAnyServer: z.boolean().default(false),
})

export type OpcuaDetails = z.infer<typeof opcuaDetails>
