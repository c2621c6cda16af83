import { LEASES, LeaderElection, Resource } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { accessOfCluster, clientOfCluster } from './support/client.js'
import { describeOnCluster, OwnNamespace, uniqueName } from './support/cluster.js'
import { FaultProxy } from './support/fault-proxy.js'

describeOnCluster('the client on an API server', () => {
  let home: OwnNamespace

  beforeAll(async () => {
    home = await OwnNamespace.make()
  })

  afterAll(() => home.remove())

  describe('leader election', () => {
    interface Candidate {
      readonly election: LeaderElection
      stop(): Promise<void>
    }

    let name: string
    let leading: string[]
    let atOnce: number
    let candidates: Candidate[]
    let ends: (() => unknown)[]

    beforeEach(() => {
      name = uniqueName()
      leading = []
      atOnce = 0
      candidates = []
      ends = []
    })

    afterEach(async () => {
      await Promise.all(candidates.map(({ stop }) => stop()))
      for (const end of ends) await end()
    })

    function candidate(identity: string, through = home.client): Candidate {
      const stop = new AbortController()
      const election = new LeaderElection(
        {
          client: through,
          clock: systemClock,
          namespace: home.name,
          name,
          identity,
          onError: () => {},
        },
        { leaseMs: 6000, renewDeadlineMs: 4000, renewMs: 1000, retryMs: 200 },
      )
      const ran = election.run(stop.signal, async (turn) => {
        leading.push(identity)
        atOnce = Math.max(atOnce, leading.length)
        await new Promise((resolve) => turn.addEventListener('abort', resolve, { once: true }))
        leading.splice(leading.indexOf(identity), 1)
      })
      const candidate = {
        election,
        stop() {
          stop.abort()
          return ran
        },
      }
      candidates.push(candidate)
      return candidate
    }

    const leads = (identity: string) => eventually(() => expect(leading).toEqual([identity]))

    it('lets one of two candidates lead, and the other candidate after its end', async () => {
      const a = candidate('a')
      await leads('a')
      candidate('b')
      // Longer than the Lease is good: it is renewed.
      await systemClock.sleep(8000)
      expect(leading).toEqual(['a'])
      await a.stop()
      const lease = (await new Resource(home.client, LEASES).get(home.key(name))) as {
        spec: { holderIdentity: string }
      }
      expect(lease.spec.holderIdentity).not.toBe('a')
      await leads('b')
      expect(atOnce).toBe(1)
    })

    it('lets the other candidate lead after the leader was cut off, never both', async () => {
      const proxy = await FaultProxy.open(await accessOfCluster())
      const through = await clientOfCluster(proxy.access)
      ends.push(
        () => through.close(),
        () => proxy.close(),
      )
      candidate('a', through)
      await leads('a')
      candidate('b')
      proxy.hang()
      await leads('b')
      proxy.heal()
      await systemClock.sleep(1000)
      expect(leading).toEqual(['b'])
      expect(atOnce).toBe(1)
    })
  })
})
