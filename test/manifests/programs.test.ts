import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { commanderOptions } from '@akrijs/runtime/program'
import { expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import { RIGHTS } from '../../cli/src/doctor/program-rights.js'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { webhookOptions } from '../../webhook/src/program/webhook-options.js'
import { REVIEWED_RULES } from '../../webhook/src/webhook-registration.js'
import type { PatchOperation } from '../helm/kustomize.js'
import { MANIFESTS, read, readAll, type Workload } from './folder.js'

// The manifests must match the programs, and each other.

const root = path.join(MANIFESTS, '../..')
const HANDLERS = [
  ['onvif', ['onvif']],
  ['opcua', ['opcua']],
  ['network', builtIn.handlers.flatMap((handler) => ('network' in handler ? handler.name : []))],
] as const
const podOf = (file: string) => read<Workload>(file).spec.template.spec
const containerOf = (file: string) => podOf(file).containers[0]
const environmentOf = (file: string) =>
  new Map(containerOf(file).env?.map(({ name, value }) => [name, value]))
const defaultsOf = (options: Parameters<typeof commanderOptions>[0]) =>
  new Map(commanderOptions(options).map(({ envVar, defaultValue }) => [envVar, defaultValue]))
const ofAgent = defaultsOf(agentOptions)
const ofWebhook = defaultsOf(webhookOptions)

it.each([
  'controller/deployment.yaml',
  'webhook/deployment.yaml',
  ...HANDLERS.map(([folder]) => `handlers/${folder}/daemonset.yaml`),
])('%s has its configured port of probes', (file) => {
  expect(containerOf(file).ports.map(({ containerPort }) => String(containerPort))).toContain(
    environmentOf(file).get('METRICS_PORT'),
  )
})

it('the agent has the directories that it uses by default', () => {
  const needed = {
    DISCOVERY_HANDLERS_DIRECTORY: ofAgent.get('DISCOVERY_HANDLERS_DIRECTORY'),
    AKRI_STATE_DIRECTORY: ofAgent.get('AKRI_STATE_DIRECTORY'),
    KUBELET_PLUGIN_DIRECTORY: ofAgent.get('KUBELET_PLUGIN_DIRECTORY'),
    KUBELET_POD_RESOURCES_SOCKET: path.dirname(ofAgent.get('KUBELET_POD_RESOURCES_SOCKET')),
  }
  const environment = environmentOf('agent/daemonset.yaml')
  for (const variable of Object.keys(needed)) expect(environment.has(variable)).toBe(false)
  const { volumes = [], containers } = podOf('agent/daemonset.yaml')
  const mounted = containers[0].volumeMounts?.map(({ name, mountPath }) => {
    expect(volumes.find((volume) => volume.name === name)?.hostPath.path).toBe(mountPath)
    return mountPath
  })
  expect(mounted?.sort()).toEqual([...Object.values(needed), '/run/udev'].sort())
})

it('the replicas of the controller are one controller, with different names', () => {
  const environment = environmentOf('controller/deployment.yaml')
  for (const name of ['POD_NAME', 'POD_NAMESPACE']) expect(environment.has(name)).toBe(true)
  expect(read<Workload>('controller/deployment.yaml').spec.replicas).toBe(2)
})

it.each(HANDLERS)('handlers/%s serves %j, and shares only the directory of the agent', (...row) => {
  const [folder, handlers] = row
  const file = `handlers/${folder}/daemonset.yaml`
  const { volumes, containers } = podOf(file)
  const [{ command, volumeMounts }] = containers
  expect(command.slice(1)).toEqual([
    'node_modules/@akrijs/sdk/dist/akri-handler.js',
    ...handlers.map((name) => builtIn.handlers.find((entry) => entry.name === name)?.package),
  ])
  const directory = ofAgent.get('DISCOVERY_HANDLERS_DIRECTORY')
  expect(environmentOf(file).get('DISCOVERY_HANDLERS_DIRECTORY')).toBe(directory)
  expect(volumeMounts).toEqual([{ name: 'handlers', mountPath: directory }])
  expect(volumes).toEqual([
    { name: 'handlers', hostPath: { path: directory, type: 'DirectoryOrCreate' } },
  ])
})

it('programs in the network of the node have ports of their own', () => {
  const ports = ['host-network', 'handlers/opcua-host-network'].map((folder) =>
    read<PatchOperation[]>(`${folder}/daemonset-patch.yaml`).find(({ path: at }) =>
      at.endsWith('/containerPort'),
    ),
  )
  const [onvif = [], network] = ['onvif', 'network'].map((folder) => {
    const { hostNetwork, containers } = podOf(`handlers/${folder}/daemonset.yaml`)
    expect(hostNetwork).toBe(true)
    return containers[0].ports.map((item) => item.containerPort)
  })
  const all = [...ports.map((port) => port?.value), ...onvif]
  expect(all.toSorted()).toEqual([18080, 18081, 18082])
  // Both search for the same cameras: their Pods have no place on one node.
  expect(network).toEqual(onvif)
})

it('the agent, all-handlers and the webhook name the built-in handlers', () => {
  const packagesOf = (names: readonly { package: string }[]) =>
    names.map((item) => item.package).join()
  const inAgent = builtIn.handlers.filter((handler) => 'runsInAgent' in handler)
  const namedIn = (file: string) => environmentOf(file).get('AKRI_HANDLERS')
  expect(namedIn('agent/daemonset.yaml')).toBe(packagesOf(inAgent))
  expect(namedIn('webhook/deployment.yaml')).toBe(packagesOf(builtIn.handlers))
  expect(read<PatchOperation[]>('all-handlers/daemonset-patch.yaml')).toContainEqual(
    expect.objectContaining({ op: 'replace', value: packagesOf(builtIn.handlers) }),
  )
})

it('the list of built-in handlers equals their package.json files', () => {
  const folders = readdirSync(path.join(root, 'handlers'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `handlers/${name}`)
  expect(builtIn.handlers.map(({ folder }) => folder).toSorted()).toEqual(folders.toSorted())
  for (const { folder, name, package: packageName } of builtIn.handlers) {
    const manifest = JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8'))
    expect(manifest).toMatchObject({ name: packageName, akri: { handlers: [{ name }] } })
  }
})

it('the webhook registers the Service of its Pods, and gives both the names that it knows', () => {
  interface Named {
    readonly metadata: { readonly name: string; readonly namespace: string }
  }
  const service = read<Named & { spec: { selector: object; ports: object[] } }>(
    'webhook/service.yaml',
  )
  const registration = read<Named & { webhooks: object[] }>(
    'webhook/validating-webhook-configuration.yaml',
  )
  const { metadata, spec } = read<Workload>('webhook/deployment.yaml').spec.template
  expect(metadata.labels).toMatchObject(service.spec.selector)
  expect(spec.containers[0].ports).toContainEqual({
    name: 'https',
    containerPort: ofWebhook.get('AKRI_WEBHOOK_PORT'),
  })
  expect(service.spec.ports).toEqual([expect.objectContaining({ port: 443, targetPort: 'https' })])
  const { name, namespace } = service.metadata
  expect(name).toBe(ofWebhook.get('AKRI_WEBHOOK_SERVICE'))
  expect(registration.webhooks).toEqual([
    expect.objectContaining({
      name: `${name}.${namespace}.svc`,
      clientConfig: { service: { name, namespace, port: 443, path: '/validate' } },
      rules: REVIEWED_RULES,
    }),
  ])
  // The program owns this field.
  expect(registration.webhooks[0]).not.toHaveProperty('failurePolicy')
  const environment = environmentOf('webhook/deployment.yaml')
  expect(registration.metadata.name).toBe(environment.get('AKRI_WEBHOOK_CONFIGURATION'))
  expect(JSON.stringify(read('webhook/role.yaml'))).toContain(
    JSON.stringify([ofWebhook.get('AKRI_CERTIFICATE_SECRET')]),
  )
})

it('akri doctor asks for the rights that the roles of the programs give', () => {
  interface Role {
    readonly metadata: { readonly namespace?: string }
    readonly rules: readonly object[]
  }
  const rulesIn = (file: string) =>
    readAll<Role>(file).flatMap(({ metadata: { namespace }, rules }) =>
      rules.map((rule) => (namespace === undefined ? rule : { ...rule, namespace })),
    )
  const rules = (program: keyof typeof RIGHTS) =>
    RIGHTS[program].map((rule) =>
      rule.namespace === 'own' ? { ...rule, namespace: 'akri' } : rule,
    )
  expect(rules('akri-agent')).toEqual(rulesIn('agent/cluster-role.yaml'))
  expect(rules('akri-controller')).toEqual([
    ...rulesIn('controller/cluster-role.yaml'),
    ...rulesIn('controller/role.yaml'),
  ])
  // What it needs for its certificate depends on who issues that.
  expect(rules('akri-webhook')).toEqual(rulesIn('webhook/cluster-role.yaml').slice(0, 2))
})
