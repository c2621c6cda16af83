import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ClusterNamesInUse } from './names-in-use.js'

let api: FakeApiServer
let names: ClusterNamesInUse

beforeEach(async () => {
  api = new FakeApiServer(systemClock)
  names = new ClusterNamesInUse(await api.open())
})
afterEach(() => api.close())

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

  it('cannot be checked if the API server does not answer', async () => {
    api.refusal = () => ({ status: 500, message: 'refused' })
    await expect(names.problems('line', 'cam2-8120fe')).rejects.toThrow('500')
  })
})
