import { FakeApiServer } from '@akrijs/kube/testing'
import { type Logger, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deleteConfigurations } from './delete-configurations.js'

const pathOf = (namespace: string, name: string) =>
  `/apis/akri.sh/v0/namespaces/${namespace}/configurations/${name}`

describe('the clean-up before an uninstall', () => {
  let clock: ManualClock
  let server: FakeApiServer
  let messages: unknown[]

  beforeEach(() => {
    clock = new ManualClock(0)
    server = new FakeApiServer(clock)
    messages = []
  })

  const left = () =>
    [...server.store.objects.keys()].filter((path) => path.includes('/configurations/'))

  /** Runs to its end; the clock goes on meanwhile. */
  async function cleanUp(): Promise<unknown> {
    const log: Logger = { ...silentLogger, info: (fields) => messages.push(fields) }
    let ended = false
    const end = deleteConfigurations(
      { client: server.client(), clock, log, limitMs: 10_000 },
      new AbortController().signal,
    )
      .catch((error: unknown) => error)
      .finally(() => {
        ended = true
      })
    while (!ended) await clock.advance(100)
    return end
  }

  afterEach(() => server.close())

  it('deletes the Configurations of all namespaces', async () => {
    for (const namespace of ['default', 'plant']) server.put(pathOf(namespace, 'cam'), {})
    expect(await cleanUp()).toBeUndefined()
    expect(left()).toEqual([])
    expect(messages).toEqual([{ configuration: 'default/cam' }, { configuration: 'plant/cam' }])
  })

  it('waits for finalizers, and names the Configurations that they hold', async () => {
    const held = { metadata: { finalizers: ['node-a'] } }
    for (const name of ['a', 'b']) server.put(pathOf('plant', name), held)
    clock.sleep(3000).then(() => server.remove(pathOf('plant', 'b')))
    expect(await cleanUp()).toMatchObject({
      code: 'AKRI_ERR_CONFIGURATIONS_LEFT',
      message: 'Configurations are left, which finalizers may hold: plant/a',
    })
    expect(clock.monotonicMs()).toBeGreaterThanOrEqual(10_000)
    // Each is logged once.
    expect(messages).toHaveLength(2)
  })

  it('tries again while the API server refuses, until its time is over', async () => {
    server.put(pathOf('plant', 'cam'), {})
    server.refusal = () =>
      clock.monotonicMs() < 5000 ? { status: 503, message: 'starting' } : undefined
    expect(await cleanUp()).toBeUndefined()
    expect(left()).toEqual([])
    server.refusal = () => ({ status: 403, message: 'no right' })
    expect(await cleanUp()).toMatchObject({
      code: 'AKRI_ERR_CONFIGURATIONS_LEFT',
      cause: { message: expect.stringContaining('no right') },
    })
  })

  it('deletes the others if the API server refuses one, and names it', async () => {
    for (const name of ['a', 'b']) server.put(pathOf('plant', name), {})
    server.refusal = ({ method, path }) =>
      method === 'DELETE' && path.endsWith('/a') ? { status: 403, message: 'kept' } : undefined
    expect(await cleanUp()).toMatchObject({
      message: expect.stringContaining('plant/a'),
      cause: { message: expect.stringContaining('kept') },
    })
    expect(left()).toEqual([pathOf('plant', 'a')])
    expect(messages).toEqual([{ configuration: 'plant/b' }])
  })

  it('has nothing to do in a cluster without Configurations', async () => {
    server.refusal = () => ({ status: 404, message: 'no such resource' })
    expect(await cleanUp()).toBeUndefined()
  })
})
