import path from 'node:path'
import { type Empty, type RegisterRequest, RegistrationService } from '@akrijs/proto/device-plugin'
import { PodResourcesListerService } from '@akrijs/proto/pod-resources'
import { makeRoomForSocket, NO_CHANNELZ, SocketUnusableError } from '@akrijs/runtime'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import type { AdmittedPod } from './simulated-pod.js'

// The gRPC services of a kubelet: registration of device plugins, and podresources.

export function registrationServer(register: (request: RegisterRequest) => void): Server {
  const server = new Server(NO_CHANNELZ)
  server.addService(RegistrationService, {
    register: (call: ServerUnaryCall<RegisterRequest, Empty>, answer: sendUnaryData<Empty>) => {
      const problem = registrationProblem(call.request)
      if (problem !== undefined) return answer({ code: status.INVALID_ARGUMENT, details: problem })
      register(call.request)
      answer(null, {})
    },
  })
  return server
}

/** The checks of the kubelet. */
function registrationProblem({
  version,
  resourceName,
  endpoint,
}: RegisterRequest): string | undefined {
  if (version !== 'v1beta1') return `version ${version} is not supported; v1beta1 is`
  if (
    !/^[a-z0-9.-]+\/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(resourceName) ||
    resourceName.includes('kubernetes.io/')
  )
    return `${JSON.stringify(resourceName)} is not the name of an extended resource`
  if (path.basename(endpoint) !== endpoint || ['', '.', '..'].includes(endpoint))
    return `endpoint ${JSON.stringify(endpoint)} is not a file name`
  return undefined
}

interface PodResourcesSource {
  admittedPods(): readonly AdmittedPod[]
  allocatable(): readonly { readonly resourceName: string; readonly deviceIds: string[] }[]
}

export function podResourcesServer({ admittedPods, allocatable }: PodResourcesSource): Server {
  const server = new Server(NO_CHANNELZ)
  server.addService(PodResourcesListerService, {
    list: (_call: unknown, answer: sendUnaryData<object>) =>
      answer(null, { podResources: admittedPods().map(podResources) }),
    getAllocatableResources: (_call: unknown, answer: sendUnaryData<object>) =>
      answer(null, { devices: allocatable(), cpuIds: [], memory: [] }),
    get: (
      call: ServerUnaryCall<{ podName: string; podNamespace: string }, object>,
      answer: sendUnaryData<object>,
    ) => {
      const { podName, podNamespace } = call.request
      const admitted = admittedPods().find(
        ({ pod: { name, namespace } }) => name === podName && namespace === podNamespace,
      )
      if (admitted === undefined)
        answer({ code: status.NOT_FOUND, details: `pod ${podNamespace}/${podName} not found` })
      else answer(null, { podResources: podResources(admitted) })
    },
  })
  return server
}

function podResources({ pod, allocations }: AdmittedPod) {
  return {
    name: pod.name,
    namespace: pod.namespace,
    containers: pod.containers.map(({ name }) => ({
      name,
      devices: allocations
        .filter(({ container }) => container === name)
        .map(({ resource, ids }) => ({
          resourceName: resource,
          deviceIds: [...ids],
          topology: undefined,
        })),
      cpuIds: [],
      memory: [],
      dynamicResources: [],
    })),
  }
}

/** @throws SocketUnusableError */
export async function listen(server: Server, socket: string): Promise<void> {
  await makeRoomForSocket(socket)
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (!error) return resolve()
      const message = `the simulated kubelet cannot listen on ${socket}: ${error.message}`
      reject(new SocketUnusableError(message, { cause: error }))
    })
  })
}
