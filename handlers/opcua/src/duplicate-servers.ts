import { readEndpointUrl } from './endpoint-url.js'
import type { OpcuaServer } from './opcua-server.js'

/**
 * Leaves out servers that are announced, or are listed no more, where they are listed as well, under another spelling of the same
 * host. The application URI alone does
 * not tell: servers that nobody has configured share that of their maker.
 * @param applicationUriOf what a server has said that it is, if it has
 * @param addressesOf where a server is; asked for all of them at the same time
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
  const isTwice = (server: OpcuaServer, keys: readonly string[]) =>
    !isListed(server) && keys.some((key) => listed.has(key))
  return withKeys.flatMap(({ server, keys }) => (isTwice(server, keys) ? [] : server))
}
