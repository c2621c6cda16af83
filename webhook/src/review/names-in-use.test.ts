import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ClusterNamesInUse } from './names-in-use.js'

const clock = new ManualClock()
let api: FakeApiServer
let names: ClusterNamesInUse
let stop: AbortController

beforeEach(async () => {
  api = new FakeApiServer(systemClock)
  names = new ClusterNamesInUse({ client: await api.open(), clock, log: silentLogger })
  stop = new AbortController()
})
afterEach(async () => {
  stop.abort()
  await api.close()
})

const put = (plural: string, namespace: string, name: string) =>
  api.put(`/apis/akri.sh/v0/namespaces/${namespace}/${plural}/${name}`, { spec: {} })

describe('the name of a new Configuration', () => {
  it('A8 is refused if a Configuration of another namespace has it', async () => {
    put('configurations', 'factory', 'cam')
    expect(await names.problems('line', 'cam')).toEqual([
      {
        path: 'metadata.name',
        message: expect.stringMatching(
          /akri.sh\/cam is that of a Configuration in another namespace already/,
        ),
      },
    ])
    // The API server itself refuses a second object of a namespace and a name.
    expect(await names.problems('factory', 'cam')).toEqual([])
    expect(await names.problems('line', 'camera')).toEqual([])
  })

  it.each(['factory', 'line'])(
    'is refused if it could be the name of an Instance of a Configuration in namespace %s',
    async (namespace) => {
      put('configurations', namespace, 'cam2')
      expect(await names.problems('line', 'cam2-8120fe')).toEqual([
        {
          path: 'metadata.name',
          message:
            'its resource akri.sh/cam2-8120fe could be that of an Instance ' +
            'of a Configuration cam2; write another name; it is "cam2-8120fe"',
        },
      ])
      put('instances', namespace, 'cam2-8120fe')
      expect(await names.problems('line', 'cam2-8120fe')).toEqual([
        {
          path: 'metadata.name',
          message: expect.stringContaining('is that of an Instance already'),
        },
      ])
    },
  )

  it.each(['line-abc123', 'cam2-8120fe-a19705', 'cam2-8120f', 'cam2-8120FE', 'cam28120fe'])(
    'is free if no Configuration could have that Instance: %s',
    async (name) => {
      put('configurations', 'factory', 'cam2')
      expect(await names.problems('line', name)).toEqual([])
    },
  )

  describe('while the webhook watches Configurations', () => {
    let running: Promise<void>
    const requests = () => api.requests.filter(({ query }) => query.has('fieldSelector')).length

    beforeEach(async () => {
      put('configurations', 'factory', 'cam')
      running = names.run(stop.signal)
      await api.untilWatched(1)
    })
    afterEach(async () => {
      stop.abort()
      await running
    })

    it('A8 is checked without a request', async () => {
      expect(await names.problems('line', 'cam')).toHaveLength(1)
      for (let count = 0; count < 3; count++)
        expect(await names.problems('line', 'camera')).toEqual([])
      expect(requests()).toBe(0)
    })

    it('A8 is asked for if the watch may not show the last review of the name', async () => {
      expect(await names.problems('factory', 'new')).toEqual([])
      api.isSilent = true
      put('configurations', 'factory', 'new')
      expect(await names.problems('line', 'new')).toHaveLength(1)
      expect(requests()).toBe(1)
    })

    it('A8 is asked for if nothing has come from the API server for long', async () => {
      api.refusal = () => ({ status: 500, message: 'refused' })
      api.endWatches()
      await clock.advance(100_000)
      await expect(names.problems('line', 'new')).rejects.toThrow('500')
    })
  })
})
