import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** A port that no program uses. @param address of this machine. @default all */
export async function freePort(address?: string): Promise<number> {
  const probe = createServer().listen(0, address)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}
