import { chmod, rm } from 'node:fs/promises'
import { API_VERSION } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import { makeRoomForSocket } from '@akrijs/runtime'
import type { BrokerSet, StandaloneAgent } from '@akrijs/standalone'
import { jsonWithoutPasswords, maskObject } from '../view/masked.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const { createServer } = process.getBuiltinModule('node:http')

/**
 * Serves `akri get` and `akri describe`: objects by the paths of the Kubernetes API, read-only, and
 * without their secrets.
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
      request.method === 'GET' ? answerTo(request.url ?? '/', standalone, brokers) : undefined
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

/** `/apis/akri.sh/v0[/namespaces/NAMESPACE]/KIND[/NAME]` */
const OBJECTS = new RegExp(
  '^/apis/akri\\.sh/v0/(?:namespaces/([^/]+)/)?' + '(configurations|instances)(?:/([^/]+))?$',
)

function answerTo(
  url: string,
  { cluster, problems, kubelet }: StandaloneAgent,
  brokers: BrokerSet,
): unknown {
  const pathname = url.replace(/[?#].*$/s, '')
  if (pathname === '/problems') return { items: problems }
  if (pathname === '/events') return { items: cluster.events.list() }
  if (pathname === '/resources')
    return { items: kubelet.resources.map((name) => ({ name, ...kubelet.resource(name) })) }
  if (pathname === '/brokers') {
    return {
      items: cluster.instances.list().map(({ metadata }) => ({
        instance: metadata.name,
        state: brokers.state(objectKey(metadata.namespace, metadata.name)),
      })),
    }
  }
  const found = OBJECTS.exec(pathname)
  if (found === null) return undefined
  const [, namespace, kind, name] = found
  const store = kind === 'instances' ? cluster.instances : cluster.configurations
  const items = store
    .list()
    .filter(({ metadata }) => namespace === undefined || metadata.namespace === namespace)
  if (name !== undefined) {
    const item = items.find(({ metadata }) => metadata.name === name)
    return item && maskObject(item)
  }
  return {
    apiVersion: API_VERSION,
    kind: kind === 'instances' ? 'InstanceList' : 'ConfigurationList',
    items: items.map(maskObject),
  }
}
