import path from 'node:path'
import { systemClock } from '@akrijs/runtime'
import { load } from 'js-yaml'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { NodeAgent } from './support/node-agent.js'
import { filesBelow, missing, NODE_1, onNode, unless } from './support/nodes.js'
import { container, echoYaml, eventually, World } from './support/world.js'

// Workloads of a real Kubernetes report by files, each in a container of its own and as a user of
// its own.

const NODE = NODE_1
const RESOURCE = 'akri.sh/cam-8120fe'
const INSTANCE = 'cam-8120fe'
const SLOT = `${INSTANCE}-0`

interface ReportedInstance {
  readonly metadata: { readonly resourceVersion: string; readonly generation: number }
  readonly spec: { readonly deviceUsage: Readonly<Record<string, string>> }
  readonly status?: { readonly brokerInfo?: Readonly<Record<string, string>> }
}

describe.skipIf(missing() !== undefined)(`workloads that report${unless}`, () => {
  let world: World
  let agent: NodeAgent

  const instance = async () =>
    (await world.get<ReportedInstance>('Instance', INSTANCE)) ?? expect.fail('no Instance')
  const info = async () => (await instance()).status?.brokerInfo ?? {}
  const directoryOf = (slot: string) =>
    path.join(agent.directory, 's/broker-info', `${world.namespace}_${INSTANCE}`, slot)

  const shell = (script: string) => onNode(NODE, 'sh', '-c', script)

  /**
   * A Pod of an unprivileged user. Its container runs a script that can call `report NAME CONTENT`.
   */
  const reporter = (name: string, script: string, more: object = {}) => {
    const report =
      'report() { echo "$2" >"$AKRI_BROKER_INFO_DIRECTORY/.$1" && mv ' +
      '"$AKRI_BROKER_INFO_DIRECTORY/.$1" "$AKRI_BROKER_INFO_DIRECTORY/$1"; }'
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      spec: {
        terminationGracePeriodSeconds: 0,
        restartPolicy: 'Never',
        securityContext: { runAsUser: 4711, runAsGroup: 4711, runAsNonRoot: true },
        nodeSelector: { 'kubernetes.io/hostname': NODE },
        containers: [container('c', { [RESOURCE]: 1 }, `${report}; ${script}`)],
        ...more,
      },
    })
  }

  /** The time between the write of a file and its entry in brokerInfo, in milliseconds. */
  async function shown(name: string, content: string): Promise<number> {
    await eventually(async () => expect((await info())[name]).toBe(content))
    // Read from the clock of the node.
    const [now, written] = (await shell(`date +%s.%N; stat -c %.9Y ${directoryOf(SLOT)}/${name}`))
      .split('\n')
      .map(Number)
    return 1000 * ((now ?? Number.NaN) - (written ?? Number.NaN))
  }

  beforeAll(async () => {
    world = await World.open()
    agent = await NodeAgent.create(NODE)
    await agent.start()
  })

  afterEach(() => world.clear())

  afterAll(async () => {
    await agent?.dispose()
    await world?.close()
  })

  async function offered(capacity: number): Promise<void> {
    await world.apply(echoYaml('cam', ['foo0'], capacity))
    await eventually(async () => expect(await world.allocatable(NODE, RESOURCE)).toBe(capacity))
  }

  it('R68 R69 R70 R74 have their files in brokerInfo until their slot is released', async () => {
    await offered(1)
    const script =
      'sleep 2; report firmware-version 1.0; sleep 3; ' +
      'report firmware-version 1.1; report state done; exec sleep 100000'
    await world.apply(reporter('writer', script))
    const { generation } = (
      await eventually(async () => {
        const now = await instance()
        expect(now.spec.deviceUsage[SLOT]).toBe(NODE)
        return now
      })
    ).metadata
    // One poll takes a tenth of a second or more, and longer on a busy machine.
    const took = [
      await shown('firmware-version', '1.0\n'),
      await shown('firmware-version', '1.1\n'),
    ]
    expect(Math.min(...took)).toBeLessThan(1300)
    expect(Math.max(...took)).toBeLessThan(10_000)
    await eventually(async () =>
      expect(await info()).toEqual({ 'firmware-version': '1.1\n', state: 'done\n' }),
    )
    expect((await instance()).metadata.generation).toBe(generation)
    expect(await shell(`stat -c %u ${directoryOf(SLOT)}/state`)).toBe('4711\n')

    await world.remove('Pod', 'writer')
    await eventually(async () =>
      expect(Object.values((await instance()).spec.deviceUsage)).toEqual(['']),
    )
    const freed = systemClock.monotonicMs()
    await eventually(async () => expect(await info()).toEqual({}))
    expect(systemClock.monotonicMs() - freed).toBeLessThan(10_000)
    await eventually(async () =>
      expect(await shell(`ls -d ${directoryOf(SLOT)} 2>&1 || true`)).toContain('No such file'),
    )
  })

  it('R69 keep their files over restarts, and an init container leaves its files', async () => {
    await offered(1)
    const init = reporter('x', 'report first "by init"')
    const again = reporter('again', 'echo run >>"$AKRI_BROKER_INFO_DIRECTORY/runs"; sleep 1', {
      restartPolicy: 'Always',
      initContainers: [{ ...containerOf(init), name: 'init' }],
    })
    await world.apply(again)
    await eventually(async () =>
      expect(await info()).toMatchObject({
        first: 'by init\n',
        runs: expect.stringMatching(/^(run\n){2,}$/),
      }),
    )
    await world.remove('Pod', 'again')
    await eventually(async () => expect(await info()).toEqual({}))
    await world.apply(
      reporter(
        'next',
        'report second "by another"; ls -A "$AKRI_BROKER_INFO_DIRECTORY"; exec sleep 100000',
      ),
    )
    await eventually(async () => expect(await info()).toEqual({ second: 'by another\n' }))
    // A report can arrive before the kubelet reports the container as running.
    await eventually(async () => expect(await world.logs('next')).toBe('second'))
  })

  it('R69 A2 have all their reports after the agent was killed, and no outdated ones', async () => {
    await offered(2)
    await world.apply(
      reporter(
        'stays',
        'report a 1; until [ -f "$AKRI_BROKER_INFO_DIRECTORY/.go" ]; ' +
          'do sleep 0.2; done; report a 2; exec sleep 100000',
      ),
    )
    await eventually(async () => expect(await info()).toEqual({ a: '1\n' }))
    await world.apply(reporter('goes', 'report b 1; exec sleep 100000'))
    await eventually(async () => expect(await info()).toEqual({ a: '1\n', b: '1\n' }))
    await agent.stop('SIGKILL')
    const reports = path.dirname(directoryOf(SLOT))
    const slotOfStays = path.dirname(
      (await filesBelow(NODE, reports)).find((file) => path.basename(file) === 'a') ?? '',
    )
    await onNode(NODE, 'touch', `${directoryOf(slotOfStays)}/.go`)
    await world.remove('Pod', 'goes')
    await eventually(async () =>
      expect(await onNode(NODE, 'cat', `${directoryOf(slotOfStays)}/a`)).toBe('2\n'),
    )
    await eventually(async () =>
      expect((await world.pods()).map(({ metadata }) => metadata.name)).toEqual(['stays']),
    )
    expect(await info()).toEqual({ a: '1\n', b: '1\n' })
    await agent.start()
    await eventually(async () => expect(await info()).toEqual({ a: '2\n' }))
    await eventually(async () => expect(await onNode(NODE, 'ls', reports)).toBe(`${slotOfStays}\n`))
  })

  it('R69 cannot flood the API server, however fast they write', async () => {
    await offered(2)
    const loop = (name: string) =>
      `i=0; while true; do i=$((i+1)); echo $i >"$AKRI_BROKER_INFO_DIRECTORY/${name}"; done`
    await world.apply(reporter('loop-a', loop('a')))
    await world.apply(reporter('loop-b', loop('b')))
    await eventually(async () => expect(Object.keys(await info()).sort()).toEqual(['a', 'b']))
    const { resourceVersion } = (await instance()).metadata
    const watch = {
      method: 'GET' as const,
      path: world.api('Instance').path(world.namespace),
      query: { watch: true, resourceVersion },
    }
    let changes = 0
    const startedAt = systemClock.monotonicMs()
    // On a busy machine a Pod without a CPU request can wait for seconds, and then it writes
    // nothing.
    for await (const line of world.client.lines(watch, AbortSignal.timeout(90_000))) {
      if ((JSON.parse(line) as { type: string }).type === 'MODIFIED') changes++
      if (changes > 1 && systemClock.monotonicMs() - startedAt > 6000) break
    }
    expect(changes).toBeLessThanOrEqual((systemClock.monotonicMs() - startedAt) / 900 + 1)
  })

  it('R69 get an Event for a refused file, and R70 reach nothing of the node', async () => {
    await offered(1)
    const script = [
      'cd "$AKRI_BROKER_INFO_DIRECTORY"',
      'ln -s /etc/passwd passwd',
      'mkfifo pipe',
      'head -c 5000 /dev/zero >large',
      'ls -A /run/akri >seen',
      'ls .. >/dev/null; echo $? >above',
      'exec sleep 100000',
    ].join('; ')
    await world.apply(reporter('odd', script))
    await eventually(async () =>
      expect(await info()).toEqual({ seen: `${INSTANCE}\n`, above: '0\n' }),
    )
    const events = await eventually(async () => {
      const { items } = (await world.client.request({
        method: 'GET',
        path: `/api/v1/namespaces/${world.namespace}/events`,
      })) as {
        items: { reason: string; message: string; involvedObject: { kind: string; name: string } }[]
      }
      const refusals = items.filter(({ reason }) => reason === 'BrokerInfoRefused')
      expect(refusals).toHaveLength(2)
      return refusals
    })
    for (const { involvedObject } of events)
      expect(involvedObject).toMatchObject({ kind: 'Instance', name: INSTANCE })
    expect(events.map(({ message }) => message).sort()).toEqual([
      `the workload of slot ${SLOT}: "large" has more than 4096 bytes`,
      `the workload of slot ${SLOT}: "passwd" is not a regular file`,
    ])
  })
})

function containerOf(pod: string): object {
  const { spec } = load(pod) as { spec: { containers: object[] } }
  return spec.containers[0] ?? expect.fail('no container')
}
