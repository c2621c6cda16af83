import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Allocated } from '../e2e/support/allocated.js'
import { ApiServer } from '../e2e/support/api-server.js'
import { NodeAgents } from '../e2e/support/node-agents.js'
import { access, missingHere, NODES, onNode } from '../e2e/support/nodes.js'
import { checkSlots } from '../e2e/support/slots.js'
import { echoYaml, eventually, type PodState, podYaml, World } from '../e2e/support/world.js'
import { describeUnless } from '../support/unless.js'

/** The number of rounds and the seed; a failed run prints both. */
const ROUNDS = Number(process.env.AKRI_CLUSTER_CHAOS_ROUNDS ?? 3)
const SEED = Number(process.env.AKRI_CHAOS_SEED ?? Date.now() % 1_000_000)
const DESCRIPTIONS = ['foo0', 'foo1', 'foo2']
const INSTANCES = ['cam-8120fe', 'cam-a19705']
/** As many Pods as slots, and some more. */
const MOST_PODS = 8

interface StartedPod extends PodState {
  readonly spec: PodState['spec'] & { readonly restartPolicy: string }
  readonly status: PodState['status'] & { readonly containerStatuses?: readonly ContainerState[] }
}

interface ContainerState {
  readonly containerID?: string
  readonly restartCount: number
  readonly state: { readonly running?: object }
}

describeUnless(missingHere(), 'a cluster in which things are killed at random', () => {
  const server = new ApiServer()
  let world: World
  let agents: NodeAgents
  let pods = 0

  beforeAll(async () => {
    world = await World.open()
    agents = await NodeAgents.start()
    await world.apply(echoYaml('cam', DESCRIPTIONS, 2))
    for (const node of NODES)
      await eventually(async () => expect(await world.allocatable(node, 'akri.sh/cam')).toBe(3))
  })

  afterAll(async () => {
    await agents?.dispose()
    await world?.close()
  })

  /** The claims of Pods whose container was killed, by uid. */
  const killed = new Map<string, readonly Allocated[]>()

  async function givenTo(pod: string): Promise<Allocated[]> {
    const given = await Promise.all(NODES.map((node) => access.allocated(node)))
    return given.flat().filter((allocated) => allocated.pod === `${world.namespace}/${pod}`)
  }

  async function checkKilled(where: string): Promise<void> {
    for (const { metadata, status } of await world.list<StartedPod>('Pod')) {
      const given = killed.get(metadata.uid)
      if (given === undefined) continue
      expect(
        status.containerStatuses?.[0]?.restartCount,
        `${where}: ${metadata.name} is started again`,
      ).toBeGreaterThan(0)
      expect(await givenTo(metadata.name), `${where}: ${metadata.name} keeps what it has`).toEqual(
        given,
      )
    }
  }

  const random = generator(SEED)
  const pick = <T>(all: readonly T[]): T =>
    all[Math.floor(random() * all.length)] ?? expect.fail('nothing to pick from')

  const blows: Readonly<Record<string, () => Promise<void>>> = {
    async 'kill an agent'() {
      const agent = agents.on(pick(NODES))
      await agent.stop('SIGKILL')
      await agent.start()
    },
    async 'kill a kubelet'() {
      await access.killKubelet(pick(NODES)).catch(ignoreGone)
    },
    async 'kill the API server'() {
      await server.restart(world, random() * 1500)
    },
    async 'kill a Pod'() {
      const alive = (await world.pods()).filter(({ status }) => status.phase === 'Running')
      if (alive.length > 0) await world.remove('Pod', pick(alive).metadata.name).catch(ignoreAway)
    },
    async 'kill a container'() {
      const alive = (await world.list<StartedPod>('Pod')).filter(({ spec, status }) => {
        const [container] = status.containerStatuses ?? []
        // The kubelet restarts a container at once the first time.
        return (
          spec.restartPolicy === 'Always' &&
          container?.state.running !== undefined &&
          container.restartCount === 0
        )
      })
      if (alive.length === 0) return
      const { metadata, spec, status } = pick(alive)
      const id = status.containerStatuses?.[0]?.containerID?.replace('containerd://', '') ?? ''
      // A kubelet that was killed a moment ago does not know its containers yet.
      const given = await eventually(async () => {
        const slots = await givenTo(metadata.name)
        expect(slots, `what ${metadata.name} has`).not.toEqual([])
        return slots
      })
      try {
        await onNode(
          spec.nodeName ?? '',
          ...['ctr', '-n', 'k8s.io', 'tasks', 'kill', '--signal', 'SIGKILL', id],
        )
      } catch (error) {
        // The container or its Pod was killed a moment ago.
        if (!/not found/.test(String(error))) throw error
      }
      killed.set(metadata.uid, given)
    },
    async 'start Pods'() {
      const there = await world.pods()
      for (const { metadata, status } of there) {
        if (status.phase === 'Failed' || status.phase === 'Succeeded')
          await world.remove('Pod', metadata.name).catch(ignoreAway)
      }
      const room =
        MOST_PODS -
        there.filter(({ status }) => status.phase === 'Running' || status.phase === 'Pending')
          .length
      for (let index = 0; index < Math.min(3, room); index++) {
        const limits: Record<string, number> =
          random() < 0.5
            ? { [`akri.sh/${pick(INSTANCES)}`]: 1 }
            : { 'akri.sh/cam': random() < 0.3 ? 2 : 1 }
        // Some containers end by themselves; the kubelet restarts the others.
        const ends = random() < 0.3
        const script = ends ? 'sleep 2' : 'exec sleep 100000'
        const pod = JSON.parse(podYaml(`p${pods++}`, limits, { script, graceSeconds: 0 }))
        if (!ends) pod.spec.restartPolicy = 'Always'
        await world.apply(JSON.stringify(pod)).catch(ignoreAway)
      }
    },
  }

  it(`R78 R84 R90 A2 A21 each claim has one container (${ROUNDS} rounds, seed ${SEED})`, {
    timeout: 300_000 + ROUNDS * 90_000,
  }, async () => {
    const uids = async () =>
      (await world.instances()).map(({ metadata }) => `${metadata.name} ${metadata.uid}`).sort()
    const before = await uids()
    expect(before).toHaveLength(3)
    for (let round = 0; round < ROUNDS; round++) {
      const names = [
        'start Pods',
        ...Array.from({ length: 2 + Math.floor(random() * 2) }, () => pick(Object.keys(blows))),
      ]
      for (const name of names) {
        await blows[name]?.()
        await systemClock.sleep(random() * 800)
      }
      const where = `round ${round} of seed ${SEED}: ${names.join(', ')}`
      await eventually(() => checkSlots(world, where))
      await eventually(() => checkKilled(where))
      expect(await uids()).toEqual(before)
    }
  })
})

/** A linear congruential generator: the same seed gives the same numbers. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1103515245 + 12345) % 2 ** 31
    return state / 2 ** 31
  }
}

/** The API server can be away at the moment; then this action does nothing. */
function ignoreAway(error: unknown): void {
  if (!/API|ECONN|socket|50[0-9]/.test(String(error))) throw error
}

/** The kubelet was killed a moment ago and is not back yet. */
function ignoreGone(error: unknown): void {
  if (!/kill|No such/.test(String(error))) throw error
}
