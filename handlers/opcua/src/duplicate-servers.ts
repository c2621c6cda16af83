import { isIP } from 'node:net'
import { readEndpointUrl } from './endpoint-url.js'
import type { OpcuaServer } from './opcua-server.js'

/**
 * Removes each server that answered at a discovery URL with a name, if it also answered at
 * discovery URLs with the addresses of that name. With all of them: the call by name may have
 * reached any. The address stays, because a failure of DNS must not change ids. Only servers that
 * answered themselves count: an entry of a discovery server must not remove another device.
 */
export function withoutNames(servers: readonly OpcuaServer[]): readonly OpcuaServer[] {
  const serversOfDetails = servers.filter(({ hasHostOfDetails = false }) => hasHostOfDetails)
  const isAddress = ({ discoveryUrl }: OpcuaServer) =>
    isIP(readEndpointUrl(discoveryUrl)?.host ?? '') > 0
  const keysOf = ({ discoveryUrl, application, listedFrom = [] }: OpcuaServer) => {
    const port = readEndpointUrl(discoveryUrl)?.port
    return listedFrom.map((address) => keyOf(application?.applicationUri, port, address))
  }
  const atAddresses = new Set(serversOfDetails.filter(isAddress).flatMap(keysOf))
  const isDuplicate = (server: OpcuaServer) => {
    const keys = keysOf(server)
    return !isAddress(server) && keys.length > 0 && keys.every((key) => atAddresses.has(key))
  }
  const duplicates = new Set(serversOfDetails.filter(isDuplicate))
  return servers.filter((server) => !duplicates.has(server))
}

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
    return (await addressesOf(server)).map((address) => keyOf(uri, port, address))
  }
  const withKeys = await Promise.all(
    servers.map(async (server) => ({ server, keys: await keysOf(server) })),
  )
  const listed = new Set(withKeys.flatMap(({ server, keys }) => (isListed(server) ? keys : [])))
  const isDuplicate = (server: OpcuaServer, keys: readonly string[]) =>
    !isListed(server) && keys.some((key) => listed.has(key))
  return withKeys.flatMap(({ server, keys }) => (isDuplicate(server, keys) ? [] : server))
}

function keyOf(uri: string | undefined, port: number | undefined, address: string): string {
  return JSON.stringify([uri, port, address])
}
