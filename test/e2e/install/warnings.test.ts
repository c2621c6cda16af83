import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { loadAll } from 'js-yaml'
import { afterAll, beforeAll, expect, it } from 'vitest'
import builtIn from '../../../handlers/built-in.json' with { type: 'json' }
import { render } from '../../helm/chart.js'
import { kustomize } from '../../helm/kustomize.js'
import { missingHelm } from '../../helm/programs.js'
import { MANIFESTS } from '../../manifests/folder.js'
import { describeUnless } from '../../support/unless.js'
import { kubectlOutput } from '../support/kubectl.js'
import { missing } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { World } from '../support/world.js'
import { makeNamespace, missingForInstallation, removeNamespace } from './installation.js'
import { missingForPolicies } from './policies.js'

// What the API server prints besides the result. A dry run has all of its checks.

const lacks = missing() ?? missingForInstallation() ?? missingHelm('helm4')
const root = path.join(MANIFESTS, '../..')
const filesIn = (folder: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.yaml') && !file.includes('node_modules'))
    .map((file) => path.join(root, folder, file))
    .sort()
const examples = ['deploy/manifests/examples', 'examples'].flatMap(filesIn)
const folders = filesIn('deploy/manifests')
  .filter((file) => path.basename(file) === 'kustomization.yaml')
  .map((file) => path.dirname(file))
const EVERYTHING = [
  'agent.nodeRestriction=true',
  ...builtIn.handlers.flatMap(({ name }) => [
    `${name}.configuration.enabled=true`,
    `${name}.discovery.enabled=true`,
  ]),
  'custom.discovery.enabled=true,custom.discovery.image.repository=registry.example/handler',
  'custom.configuration.enabled=true,custom.configuration.discoveryHandlerName=mine',
  'udev.configuration.discoveryDetails.udevRules={KERNEL=="null"}',
  'debugEcho.configuration.brokerPod.image.repository=registry.example/broker',
  'onvif.configuration.brokerJob.image.repository=registry.example/broker',
  'webhookConfiguration.networkPolicy.enabled=true',
  'webhookConfiguration.networkPolicy.apiServers={10.0.0.0/24}',
].join()

describeUnless(lacks, 'warnings', () => {
  let world: World

  /** What the API server prints to standard error for these objects. */
  const warningsOf = async (objects: readonly unknown[]) => {
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects })
    const options = ['apply', '--server-side', '--force-conflicts', '--dry-run=server', '-f', '-']
    return (await kubectlOutput(list, ...options)).stderr
  }

  beforeAll(async () => {
    world = await World.open()
    await makeNamespace()
  })

  afterAll(() =>
    tidyUp(
      async () => world?.close(),
      () => removeNamespace(),
    ),
  )

  it('are not printed for any manifest or example', async () => {
    const objects = [
      ...folders.flatMap(kustomize),
      ...examples.flatMap((file) => loadAll(readFileSync(file, 'utf8'))),
    ]
    expect(objects.length).toBeGreaterThan(50)
    expect(await warningsOf(objects)).toBe('')
  })

  it('are not printed for a release with everything', async () => {
    const policies = 'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy'
    const versions = (await missingForPolicies()) === undefined ? ['--api-versions', policies] : []
    const objects = await render({}, 'akri', ['--set', EVERYTHING, ...versions], 'helm4')
    expect(objects.length).toBeGreaterThan(30)
    expect(await warningsOf(objects)).toBe('')
  })
})
