import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { History } from './support/history.js'
import { HostController } from './support/host-controller.js'
import { NodeAgents } from './support/node-agents.js'
import {
  AVAILABILITY_FILE,
  echoYaml,
  eventually,
  missing,
  NODES,
  type PodState,
  podYaml,
  unless,
  World,
} from './support/world.js'

// The controller, with one agent for each node, on a real Kubernetes: from a device to the programs that use it.

const ASKS = { '{{PLACEHOLDER}}': '1' }

/** What tests look at of the specs of Pods, Jobs, Deployments and Services. */
interface Spec {
  readonly nodeName?: string
  readonly affinity?: { readonly nodeAffinity?: object }
  readonly containers: readonly [
    { readonly command: readonly [string, string, string]; readonly resources: object; readonly env?: object },
  ]
  readonly template: { readonly metadata: { readonly annotations?: object }; readonly spec: Spec }
  readonly selector: Readonly<Record<string, string>>
  readonly ports: readonly [{ readonly port: number }]
  readonly clusterIP: string
}

interface Made {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly resourceVersion: string
    readonly generation: number
    readonly creationTimestamp: string
    readonly deletionTimestamp?: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations: Readonly<Record<string, string>>
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string }[]
  }
  readonly spec: Spec
  readonly status: PodState['status'] & {
    readonly conditions?: { readonly type: string; readonly status: string }[]
    readonly containerStatuses?: readonly { readonly state: { readonly terminated?: { readonly finishedAt: string } } }[]
  }
}

/** A PodSpec whose container writes its environment and sleeps, or runs a script. Without grace: the kubelet takes its time. */
function podSpec(script = 'env; exec sleep 100000', more: object = {}, resources: object = ASKS) {
  const container = {
    name: 'broker',
    image: 'e2e.local/busybox:1',
    imagePullPolicy: 'Never',
    command: ['/bin/sh', '-c', script],
    resources: { limits: resources, requests: resources },
  }
  return { terminationGracePeriodSeconds: 0, containers: [container], ...more }
}

const service = (port: number) => ({ type: 'ClusterIP', ports: [{ name: 'p', port, targetPort: port, protocol: 'TCP' }] })

