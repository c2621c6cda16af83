import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kubectl } from '../support/kubectl.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually, World } from '../support/world.js'
import {
  inPod,
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

const lacks = missingForInstallation()
const HANDLER = 'daemonset/akri-opcua-discovery-daemonset'
const manifests = (folder: string) => path.join(MANIFESTS, folder)

describe.skipIf(lacks !== undefined)(
  `a handler that serves on the network${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      world = await World.open()
      await makeNamespace()
      await kubectl('apply', '-k', MANIFESTS)
      await rolledOut('daemonset/akri-agent-daemonset')
      await kubectl('apply', '-k', manifests('handlers/opcua'))
      const name = { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }
      const patch = [{ op: 'add', path: '/spec/template/spec/containers/0/env/-', value: name }]
      await kubectl('-n', 'akri', 'patch', HANDLER, '--type=json', '-p', JSON.stringify(patch))
    })

    afterAll(async () => {
      await tidyUp(
        async () => world?.close(),
        ...['handlers/opcua', 'controller', 'agent'].map(
          (folder) => () =>
            kubectl('delete', '-k', manifests(folder), '--ignore-not-found', '--wait=false'),
        ),
        () => kubectl('-n', 'akri', 'delete', 'pods', '--all', '--force', '--grace-period=0'),
        () => removeNamespace(),
        () => joinNodes(),
      )
    })

    const handlers = () => installedPods('akri-opcua-discovery')
    const logsOf = (name: string) => kubectl('-n', 'akri', 'logs', name)

    it('registers with the address of its Pod at its first attempt', async () => {
      // Ready means that the agent of the node knows the handler.
      await rolledOut(HANDLER)
      const pods = await handlers()
      expect(pods).toHaveLength(2)
      for (const { metadata, status } of pods) {
        // A busy container runtime takes a moment to write the log.
        const logs = await eventually(async () => {
          const text = await logsOf(metadata.name)
          expect(text).toMatch(/"endpoint":"http:\/\/[0-9.]+:10000".*"handler registered"/)
          return text
        })
        expect(logs).not.toContain('registration refused')
        expect(status.containerStatuses[0]?.restartCount).toBe(0)
      }
    })

    it('does not register another address, although its Pod runs on the node', async () => {
      const [pod = expect.fail('there is no Pod')] = await handlers()
      // Ends as soon as the agent has answered.
      const script = `
        const { spawn } = require('node:child_process')
        const program = 'node_modules/@akrijs/sdk/dist/akri-handler.js'
        const options = ['--pod-ip', '127.0.0.1', '--port', '10007', '--metrics-port', '0']
        const handler = spawn('node', [program, ...options, '@akrijs/handler-onvif'])
        let output = ''
        for (const stream of [handler.stdout, handler.stderr])
          stream.on('data', (text) => {
            output += text
            if (/registration refused|handler registered/.test(output)) handler.kill()
          })
        handler.on('exit', () => console.log(output))`
      expect(await inPod(pod, `cd /app; node -e '${script.replaceAll("'", '"')}'`)).toMatch(
        /127\.0\.0\.1 is not the address of a Pod on this node/,
      )
    })
  },
)
