import { readdirSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { clientOfCluster } from '../../cluster/support/client.js'
import { applyCustomResources } from '../../cluster/support/custom-resources.js'
import { kubectl, kubectlWith } from '../support/kubectl.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually } from '../support/world.js'
import {
  installedPods,
  joinNodes,
  MANIFESTS,
  makeNamespace,
  missingForInstallation,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './installation.js'
import { missingForPolicies, POLICIES } from './policies.js'

// What `kubectl delete -k` leaves, of each kustomization.

const lacks = missingForInstallation()
const FOLDERS = readdirSync(MANIFESTS, { recursive: true, encoding: 'utf8' })
  .filter((file) => path.basename(file) === 'kustomization.yaml')
  .map((file) => path.dirname(file))
  .sort()
/** Each is a system that finds devices. */
const SYSTEMS = ['.', 'all-handlers', 'host-network']
const PARTS = FOLDERS.filter((folder) => !SYSTEMS.includes(folder))
const folderOf = (name: string) => path.join(MANIFESTS, name)
const WORKLOADS = /^(daemonset|deployment)\.apps\//
/** Events pass, kubelets ask for certificates, and custom resources are tested apart. */
const ELSEWHERE = /(^|\.)(events|certificatesigningrequests|akri\.sh|metrics\.k8s\.io)(\.|$)/

const CONFIGURATION = JSON.stringify({
  apiVersion: 'akri.sh/v0',
  kind: 'Configuration',
  metadata: { name: 'left', namespace: 'akri' },
  spec: {
    discoveryHandler: {
      name: 'debugEcho',
      discoveryDetails: JSON.stringify({ descriptions: ['one', 'two'] }),
    },
  },
})

describe.skipIf(lacks !== undefined)(
  `manifests that are deleted${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let before: readonly string[]

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      await restoreCustomResources()
      await makeNamespace()
      // Something of other people in the namespace.
      await kubectl('-n', 'akri', 'create', 'configmap', 'notes', '--from-literal=a=b')
      await kubectl('-n', 'akri', 'create', 'secret', 'generic', 'keys', '--from-literal=a=b')
      before = await eventually(async () => {
        const found = await objects()
        expect(found).toContain('configmap/kube-root-ca.crt')
        expect(found).toContain('serviceaccount/default')
        // Those of tests before, which go slowly.
        expect(found.filter((name) => name.startsWith('namespace/akri-'))).toEqual([])
        return found
      })
    })

    afterAll(() =>
      tidyUp(
        ...[...SYSTEMS, ...PARTS].map((folder) => () => deleteFolder(folder, '--ignore-not-found')),
        () => restoreCustomResources(),
        () => removeNamespace(),
        () => joinNodes(),
      ),
    )

    it.each(SYSTEMS)(
      'leave nothing, also of what programs wrote, and take up the work when applied again: %s',
      async (name) => {
        // Again: the second round begins with what the first has left.
        for (const _ of name === '.' ? ['first', 'again'] : ['first']) {
          await kubectl('apply', '-k', folderOf(name))
          await rolledOut('daemonset/akri-agent-daemonset')
          await rolledOut('deployment/akri-controller-deployment')
          await eventually(async () => expect(await leaderLogs()).toContain('this replica leads'))
          await kubectlWith(CONFIGURATION, 'apply', '-f', '-')
          await eventually(async () =>
            expect(await kubectl('-n', 'akri', 'get', 'akrii', '-o', 'name')).toMatch(
              /^(instance.akri.sh\/left-\w+\n){2}$/,
            ),
          )
          // As the page for operators has it: first Configurations, then programs.
          await kubectl('-n', 'akri', 'delete', 'akric', 'left', '--timeout=90s')
          await deleteFolder(name)
          await eventually(async () => expect(await objects()).toEqual(before))
          expect(await customResources()).toEqual([])
        }
        await restoreCustomResources()
      },
    )

    it.for(PARTS)('leave nothing: %s', async (name, { skip }) => {
      const unsuitable = folderOf(name) === POLICIES ? await missingForPolicies() : undefined
      skip(unsuitable !== undefined, unsuitable)
      // The page for operators applies these for a namespace, and all others as they are.
      const place = name === 'read-secrets' ? ['-n', 'akri'] : []
      const applied = await kubectl(...place, 'apply', '-k', folderOf(name), '-o', 'name')
      for (const workload of applied.split('\n').filter((each) => WORKLOADS.test(each)))
        await eventually(async () =>
          expect(await kubectl('-n', 'akri', 'get', workload, '-o', POD_COUNT)).toMatch(/^[12]/),
        )
      expect(await objects()).not.toEqual(before)
      await kubectl(...place, 'delete', '-k', folderOf(name), '--timeout=90s')
      await eventually(async () => expect(await objects()).toEqual(before))
    })
  },
)

/** The Pods of a DaemonSet or of a Deployment. */
const POD_COUNT = 'jsonpath={.status.currentNumberScheduled}{.status.replicas}'

const deleteFolder = (name: string, ...options: readonly string[]) =>
  kubectl('delete', '-k', folderOf(name), '--timeout=90s', ...options)

async function restoreCustomResources(): Promise<void> {
  const client = await clientOfCluster()
  await applyCustomResources(client).finally(() => client.close())
}

const customResources = async () =>
  (await kubectl('get', 'customresourcedefinitions', '-o', 'name'))
    .split('\n')
    .filter((name) => name.endsWith('.akri.sh'))

async function leaderLogs(): Promise<string> {
  const names = (await installedPods('akri-controller')).map(({ metadata }) => metadata.name)
  return (await Promise.all(names.map((name) => kubectl('-n', 'akri', 'logs', name)))).join()
}

/** All objects in the namespace, and all of the cluster. */
async function objects(): Promise<readonly string[]> {
  const found = [true, false].map(async (isNamespaced) => {
    const options = ['--verbs=list', `--namespaced=${isNamespaced}`, '-o', 'name']
    const kinds = (await kubectl('api-resources', ...options))
      .split('\n')
      .filter((kind) => kind !== '' && !ELSEWHERE.test(kind))
    return (await kubectl('-n', 'akri', 'get', kinds.join(), '-o', 'name'))
      .split('\n')
      .filter((name) => name !== '' && !name.endsWith('.akri.sh'))
  })
  return (await Promise.all(found)).flat().toSorted()
}