describe.skipIf(missing() !== undefined)(`the controller on a real cluster${unless}`, { timeout: 120_000 }, () => {
  let world: World
  let agents: NodeAgents
  let controller: HostController

  const pods = async () => (await world.list<Made>('Pod')).sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
  const alive = async () => (await pods()).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  const names = async (kind: string) => (await world.list<Made>(kind)).map(({ metadata }) => metadata.name).sort()
  const running = async (count: number) => {
    const found = await alive()
    expect(found.map(({ status }) => status.phase)).toEqual(Array.from({ length: count }, () => 'Running'))
    return found
  }
  const instanceIds = async () =>
    (await world.instances()).map(({ metadata, spec }) => [metadata.uid, spec.nodes.toSorted().join()]).sort()
  const brokerCount = async () =>
    [...(await controller.metrics()).matchAll(/^akri_broker_pod_count\{configuration="cam",node="[^"]*"\} ([0-9]+)$/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    )

  beforeAll(async () => {
    await rm(AVAILABILITY_FILE, { force: true })
    world = await World.open()
    agents = await NodeAgents.start()
    controller = new HostController('one', world.namespace)
    await controller.lead()
  }, 120_000)

  afterEach(async () => {
    await rm(AVAILABILITY_FILE, { force: true })
    // Whatever was counted on the way: in the end the gauge says what there is.
    await eventually(async () => expect(await brokerCount()).toBe((await pods()).filter(isBroker).length))
    await world.clear()
  }, 120_000)

  afterAll(async () => {
    await controller?.stop()
    await agents?.dispose()
    await world?.close()
  }, 120_000)

  it('R44 R45 R55 R60 R61 R63 R93 R95 R96 R102 R106 R107 R108 R109 R110 R113 runs a broker on each node of each device, with Services, and all that a broker needs', async () => {
    await world.apply(
      echoYaml('cam', ['foo0', 'foo1'], 2, {
        brokerSpec: { brokerPodSpec: podSpec() },
        instanceServiceSpec: service(80),
        configurationServiceSpec: service(81),
        brokerProperties: { SITE: 'north' },
      }),
    )
    const brokers = await eventually(() => running(4))
    expect(brokers.map(({ metadata }) => metadata.name)).toEqual([
      'node-1-cam-8120fe-pod',
      'node-1-cam-a19705-pod',
      'node-2-cam-8120fe-pod',
      'node-2-cam-a19705-pod',
    ])
    const [first] = brokers
    expect(first?.metadata.labels).toEqual({
      app: 'node-1-cam-8120fe-pod',
      controller: 'akri.sh',
      'akri.sh/configuration': 'cam',
      'akri.sh/instance': 'cam-8120fe',
      'akri.sh/target-node': 'node-1',
    })
    expect(first?.metadata.ownerReferences).toMatchObject([{ kind: 'Instance', name: 'cam-8120fe' }])
    expect(first?.spec.nodeName).toBe('node-1')
    expect(first?.spec.containers[0].resources).toEqual({
      limits: { 'akri.sh/cam-8120fe': '1' },
      requests: { 'akri.sh/cam-8120fe': '1' },
    })
    await eventually(async () => expect(await world.logs('node-1-cam-8120fe-pod')).toMatch(/^DEBUG_ECHO_DESCRIPTION=foo0$/m))
    expect(await world.logs('node-1-cam-8120fe-pod')).toMatch(/^SITE=north$/m)
    expect(await world.holders()).toEqual(['node-1', 'node-1', 'node-2', 'node-2'])

    await eventually(async () => expect(await names('Service')).toEqual(['cam-8120fe-svc', 'cam-a19705-svc', 'cam-svc']))
    const services = await world.list<Made>('Service')
    expect(services.map(({ spec }) => [spec.selector, spec.ports[0].port])).toEqual([
      [{ controller: 'akri.sh', 'akri.sh/instance': 'cam-8120fe' }, 80],
      [{ controller: 'akri.sh', 'akri.sh/instance': 'cam-a19705' }, 80],
      [{ controller: 'akri.sh', 'akri.sh/configuration': 'cam' }, 81],
    ])
    expect(services.map(({ metadata }) => metadata.ownerReferences?.[0]?.kind)).toEqual(['Instance', 'Instance', 'Configuration'])
    // The Services find them.
    for (const [name, count] of [
      ['cam-8120fe-svc', 2],
      ['cam-svc', 4],
    ] as const)
      await eventually(async () => expect(await addresses(name)).toHaveLength(count))
    expect(await brokerCount()).toBe(4)
  })

  it('R80 R101 R104 R105 R111 R112 R114 goes from a Configuration to a broker as the architecture says, step by step', async () => {
    // A slow start: each step can be seen.
    const spec = podSpec('env; exec sleep 100000', { nodeSelector: { 'kubernetes.io/hostname': 'node-1' } })
    await world.apply(echoYaml('cam', ['foo0'], 3, { brokerSpec: { brokerPodSpec: spec } }))
    // 2. The agents found the device, and each listed its node. All slots are free.
    await eventually(async () => {
      const [instance] = await world.instances()
      expect(instance?.spec).toMatchObject({ configurationName: 'cam', shared: true, capacity: 3 })
      expect(instance?.spec.nodes.toSorted()).toEqual([...NODES])
      expect(Object.keys(instance?.spec.deviceUsage ?? {})).toEqual(['cam-8120fe-0', 'cam-8120fe-1', 'cam-8120fe-2'])
    })
    // 3. The controller made a Pod for a node of the list that may have it, which asks for the Instance.
    const [broker] = await eventually(() => running(1))
    expect(broker?.metadata.labels['akri.sh/target-node']).toBe('node-1')
    // 4. The kubelet asked for a slot, and the agent reserved it for its node.
    const usage = await world.usage()
    const taken = Object.keys(usage).filter((slot) => usage[slot] === 'node-1')
    expect(Object.values(usage).filter(Boolean)).toEqual(['node-1'])
    // 5. What is taken is offered to nobody else: two are left for Pods of the other node, and not a third.
    await eventually(async () => expect(await world.allocatable('node-2', 'akri.sh/cam-8120fe')).toBe(2))
    for (const name of ['x', 'y', 'z']) await world.apply(podYaml(name, { 'akri.sh/cam-8120fe': 1 }, { node: 'node-2' }))
    await eventually(async () => {
      const others = (await alive()).filter(({ metadata }) => metadata.ownerReferences === undefined)
      expect(others.map(({ status }) => status.phase).sort()).toEqual(['Pending', 'Running', 'Running'])
    })
    expect((await world.holders()).sort()).toEqual(['node-1', 'node-2', 'node-2'])
    expect((await world.usage())[taken[0] ?? '']).toBe('node-1')
    await eventually(async () => expect(await world.logs(broker?.metadata.name ?? '')).toMatch(/^DEBUG_ECHO_DESCRIPTION=foo0$/m))
  })

  it('R43 R46 R47 R56 R62 takes brokers and Services away with the device, and brings them back; Pods of others go on', async () => {
    const broker = {
      brokerSpec: { brokerPodSpec: podSpec() },
      instanceServiceSpec: service(80),
      configurationServiceSpec: service(81),
    }
    await world.apply(echoYaml('cam', ['foo0'], 3, broker))
    await eventually(() => running(2))
    await eventually(async () => expect(await names('Service')).toHaveLength(2))
    await world.apply(podYaml('own', { 'akri.sh/cam-8120fe': 1 }))
    await eventually(() => running(3))
    const own = async () => (await pods()).find(({ metadata }) => metadata.name === 'own')?.metadata.uid
    const before = await own()
    await writeFile(AVAILABILITY_FILE, 'OFFLINE')
    await eventually(async () => {
      expect(await names('Pod')).toEqual(['own'])
      expect(await names('Service')).toEqual([])
    })
    await running(1)
    await rm(AVAILABILITY_FILE)
    await eventually(() => running(3))
    expect(await own()).toBe(before)
    await eventually(async () => expect(await names('Service')).toHaveLength(2))
  })

  it('R48 R76 R77 C7 runs as many brokers of a device as its capacity, and another one where one cannot be', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const [broker] = await eventually(() => running(1))
    const node = broker?.spec.nodeName ?? ''
    const other = NODES.find((one) => one !== node) ?? ''
    // The node is to have no new Pods, and its broker ends.
    await cordon(node, true)
    try {
      await world.remove('Pod', broker?.metadata.name ?? '')
      await eventually(async () => expect((await running(1))[0]?.spec.nodeName).toBe(other))
    } finally {
      await cordon(node, false)
    }
    // Raised: the other node gets one too, and that which runs goes on.
    const [moved] = await running(1)
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const both = await eventually(() => running(2))
    expect(both.map(({ metadata }) => metadata.uid)).toContain(moved?.metadata.uid)
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    await eventually(async () => expect(await pods()).toHaveLength(1))
  })

  it('R49 R62 C6 makes a broker again that was deleted or ended, and waits longer each time that it ends', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const [first] = await eventually(() => running(1))
    await world.remove('Pod', first?.metadata.name ?? '')
    await eventually(async () => expect((await running(1))[0]?.metadata.uid).not.toBe(first?.metadata.uid))

    const history = await History.begin<Made>(world, 'Pod')
    try {
      const ends = { brokerSpec: { brokerPodSpec: podSpec('exit 3', { restartPolicy: 'Never' }) } }
      await world.apply(echoYaml('cam', ['foo0'], 1, ends))
      const broken = await eventually(() => {
        const found = brokersOf(history).slice(1)
        expect(found).toHaveLength(4)
        return found
      }, 60_000)
      expect(broken.map(({ restarts }) => restarts)).toEqual([0, 1, 2, 3])
      const waits = broken.map(({ createdAt }, index) => createdAt - (broken[index - 1]?.endedAt ?? createdAt))
      expect(waits[2]).toBeGreaterThanOrEqual(2000)
      expect(waits[3]).toBeGreaterThanOrEqual(4000)
    } finally {
      await history.end()
    }
  })

  it('R86 R89 C6 makes a broker again that the kubelet refused', async () => {
    // No node has so much of it: the Pod waits, and the test is the kubelet that refuses it.
    await world.apply(
      echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec('true', {}, { 'akri.sh/cam-8120fe': '7' }) } }),
    )
    const [pod] = await eventually(async () => {
      const found = await alive()
      expect(found).toHaveLength(1)
      return found
    })
    await refuse(pod?.metadata.name ?? '')
    const refusedAt = Date.now()
    const [next] = await eventually(async () => {
      const found = await alive()
      expect(found.map(({ metadata }) => metadata.uid)).not.toContain(pod?.metadata.uid)
      expect(found).toHaveLength(1)
      return found
    })
    expect(Date.now() - refusedAt).toBeGreaterThanOrEqual(1000)
    expect(next?.metadata.annotations['akri.sh/restarts']).toBe('1')
  })

  it('R57 R65 R72 rolls a changed broker spec over, one broker after the other, and leaves Instances alone', async () => {
    const spec = (version: string, more: object = {}) => ({
      brokerSpec: { brokerPodSpec: podSpec(`echo ${version}; exec sleep 100000`), ...more },
      instanceServiceSpec: service(80),
    })
    await world.apply(echoYaml('cam', ['foo0'], 2, spec('v1')))
    const before = await eventually(() => running(2))
    await eventually(async () => expect(await names('Service')).toEqual(['cam-8120fe-svc']))
    const ids = await instanceIds()
    const [service1] = await world.list<Made>('Service')
    const history = await History.begin<Made>(world, 'Pod')
    try {
      await world.apply(echoYaml('cam', ['foo0'], 2, { ...spec('v2'), instanceServiceSpec: service(8080) }))
      await eventually(async () => {
        expect(ready(await pods()).map(({ spec: { containers } }) => containers[0].command[2])).toEqual(
          Array(2).fill('echo v2; exec sleep 100000'),
        )
      })
    } finally {
      await history.end()
    }
    // The history begins with one Pod after the other.
    const counts = history.moments.slice(1).map((moment) => ready(moment).length)
    expect(Math.min(...counts)).toBe(1)
    for (const { metadata } of before) expect((await pods()).map((pod) => pod.metadata.uid)).not.toContain(metadata.uid)
    expect(await instanceIds()).toEqual(ids)
    // The Service kept its address, and has the new port.
    await eventually(async () => {
      const [service2] = await world.list<Made>('Service')
      expect(service2?.spec.ports[0].port).toBe(8080)
      expect([service2?.metadata.uid, service2?.spec.clusterIP]).toEqual([service1?.metadata.uid, service1?.spec.clusterIP])
    })

    const uids = (await running(2)).map(({ metadata }) => metadata.uid)
    await world.apply(echoYaml('cam', ['foo0'], 2, spec('v3', { updateStrategy: { type: 'OnDelete' } })))
    await world.remove('Pod', 'node-1-cam-8120fe-pod')
    await eventually(async () => {
      const commands = Object.fromEntries(
        (await running(2)).map(({ metadata, spec: { containers } }) => [metadata.name, containers[0].command[2].slice(0, 7)]),
      )
      expect(commands).toEqual({ 'node-1-cam-8120fe-pod': 'echo v3', 'node-2-cam-8120fe-pod': 'echo v2' })
    })
    expect((await running(2)).filter(({ metadata }) => uids.includes(metadata.uid))).toHaveLength(1)

    // A broker spec that is removed takes brokers and Services with it.
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => {
      expect(await names('Pod')).toEqual([])
      expect(await names('Service')).toEqual([])
    })
    expect(await instanceIds()).toEqual(ids)
  })

  it('R50 R52 R53 R54 C2 C4 C5 runs a Job once for each device, and again only for another spec', async () => {
    const job = (script: string, directory: string) => {
      const { containers, ...spec } = podSpec(script, { restartPolicy: 'Never' })
      const volumeMounts = [{ name: 'shared', mountPath: '/shared' }]
      const volumes = [{ name: 'shared', hostPath: { path: directory } }]
      const mounted = { ...spec, volumes, containers: containers.map((one) => ({ ...one, volumeMounts })) }
      const template = { metadata: { labels: { mine: 'x' } }, spec: mounted }
      return {
        brokerSpec: { brokerJobSpec: { backoffLimit: 0, template } },
        configurationServiceSpec: service(81),
      }
    }
    const shared = await mkdtemp(path.join(os.tmpdir(), 'akri-jobs-'))
    onTestFinished(() => rm(shared, { recursive: true }))
    // Until they are told: all of them run at one time, however long it takes to start them.
    const waiting = job('until [ -e /shared/done ]; do sleep 0.2; done', shared)
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2, waiting))
    await eventually(async () => expect(await names('Job')).toEqual(['cam-8120fe-1-job', 'cam-a19705-1-job']))
    await eventually(async () => expect(await addresses('cam-svc')).toHaveLength(2))
    await writeFile(path.join(shared, 'done'), '')
    const done = async (count: number) => {
      const jobs = await world.list<Made>('Job')
      expect(jobs.filter(({ status }) => status.conditions?.some(({ type }) => type === 'Complete'))).toHaveLength(count)
    }
    await eventually(() => done(2))
    // With the last broker its Service goes.
    await eventually(async () => expect(await names('Service')).toEqual([]))
    for (const { metadata, spec } of await pods()) {
      expect(metadata.labels).toMatchObject({ mine: 'x', controller: 'akri.sh', 'akri.sh/configuration': 'cam' })
      expect(spec.affinity?.nodeAffinity).toBeUndefined()
    }

    // Somebody tidies up, and the controller is started anew: what was done is not done again.
    await world.remove('Job', 'cam-8120fe-1-job')
    await eventually(async () => expect(await names('Job')).toEqual(['cam-a19705-1-job']))
    await controller.stop('SIGTERM')
    await controller.lead()
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, waiting))
    await eventually(async () => expect((await world.instances()).map(({ spec }) => spec.capacity)).toEqual([3, 3]))
    expect(await names('Job')).toEqual(['cam-a19705-1-job'])

    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, job('true', shared)))
    await eventually(async () => expect(await names('Job')).toEqual(['cam-8120fe-3-job', 'cam-a19705-3-job']))
    await eventually(() => done(2))
  })

  it('R86 makes a Job again none of whose Pods was let in', async () => {
    const template = { spec: podSpec('true', { restartPolicy: 'Never' }, { 'akri.sh/cam-8120fe': '7' }) }
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerJobSpec: { backoffLimit: 0, template } } }))
    const [pod] = await eventually(async () => {
      const found = await pods()
      expect(found).toHaveLength(1)
      return found
    })
    const [job] = await world.list<Made>('Job')
    await refuse(pod?.metadata.name ?? '')
    await eventually(async () => {
      const jobs = await world.list<Made>('Job')
      expect(jobs.map(({ metadata }) => metadata.annotations['akri.sh/restarts'])).toEqual(['1'])
      expect(jobs[0]?.metadata.uid).not.toBe(job?.metadata.uid)
    })
  })

  it('R9 R42 R86 runs a Deployment whose Pods share all devices of the Configuration', async () => {
    const deployment = (replicas: number) => ({
      brokerSpec: { brokerDeploymentSpec: { replicas, template: { spec: podSpec() } } },
      configurationServiceSpec: service(81),
    })
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, deployment(3)))
    await eventually(async () => {
      const phases = (await alive()).map(({ status }) => status.phase).sort()
      expect(phases).toEqual(['Pending', 'Running', 'Running'])
    })
    expect((await world.holders()).map((holder) => holder.slice(0, 2))).toEqual(['C:', 'C:'])
    await eventually(async () => expect(await addresses('cam-svc')).toHaveLength(2))
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, deployment(1)))
    await eventually(() => running(1))
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () => {
      expect(await names('Deployment')).toEqual([])
      expect(await names('Pod')).toEqual([])
      expect(await names('Service')).toEqual([])
    })
  })

  it('R102 puts back what somebody has edited of its Services and its Deployment, and leaves what he has added', async () => {
    const containers = [{ ...podSpec().containers[0], env: [{ name: 'DOOR', value: 'shut' }] }]
    const brokerDeploymentSpec = { replicas: 1, template: { spec: { ...podSpec(), containers } } }
    const more = { brokerSpec: { brokerDeploymentSpec }, configurationServiceSpec: service(81) }
    await world.apply(echoYaml('cam', ['foo0'], 3, more))
    await eventually(async () => expect(await names('Service')).toEqual(['cam-svc']))
    const made = async () => {
      const [found, deployment] = [
        await world.get<Made>('Service', 'cam-svc'),
        await world.get<Made>('Deployment', 'cam-deployment'),
      ]
      const { labels } = found?.metadata ?? {}
      const { template } = deployment?.spec ?? {}
      return { labels, spec: found?.spec, door: template?.spec.containers[0].env, annotations: template?.metadata.annotations }
    }
    const before = await made()
    const uid = (await world.get<Made>('Service', 'cam-svc'))?.metadata.uid

    await world.api('Service').patch(world.key('cam-svc'), 'merge', {
      metadata: { labels: { mine: 'x', 'akri.sh/configuration': 'other' } },
      spec: { selector: { controller: null, app: 'mine' } },
    })
    await world.api('Deployment').patch(world.key('cam-deployment'), 'json', [
      { op: 'replace', path: '/spec/template/spec/containers/0/env/0/value', value: 'open' },
      { op: 'add', path: '/spec/template/metadata/annotations', value: { restarted: 'now' } },
    ])
    await eventually(async () =>
      expect(await made()).toEqual({
        labels: { ...before.labels, mine: 'x' },
        spec: { ...before.spec, selector: { ...before.spec?.selector, app: 'mine' } },
        door: before.door,
        annotations: { restarted: 'now' },
      }),
    )
    expect((await world.get<Made>('Service', 'cam-svc'))?.metadata.uid).toBe(uid)
    // And it is at rest: nothing is written while nothing changes.
    const [last] = await eventually(() => running(1))
    const { PATCH } = await controller.requests()
    await world.remove('Pod', last?.metadata.name ?? '')
    await eventually(async () => expect((await running(1))[0]?.metadata.uid).not.toBe(last?.metadata.uid))
    expect((await controller.requests()).PATCH).toBe(PATCH)
  })

  it('C8 leaves alone what others have made with its labels and its names', async () => {
    const labels = { controller: 'akri.sh', 'akri.sh/configuration': 'cam', 'akri.sh/instance': 'cam-8120fe' }
    const foreign = (name: string, own: object) =>
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, labels: own },
        spec: podSpec('exec sleep 100000', {}, {}),
      })
    await world.apply(foreign('node-1-cam-8120fe-pod', labels))
    await world.apply(foreign('only-configuration', { controller: 'akri.sh', 'akri.sh/configuration': 'cam' }))
    await world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'cam-8120fe-svc', labels },
        spec: { ports: [{ port: 7, protocol: 'TCP' }] },
      }),
    )
    await world.apply(
      echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerPodSpec: podSpec() }, instanceServiceSpec: service(80) }),
    )
    await eventually(() => running(4))
    const found = await running(4)
    const own = found.filter(isBroker).map(({ metadata }) => metadata.name)
    // The name that was taken has another one beside it.
    expect(own).toEqual([expect.stringMatching(/^node-1-cam-8120fe-pod-[0-9a-f]{10}$/), 'node-2-cam-8120fe-pod'])
    await eventually(() => expect(controller.output).toMatch(/cam-8120fe-svc in [a-z0-9-]+ belongs to somebody else/))
    const [service1] = await world.list<Made>('Service')
    expect(service1?.spec.ports[0].port).toBe(7)
    expect(service1?.metadata.ownerReferences).toBeUndefined()
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await names('Pod')).toEqual(['node-1-cam-8120fe-pod', 'only-configuration']))
    expect(await names('Service')).toEqual(['cam-8120fe-svc'])
  })

  it('C1 C10 goes on where it was when it is killed, and hands over to a replica, without a broker too many', async () => {
    const other = new HostController('two', world.namespace)
    await world.apply(
      echoYaml('cam', ['foo0', 'foo1'], 2, { brokerSpec: { brokerPodSpec: podSpec() }, instanceServiceSpec: service(80) }),
    )
    const before = (await eventually(() => running(4))).map(({ metadata }) => metadata.uid)
    other.start()
    try {
      await controller.stop('SIGKILL')
      // Nobody leads for a moment: what happens then is seen all the same.
      await world.remove('Pod', 'node-1-cam-8120fe-pod')
      await eventually(() => expect(other.output).toContain('this replica leads'), 60_000)
      await eventually(() => running(4))
      const after = (await running(4)).map(({ metadata }) => metadata.uid)
      expect(after.filter((uid) => before.includes(uid))).toHaveLength(3)
      controller.start()
      // In the middle of its work: half of what is to be done may be done.
      await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2', 'foo3'], 2, { brokerSpec: { brokerPodSpec: podSpec() } }))
      await eventually(async () => expect((await pods()).length).toBeGreaterThan(4))
      await other.stop('SIGKILL')
      await eventually(() => running(8), 60_000)
      expect((await pods()).map(({ metadata }) => metadata.name)).toHaveLength(8)
    } finally {
      await other.stop('SIGKILL')
    }
  })

  function ready(found: readonly Made[]): Made[] {
    return found.filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined &&
        status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
    )
  }

  function isBroker({ metadata, status }: Made): boolean {
    return metadata.ownerReferences !== undefined && status.phase !== 'Succeeded' && status.phase !== 'Failed'
  }

  /** The Pods that there were, one after the other. Times are whole seconds, in milliseconds since the epoch. */
  function brokersOf(history: History<Made>) {
    // Of each the last state: that in which it had ended.
    const pods = new Map(history.states.map((pod) => [pod.metadata.uid, pod]))
    return [...pods.values()].map(({ metadata, status }) => ({
      restarts: Number(metadata.annotations['akri.sh/restarts'] ?? 0),
      createdAt: Date.parse(metadata.creationTimestamp),
      endedAt: Date.parse(status.containerStatuses?.[0]?.state.terminated?.finishedAt ?? ''),
    }))
  }

  async function addresses(name: string): Promise<string[]> {
    const { subsets = [] } = (await world.client.request({
      method: 'GET',
      path: `/api/v1/namespaces/${world.namespace}/endpoints/${name}`,
    })) as { subsets?: { addresses?: { ip: string }[] }[] }
    return subsets.flatMap(({ addresses: found = [] }) => found.map(({ ip }) => ip))
  }

  async function cordon(node: string, unschedulable: boolean): Promise<void> {
    const body = { spec: { unschedulable } }
    await world.client.request({ method: 'PATCH', path: `/api/v1/nodes/${node}`, body, patch: 'merge' })
  }

  /** Says of a Pod what a kubelet says that does not let it in. */
  async function refuse(name: string): Promise<void> {
    const startTime = new Date().toISOString()
    const status = { phase: 'Failed', reason: 'UnexpectedAdmissionError', message: 'Allocate failed', startTime }
    await world.api('Pod').patch(world.key(name), 'merge', { status }, { subresource: 'status' })
  }
})
