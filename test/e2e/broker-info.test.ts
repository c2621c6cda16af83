import path from 'node:path'
import type { Instance } from '@akrijs/api'
import { blake2b } from '@noble/hashes/blake2.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Account } from './support/account.js'
import { HostController } from './support/host-controller.js'
import { NodeAgent } from './support/node-agent.js'
import { missing, NODE_1, onNode, unless } from './support/nodes.js'
import { container, echoYaml, eventually, World } from './support/world.js'

// A workload of a real Kubernetes reports by files, in containers of its own and as a user of its
// own. Its device has a hostile name. Each test goes on with what the tests before it left.

/** Clears the screen, forges a line of kubectl, and turns text around. */
const HOSTILE = 'cam\u001b[2J\r\n  Normal  Ready\u202e\u009b1m'
const LINES = 'cam\ufffd[2J\n  Normal  Ready\ufffd\ufffd1m'
/** What a terminal obeys. */
const OBEYED = /(?!\n)[\p{Cc}\p{Bidi_C}\p{Cs}]/u
/** In JSON and in ASCII: an API server refuses YAML with control characters. */
const DETAILS = JSON.stringify({ descriptions: [HOSTILE] }).replace(
  /[^\x20-\x7e]/g,
  (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
)
const DIGEST = Buffer.from(blake2b(Buffer.from(HOSTILE), { dkLen: 3 })).toString('hex')
const INSTANCE = `cam-${DIGEST}`
const RESOURCE = `akri.sh/${INSTANCE}`
const SLOT = `${INSTANCE}-0`

/** Writes a file as a whole. */
const REPORT =
  'report() { printf "$2" >"$AKRI_BROKER_INFO_DIRECTORY/.$1" && mv ' +
  '"$AKRI_BROKER_INFO_DIRECTORY/.$1" "$AKRI_BROKER_INFO_DIRECTORY/$1"; }'
/** Its first run ends, and its second run goes on. */
const WRITES = [
  REPORT,
  'cd "$AKRI_BROKER_INFO_DIRECTORY"',
  'env',
  'report firmware-version "1.0\\n"',
  'report screen "1\\033[2J\\t2\\n"',
  'ln -s /etc/passwd passwd',
  'head -c 5000 /dev/zero >large',
  'ls -A /run/akri >seen',
  'ls .. >/dev/null; echo $? >above',
  'echo run >>runs',
  'sleep 1',
  '[ $(wc -l <runs) -lt 2 ] || exec sleep 100000',
].join('\n')

/** No program of the node sees how large its file is. */
const HIDES = 'cd "$AKRI_BROKER_INFO_DIRECTORY"; exec 3>x; rm x; while true; do ls / >&3; done'

describe.skipIf(missing() !== undefined)(`a workload that reports${unless}`, () => {
  let world: World
  let agent: NodeAgent
  let account: Account | undefined
  let controller: HostController | undefined
  let generation: number

  const instance = async () =>
    (await world.get<Instance>('Instance', INSTANCE)) ?? expect.fail('no Instance')
  const info = async () => (await instance()).status?.brokerInfo ?? {}
  const directory = () => path.join(agent.directory, 's/broker-info', `${world.namespace}_${SLOT}`)

  /** Starts a Pod that uses the device, as a user of its own. */
  function run(name: string, script: string, spec: object = {}): Promise<void> {
    const securityContext = { runAsUser: 4711, runAsGroup: 4711, runAsNonRoot: true }
    const containers = [container('c', { [RESOURCE]: 1 }, script)]
    const nodeSelector = { 'kubernetes.io/hostname': NODE_1 }
    return world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name },
        spec: { securityContext, nodeSelector, containers, ...spec },
      }),
    )
  }

  beforeAll(async () => {
    world = await World.open()
    agent = await NodeAgent.create(NODE_1)
    await agent.start()
    const discoveryHandler = { name: 'debugEcho', discoveryDetails: DETAILS }
    await world.apply(echoYaml('cam', [], 1, { discoveryHandler }))
    await eventually(async () => expect(await world.allocatable(NODE_1, RESOURCE)).toBe(1))
    await run('writer', WRITES, {
      terminationGracePeriodSeconds: 0,
      initContainers: [
        container('init', { [RESOURCE]: 1 }, `${REPORT}; report first "by init\\n"`),
      ],
    })
    await eventually(async () => expect((await instance()).spec.deviceUsage[SLOT]).toBe(NODE_1))
    generation = (await instance()).metadata.generation
  })

  afterAll(async () => {
    await world?.clear([NODE_1])
    await controller?.stop()
    await account?.dispose()
    await agent?.dispose()
    await world?.close()
  })

  it('R68 R69 R74 has its files in brokerInfo, also of its init container', async () => {
    await eventually(async () =>
      expect(await info()).toEqual({
        first: 'by init\n',
        'firmware-version': '1.0\n',
        screen: '1\ufffd[2J\t2\n',
        // It sees its own directory, and nothing of the node.
        seen: `${INSTANCE}\n`,
        above: '0\n',
        runs: 'run\nrun\n',
      }),
    )
    expect((await instance()).metadata.generation).toBe(generation)
    expect(await onNode(NODE_1, 'stat', '-c', '%u', `${directory()}/seen`)).toBe('4711\n')
  })

  it('R69 R70 gets an Event for a refused file, and reaches nothing of the node', async () => {
    await eventually(async () => {
      const { items } = (await world.client.request({
        method: 'GET',
        path: `/api/v1/namespaces/${world.namespace}/events`,
        query: { fieldSelector: 'reason=BrokerInfoRefused' },
      })) as { items: { message: string; involvedObject: { kind: string; name: string } }[] }
      for (const { involvedObject } of items)
        expect(involvedObject).toMatchObject({ kind: 'Instance', name: INSTANCE })
      expect(items.map(({ message }) => message).sort()).toEqual([
        `the workload of slot ${SLOT}: "large" has more than 4096 bytes`,
        `the workload of slot ${SLOT}: "passwd" is not a regular file`,
      ])
    })
  })

  it('R3 R106 gets no control characters of its device, nor does its Instance', async () => {
    const { metadata, spec } = await instance()
    expect(metadata.annotations).toEqual({
      'akri.sh/device-id': LINES.replace('\n', '\ufffd\ufffd'),
    })
    expect(spec.brokerProperties).toEqual({ DEBUG_ECHO_DESCRIPTION: LINES })
    await eventually(async () => {
      const environment = await world.logs('writer')
      expect(environment).toContain('DEBUG_ECHO_DESCRIPTION=cam\ufffd[2J\n')
      expect(environment).not.toMatch(OBEYED)
    })
  })

  it('R68 R69 leaves no report and no directory once its slot is released', async () => {
    await world.remove('Pod', 'writer')
    await eventually(async () => expect(await world.holders()).toEqual([]))
    await eventually(async () => expect(await info()).toEqual({}))
    await eventually(async () =>
      expect(await onNode(NODE_1, 'sh', '-c', `ls -d ${directory()} 2>&1 || true`)).toContain(
        'No such file',
      ),
    )
  })

  it('is ended by the controller if it fills the disk by a file that no program sees', async () => {
    account = await Account.create(world.client, 'controller', world.namespace)
    controller = new HostController('one', world.namespace, { KUBECONFIG: account.kubeconfig })
    await controller.lead()
    await run('filler', HIDES)
    await eventually(async () => {
      const { items } = (await world.client.request({
        method: 'GET',
        path: `/api/v1/namespaces/${world.namespace}/events`,
        query: { fieldSelector: 'reason=DiskBoundExceeded' },
      })) as { items: { message: string; involvedObject: object }[] }
      expect(items).toMatchObject([{ involvedObject: { kind: 'Pod', name: 'filler' } }])
      expect(items[0]?.message).toContain(SLOT)
    })
    await eventually(async () => expect(await world.get('Pod', 'filler')).toBeUndefined())
    await eventually(async () => expect(await world.holders()).toEqual([]))
  })
})
