import type { NodeName } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import { noopObserver } from '../report/observer.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { NodeEnvironment } from './node-environment.js'

/** What device plugins need of their agent, for tests: the book and the claims of `node-a`. */
export class PluginEnvironment {
  readonly home: NodeEnvironment
  readonly #clock: Clock
  book: SlotBook
  claims: SlotClaims

  private constructor(home: NodeEnvironment, clock: Clock) {
    this.home = home
    this.#clock = clock
    this.book = this.#open()
    this.claims = this.claimsOn(home.cluster)
  }

  /** @param clock of the agent */
  static async open(clock: Clock): Promise<PluginEnvironment> {
    return new PluginEnvironment(await NodeEnvironment.open(clock), clock)
  }

  /** The claims of an agent that gets other answers of the cluster. */
  claimsOn(cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>): SlotClaims {
    const { book } = this
    return new SlotClaims({ cluster, clock: this.#clock, observer: noopObserver, book })
  }

  get ledger(): AllocationLedger {
    return this.book.allocations
  }

  /** The book of the next agent, from the checkpoint. */
  restart(): void {
    const allocations = this.ledger.list()
    this.book.close()
    this.book = this.#open()
    this.claims = this.claimsOn(this.home.cluster)
    for (const each of allocations) this.ledger.record(each)
  }

  #open(): SlotBook {
    const { cluster, kubelet } = this.home
    const pods = kubelet.nodePods
    return new SlotBook({
      cluster,
      node: 'node-a' as NodeName,
      kubelet: { pods },
      clock: this.#clock,
    })
  }

  async close(): Promise<void> {
    this.book.close()
    await this.home.close()
  }
}
