import { readdirSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART } from '../../helm/chart.js'
import { HELMS, missingHelm, runHelm } from '../../helm/programs.js'
import { kubectl, kubectlOutput } from '../support/kubectl.js'
import { missing } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'
import { MANIFESTS, makeNamespace, missingForInstallation } from './installation.js'

// What kubectl, Helm and the API server print besides the result. Installed Pods need not start.

const lacks = missing() ?? missingForInstallation()
const root = path.join(MANIFESTS, '../..')
const filesIn = (folder: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.yaml') && !file.includes('node_modules'))
    .map((file) => path.join(folder, file))
    .sort()
const manifests = [
  ...filesIn('deploy/manifests')
    .filter((file) => path.basename(file) === 'kustomization.yaml')
    .map((file) => ['-k', path.dirname(file)] as const),
  ...[...filesIn('deploy/manifests/examples'), ...filesIn('examples')].map(
    (file) => ['-f', file] as const,
  ),
]
const EVERYTHING = [
  'agent.nodeRestriction=true',
  ...['udev', 'debugEcho', 'onvif', 'opcua'].map((name) => `${name}.configuration.enabled=true`),
  ...['udev', 'debugEcho', 'onvif', 'opcua'].map((name) => `${name}.discovery.enabled=true`),
  'custom.discovery.enabled=true,custom.discovery.image.repository=registry.example/handler',
  'custom.configuration.enabled=true,custom.configuration.discoveryHandlerName=mine',
  'udev.configuration.discoveryDetails.udevRules={KERNEL=="null"}',
  'debugEcho.configuration.brokerPod.image.repository=registry.example/broker',
  'onvif.configuration.brokerJob.image.repository=registry.example/broker',
  'webhookConfiguration.networkPolicy.enabled=true',
  'webhookConfiguration.networkPolicy.apiServers={10.0.0.0/24}',
].join()

describe.skipIf(lacks !== undefined)(`warnings${lacks === undefined ? '' : ` (${lacks})`}`, () => {
  let world: World

  beforeAll(async () => {
    world = await World.open()
    await makeNamespace()
    // kubectl warns about an object that another client created. Tests create the custom resources.
    await kubectl('apply', '-f', path.join(CHART, 'crds'))
  })

  afterAll(() =>
    tidyUp(
      async () => world?.close(),
      () => kubectl('delete', 'namespace', 'akri', '--ignore-not-found', '--timeout=120s'),
    ),
  )

  it('are recognized', async () => {
    const old = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'old', namespace: world.namespace, unknownField: 1 },
      spec: { containers: [{ name: 'a', image: 'a', env: [{ name: 'A' }, { name: 'A' }] }] },
    }
    const args = ['create', '--dry-run=server', '--validate=warn', '-f', '-']
    const { stderr } = await kubectlOutput(JSON.stringify(old), ...args)
    expect(stderr).toContain('Warning: unknown field "metadata.unknownField"')
  })

  it.each(manifests)('are not printed by kubectl apply %s %s', async (option, name) => {
    const args = ['apply', '--dry-run=server', option, path.join(root, name)]
    expect(await kubectlOutput('', ...args)).toMatchObject({ stderr: '' })
  })

  it.for(HELMS)('are not printed by %s for a release with everything', async (helm, { skip }) => {
    const needs = missingHelm(helm)
    skip(needs !== undefined, needs)
    const options = ['--namespace', 'akri', '--skip-crds', '--set', EVERYTHING]
    await runHelm(helm, 'install', 'akri', CHART, ...options)
    await runHelm(helm, 'upgrade', 'akri', CHART, ...options)
    // The hook would wait for its image, which is not there.
    await runHelm(helm, 'uninstall', 'akri', '--namespace', 'akri', '--no-hooks')
    // A kubelet that pulls an image that is not there ends its Pod late.
    await eventually(async () => {
      await kubectl('-n', 'akri', 'delete', 'pods', '--all', '--force', '--grace-period=0')
      expect(await kubectl('-n', 'akri', 'get', 'pods', '-o', 'name')).toBe('')
    })
  })
})
