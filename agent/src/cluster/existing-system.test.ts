import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { describe } from 'vitest'
import { existingSystemContract } from './existing-system.contract.js'

describe('an agent beside the existing system, on the fake API server', () => {
  existingSystemContract(async () => {
    const server = new FakeApiServer(systemClock)
    return { client: await server.open(), namespace: 'plant', remove: () => server.close() }
  })
})
