// `npm start`: the agent on this machine, with what examples/standalone says. With --demo it runs among simulated cameras and
// OPC UA servers. All other arguments go to `akri run`.
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const given = process.argv.slice(2)
const wantsHelp = given.includes('--help') || given.includes('-h')
const isDemo = given.includes('--demo') && !wantsHelp
const options = given.filter((one) => one !== '--demo')

const prepared = spawnSync(process.execPath, [path.join(root, 'scripts/prepare.mjs')], {
  cwd: root,
  stdio: 'inherit',
})
if (prepared.status !== 0) process.exit(prepared.status ?? 1)
if (wantsHelp)
  process.stdout.write(
    'npm start -- --demo adds simulated cameras and OPC UA servers. Other options are those of akri run:\n\n',
  )

const demo = isDemo ? await (await import('./demo/demo.mjs')).startDevices() : undefined
const own = demo?.options ?? ['-f', path.join(root, 'examples/standalone')]
// In this process: it is the one that signals are meant for, and whose end ends the simulated devices.
process.argv = [process.execPath, path.join(root, 'cli/dist/akri.js'), 'run', ...own, ...options]
await import('../cli/dist/akri.js')
