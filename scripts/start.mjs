// `npm start`: the agent on this machine, with the Configurations of examples/standalone. With
// --demo it runs among simulated cameras and OPC UA servers. All other arguments go to `akri run`.
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { stateDirectory } from '../cli/src/state-directory.mjs'
import { runningAgent } from '../standalone/src/state/running-agent.mjs'
import { standaloneExamples } from './standalone-examples.mjs'
import { takenByNpm } from './taken-by-npm.mjs'
import { root } from './workspaces.mjs'

const args = process.argv.slice(2)
const wantsHelp = args.includes('--help') || args.includes('-h')
const isDemo = !wantsHelp && (args.includes('--demo') || process.env.npm_config_demo === 'true')

const taken = takenByNpm(process.env, args)
if (taken !== undefined) {
  const command = ['npm start --', ...(isDemo ? ['--demo'] : []), ...taken].join(' ')
  fail(`npm takes options for itself if they have no -- before them: write ${command}`)
}
const state = stateDirectory(args)
if (state === '') fail('there is no home directory for the state: choose one with --state-dir')
const agent = wantsHelp ? undefined : await runningAgent(state)
if (agent !== undefined) fail(`another agent uses ${state}: ${agent}`)

const prepare = [path.join(root, 'scripts/prepare.mjs'), '--start', ...(isDemo ? ['--demo'] : [])]
const { status } = spawnSync(process.execPath, prepare, { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
if (wantsHelp)
  process.stdout.write(
    'npm start -- --demo adds simulated cameras and OPC UA servers. Other options are those ' +
      'of akri run:\n\n',
  )

const demo = isDemo ? await (await import('./demo/demo.mjs')).startDevices(state) : undefined
const options = demo?.options ?? standaloneExamples().flatMap((file) => ['-f', file])
const akri = path.join(root, 'cli/dist/akri.js')
// In this process: signals are meant for it, and its end ends the simulated devices.
process.argv = [
  process.execPath,
  akri,
  'run',
  ...options,
  ...args.filter((arg) => arg !== '--demo'),
]
await import('../cli/dist/akri.js')

function fail(text) {
  process.stderr.write(`akri: ${text}\n`)
  process.exit(1)
}
