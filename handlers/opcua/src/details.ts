import { readNetwork } from '@akrijs/sdk/network'
import * as z from 'zod'
import { parseEndpointUrl } from './endpoint-url.js'
import { OpcuaUrlError } from './errors.js'

/** The default address of a discovery server, and of a server without one. */
const DEFAULT_DISCOVERY_URL = 'opc.tcp://localhost:4840/'

/** What is wrong with a discovery URL, and what would be right; undefined if the URL is usable. */
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

/** A wrong URL does not stop the others: the details are refused only if no URL is usable. */
const standard = z
  .strictObject({ discoveryUrls: z.array(z.string()).max(1000).default([DEFAULT_DISCOVERY_URL]) })
  .transform(({ discoveryUrls: urls }, context) => {
    const discoveryUrls = urls.filter((url) => discoveryUrlProblem(url) === undefined)
    const ignoredUrls = urls.flatMap((url, index) => {
      const problem = discoveryUrlProblem(url)
      return problem === undefined ? [] : { url, index, problem }
    })
    if (discoveryUrls.length === 0) {
      for (const { index, problem } of ignoredUrls)
        context.addIssue({ code: 'custom', path: ['discoveryUrls', index], message: problem })
    }
    return { discoveryUrls, ignoredUrls }
  })

const network = z.string().transform((text, context) => {
  const read = readNetwork(text)
  if (read !== undefined) return read
  context.addIssue({
    code: 'custom',
    message: 'this is not a network; write an address or a range, such as 192.168.1.0/24',
  })
  return z.NEVER
})

const method = z
  .strictObject({
    /** FindServers at the URLs of the details. */
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
  /** A filter by application name. @default all */
  applicationNames: z
    .strictObject({
      items: z.array(z.string()).max(10_000),
      action: z.enum(['Include', 'Exclude']).default('Include'),
    })
    .optional(),
  /**
   * The networks of servers. Without networks, servers anywhere are offered, and the handler calls
   * only those in a network of this machine, or at the address of their discovery server.
   */
  allowedNetworks: z.array(network).max(1000).optional(),
  /** Whether the handler opens a session with each server to read more. @default false */
  serverDetails: z.boolean().default(false),
  /** Whether a server without encryption receives its password in clear text. @default false */
  allowUnencryptedPasswords: z.boolean().default(false),
  /** Whether a server receives its credential with any certificate. @default false */
  trustAnyServer: z.boolean().default(false),
})

export type OpcuaDetails = z.infer<typeof opcuaDetails>
