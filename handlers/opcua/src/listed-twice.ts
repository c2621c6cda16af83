import { readEndpointUrl } from './endpoint-url.js'
import type { FoundServer } from './found-server.js'

/**
 * Leaves out announced servers that are listed as well, under another spelling of the same host. The application URI alone does
 * not tell: servers that nobody has configured share that of their maker.
 * @param applicationUriOf what a server has said that it is, if it has
 * @param addressesOf where a server is
 */
export async function withoutListedTwice(
  servers: readonly FoundServer[],
  applicationUriOf: (server: FoundServer) => string | undefined,
  addressesOf: (server: FoundServer) => Promise<readonly string[]>,
): Promise<readonly FoundServer[]> {
  const announced = servers.filter(({ application }) => application === undefined)
  if (announced.length === 0 || announced.length === servers.length) return servers
  const keysOf = async (server: FoundServer) => {
    const uri = applicationUriOf(server)
    if (uri === undefined) return []
    const port = readEndpointUrl(server.discoveryUrl)?.port
    return (await addressesOf(server)).map((address) => JSON.stringify([uri, port, address]))
  }
  const listed = new Set<string>()
  for (const server of servers) if (server.application !== undefined) for (const key of await keysOf(server)) listed.add(key)
  const twice = new Set<FoundServer>()
  for (const server of announced) if ((await keysOf(server)).some((key) => listed.has(key))) twice.add(server)
  return servers.filter((server) => !twice.has(server))
}
