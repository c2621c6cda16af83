import type { ApiClient, NodeName } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { nodeResourceNames } from './node-resource-names.js'

let api: FakeApiServer
let client: ApiClient

beforeEach(async () => {
  api = new FakeApiServer(new ManualClock(1_000_000))
  client = await api.open()
})
afterEach(() => api.close())

const names = (node: string) => nodeResourceNames(client, node as NodeName)

it('the names of resources of a Node are those of its capacity and allocatable', async () => {
  api.put('/api/v1/nodes/node-a', {
    metadata: { name: 'node-a' },
    status: { capacity: { cpu: '2', 'akri.sh/old': '0' }, allocatable: { 'akri.sh/new': '1' } },
  })
  api.put('/api/v1/nodes/node-b', { metadata: { name: 'node-b' }, status: {} })
  expect(await names('node-a')).toEqual(new Set(['cpu', 'akri.sh/old', 'akri.sh/new']))
  expect(await names('node-b')).toEqual(new Set())
  expect(await names('node-c')).toBeUndefined()
})
