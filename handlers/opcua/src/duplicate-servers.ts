import { readEndpointUrl } from './endpoint-url.js'
import type { OpcuaServer } from './opcua-server.js'

/**
 * Removes each announced or unlisted server that is also listed under another spelling of its host.
 * The application URI alone is not enough: servers with the maker's default settings share one URI.
 * @param applicationUriOf the URI that a server reported, if any
 * @param addressesOf the addresses of a server; called for all servers at the same time
 */
export async function withoutDuplicates(
  servers: readonly OpcuaServer[],
  applicationUriOf: (server: OpcuaServer) => string | undefined,
  addressesOf: (server: OpcuaServer) => Promise<readonly string[]>,
): Promise<readonly OpcuaServer[]> {
  const isListed = ({ application, isUnlisted = false }: OpcuaServer) =>
    application !== undefined && !isUnlisted
  if (servers.every(isListed) || !servers.some(isListed)) return servers
  const keysOf = async (server: OpcuaServer) => {
    const uri = applicationUriOf(server)
    if (uri === undefined) return []
    const port = readEndpointUrl(server.discoveryUrl)?.port
    return (await addressesOf(server)).map((address) => JSON.stringify([uri, port, address]))
  }
  const withKeys = await Promise.all(
    servers.map(async (server) => ({ server, keys: await keysOf(server) })),
  )
  const listed = new Set(withKeys.flatMap(({ server, keys }) => (isListed(server) ? keys : [])))
  const isDuplicate = (server: OpcuaServer, keys: readonly string[]) =>
    !isListed(server) && keys.some((key) => listed.has(key))
  return withKeys.flatMap(({ server, keys }) => (isDuplicate(server, keys) ? [] : server))
}
