import { chmod, rm } from 'node:fs/promises'
import {
  API_VERSION,
  type Configuration,
  type Instance,
  jsonWithoutPasswords,
  maskObject,
} from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { makeRoomForSocket } from '@akrijs/runtime'
import type { BrokerSet, StandaloneAgent } from '@akrijs/standalone'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const { createServer } = process.getBuiltinModule('node:http')

/**
 * Serves `akri get` and `akri describe`: lists as of an API server, read-only, and without their
 * secrets.
 */
export async function serveControl(
  socket: string,
  standalone: StandaloneAgent,
  brokers: BrokerSet,
): Promise<{ close(): Promise<void> }> {
  await makeRoomForSocket(socket)
  const server = createServer({ maxHeaderSize: 8192 }, (request, response) => {
    request.resume()
    const answer =
      request.method === 'GET' ? answerTo(request.url ?? '', standalone, brokers) : undefined
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(jsonWithoutPasswords(answer ?? { message: 'not found' }))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(socket, resolve)
  })
  await chmod(socket, 0o600)
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve(rm(socket, { force: true })))
        server.closeAllConnections()
      }),
  }
}

function answerTo(url: string, { cluster }: StandaloneAgent, brokers: BrokerSet): unknown {
  if (url === '/events') return { items: cluster.events.list() }
  if (url === '/brokers')
    return {
      items: cluster.instances.list().map((instance) => ({
        instance: instance.metadata.name,
        state: brokers.state(keyOf(instance)),
      })),
    }
  if (url === `/apis/${API_VERSION}/instances`)
    return listOf('InstanceList', cluster.instances.list())
  if (url === `/apis/${API_VERSION}/configurations`)
    return listOf('ConfigurationList', cluster.configurations.list())
  return undefined
}

function listOf(kind: string, items: readonly (Configuration | Instance)[]) {
  return { apiVersion: API_VERSION, kind, items: items.map(maskObject) }
}
