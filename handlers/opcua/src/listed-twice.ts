import { readEndpointUrl } from './endpoint-url.js'
import type { FoundServer } from './found-server.js'

/**
 * Leaves out announced servers that are listed as well, under another spelling of the same host. The application URI alone does
 * not tell: servers that nobody has configured share that of their maker.
 * @param applicationUriOf what a server has said that it is, if it has
 * @param addressesOf where a server is; asked for all of them at the same time
 */
export async function withoutListedTwice(
  servers: readonly FoundServer[],
  applicationUriOf: (server: FoundServer) => string | undefined,
  addressesOf: (server: FoundServer) => Promise<readonly string[]>,
): Promise<readonly FoundServer[]> {
  const announced = servers.filter(({ application }) => application === undefined).length
  if (announced === 0 || announced === servers.length) return servers
  const keysOf = async (server: FoundServer) => {
    const uri = applicationUriOf(server)
    if (uri === undefined) return []
    const port = readEndpointUrl(server.discoveryUrl)?.port
    return (await addressesOf(server)).map((address) => JSON.stringify([uri, port, address]))
  }
  const withKeys = await Promise.all(servers.map(async (server) => ({ server, keys: await keysOf(server) })))
  const listed = new Set(withKeys.flatMap(({ server, keys }) => (server.application === undefined ? [] : keys)))
  const isTwice = ({ application }: FoundServer, keys: readonly string[]) =>
    application === undefined && keys.some((key) => listed.has(key))
  return withKeys.flatMap(({ server, keys }) => (isTwice(server, keys) ? [] : server))
}
