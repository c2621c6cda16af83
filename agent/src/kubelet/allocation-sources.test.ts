import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import {
  type Container,
  type ListContainersResponse,
  RuntimeServiceService,
} from '@akrijs/proto/runtime'
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ContainerRuntime } from './allocation-sources.js'

const [CREATED, RUNNING, EXITED] = [0, 1, 2] as const

let directory: string
let socket: string
let server: Server
let containers: Container[]

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-cri-'))
  socket = path.join(directory, 'cri.sock')
  containers = []
  server = new Server()
  server.addService(RuntimeServiceService, {
    listContainers: (_call: unknown, answer: sendUnaryData<ListContainersResponse>) =>
      answer(null, { containers }),
  })
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    ),
  )
})

afterEach(async () => {
  server.forceShutdown()
  await rm(directory, { recursive: true, force: true })
})

function container(
  pod: string,
  state: Container['state'],
  slots: Record<string, string>,
): Container {
  const labels = { 'io.kubernetes.pod.namespace': 'default', 'io.kubernetes.pod.name': pod }
  const annotations = Object.fromEntries(
    Object.entries(slots).map(([slot, value]) => [`akri.agent.slot-${slot}`, value]),
  )
  return {
    id: `${pod}-${state}`,
    state,
    labels,
    annotations: { 'io.kubernetes.container.hash': 'x', ...annotations },
  }
}

const list = async () =>
  Object.fromEntries(
    [...(await new ContainerRuntime(socket).list(AbortSignal.timeout(5000)))].map(
      ([resource, all]) => [resource, all.map(({ pod, ids }) => `${pod}: ${[...ids]}`)],
    ),
  )

describe('the slots of containers, by their annotations', () => {
  it('R39 R40 R91 are those of containers that have not ended, at both levels', async () => {
    containers = [
      container('a', RUNNING, {
        'my-cam-8120fe-0': 'my-cam-8120fe-0',
        'my-cam-a19705-1': 'C:4:my-cam-a19705-1',
      }),
      container('b', CREATED, { 'my-cam-8120fe-10': 'my-cam-8120fe-10' }),
      container('c', EXITED, { 'my-cam-8120fe-2': 'my-cam-8120fe-2' }),
    ]
    expect(await list()).toEqual({
      'akri.sh/my-cam-8120fe': ['default/a: my-cam-8120fe-0', 'default/b: my-cam-8120fe-10'],
      'akri.sh/my-cam': ['default/a: 4'],
    })
  })

  it('are those of Instances with long digests too', async () => {
    containers = [
      container('a', RUNNING, {
        'my-cam-8120fe8120fe8120-0': 'my-cam-8120fe8120fe8120-0',
        'my-cam-8120fe8120fe8121-1': 'C:4:my-cam-8120fe8120fe8121-1',
      }),
    ]
    expect(await list()).toEqual({
      'akri.sh/my-cam-8120fe8120fe8120': ['default/a: my-cam-8120fe8120fe8120-0'],
      'akri.sh/my-cam': ['default/a: 4'],
    })
  })

  it('R40 map each id to its slot', async () => {
    containers = [container('a', RUNNING, { 'my-cam-a19705-1': 'C:4:my-cam-a19705-1' })]
    const allocated = await new ContainerRuntime(socket).list(AbortSignal.timeout(5000))
    expect(allocated.get('akri.sh/my-cam')?.map(({ slots }) => slots)).toEqual([
      new Map([['4', 'my-cam-a19705-1']]),
    ])
  })

  it('leave out annotations of other programs', async () => {
    containers = [
      container('a', RUNNING, { nonsense: 'x', 'cam-1': 'cam-1', 'cam-8120fe-x': 'C::', '': '' }),
    ]
    expect(await list()).toEqual({})
  })

  it('are unknown if the runtime does not answer', async () => {
    server.forceShutdown()
    await expect(list()).rejects.toMatchObject({
      code: 'AKRI_ERR_KUBELET_UNAVAILABLE',
      kind: 'transient',
    })
  })
})
