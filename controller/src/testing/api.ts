import { type ApiClient, type ApiObject, objectKey, type RecheckAfter } from '@akrijs/kube'
import { FakeApiServer, type Refusal } from '@akrijs/kube/testing'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { expect } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { ClusterState } from '../cluster-state.js'
import type { Collection } from '../collection.js'
import { beginTerm, type ControllerOptions, type Term } from '../term.js'

import { AKRI, CONFIGURATION, T0, testConfiguration, testInstance } from './objects.js'

/** The watches of a controller. */
const WATCHES = 9

/** The answers of an API server whose custom resources have no status, as the existing ones. */
export function withoutStatus({ path }: { readonly path: string }): Refusal | undefined {
  return path.endsWith('/status')
    ? {
        status: 404,
        reason: 'NotFound',
        message: 'the server could not find the requested resource',
      }
    : undefined
}

/** Reconciles, and resolves with the time after which the key is reconciled again. */
export async function reconciled(
  reconcile: (recheckAfter: RecheckAfter) => Promise<void>,
): Promise<{ requeueAfterMs?: number }> {
  const times: number[] = []
  await reconcile((ms = Infinity) => times.push(Math.max(0, ms)))
  const requeueAfterMs = Math.min(Infinity, ...times)
  return requeueAfterMs < Infinity ? { requeueAfterMs } : {}
}

/** A fake API server, and the state that a controller has of it. */
export class TestApi extends FakeApiServer {
  #state: ClusterState | undefined

  constructor() {
    super(systemClock)
  }

  /**
   * @param clock dates what the controller sees
   * @returns the state, after the controller has seen every object, and the client of the
   * controller
   */
  async start(
    clock: Pick<Clock, 'monotonicMs'> = systemClock,
  ): Promise<{ client: ApiClient; state: ClusterState }> {
    const client = await this.open()
    const state = new ClusterState({
      client,
      clock: { ...systemClock, monotonicMs: () => clock.monotonicMs() },
      log: silentLogger,
      agentNamespace: 'akri',
    })
    this.#state = state
    state.start()
    await state.reportsSynced
    await this.untilWatched(WATCHES)
    this.requests.length = 0
    return { client, state }
  }

  /** Starts, and begins a term of the controller that uses this clock. */
  async term(clock: Clock = systemClock, options: Partial<ControllerOptions> = {}): Promise<Term> {
    const parts = await this.start(clock)
    const events = { record: () => {} }
    const defaults = { clock, log: silentLogger, events, nodeGraceMs: 300_000 }
    return beginTerm({ ...parts, ...defaults, ...options })
  }

  putNode(name: string, ready: 'True' | 'False' | 'Unknown' = 'True'): void {
    const lastTransitionTime = new Date(T0).toISOString()
    const conditions = [{ type: 'Ready', status: ready, lastTransitionTime }]
    this.put(`/api/v1/nodes/${name}`, { metadata: { name }, status: { conditions } })
  }

  putConfiguration(spec?: Parameters<typeof testConfiguration>[0]): void {
    this.put(CONFIGURATION, { ...testConfiguration(spec) })
  }

  putInstance(...options: Parameters<typeof testInstance>): void {
    const instance = testInstance(...options)
    this.put(`${AKRI}/instances/${instance.metadata.name}`, { ...instance })
  }

  /** Waits until a cache of the controller shows the object at the path, or its absence. */
  async seen<T extends ApiObject>({ cache }: Collection<T>, path: string): Promise<void> {
    const [, namespace = '', name = ''] =
      /(?:namespaces\/([^/]+)\/)?[^/]+\/([^/]+)$/.exec(path) ?? []
    const version = () => this.objects.get(path)?.metadata.resourceVersion
    const cached = () => cache.get(objectKey(namespace, name))?.metadata.resourceVersion
    await eventually(() => expect(cached()).toBe(version()))
  }

  async stop(): Promise<void> {
    await this.#state?.close()
    await this.close()
  }
}
