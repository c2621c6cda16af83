import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { loadAll } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import { controllerOptions } from '../../controller/src/program/controller-options.js'
import { webhookOptions } from '../../webhook/src/program/webhook-options.js'
import { IMAGE } from '../e2e/support/image.js'
import { kustomize } from '../helm/kustomize.js'
import { MANIFESTS, type Workload } from './folder.js'

// Rules for all manifests.

interface UserOfContainer {
  readonly runAsUser?: number
  readonly runAsGroup?: number
}

interface Kustomization {
  readonly resources?: readonly string[]
  readonly patches?: readonly { readonly path: string }[]
}

const root = path.join(MANIFESTS, '../..')
const files = readdirSync(MANIFESTS, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.yaml'),
)
const text = (file: string) => readFileSync(path.join(MANIFESTS, file), 'utf8')
const isWorkload = (object: unknown): object is Workload =>
  typeof object === 'object' &&
  object !== null &&
  'kind' in object &&
  /^(DaemonSet|Deployment)$/.test(String(object.kind))
const workloads = files.flatMap((file) => (loadAll(text(file)) as unknown[]).filter(isWorkload))
const byName = workloads.map((workload) => [workload.metadata.name, workload] as const)

describe('all of deploy/manifests', () => {
  it.each(byName)(
    'H1 set each variable once, and mount each of their volumes: %s',
    (_name, { spec }) => {
      const { containers, volumes = [] } = spec.template.spec
      for (const { env = [], volumeMounts = [] } of containers) {
        const variables = env.map(({ name }) => name)
        expect(variables).toEqual([...new Set(variables)])
        expect(volumeMounts.map(({ name }) => name).sort()).toEqual(
          volumes.map(({ name }) => name).sort(),
        )
      }
    },
  )

  it.each([
    ['akri-agent-daemonset', agentOptions],
    ['akri-controller-deployment', controllerOptions],
    ['akri-webhook-configuration', webhookOptions],
  ] as const)('set only options of the program and of Node.js: %s', (name, options) => {
    const { spec } = new Map(byName).get(name) ?? expect.fail(`there is no ${name}`)
    const variables = spec.template.spec.containers.flatMap(({ env = [] }) =>
      env.map((variable) => variable.name),
    )
    const all = commanderOptions(options)
    const known = ['NODE_OPTIONS', ...all.map(({ envVar }) => envVar)]
    expect(variables.filter((variable) => !known.includes(variable))).toEqual([])
    for (const { mandatory, envVar } of all) if (mandatory) expect(variables).toContain(envVar)
  })

  it.each(byName)(
    'leave a fifth of the memory outside of the JavaScript heap: %s',
    (_, { spec }) => {
      for (const { env = [], resources } of spec.template.spec.containers) {
        const flags = env.find(({ name }) => name === 'NODE_OPTIONS')?.value ?? ''
        const [, heap] = /--max-old-space-size=(\d+)/.exec(flags) ?? []
        const [, limit] = /^(\d+)Mi$/.exec(resources.limits.memory) ?? []
        expect(Number(heap)).toBeLessThanOrEqual(Number(limit) * 0.8)
      }
    },
  )

  it.each(byName)('H1 use the one image: %s', (_name, { spec }) => {
    const { containers, initContainers = [] } = spec.template.spec
    expect(containers).toHaveLength(1)
    for (const { image } of [...containers, ...initContainers]) expect(image).toBe(IMAGE)
  })

  it.each(byName)(
    'H1 have no rights on the node except those of their user: %s',
    (name, { spec }) => {
      const { containers, securityContext } = spec.template.spec
      // What any user's containers leave in their directories of reports has to be removed.
      const add = name.includes('agent') ? ['DAC_OVERRIDE', 'FOWNER'] : undefined
      expect(securityContext).toMatchObject({ seccompProfile: { type: 'RuntimeDefault' } })
      for (const container of containers)
        expect(container.securityContext).toEqual(
          expect.objectContaining({
            privileged: false,
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'], add },
          }),
        )
    },
  )

  it('H1 have no privileged container, except that which mounts the file system of reports', () => {
    const privileged = byName.flatMap(([name, { spec }]) =>
      (spec.template.spec.initContainers ?? []).map(({ securityContext, volumeMounts }) => [
        name,
        securityContext,
        volumeMounts,
      ]),
    )
    expect(privileged).toEqual([
      [
        'akri-agent-daemonset',
        { privileged: true, runAsUser: 0, runAsGroup: 0, readOnlyRootFilesystem: true },
        [{ name: 'state', mountPath: '/var/lib/akri-agent', mountPropagation: 'Bidirectional' }],
      ],
    ])
  })

  it.each(byName)(
    'H1 run without root, except the agent, whose sockets of the kubelet belong to root: %s',
    (name, { spec }) => {
      const { containers, securityContext } = spec.template.spec
      const isAgent = name.includes('agent')
      expect(securityContext).toMatchObject(isAgent ? {} : { runAsNonRoot: true })
      for (const { securityContext: own } of containers) {
        const { runAsUser, runAsGroup } = { ...securityContext, ...own } as UserOfContainer
        expect(runAsUser === 0).toBe(isAgent)
        expect(runAsGroup === 0).toBe(isAgent)
      }
    },
  )

  it('H1 give each network handler its own user, in the group of the sockets', () => {
    const contexts = byName
      .filter(([name]) => /onvif|opcua/.test(name))
      .map(([, { spec }]) => spec.template.spec.securityContext as UserOfContainer)
    expect(contexts.length).toBeGreaterThan(1)
    expect(new Set(contexts.map(({ runAsUser }) => runAsUser)).size).toBe(contexts.length)
    const [, agent] = byName.find(([name]) => name.includes('agent')) ?? expect.fail('no agent')
    const group = contexts[0]?.runAsGroup
    expect(contexts.map(({ runAsGroup }) => runAsGroup)).toEqual(contexts.map(() => group))
    expect(agent.spec.template.spec.securityContext).toMatchObject({ supplementalGroups: [group] })
    expect(JSON.stringify(agent)).toContain(`{"name":"AKRI_HANDLERS_GROUP","value":"${group}"}`)
  })

  it.each(byName)(
    'H1 run on nodes of every suitable role, and use no deprecated role label: %s',
    (_name, workload) => {
      const { tolerations = [], nodeSelector } = workload.spec.template.spec
      const toleratesAll = tolerations.some(({ key }) => key === undefined)
      // Devices are on all nodes. A program that only calls the API server must not run on tainted
      // nodes.
      expect(toleratesAll).toBe(workload.kind === 'DaemonSet')
      expect(nodeSelector).toEqual({ 'kubernetes.io/os': 'linux' })
      expect(JSON.stringify(workload)).not.toContain('node-role.kubernetes.io/master')
    },
  )

  it.each(files.filter((file) => path.basename(file) === 'kustomization.yaml'))(
    'H1 name existing objects only, and each file of their folder: %s',
    (file) => {
      const [kustomization = {}] = loadAll(text(file)) as Kustomization[]
      const { resources = [], patches = [] } = kustomization
      // kubectl warns of older fields.
      const fields = ['apiVersion', 'kind', 'resources', 'patches']
      expect(fields).toEqual(expect.arrayContaining(Object.keys(kustomization)))
      const folder = path.join(MANIFESTS, path.dirname(file))
      const isThere = (name: string) =>
        name.endsWith('.yaml')
          ? existsSync(path.join(folder, name))
          : ['kustomization.yaml', 'kustomization.yml'].some((inner) =>
              existsSync(path.join(folder, name, inner)),
            )
      const named = [...resources, ...patches.map((patch) => patch.path)]
      expect(named.filter((name) => !isThere(name))).toEqual([])
      const beside = files.filter((other) => path.dirname(other) === path.dirname(file))
      const names = beside.map((other) => path.basename(other))
      // `kubectl delete -k` should leave the namespace: an operator makes it.
      const others = names.filter((name) => ![...named, 'namespace.yaml'].includes(name))
      expect(others).toEqual(['kustomization.yaml'])
    },
  )

  it.each(['all-handlers', 'host-network'])(
    'H1 have the objects of deploy/manifests, so that `kubectl delete -k` leaves as little: %s',
    (folder) => {
      const namesIn = (directory: string) =>
        kustomize(path.join(MANIFESTS, directory))
          .map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`)
          .sort()
      expect(namesIn(folder)).toEqual(namesIn('.'))
    },
  )

  it('H1 name the one recipe of the image, and the recipe uses existing files', () => {
    const recipes = [
      ...files.map(text),
      readFileSync(path.join(root, 'docs/operators.md'), 'utf8'),
    ].flatMap((name) => name.match(/\bdeploy\/images\/[\w.-]*\w/g) ?? [])
    expect([...new Set(recipes)]).toEqual(['deploy/images/agent.Dockerfile'])
    const recipe = readFileSync(path.join(root, 'deploy/images/agent.Dockerfile'), 'utf8')
    expect(recipe).toContain(`-t ${IMAGE} `)
    const scripts = recipe.match(/\bscripts\/[\w./-]+/g) ?? []
    expect(scripts.length).toBeGreaterThan(0)
    expect(scripts.filter((script) => !existsSync(path.join(root, script)))).toEqual([])
  })
})
