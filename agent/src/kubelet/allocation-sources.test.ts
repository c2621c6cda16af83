import path from 'node:path'
import { PodResourcesListerService } from '@akrijs/proto/pod-resources'
import { type Container, RuntimeServiceService } from '@akrijs/proto/runtime'
import type { Server, sendUnaryData } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { grpcServer } from '../testing/grpc-server.js'
import { type AllocationSource, containerRuntime, podResources } from './allocation-sources.js'

const [CREATED, RUNNING, EXITED] = [0, 1, 2] as const

let directory: string
let socket: string
let server: Server | undefined

beforeEach(async () => {
  directory = await temporaryDirectory()
  socket = path.join(directory, 'cri.sock')
})

afterEach(async () => {
  server?.forceShutdown()
})

/** The ids of each Pod, with the slots that are known, by resource. */
async function allocationsOf(source: AllocationSource) {
  const all = await source(AbortSignal.timeout(5000))
  const text = (id: string, slot: string | undefined) => (slot ? `${id} is ${slot}` : id)
  return Object.fromEntries(
    [...all].map(([resource, pods]) => [
      resource,
      pods.map(({ pod, ids, slots }) =>
        [pod, ...[...ids].map((id) => text(id, slots?.get(id)))].join(' '),
      ),
    ]),
  )
}

const container = (
  pod: string,
  state: Container['state'],
  slots: Record<string, string>,
): Container => ({
  id: `${pod}-${state}`,
  state,
  labels: { 'io.kubernetes.pod.namespace': 'default', 'io.kubernetes.pod.name': pod },
  annotations: Object.fromEntries([
    ['io.kubernetes.container.hash', 'x'],
    ...Object.entries(slots).map(([slot, value]) => [`akri.agent.slot-${slot}`, value]),
  ]),
})

it.each<[what: string, containers: Container[], found: Record<string, string[]>]>([
  [
    'those of containers that have not ended, at both levels',
    [
      container('a', RUNNING, { 'my-cam-8120fe-0': 'my-cam-8120fe-0' }),
      container('a', RUNNING, { 'my-cam-a19705-1': 'C:4:my-cam-a19705-1' }),
      container('a', RUNNING, { 'cam-8120fe8120fe8121-1': 'C:5:cam-8120fe8120fe8121-1' }),
      container('b', CREATED, { 'my-cam-8120fe-10': 'my-cam-8120fe-10' }),
      container('c', EXITED, { 'my-cam-8120fe-2': 'my-cam-8120fe-2' }),
    ],
    {
      'akri.sh/my-cam-8120fe': [
        'default/a my-cam-8120fe-0 is my-cam-8120fe-0',
        'default/b my-cam-8120fe-10 is my-cam-8120fe-10',
      ],
      'akri.sh/my-cam': ['default/a 4 is my-cam-a19705-1'],
      'akri.sh/cam': ['default/a 5 is cam-8120fe8120fe8121-1'],
    },
  ],
  [
    'none by annotations of other programs',
    [container('a', RUNNING, { nonsense: 'x', 'cam-1': 'cam-1', 'cam-8120fe-x': 'C::', '': '' })],
    {},
  ],
])('R39 R40 R91 allocations by annotations are %s', async (_, containers, found) => {
  server = await grpcServer(socket, RuntimeServiceService, {
    listContainers: (_call: unknown, done: sendUnaryData<object>) => done(null, { containers }),
  })
  expect(await allocationsOf(containerRuntime(socket))).toEqual(found)
})

it('allocations by podresources are those of all containers of all Pods', async () => {
  const ofContainer = (name: string, ...deviceIds: string[]) => ({
    name,
    devices: [{ resourceName: 'akri.sh/cam', deviceIds, topology: undefined }],
    ...{ cpuIds: [], memory: [], dynamicResources: [] },
  })
  const listed = [
    {
      name: 'a',
      namespace: 'default',
      containers: [ofContainer('x', '0', '1'), ofContainer('y', '2')],
    },
    { name: 'b', namespace: 'other', containers: [ofContainer('z', '3')] },
  ]
  server = await grpcServer(socket, PodResourcesListerService, {
    list: (_call: unknown, done: sendUnaryData<object>) => done(null, { podResources: listed }),
    getAllocatableResources: () => {},
    get: () => {},
  })
  expect(await allocationsOf(podResources(socket))).toEqual({
    'akri.sh/cam': ['default/a 0 1', 'default/a 2', 'other/b 3'],
  })
})
