// The least that a device plugin in Node.js can do: each Allocate is one PATCH of an Instance.
// Arguments: the path of the socket, and the path of the Instance on the API server.
import { Agent, request } from 'node:https'
import { clusterAccess } from '@akrijs/kube/access'
import {
  type AllocateRequest,
  type AllocateResponse,
  DevicePluginService,
} from '@akrijs/proto/device-plugin'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js'

const [socket = '', instance = ''] = process.argv.slice(2)
const access = await clusterAccess({})
const { ca, cert, key, token } = await access.credentials()
const agent = new Agent({ keepAlive: true, ca, cert, key })

function patch(body: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(new URL(instance, access.server), { method: 'PATCH', agent })
    sent.setHeader('Content-Type', 'application/json-patch+json')
    if (token !== undefined) sent.setHeader('Authorization', `Bearer ${token}`)
    sent.on('error', reject).on('response', (response) => {
      const isDone = response.statusCode === 200
      response.resume().on('error', reject)
      response.on('end', () => (isDone ? resolve() : reject(new TypeError('PATCH refused'))))
    })
    sent.end(JSON.stringify(body))
  })
}

function allocate(
  { request: { containerRequests } }: ServerUnaryCall<AllocateRequest, AllocateResponse>,
  answer: sendUnaryData<AllocateResponse>,
): void {
  const path = `/spec/deviceUsage/${containerRequests[0]?.devicesIDs[0]}`
  const container = { envs: {}, mounts: [], devices: [], annotations: {}, cdiDevices: [] }
  patch([
    { op: 'test', path, value: '' },
    { op: 'replace', path, value: 'bare' },
  ]).then(
    () => answer(null, { containerResponses: [container] }),
    (error: Error) => answer(error),
  )
}

const server = new Server()
server.addService(DevicePluginService, { allocate })
server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
  if (error) throw error
  process.send?.('serving')
})
