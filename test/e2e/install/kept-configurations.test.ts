import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART } from '../../helm/chart.js'
import { HELMS, missingHelm, runHelm } from '../../helm/programs.js'
import { akri } from '../support/akri-command.js'
import { kubectl } from '../support/kubectl.js'
import { missingHost } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { eventually } from '../support/world.js'
import { joinNodes, missingForInstallation, provideImage, separateNodes } from './installation.js'
import { commandBlocks } from './page-commands.js'

// The commands of docs/migration.md that take a release away without its Configurations.

const run = promisify(execFile)
const commands = commandBlocks('docs/migration.md', 'Back').find((code) =>
  code.includes('owner=helm'),
)

describe.for(HELMS)('a release of %s that goes without its Configurations', (program) => {
  const lacks = missingHost() ?? missingForInstallation() ?? missingHelm(program)
  describe.skipIf(lacks !== undefined)(lacks ?? 'on this cluster', () => {
    const install = () =>
      runHelm(
        program,
        'install',
        'akri',
        CHART,
        ...['--namespace', 'akri', '--create-namespace', '--wait', '--timeout', '240s'],
        ...['--set', 'debugEcho.configuration.enabled=true'],
      )
    /** The Configuration and its two Instances. */
    const uids = async () => {
      const output = ['-o', 'jsonpath={.items[*].metadata.uid}']
      const text = await kubectl('-n', 'akri', 'get', 'akric,akrii', ...output)
      return text.split(' ').sort()
    }

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
    })

    afterAll(async () => {
      await tidyUp(
        () => runHelm(program, 'uninstall', 'akri', '--namespace', 'akri'),
        () => kubectl('delete', 'namespace', 'akri', '--timeout=120s'),
        () => joinNodes(),
      )
    })

    it('leaves them to `akri migrate back`, and the next release adopts them', async () => {
      await install()
      await eventually(async () => expect(await uids()).toHaveLength(3))
      const before = await uids()
      await run('bash', ['-ec', commands ?? 'exit 1'])
      await eventually(async () => {
        const selector = 'app.kubernetes.io/name in (akri-agent, akri-controller)'
        expect(await kubectl('get', 'pods', '-A', '-l', selector, '-o', 'name')).toBe('')
      })
      expect(await uids()).toEqual(before)
      const plan = await akri('migrate', 'back', '--write')
      expect(plan.stdout).toMatch(/^(\d+) of \1 objects changed$/m)
      await install()
      await kubectl(
        ...['-n', 'akri', 'wait', 'akric/akri-debug-echo', '--for=condition=Ready'],
        '--timeout=120s',
      )
      expect(await uids()).toEqual(before)
    })
  })
})
