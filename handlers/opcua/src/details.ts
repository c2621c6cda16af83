import * as z from 'zod'
import { filterList, filterWarnings, network } from '../../details-fields.js'
import { endpointUrlProblem, readEndpointUrl } from './endpoint-url.js'

/** The default address of a discovery server, and of a server without one. */
const DEFAULT_DISCOVERY_URL = 'opc.tcp://localhost:4840/'

/** What is wrong with a discovery URL, and what would be right; undefined if the URL is usable. */
function discoveryUrlProblem(text: string): string | undefined {
  return readEndpointUrl(text)?.hasPort === false
    ? 'the port is missing; write it out, as in opc.tcp://host:4840/'
    : endpointUrlProblem(text)
}

/** A wrong URL does not stop the others: the details are refused only if no URL is usable. */
const standard = z
  .strictObject({
    discoveryUrls: z
      .array(z.string())
      .max(1000)
      .default([DEFAULT_DISCOVERY_URL])
      .describe('URLs of discovery servers, or of servers, with their ports.'),
  })
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

const method = z
  .strictObject({
    standard: standard.optional().describe('FindServers at the URLs of the details.'),
    mdns: z.strictObject({}).optional().describe('Multicast DNS on the networks of this machine.'),
  })
  .refine(({ standard, mdns }) => (standard === undefined) !== (mdns === undefined), {
    message: 'name one method: standard or mdns',
  })

/** `discoveryDetails` of the OPC UA handler. */
export const opcuaDetails = z.strictObject({
  opcuaDiscoveryMethod: method.meta({
    description: 'How servers are found: standard or mdns.',
    minProperties: 1,
    maxProperties: 1,
  }),
  applicationNames: filterList().describe('A filter by application name.'),
  allowedNetworks: z
    .array(network)
    .max(1000)
    .optional()
    .describe(
      'The networks of servers. Without networks, servers anywhere are offered, and the handler ' +
        'calls only those in a network of this machine, or at the address of their discovery ' +
        'server.',
    ),
  serverDetails: z
    .boolean()
    .default(false)
    .describe('Whether the handler opens a session with each server to read more.'),
  allowUnencryptedPasswords: z
    .boolean()
    .default(false)
    .describe('Whether a server without encryption receives its password in clear text.'),
  trustAnyServer: z
    .boolean()
    .default(false)
    .describe('Whether a server receives its credential with any certificate.'),
})

export type OpcuaDetails = z.infer<typeof opcuaDetails>

/** What may be a mistake in valid details. */
export function detailsWarnings({ applicationNames, opcuaDiscoveryMethod }: OpcuaDetails) {
  const { ignoredUrls = [] } = opcuaDiscoveryMethod.standard ?? {}
  const warnings = ignoredUrls.map(({ index, problem }) => ({
    path: `opcuaDiscoveryMethod.standard.discoveryUrls[${index}]`,
    message: problem,
  }))
  return [...warnings, ...filterWarnings('applicationNames', applicationNames)]
}
