import type { ApiClient } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { ClusterState } from '../cluster-state.js'

/** The watches of a controller. */
const WATCHES = 10

/** A fake API server, and the state that a controller has of it. */
export class TestApi extends FakeApiServer {
  #state: ClusterState | undefined

  constructor() {
    super(systemClock)
  }

  /**
   * @returns the state, after the controller has seen every object, and the client of the
   * controller
   */
  async start(): Promise<{ client: ApiClient; state: ClusterState }> {
    const client = await this.open()
    const state = new ClusterState({
      client,
      clock: systemClock,
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

  async stop(): Promise<void> {
    await this.#state?.close()
    await this.close()
  }
}
