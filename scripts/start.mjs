// `npm start`: the agent on this machine, with the Configurations of examples/standalone. With
// --demo it runs among simulated cameras and OPC UA servers. All other arguments go to `akri run`.
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { root } from './workspaces.mjs'

const args = process.argv.slice(2)
const wantsHelp = args.includes('--help') || args.includes('-h')
const isDemo = args.includes('--demo') && !wantsHelp

const prepare = [path.join(root, 'scripts/prepare.mjs'), ...(isDemo ? [] : ['--start'])]
const { status } = spawnSync(process.execPath, prepare, { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
if (wantsHelp)
  process.stdout.write(
    'npm start -- --demo adds simulated cameras and OPC UA servers. Other options are those ' +
      'of akri run:\n\n',
  )

const demo = isDemo ? await (await import('./demo/demo.mjs')).startDevices(args) : undefined
const options = demo?.options ?? ['-f', path.join(root, 'examples/standalone')]
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
